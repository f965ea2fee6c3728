import threading

import pytest
import spaces

from evals.model import Sampling
from evals.schema import Message
from lab import gpu
from tests.lab.chains import ScriptedChain

PROMPT = (Message(role="user", content="why?"),)


@pytest.fixture
def lent(monkeypatch):
    """What ZeroGPU does, without the GPU: functions run by its decorator, arguments are pickled."""
    import pickle

    calls = []

    def lend(duration):
        def decorate(function):
            def borrowed(*arguments):
                calls.append(duration)
                yield from function(*pickle.loads(pickle.dumps(arguments)))

            return borrowed

        return decorate

    monkeypatch.setattr(spaces, "GPU", lend)
    return calls


def words(chain, stop):
    return "".join(p.text for p in chain.stream(PROMPT, ["base"], Sampling(), stop))


def test_where_no_gpu_is_lent_the_chain_answers_as_it_is():
    chain = ScriptedChain({"base": "one two"})

    assert words(gpu.Borrowed(chain), threading.Event()) == "one two"
    assert gpu.Borrowed(chain).stages == chain.stages
    assert gpu.Borrowed(chain).stage_checksums == chain.stage_checksums
    assert gpu.Borrowed(chain).manifest == chain.manifest
    chain.substitutions = ("another copy is used",)
    assert gpu.Borrowed(chain).substitutions == chain.substitutions


def test_on_zero_gpu_the_gpu_is_borrowed_for_each_answer(lent):
    chain = gpu.Borrowed(ScriptedChain({"base": "one two"}), gpu.Gpu())

    assert words(chain, threading.Event()) == "one two"
    assert words(chain, threading.Event()) == "one two"
    assert lent == [gpu.SECONDS, gpu.SECONDS]


def test_on_zero_gpu_an_answer_can_be_stopped(lent):
    stop = threading.Event()
    pieces = gpu.Borrowed(ScriptedChain({"base": "one two three"}), gpu.Gpu()).stream(
        PROMPT, ["base"], Sampling(), stop
    )

    first = next(pieces)
    stop.set()

    assert first.text == "one"
    assert list(pieces) == []
