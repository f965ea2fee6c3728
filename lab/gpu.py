"""ZeroGPU: on a Space whose GPU is lent by the minute, answers run while it is lent.

The only file that imports `spaces`. Everywhere else than on such a Space it changes nothing.
"""

import threading
from collections.abc import Iterator, Mapping, Sequence

import spaces

from evals.model import Sampling
from evals.schema import ChainManifest, Message
from lab.engine import Chain, Piece

SECONDS = 60


class Borrowed:
    """A chain that borrows the GPU, where one is lent, for the length of an answer."""

    def __init__(self, chain: Chain) -> None:
        self._chain = chain

        def answer(
            prompt: Sequence[Message], stages: Sequence[str], sampling: Sampling
        ) -> Iterator[Piece]:
            # Arguments travel to another process there, and an Event cannot: stopping is done here.
            yield from chain.stream(prompt, stages, sampling, threading.Event())

        # Without PyPI's package, our own folder of that name is what `import spaces` finds.
        lend = getattr(spaces, "GPU", None) if hasattr(spaces, "GPU") else None
        self._answer = answer if lend is None else lend(duration=SECONDS)(answer)
        self._is_lent = self._answer is not answer

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
        if not self._is_lent:
            yield from self._chain.stream(prompt, stages, sampling, stop)
            return
        for piece in self._answer(prompt, stages, sampling):
            if stop.is_set():
                return
            yield piece
