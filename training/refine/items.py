"""What is logged of judged answers, and which rubric items are retired because they no longer vary."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

import numpy as np

from evals.refine.grammar import WORD
from evals.refine.judge import Verdicts, support_by_words
from evals.refine.rubric import Item, share, value
from evals.refine.score import PreparedAnswer, Settled, copied

Figures = Mapping[str, float | None]


def figures_of(prepared: PreparedAnswer, verdicts: Verdicts | None, settled: Settled) -> Figures:
    """Return the figures of one answer by the name they are logged under."""
    reading = prepared.reading
    ids = [name for claim in reading.claims for name in claim.ids]
    texts = [part.text for part in (*reading.claims, *reading.uncited)]
    return {
        "answer/words": float(sum(len(WORD.findall(text)) for text in texts)),
        "answer/claims": float(len(reading.claims)),
        "answer/ids_per_claim": len(ids) / len(reading.claims) if reading.claims else None,
        "answer/unknown_ids": (
            sum(name not in prepared.evidence for name in ids) / len(ids) if ids else None
        ),
        "answer/copied": copied(texts, prepared.evidence),
        "score/format": prepared.bonus,
        "score/rubric": settled.rubric,
        "score/citation_f1": settled.citation.f1,
        "score/from_negatives": from_negatives(prepared, verdicts),
        "judge/over_words": over_words(prepared, verdicts),
        "judge/apart": fmean(verdicts.apart) if verdicts is not None and verdicts.apart else None,
        "judge/canary": None if verdicts is None or verdicts.canary is None
        else float(verdicts.canary > 0),
    }  # fmt: skip


def means(rows: Iterable[Figures]) -> dict[str, float]:
    """Return the mean of each figure over the answers that it applies to; what applies to none is left out."""
    columns: dict[str, list[float]] = {}
    for row in rows:
        for name, each in row.items():
            if each is not None:
                columns.setdefault(name, []).append(each)
    return {name: fmean(column) for name, column in columns.items()}


def from_negatives(prepared: PreparedAnswer, verdicts: Verdicts | None) -> float | None:
    """Return the share of the rubric score that is earned by what an answer does not do."""
    if verdicts is None or any(raw is None for raw in verdicts.raws):
        return None
    earned = {"positive": 0.0, "negative": 0.0}
    for item, raw in zip(prepared.items, verdicts.raws, strict=True):
        earned[item.polarity] += item.weight * (value(item, share(raw, prepared.config.score_scale)) or 0.0)
    total = sum(earned.values())
    return earned["negative"] / total if total else None


def over_words(prepared: PreparedAnswer, verdicts: Verdicts | None) -> float | None:
    """Return how much more support the judge sees for the claims than a comparison of words, -1..1."""
    if verdicts is None:
        return None
    gaps = [
        got - support_by_words(claim.text, [prepared.evidence[name] for name in ids])
        for claim, ids, got in zip(prepared.reading.claims, prepared.cited, verdicts.support, strict=True)
        if ids and got is not None
    ]
    return fmean(gaps) if gaps else None


def group_spread(rows: Mapping[str, Mapping[str, Sequence[float]]]) -> float | None:
    """Return the mean standard deviation (with n) of an item's scores inside a group; None without a group."""
    spreads = [float(np.std(scores)) for items in rows.values() for scores in items.values() if len(scores) > 1]
    return fmean(spreads) if spreads else None


Seen = dict[str, dict[str, list[float]]]
"""Scores by record id and item key, one for each judged answer."""


@dataclass
class ItemBook:
    """How often in a row each item was without variance, by record id and item key.

    The reward notes what it sees; `take` and `settle` are called between steps, so that several processes
    that share a group of answers agree on its items.
    """

    retire_after: int = 0
    alike: dict[str, dict[str, int]] = field(default_factory=dict)
    seen: Seen = field(default_factory=dict)

    def asked(self, record_id: str, items: Sequence[Item]) -> tuple[Item, ...]:
        """Return the items that answers to a record are graded by; at least one."""
        runs = self.alike.get(record_id, {})
        left = tuple(item for item in items if not self._is_retired(runs.get(item.key, 0)))
        return left or tuple(items[:1])

    def note(self, record_id: str, items: Sequence[Item], scores: Sequence[float | None]) -> None:
        """Remember what a judge saw in one answer."""
        rows = self.seen.setdefault(record_id, {})
        for item, score in zip(items, scores, strict=True):
            if score is not None:
                rows.setdefault(item.key, []).append(score)

    def take(self) -> Seen:
        """Return what was noted since the last time."""
        taken, self.seen = self.seen, {}
        return taken

    def settle(self, parts: Sequence[Seen]) -> None:
        """Count one visit of every record in what all processes noted."""
        together: dict[tuple[str, str], list[float]] = {}
        for record_id, rows in (pair for part in parts for pair in part.items()):
            for key, scores in rows.items():
                together.setdefault((record_id, key), []).extend(scores)
        for (record_id, key), scores in together.items():
            runs = self.alike.setdefault(record_id, {})
            if len(scores) > 1:
                runs[key] = runs.get(key, 0) + 1 if len(set(scores)) == 1 else 0

    @property
    def retired(self) -> int:
        """How many items are not asked any more, over all records."""
        return sum(self._is_retired(run) for runs in self.alike.values() for run in runs.values())

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint stores."""
        return {"alike": self.alike}

    def load(self, stored: Mapping[str, Any]) -> None:
        """Continue from the state of a checkpoint."""
        self.alike = {record_id: dict(runs) for record_id, runs in stored["alike"].items()}

    def _is_retired(self, run: int) -> bool:
        return bool(self.retire_after) and run >= self.retire_after
