"""A chain for tests of the page: its answers are written down, and it streams them word by word."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path

from evals.schema import BaseIdentity, ChainManifest, Completion, Message, Probe
from evals.schema.questions import Sampling
from lab.engine import LabEngine
from lab.services import Services
from tests.lab.votes import services_in

STAGES = ("base", "sft", "grpo")
DIGEST = "0" * 64


@dataclass(frozen=True)
class Word:
    """A piece of an answer: one word."""

    stage: str
    text: str
    n_tokens: int
    finish_reason: str | None = None


def manifest(name: str = "scripted") -> ChainManifest:
    """Return a manifest that is valid and describes no files."""
    base = BaseIdentity(
        source="scripted",
        hub_id=None,
        revision=None,
        weights_sha256=DIGEST,
        tokenizer_sha256=DIGEST,
        template_sha256=DIGEST,
        vocab_size=400,
    )
    probe = Probe(prompt="x", token_ids=(1,), logprobs=(-0.1,))
    return ChainManifest(name=name, system_prompt="Be brief.", base=base, base_probe=probe, stages=())


class ScriptedChain:
    """Streams `answers[stage]` (else a sentence that repeats the question), all stages at once.

    `gate`, if given, is waited for before each word, so that a test decides when it goes on.
    """

    dtype = "float32"
    hosted = None

    def __init__(
        self,
        answers: Mapping[str, str] | None = None,
        stages: Sequence[str] = STAGES,
        seconds_per_word: float = 0.0,
        gate: threading.Semaphore | None = None,
    ) -> None:
        self.manifest = manifest()
        self.substitutions: tuple[str, ...] = ()
        self.stages = tuple(stages)
        self.stage_checksums = {stage: f"{place}" * 64 for place, stage in enumerate(self.stages)}
        self.prompts: list[tuple[Message, ...]] = []
        self._answers = dict(answers or {})
        self._seconds_per_word = seconds_per_word
        self._gate = gate

    def stream(
        self, prompt: Sequence[Message], stages: Sequence[str], sampling: Sampling, stop: threading.Event
    ) -> Iterator[Word]:
        """Yield one word per stage in turn; a stage ends with its own last word."""
        self.prompts.append(tuple(prompt))
        rows = {stage: self._words(stage, prompt[-1].content, sampling) for stage in stages}
        for place in range(max(map(len, rows.values()), default=0)):
            if self._gate is not None:
                self._gate.acquire()
            if self._seconds_per_word:
                time.sleep(self._seconds_per_word)
            for stage, words in rows.items():
                if stop.is_set() and place <= len(words):
                    yield Word(stage, "", place, "cancelled")
                elif place < len(words):
                    reason = "stop" if place == len(words) - 1 else None
                    yield Word(stage, words[place], place + 1, reason)
            if stop.is_set():
                return

    def generate(
        self,
        prompts: Sequence[Sequence[Message]],
        stages: Sequence[str],
        sampling: Sampling,
        told: Callable[[int], None] = lambda n: None,
    ) -> list[list[Completion]]:
        """Return whole answers, as in a batch."""
        self.prompts += map(tuple, prompts)
        told(1)
        return [
            [
                Completion(stage=stage, text=text, n_tokens=len(text.split()), finish_reason="stop")
                for stage in stages
                for text in ["".join(self._words(stage, prompt[-1].content, sampling))]
            ]
            for prompt in prompts
        ]

    def _words(self, stage: str, question: str, sampling: Sampling) -> list[str]:
        default = f"{stage} on {question} with seed {sampling.seed}.\nConfidence: 80%"
        text = self._answers.get(stage, default)
        parts = text.split(" ")
        return [part if place == 0 else f" {part}" for place, part in enumerate(parts)]


def ticking(start: datetime = datetime(2026, 1, 2, 3, 4, tzinfo=UTC)) -> Callable[[], datetime]:
    """Return a clock that goes on by a second whenever it is read."""
    seconds = count()
    return lambda: start + timedelta(seconds=next(seconds))


def lab_with(folder: Path, chain: ScriptedChain | None = None) -> Services:
    """Return the collaborators of a lab around a new store, its scripted chain loaded at once."""
    scripted = chain or ScriptedChain()
    return replace(services_in(folder), engine=LabEngine(lambda *_: scripted), now=ticking())
