"""ZeroGPU: on a Space whose GPU is lent by the minute, answers run while it is lent.

The only file that imports `spaces`. Everywhere else than on such a Space it changes nothing.
"""

import threading
from collections.abc import Iterator, Mapping, Sequence
from functools import cache

import spaces

from evals.model import Sampling
from evals.schema import ChainManifest, Message
from lab.engine import Chain, Piece

SECONDS = 60


class Gpu:
    """The function that the GPU is lent to. `is_lent` False: answers run where they are.

    ZeroGPU looks for such functions once, when the page goes on the air, and runs them in a copy of this
    process. So it is made before the chain is loaded, and finds the chain here when it is called.
    """

    def __init__(self) -> None:
        self.chain: Chain | None = None

        def answer(prompt: Sequence[Message], stages: Sequence[str], sampling: Sampling) -> Iterator[Piece]:
            if self.chain is None:
                raise RuntimeError("the GPU was asked before there was a chain")
            # Arguments travel to another process there, and an Event cannot: stopping is done here.
            yield from self.chain.stream(prompt, stages, sampling, threading.Event())

        # Without PyPI's package, our own folder of that name is what `import spaces` finds.
        lend = getattr(spaces, "GPU", None) if hasattr(spaces, "GPU") else None
        self.answer = answer if lend is None else lend(duration=SECONDS)(answer)
        self.is_lent = self.answer is not answer


@cache
def the_gpu() -> Gpu:
    """Return the process's one GPU; on a Space it is asked for before the page is on the air."""
    return Gpu()


class Borrowed:
    """A chain that borrows the GPU, where one is lent, for the length of an answer."""

    def __init__(self, chain: Chain, gpu: Gpu | None = None) -> None:
        self._chain, self._gpu = chain, gpu or the_gpu()
        self._gpu.chain = chain

    @property
    def manifest(self) -> ChainManifest:
        """What the chain is made of."""
        return self._chain.manifest

    @property
    def dtype(self) -> str:
        """The number format it computes in."""
        return self._chain.dtype

    @property
    def stages(self) -> tuple[str, ...]:
        """Names of the stages, base first."""
        return self._chain.stages

    @property
    def stage_checksums(self) -> Mapping[str, str]:
        """The sha256 of each stage's adapter; of the weights for the base."""
        return self._chain.stage_checksums

    @property
    def substitutions(self) -> tuple[str, ...]:
        """Where the base is not the one that was named, in a sentence each."""
        return self._chain.substitutions

    def stream(
        self,
        prompt: Sequence[Message],
        stages: Sequence[str],
        sampling: Sampling,
        stop: threading.Event,
    ) -> Iterator[Piece]:
        """Yield the pieces of all stages as they are written, until `stop` is set."""
        if not self._gpu.is_lent:
            yield from self._chain.stream(prompt, stages, sampling, stop)
            return
        for piece in self._gpu.answer(prompt, stages, sampling):
            if stop.is_set():
                return
            yield piece
