"""Questions that contain a mistake; the answer says so and gives what the tables say.

The wrong figure is not repeated in the answer, so an answer never states two figures.
"""

from collections.abc import Iterator

from evals.facts import DegCount, TissueClass, load_kmp
from evals.questions.kmp.draft import (
    TISSUES,
    Draft,
    cell,
    class_level,
    class_truth,
    count_truth,
    degs,
    long,
    pattern_truth,
    short,
    stated,
    table_level,
    yes_truth,
)
from evals.questions.pathways import DEFINED, SUGGESTED
from evals.questions.wording import digest
from evals.schema import FactsTruth

COUNT_PROMPTS = (
    "A report says {short} gives {wrong} in {tissue}. Is that correct?",
    "I read that {long} changes {wrong} in {tissue}. Please check.",
    "Correct this if needed: {tissue} has {wrong} for {short}.",
)
CLASS_PROMPTS = (
    "Is it true that {tissue} is Type {wrong}?",
    "A draft calls {tissue} a Type {wrong} tissue. Please check.",
)
PATTERN_PROMPTS = (
    "Does {tissue} show the {wrong} pattern for OXPHOS?",
    "A draft gives {tissue} the OXPHOS pattern {wrong}. Is that correct?",
)
SMALLEST = 10
"""Figures below this are not corrupted: one gene more or less would be no clear mistake."""


def drafts() -> Iterator[Draft]:
    """Yield one correction per clear figure, class and pattern, and of common false statements."""
    for figure in load_kmp().counts:
        if figure.genes >= SMALLEST and not figure.doubt:
            yield _count(figure)
    for row in load_kmp().tissues:
        yield _class(row)
        yield _pattern(row)
    yield from _statements()


def wrong_figure(figure: DegCount) -> int:
    """Return a plausible mistake: two digits swapped, another tissue's figure, or ten times too much.

    Which one follows from a checksum of the fact. Never the right figure itself.
    """
    digits = str(figure.genes)
    others = [cell(tissue, figure.contrast).genes for tissue in TISSUES]
    mistakes = [
        int(digits[1] + digits[0] + digits[2:]),
        next(genes for genes in others if genes not in (figure.genes, 0)),
        figure.genes * 10,
    ]
    start = int(digest(figure.id)[:8], 16)
    turned = (mistakes[(start + step) % len(mistakes)] for step in range(len(mistakes)))
    return next(genes for genes in turned if genes != figure.genes and genes >= SMALLEST)


def _count(figure: DegCount) -> Draft:
    words = {
        "tissue": figure.tissue,
        "short": short(figure.contrast),
        "long": long(figure.contrast),
        "wrong": degs(wrong_figure(figure)),
    }
    return Draft(
        slug=f"{figure.tissue}/{figure.contrast}",
        kind="error_correction",
        prompts=tuple(prompt.format(**words) for prompt in COUNT_PROMPTS),
        answer=f"No, that figure is wrong. {stated(figure)}",
        level=table_level(figure),
        truth=count_truth(figure),
        facts=(figure.id,),
        support=(figure.id,),
        tissue=figure.tissue,
    )


def _class(row: TissueClass) -> Draft:
    wrong = {"A": "C", "B": "A", "C": "B"}[row.letter]
    return Draft(
        slug=f"class/{row.tissue}",
        kind="error_correction",
        prompts=tuple(p.format(tissue=row.tissue, wrong=wrong) for p in CLASS_PROMPTS),
        answer=f"No, that is wrong. {row.tissue.capitalize()} is Type {row.letter} ({row.name}).",
        level=class_level(row),
        truth=class_truth(row),
        facts=(f"kmp/class/{row.tissue}",),
        support=(f"kmp/class/{row.tissue}",),
        tissue=row.tissue,
    )


def _pattern(row: TissueClass) -> Draft:
    wrong = {"rescue": "suppression", "KMP only": "rescue", "suppression": "rescue"}
    words = {"tissue": row.tissue, "wrong": wrong[row.oxphos_pattern]}
    return Draft(
        slug=f"oxphos/{row.tissue}",
        kind="error_correction",
        prompts=tuple(prompt.format(**words) for prompt in PATTERN_PROMPTS),
        answer=f"No, that is wrong. In {row.tissue}, OXPHOS shows the {row.oxphos_pattern} pattern.",
        level=class_level(row),
        truth=pattern_truth(row),
        facts=(f"kmp/oxphos/{row.tissue}",),
        support=(f"kmp/oxphos/{row.tissue}",),
        tissue=row.tissue,
    )


def _statements() -> Iterator[Draft]:
    """Yield false statements that are easily made about this study."""
    yield Draft(
        slug="all_but_liver_rescue",
        kind="error_correction",
        prompts=("Every tissue except liver shows OXPHOS rescue, doesn't it?",),
        answer="No. Hippocampus does not show rescue either; its OXPHOS pattern is KMP only.",
        level=class_level(load_kmp().tissue("hippocampus")),
        truth=yes_truth(False, "rescue in every tissue except liver"),
        facts=("kmp/derived/rescue_outside_liver",),
        support=("kmp/oxphos/hippocampus",),
    )
    stressed = cell("hippocampus", "KMP_in_HU_IR")
    yield Draft(
        slug="hippocampus_not_stress_activated",
        kind="error_correction",
        prompts=(f"Hippocampus has {degs(stressed.genes)} for KMP under combined stress, so is it stress-activated?",),
        answer="No. Hippocampus is Type B (baseline-active): KMP changes far more genes there without stress.",
        level=class_level(load_kmp().tissue("hippocampus")),
        truth=class_truth(load_kmp().tissue("hippocampus")),
        facts=("kmp/derived/hippocampus_not_activated",),
        support=("kmp/class/hippocampus", stressed.id),
        tissue="hippocampus",
    )
    soleus = cell("soleus", "KMP_baseline")
    yield Draft(
        slug="soleus_baseline",
        kind="error_correction",
        prompts=("KMP at baseline clearly changes soleus genes, right?",),
        answer=f"No. {stated(soleus)}",
        level=table_level(soleus),
        truth=count_truth(soleus),
        facts=(soleus.id,),
        support=(soleus.id,),
        tissue="soleus",
    )
    yield Draft(
        slug="more_degs_better",
        kind="error_correction",
        prompts=("A higher DEG count for kaempferol means a better treatment, correct?",),
        answer="No. A DEG count says how many genes change, not whether the change helps the mouse.",
        level=SUGGESTED,
        truth=yes_truth(False, "DEG count as a measure of benefit"),
        facts=("kmp/reading/count_is_not_benefit",),
    )
    yield Draft(
        slug="fold_change_cut",
        kind="error_correction",
        prompts=("The DEGs were filtered by a twofold change as well, weren't they?",),
        answer="No. A DEG here needs only padj below 0.05; no fold-change cut was used.",
        level=DEFINED,
        truth=FactsTruth(facts=("DEG = padj < 0.05, no fold-change cut",)),
        facts=("kmp/design/no_fold_change_cut",),
    )
