import re
import threading
from dataclasses import replace

import pytest

from evals.errors import LabError, MissingModel
from evals.schema import Message
from evals.schema.questions import Sampling
from lab.engine import LabEngine, Waiting, WriteRequest
from lab.services import loading
from tests.lab.chains import ScriptedChain
from tests.models import tiny_chain
from tests.waiting import until


def asking(owner="page", question="why?", stages=("base", "sft"), chain="", **sampling):
    prompt = [Message(role="user", content=question)]
    return WriteRequest(owner, lambda chain, stop: chain.stream(prompt, stages, Sampling(**sampling), stop), chain)


def engine_of(chain, **options):
    engine = LabEngine(lambda *_: chain, **options)
    engine.start()
    until(lambda: engine.status.state == "ready")
    return engine


def read(engine, ticket):
    """Return each stage's text, and the pieces that carried a reason."""
    texts, ends = {}, {}
    for update in engine.updates(ticket):
        if isinstance(update, Waiting):
            continue
        for piece in update:
            texts[piece.stage] = texts.get(piece.stage, "") + piece.text
            if piece.finish_reason:
                ends[piece.stage] = piece.finish_reason
    return texts, ends


def read_in_background(engine, ticket, results, name):
    thread = threading.Thread(target=lambda: results.append((name, read(engine, ticket))), daemon=True)
    thread.start()
    return thread


def test_every_stage_asked_for_answers_to_its_end_and_asking_wakes_an_engine_that_nobody_started():
    engine = LabEngine(lambda *_: ScriptedChain({"base": "one two", "sft": "three"}))
    with pytest.raises(LabError, match="not ready"):
        engine.chain()

    texts, ends = read(engine, engine.ask(asking()))

    assert texts == {"base": "one two", "sft": "three"}
    assert ends == {"base": "stop", "sft": "stop"}


def test_visitors_are_answered_together_and_those_for_whom_there_is_no_room_wait_in_order():
    gate = threading.Semaphore(0)
    chain = ScriptedChain({"base": "a b c"}, gate=gate)
    engine = engine_of(chain, at_once=2)
    tickets = [engine.ask(asking(f"page {n}", f"question {n}", ["base"])) for n in range(5)]
    results = []
    threads = [read_in_background(engine, ticket, results, n) for n, ticket in enumerate(tickets[:4])]
    until(lambda: len(chain.prompts) == 2)

    waiting = next(engine.updates(tickets[4]))
    assert isinstance(waiting, Waiting)
    assert waiting.position == 3

    gate.release(100)
    for thread in threads:
        thread.join(10)
    assert sorted(name for name, _ in results) == [0, 1, 2, 3]
    assert {prompt[-1].content for prompt in chain.prompts[:2]} == {"question 0", "question 1"}


FAILURES = [
    (MissingModel("the base is not here. Run `make setup`."), "the base is not here. Run `make setup`."),
    (RuntimeError("out of memory"), "RuntimeError: out of memory. Run `assay doctor`"),
]


@pytest.mark.parametrize(("failure", "told"), FAILURES, ids=["something to act on", "a bug"])
def test_a_failed_load_tells_its_remedy_and_can_be_tried_again_once(failure, told):
    attempts = []

    def load(*_):
        attempts.append(1)
        if len(attempts) == 1:
            raise failure
        return ScriptedChain({"base": "now"})

    engine = LabEngine(load)
    engine.start()
    until(lambda: engine.status.state == "failed")

    assert told in engine.status.message
    with pytest.raises(LabError, match=re.escape(told)):
        read(engine, engine.ask(asking(stages=["base"])))

    for _ in range(3):
        engine.start()
    until(lambda: engine.status.state == "ready")
    engine.start()
    assert read(engine, engine.ask(asking(stages=["base"])))[0] == {"base": "now"}
    assert attempts == [1, 1]


def test_stopping_keeps_what_was_written_and_frees_the_line():
    gate = threading.Semaphore(0)
    engine = engine_of(ScriptedChain({"base": "one two three"}, gate=gate))
    ticket = engine.ask(asking("mine", stages=["base"]))
    updates = engine.updates(ticket)
    gate.release()
    pieces = [piece for update in [next(updates)] for piece in update]

    engine.stop("mine")
    gate.release(100)
    pieces += [piece for update in updates for piece in update]

    assert "".join(piece.text for piece in pieces) == "one"
    assert pieces[-1].finish_reason == "cancelled"
    assert not ticket.replaced.is_set()
    assert read(engine, engine.ask(asking("other", stages=["base"])))[0] == {"base": "one two three"}


def test_an_engine_that_is_closed_has_ended_what_it_wrote_and_begins_nothing_more():
    chain = ScriptedChain({"base": "a b c"}, gate=(gate := threading.Semaphore(0)))
    engine = engine_of(chain, at_once=1)
    writing, waiting = (engine.ask(asking(f"page {n}", f"question {n}", ["base"])) for n in range(2))
    until(lambda: len(chain.prompts) == 1)
    threading.Timer(0.2, gate.release, [100]).start()
    engine.close()
    assert writing.over.is_set() and waiting.stop.is_set()
    read(engine, waiting)
    assert len(chain.prompts) == 1, "Python aborts when it ends while a thread computes"


def test_a_new_question_of_the_same_page_takes_the_place_of_the_one_before():
    gate = threading.Semaphore(0)
    engine = engine_of(ScriptedChain(gate=gate))
    first = engine.ask(asking("mine", "first"))
    second = engine.ask(asking("mine", "second"))
    gate.release(100)

    texts, _ = read(engine, second)

    assert first.replaced.is_set()
    assert texts["base"].startswith("base on second")


class BreaksOnce(ScriptedChain):
    def __init__(self, error):
        super().__init__()
        self.errors = [error]

    def stream(self, *arguments):
        if self.errors:
            raise self.errors.pop()
        yield from super().stream(*arguments)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (RuntimeError("tensor sizes"), "RuntimeError: tensor sizes"),
        (LabError("the question is too long. Shorten it."), "the question is too long. Shorten it."),
    ],
    ids=["a bug", "something to act on"],
)
def test_a_model_that_breaks_off_says_so_and_answers_the_next_question(error, said):
    engine = engine_of(BreaksOnce(error))

    with pytest.raises(LabError, match=said):
        read(engine, engine.ask(asking()))

    assert set(read(engine, engine.ask(asking()))[0]) == {"base", "sft"}


def test_chains_on_one_base_are_one_model_in_memory(services, tmp_path):
    chain = tiny_chain(tmp_path / "runs")
    load = loading(replace(services.settings, chain=str(chain), dtype="float32"))
    own, other = (load(name, lambda *_: None) for name in ("", str(chain.parent / "sft")))
    assert (own.stages, other.stages) == (("base", "sft", "grpo"), ("base", "sft")) and other.stack is own.stack


def test_a_chain_is_loaded_when_it_is_first_asked_for_while_another_answers():
    gate, loaded, may_load = threading.Semaphore(0), [], threading.Event()

    def load(name, progress):
        loaded.append(name)
        if name:
            progress(0.25, "unpacking")
            may_load.wait(10)
        return ScriptedChain({"base": f"here is {name or 'ours'}"}, gate=gate)

    engine = LabEngine(load)
    first = engine.ask(asking("one", stages=["base"]))
    other = engine.ask(asking("two", stages=["base"], chain="reviewer"))
    until(lambda: engine.status_of("reviewer").share == 0.25)
    updates = engine.updates(other)
    waiting = next(updates)
    assert isinstance(waiting, Waiting)
    assert (waiting.position, waiting.status.state, waiting.status.message) == (1, "loading", "unpacking")

    may_load.set()
    gate.release(100)
    assert read(engine, first)[0] == {"base": "here is ours"}
    pieces = [piece for update in updates if not isinstance(update, Waiting) for piece in update]
    assert "".join(piece.text for piece in pieces) == "here is reviewer"
    assert loaded == ["", "reviewer"]
