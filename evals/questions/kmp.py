"""Questions about the kaempferol (KMP) study: what is trained on, and twenty that are not.

The split is by fact and by wording. An arbitrary count cannot be known without having been read,
so the figures are trained on, each in several wordings; the test asks what follows from them.
No training row asks for a tested fact, puts all of its figures together, or states it, and no
wording of the test stands in training. Topics that the data cannot answer are split the same way.
Wordings and whole questions stand in kmp.toml, what is asked of which figures in kmp_rows.jsonl; here they meet the
figures. Tests work out again from the figures what the rows say follows from them.
"""

import json
import random
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from evals.errors import BadConfig
from evals.facts import DegCount, load_kmp
from evals.questions.prompt import with_answer
from evals.schema import CANNOT_BE_TOLD, CountTruth, Example, FactsTruth, GroundTruth, LabelTruth, Record

LARGEST_DRILL = 20


class Draft(Record):
    """One fact to ask for, in several wordings. A training set takes `take` of them; the answer is the same.

    `fact` is the id asked for, `support` the ids of the figures that the answer rests on. Without a truth of
    its own, the answer is the fact to be told. `level` names how sure the answer may be.
    """

    slug: str
    kind: str
    prompts: tuple[str, ...]
    answer: str
    level: str
    fact: str
    truth: GroundTruth | None = None
    support: tuple[str, ...] = ()
    tissue: str | None = None
    take: int = 1

    def examples(self, chosen: Iterable[int] | None = None) -> Iterator[Example]:
        """Yield the chosen wordings, or all, as training examples; ids do not depend on the choice."""
        level = book()["levels"][self.level]
        explanation, said = self.answer, CANNOT_BE_TOLD
        match truth := self.truth or FactsTruth(facts=(self.answer,)):
            case CountTruth():
                said = degs(truth.value)
            case LabelTruth():
                said = truth.value
            case FactsTruth():
                explanation, said = "", self.answer
        for number in range(len(self.prompts)) if chosen is None else chosen:
            yield Example(
                id=f"kmp/{self.kind}/{self.slug}/{number + 1}",
                source="kmp",
                kind=self.kind,
                prompt=self.prompts[number],
                answer=with_answer(explanation, said, level),
                confidence=level / 100,
                ground_truth=truth,
                facts=(self.fact,),
                support=self.support,
                cluster=self.fact,
                tissue=self.tissue,
                split="train",
            )


def kmp_training(seed: int = 0, drill: int = 1) -> tuple[Example, ...]:
    """Return the training examples in random order, the same ones for the same seed.

    The seed chooses wordings and order; the facts are always all there. With `drill` above 1
    every row is there that many times, repeats with ids of their own ("…/drill-2").
    """
    if not 1 <= drill <= LARGEST_DRILL:
        raise BadConfig(f"drill is {drill}; it takes 1 (no repeats) to {LARGEST_DRILL}")
    source = random.Random(seed)
    rows: list[Example] = []
    for draft in _training_drafts():
        rows += draft.examples(sorted(source.sample(range(len(draft.prompts)), draft.take)))
    rows += [
        row.model_copy(update={"id": f"{row.id}/drill-{number}"}) for number in range(2, drill + 1) for row in rows
    ]
    source.shuffle(rows)
    return tuple(rows)


@cache
def kmp_test() -> tuple[Example, ...]:
    """Return the twenty test questions in order: 10 factual, 5 reasoning, 5 unanswerable."""
    return tuple(
        example.model_copy(update={"split": "test", "id": f"kmp/test/{draft.slug}"})
        for draft in _whole_questions("test")
        for example in draft.examples()
    )


@cache
def kmp_wordings() -> tuple[Example, ...]:
    """Return every wording that any seed could choose, each once."""
    return tuple(example for draft in _training_drafts() for example in draft.examples())


@cache
def kmp_rewordings() -> tuple[Example, ...]:
    """Return one question per fact of `kmp_training()`, in a wording that stands in no row of it.

    For measuring whether a later stage forgets the figures. Facts that only a judge can grade are left out.
    """
    trained = {row.prompt for row in kmp_training()}
    unseen: dict[str, Example] = {}
    for row in kmp_wordings():
        if row.prompt not in trained and row.ground_truth.kind != "facts":
            unseen.setdefault(row.cluster, row.model_copy(update={"split": "test"}))
    return tuple(unseen.values())


@cache
def book() -> dict[str, Any]:
    """Return kmp.toml."""
    return tomllib.loads(Path(__file__).with_name("kmp.toml").read_text(encoding="utf-8"))


def degs(genes: int) -> str:
    """Return a count as answers write it: 8484 -> "8,484 DEGs", 1 -> "1 DEG"."""
    return f"{genes:,} DEG{'' if genes == 1 else 's'}"


def contrast_name(contrast: str) -> tuple[str, str]:
    """Return a contrast as answers write it, and in full: "HU", "hindlimb unloading (HU)"."""
    return tuple(book()["contrasts"][contrast])


# ---- what is trained on, in the order in which wordings are drawn ------------------------------


@cache
def _training_drafts() -> tuple[Draft, ...]:
    rows = Path(__file__).with_name("kmp_rows.jsonl").read_text(encoding="utf-8").splitlines()
    unknown = (
        {
            "template": "unknown",
            "truth": {"kind": "abstain"},
            "words": {"topic": topic, "first": one, "second": two, "reason": why},
        }
        for topic, (one, two, why) in book()["unknown"].items()
    )
    made = map(_fill_template, map(json.loads, rows))
    return *made, *_whole_questions("corrections"), *map(_fill_template, unknown), *_whole_questions("readings")


def _fill_template(row: Mapping[str, Any]) -> Draft:
    """Return the draft that a row makes of its template."""
    form = book()["templates"][row["template"]]
    words: dict[str, Any] = {"tissue": None}
    if "class_of" in row:
        tissue = load_kmp().tissue(row["class_of"])
        words |= {"tissue": tissue.tissue, "Tissue": tissue.tissue.capitalize(), "row": tissue}
    if "figure" in row:
        words |= _figure_words(load_kmp().count(*row["figure"].split("/")))
    words |= row.get("words", {})
    slug = form["slug"].format(**words)
    asked = [prompt.format(**words) for prompt in form["prompts"]]
    return Draft(
        slug=slug,
        kind=form["kind"],
        prompts=tuple(prompt[0].upper() + prompt[1:] for prompt in asked),
        answer=form["answer"].format(**words),
        level=row.get("level") or form["level"],
        truth=row.get("truth"),
        fact=form["fact"].format(slug=slug, **words),
        support=row.get("support", ()),
        tissue=words["tissue"],
        take=form.get("take", 1),
    )


def _whole_questions(section: str) -> list[Draft]:
    return [Draft.model_validate(row) for row in book()[section]]


def _figure_words(figure: DegCount) -> dict[str, Any]:
    """Return what every template may say of a figure."""
    short, long = contrast_name(figure.contrast)
    genes = degs(figure.genes)
    return {
        "id": figure.id,
        "tissue": figure.tissue,
        "Tissue": figure.tissue.capitalize(),
        "contrast": figure.contrast,
        "short": short,
        "long": long,
        "genes": genes,
        "stated": f"In {figure.tissue}, {short} gives {genes}.",
    }
