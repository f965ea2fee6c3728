"""Papers that reviewers are compared on while one still chooses: the development split, never the test one.

A sweep and a table of checkpoints measure every reviewer alike: the same papers, `Measure` for how they
are asked, cleaned and scored. Knows nothing of torch.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Literal

from evals.articles.collection import OWN, read_collection
from evals.articles.families import family_of, split_by_family, without_leaks
from evals.concerns.measure import AUTO
from evals.concerns.threshold import number_of
from evals.errors import BadConfig
from evals.reviewing import prompt_sha256
from evals.schema import ReviewExample
from training.conversations import Conversations
from training.reviewing.engine import Asking
from training.setting import Setting, read_value, setting


@dataclass(frozen=True)
class Measure:
    """How a reviewer is asked about development papers, and how what it says is cleaned and scored."""

    limit: int = setting("the first N papers alone; 0 = all", default=0, low=0)
    max_new_tokens: int = setting("longest reply to a part, tokens", default=2_048, low=1)
    max_parts: int = setting("parts that a long paper is read in", default=4, low=1)
    context: int = setting("tokens of paper and reply; 0 = what the model reads", default=0, low=0)
    temperature: float = setting("of sampling; 0 = greedy", default=0.1, low=0.0, high=2.0)
    seed: int = setting("of sampling and of the draws behind intervals", default=0, low=0)
    batch: int = setting("parts that are asked about at a time", default=4, low=1)
    constrain: Literal["auto", "always", "never"] = setting(
        "hold answers to the JSON schema", default="auto"
    )
    dtype: Literal["float32", "bfloat16", "nf4"] = setting("weights", default="float32")
    cap: int = setting("concerns kept of each paper; 0 = all", default=20, low=0)
    encoder: str = setting("what tells whether two concerns agree", default="embedded")
    threshold: str = setting(
        "similarity from which they agree, or auto; empty = what is usual for the encoder",
        default="",
    )
    draws: int = setting("draws behind each interval", default=1_000, low=1)

    @property
    def asking(self) -> Asking:
        """How papers are asked about."""
        return Asking(
            max_new_tokens=self.max_new_tokens,
            temperature=self.temperature,
            seed=self.seed,
            context=self.context,
            max_parts=self.max_parts,
            constrain=self.constrain,
        )


def read_measure(values: Mapping[str, object], place: str) -> Measure:
    """Return a measure from values by name, defaults for the rest; BadConfig names what is wrong."""
    known = [each.name for each in fields(Measure)]
    unknown = [name for name in values if name not in known]
    if unknown:
        raise BadConfig(
            f"{place} sets {unknown[0]!r}, which is no part of a measure; it takes {', '.join(known)}."
        )
    read = {
        name: read_value(Setting.of(Measure, name), each, place) for name, each in values.items()
    }
    measure = Measure(**read)
    if measure.threshold not in ("", AUTO):
        number_of(measure.threshold)  # refused now, not once the papers have been reviewed
    return measure


def development_papers(source: str, limit: int = 0) -> tuple[ReviewExample, ...]:
    """Return the papers of the development split, two or more: the first `limit` if that is not 0.

    `source` is the folder of `assay data review`, a file of such papers, or demonstration. BadConfig
    if there are none: papers of another split, test above all, never take their place.
    """
    collection = read_collection(source)
    examples = collection.examples
    if collection.has_splits:
        examples = without_leaks(examples).examples
    elif source == OWN:
        examples = split_by_family(examples, 0)
    found = tuple(each for each in examples if each.split == "dev")
    if not found:
        splits = sorted({each.split or "none" for each in examples})
        raise BadConfig(
            f"{source} holds no papers of the development split (its splits: {', '.join(splits)}). Reviewers"
            " are compared on those alone, so that test papers stay unseen; name the folder that `assay data"
            " review` wrote, or its dev.jsonl."
        )
    chosen = found[:limit] if limit else found
    if len(chosen) < 2:
        raise BadConfig(
            f"{len(chosen)} development paper of {source} is too few: what a list gets by chance is what it gets"
            " on another paper. Take two or more."
        )
    return chosen


def refuse_learned(papers: Sequence[ReviewExample], learned: Conversations, trained: str) -> None:
    """Raise BadConfig if a paper, or another version of it, is among what `trained` was trained on."""
    families = {family_of(row.article, "") for row in learned.rows}
    names = {row.article for row in learned.rows}
    both = [each.id for each in papers if each.id in names or each.family in families]
    if both:
        raise BadConfig(
            f"{len(both)} of {len(papers)} development papers (such as {both[0]}) are in the training data of"
            f" {trained} as well, so it would be measured by what it has seen; name other papers."
        )


def key_of(papers: Sequence[ReviewExample], measure: Measure) -> str:
    """Return a short name that changes with the papers, the instructions, and how is measured."""
    text = json.dumps([asdict(measure), prompt_sha256(), as_lines(papers)], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def as_lines(papers: Sequence[ReviewExample]) -> str:
    """Return papers as the text of a JSONL file."""
    return "".join(each.model_dump_json() + "\n" for each in papers)


def folder_of(run: Path, papers: Sequence[ReviewExample], measure: Measure) -> Path:
    """Return where a run folder keeps what these papers say of it by this measure."""
    return run / "reports" / f"dev-{key_of(papers, measure)}"
