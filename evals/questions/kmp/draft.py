"""A question before it is worded for good: one fact asked for, several ways to ask it."""

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from evals.facts import DegCount, TissueClass, load_kmp
from evals.questions.pathways import DERIVED, DOUBTED, DOUBTED_CLASS, TABLE, with_answer
from evals.schema import CANNOT_BE_TOLD, CountTruth, Example, FactsTruth, GroundTruth, LabelTruth

TISSUES = ("heart", "hippocampus", "liver", "soleus")
PHRASES = {
    "HU": ("HU alone", "hindlimb unloading (HU)"),
    "IR": ("IR alone", "ionizing radiation (IR)"),
    "HU_IR": ("combined HU and IR", "hindlimb unloading together with radiation (HU + IR)"),
    "KMP_baseline": ("KMP at baseline", "kaempferol (KMP) without any stressor"),
    "KMP_in_HU": ("KMP during HU", "kaempferol (KMP) in unloaded mice"),
    "KMP_in_IR": ("KMP during IR", "kaempferol (KMP) in irradiated mice"),
    "KMP_in_HU_IR": ("KMP during combined HU and IR", "kaempferol (KMP) under both stressors"),
    "HU_x_IR": ("the HU x IR interaction", "the interaction of unloading with radiation (HU x IR)"),
    "KMP_x_HU": (
        "the KMP x HU interaction",
        "the interaction of kaempferol with unloading (KMP x HU)",
    ),
    "KMP_x_IR": (
        "the KMP x IR interaction",
        "the interaction of kaempferol with radiation (KMP x IR)",
    ),
}
"""Each contrast as answers write it, and in full."""


@dataclass(frozen=True)
class Draft:
    """One fact to ask for. A training set takes `take` of its `prompts`; the answer is the same.

    `facts` are the ids asked for, `support` the ids of the figures that the answer rests on.
    """

    slug: str
    kind: str
    prompts: tuple[str, ...]
    answer: str
    level: int
    truth: GroundTruth
    facts: tuple[str, ...]
    support: tuple[str, ...] = ()
    tissue: str | None = None
    take: int = 1

    def examples(self, chosen: Iterable[int]) -> Iterator[Example]:
        """Yield the chosen wordings as training examples; ids do not depend on the choice."""
        for number in chosen:
            yield Example(
                id=f"kmp/{self.kind}/{self.slug}/{number + 1}",
                source="kmp",
                kind=self.kind,
                prompt=self.prompts[number],
                answer=with_answer(*self._said(), self.level),
                confidence=self.level / 100,
                ground_truth=self.truth,
                facts=self.facts,
                support=self.support,
                cluster=self.facts[0],
                tissue=self.tissue,
                split="train",
            )

    def _said(self) -> tuple[str, str]:
        """Return the explanation and what stands behind `Answer:`; a fact to be told is its own answer."""
        match self.truth:
            case CountTruth():
                return self.answer, degs(self.truth.value)
            case LabelTruth():
                return self.answer, self.truth.value
            case FactsTruth():
                return "", self.answer
            case _:
                return self.answer, CANNOT_BE_TOLD

    def chosen(self, random_source: random.Random) -> list[int]:
        """Return which wordings a training set takes, in the order of `prompts`."""
        return sorted(random_source.sample(range(len(self.prompts)), self.take))


def short(contrast: str) -> str:
    """Return a contrast as answers write it, e.g. "the KMP x HU interaction"."""
    return PHRASES[contrast][0]


def long(contrast: str) -> str:
    """Return a contrast in full, e.g. "hindlimb unloading (HU)"."""
    return PHRASES[contrast][1]


def cell(tissue: str, contrast: str) -> DegCount:
    """Return the figure of one contrast in one tissue."""
    return load_kmp().count(tissue, contrast)


def degs(genes: int) -> str:
    """Return a count as answers write it: 8484 -> "8,484 DEGs", 1 -> "1 DEG"."""
    return f"{genes:,} DEG{'' if genes == 1 else 's'}"


def stated(figure: DegCount) -> str:
    """Return the sentence that states a figure: "In soleus, HU alone gives 6,425 DEGs."."""
    return f"In {figure.tissue}, {short(figure.contrast)} gives {degs(figure.genes)}."


def count_truth(figure: DegCount) -> CountTruth:
    """Return the ground truth of a question after this figure."""
    return CountTruth(value=figure.genes, subject=f"{short(figure.contrast)} in {figure.tissue}")


def class_truth(row: TissueClass) -> LabelTruth:
    """Return the ground truth of a question after the class of a tissue."""
    names = {other.letter: other.name for other in load_kmp().tissues}
    wrong = sorted(set(names) - {row.letter})
    return LabelTruth(
        value=f"Type {row.letter}",
        subject=row.tissue,
        accept=(f"class {row.letter}", row.name),
        others=tuple(f"Type {letter}" for letter in wrong) + tuple(names[x] for x in wrong),
    )


def pattern_truth(row: TissueClass) -> LabelTruth:
    """Return the ground truth of a question after the OXPHOS pattern of a tissue."""
    patterns = ("rescue", "KMP only", "suppression")
    return LabelTruth(
        value=row.oxphos_pattern,
        subject=row.tissue,
        accept=("KMP-only",) if row.oxphos_pattern == "KMP only" else (),
        others=tuple(pattern for pattern in patterns if pattern != row.oxphos_pattern),
    )


def tissue_truth(tissue: str, rivals: Sequence[str] = TISSUES, subject: str | None = None) -> LabelTruth:
    """Return the ground truth of a question whose answer is one tissue among `rivals`."""
    others = tuple(rival for rival in rivals if rival != tissue)
    return LabelTruth(value=tissue, subject=subject, others=others)


def yes_truth(is_so: bool, subject: str | None = None) -> LabelTruth:
    """Return the ground truth of a yes/no question."""
    right, wrong = ("yes", "no") if is_so else ("no", "yes")
    return LabelTruth(value=right, subject=subject, others=(wrong,))


def table_level(figure: DegCount) -> int:
    """Return how sure an answer may be that repeats one figure."""
    return DOUBTED if figure.doubt else TABLE


def derived_level(figures: Iterable[DegCount]) -> int:
    """Return how sure an answer may be that puts figures together: no surer than the weakest."""
    return DOUBTED if any(figure.doubt for figure in figures) else DERIVED


def class_level(row: TissueClass) -> int:
    """Return how sure an answer may be about a class or pattern; a doubt in its figures counts."""
    doubted = any(figure.doubt for figure in load_kmp().counts if figure.tissue == row.tissue)
    leans = row.letter == "B" and doubted
    return DOUBTED_CLASS if leans or row.oxphos_stress_doubt else TABLE
