"""A reader for tests of the page: what it says about any paper is written down."""

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from evals.schema import Article
from evals.schema.articles import DroppedConcern, EngineRecord, ReviewedRow, ReviewStep
from evals.schema.questions import Sampling
from evals.schema.reviews import Concern

TABLE = yaml.safe_load((Path(__file__).parent / "tables" / "paper.yaml").read_text(encoding="utf-8"))
QUOTE, PAPER = TABLE["quote"], TABLE["paper"]
SAID = tuple(map(Concern.model_validate, TABLE["said"]))


@dataclass
class ScriptedReader:
    """Says `said`, one concern after another, with a pause before each; what it is told was read before stands in `asked`."""

    name: str = "Scripted"
    said: tuple[Concern, ...] = SAID
    pause: float = 0.0
    parts: int = 1
    chain: str | None = ""
    asked: list[list[int] | None] = field(default_factory=list)

    def write(
        self,
        article: Article,
        sampling: Sampling,
        chain: object,
        stop: threading.Event,
        before: list[int] | None = None,
        keep: Callable[[list[int]], None] = lambda n: None,
        *,
        is_staged: bool = False,
    ) -> Iterator[ReviewStep]:
        """Say one concern of each part; those it said before are not said anew."""
        self.asked.append(before)
        done = (before or [0])[-1]
        found = self.said[:done]
        reason = "stop"
        yield ReviewStep(parts=self.parts, concerns=found)
        for concern in self.said[done:]:
            keep([len(found)])
            time.sleep(self.pause)
            if stop.is_set():
                reason = "cancelled"
                break
            found = (*found, concern)
            yield ReviewStep(parts=self.parts, n_tokens=8 * len(found), concerns=found)
        text = "\n\n".join((article.title, article.abstract, *(s.text for s in article.sections)))
        half = len(text) // 2
        row = ReviewedRow(
            article_id=article.id,
            status="ok" if found else "empty",
            concerns=found[:1] if is_staged else found,
            dropped=tuple(DroppedConcern(**dict(each), sentence=QUOTE, by="model") for each in found[1:] if is_staged),
            finish_reason=reason,
            parts=(),
            seconds=0.5,
            asked_sha256="0" * 64,
            raw_output=str([each.model_dump() for each in found]),
        )
        yield ReviewStep(
            part=self.parts,
            parts=self.parts,
            n_tokens=8 * len(found),
            concerns=found,
            row=row,
            requests=(text,) if self.parts == 1 else (text[:half], text[half:]),
            engine=EngineRecord.model_validate(TABLE["engine"]),
        )
