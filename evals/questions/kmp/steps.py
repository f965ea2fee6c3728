"""Questions that take a step within one tissue: sums, shares, thresholds, one count against another."""

from collections.abc import Iterator

from evals.facts import DegCount, load_kmp
from evals.questions.kmp.draft import (
    Draft,
    cell,
    degs,
    derived_level,
    long,
    short,
    stated,
    yes_truth,
)
from evals.questions.kmp.heldout import HU, IR, LESS, MORE
from evals.questions.pathways import SECONDARY
from evals.schema import LabelTruth

ADDITIVE_PROMPTS = (
    "Do HU and IR act additively in {tissue}? Work it out from the DEG counts.",
    "Is combined HU and IR in {tissue} more or less than the sum of both alone?",
    "Step by step: does the combination in {tissue} exceed HU plus IR?",
)
DOMINANT_PROMPTS = (
    "Which single stressor is stronger in {tissue}, HU or IR?",
    "Decide from the DEG counts whether HU or IR matters more in {tissue}.",
    "What is the main stressor for {tissue}, unloading or radiation, and why?",
)
WHEN_PROMPTS = (
    "Does kaempferol change more genes in {tissue} at baseline or under combined stress?",
    "When is KMP more active in {tissue}, without stress or under HU and IR?",
    "Compare KMP at baseline with KMP during combined HU and IR in {tissue}.",
)
SHARE_PROMPTS = (
    "Are most DEGs of {short} in {tissue} up or down?",
    "Which direction prevails among the {tissue} genes of {long}?",
)
THRESHOLD_PROMPTS = (
    "Are there more than {limit:,} DEGs for {short} in {tissue}?",
    "Does {long} change over {limit:,} genes in {tissue}?",
)
OUTNUMBER_PROMPTS = (
    "Is {first} larger than {second} in {tissue}, by DEG count?",
    "In {tissue}, does {first} reach more genes than {second}?",
)
THRESHOLDS = (
    ("heart", "HU", 500),
    ("heart", "HU_IR", 500),
    ("heart", "KMP_in_HU_IR", 1000),
    ("heart", "KMP_x_IR", 100),
    ("hippocampus", "IR", 5000),
    ("hippocampus", "HU", 2000),
    ("hippocampus", "KMP_x_IR", 1000),
    ("hippocampus", "KMP_in_HU", 10),
    ("liver", "HU_IR", 5000),
    ("liver", "IR", 2000),
    ("liver", "HU_x_IR", 1000),
    ("liver", "KMP_in_HU_IR", 10),
    ("soleus", "HU", 5000),
    ("soleus", "IR", 100),
    ("soleus", "HU_IR", 5000),
    ("soleus", "KMP_in_IR", 100),
)
"""Tissue, contrast and the round number it is held against."""
OUTNUMBER = (
    ("heart", "KMP_x_HU", "HU"),
    ("hippocampus", "KMP_x_IR", "IR"),
    ("liver", "KMP_x_IR", "IR"),
    ("soleus", "KMP_x_IR", "IR"),
)
"""Tissue, the contrast in question and the one it is held against."""


def drafts() -> Iterator[Draft]:
    """Yield the chain-of-thought questions; facts of the test set are not among them."""
    for tissue in ("liver", "soleus"):
        yield _additive(tissue)
        yield _dominant(tissue)
    for tissue in ("heart", "hippocampus", "soleus"):
        yield _when(tissue)
    for figure in load_kmp().counts:
        if figure.up is not None and figure.down is not None:
            yield _share(figure, figure.up, figure.down)
    for tissue, contrast, limit in THRESHOLDS:
        yield _threshold(cell(tissue, contrast), limit)
    for tissue, first, second in OUTNUMBER:
        yield _outnumber(cell(tissue, first), cell(tissue, second))


def _additive(tissue: str) -> Draft:
    hu, ir, both = (cell(tissue, contrast) for contrast in ("HU", "IR", "HU_IR"))
    total = hu.genes + ir.genes
    more = both.genes > total
    value, others = (MORE, LESS) if more else (LESS, MORE)
    return Draft(
        slug=f"additivity/{tissue}",
        kind="chain_of_thought",
        prompts=tuple(prompt.format(tissue=tissue) for prompt in ADDITIVE_PROMPTS),
        answer=(
            f"Alone, the two stressors give {hu.genes:,} and {ir.genes:,} DEGs in {tissue},"
            f" {total:,} in sum. Combined they give {both.genes:,}, so the response is {value[0]}."
        ),
        level=derived_level((hu, ir, both)),
        truth=LabelTruth(value=value[0], subject=tissue, accept=value[1:], others=others),
        facts=(f"kmp/derived/additivity/{tissue}",),
        support=(hu.id, ir.id, both.id),
        tissue=tissue,
        take=3,
    )


def _dominant(tissue: str) -> Draft:
    figures = (cell(tissue, "HU"), cell(tissue, "IR"))
    strong, weak = sorted(figures, key=lambda figure: -figure.genes)
    value, others = (HU, IR) if strong.contrast == "HU" else (IR, HU)
    return Draft(
        slug=f"dominant_stressor/{tissue}",
        kind="chain_of_thought",
        prompts=tuple(prompt.format(tissue=tissue) for prompt in DOMINANT_PROMPTS),
        answer=(
            f"{value[0]} is the stronger stressor in {tissue}: alone it gives"
            f" {degs(strong.genes)}, the other only {weak.genes:,}."
        ),
        level=derived_level(figures),
        truth=LabelTruth(value=value[0], subject=tissue, accept=value[1:], others=others),
        facts=(f"kmp/derived/dominant_stressor/{tissue}",),
        support=tuple(figure.id for figure in figures),
        tissue=tissue,
        take=3,
    )


def _when(tissue: str) -> Draft:
    calm, stressed = cell(tissue, "KMP_baseline"), cell(tissue, "KMP_in_HU_IR")
    names = (("baseline", "without stress", "unstressed"), ("combined stress", "under stress"))
    value, others = names if calm.genes > stressed.genes else names[::-1]
    high, low = max(calm.genes, stressed.genes), min(calm.genes, stressed.genes)
    place = "at baseline" if value[0] == "baseline" else "under combined stress"
    return Draft(
        slug=f"baseline_or_stress/{tissue}",
        kind="chain_of_thought",
        prompts=tuple(prompt.format(tissue=tissue) for prompt in WHEN_PROMPTS),
        answer=f"In {tissue}, KMP changes more genes {place}: {high:,} against {degs(low)}.",
        level=derived_level((calm, stressed)),
        truth=LabelTruth(value=value[0], subject=tissue, accept=value[1:], others=others),
        facts=(f"kmp/derived/baseline_or_stress/{tissue}",),
        support=(calm.id, stressed.id),
        tissue=tissue,
        take=3,
    )


def _share(figure: DegCount, up: int, down: int) -> Draft:
    way, other = ("up", "down") if up > down else ("down", "up")
    words = {
        "tissue": figure.tissue,
        "short": short(figure.contrast),
        "long": long(figure.contrast),
    }
    return Draft(
        slug=f"prevailing/{figure.tissue}/{figure.contrast}",
        kind="chain_of_thought",
        prompts=tuple(prompt.format(**words) for prompt in SHARE_PROMPTS),
        answer=(
            f"In {figure.tissue}, {max(up, down):,} of {up + down:,} DEGs of"
            f" {words['short']} are {way}regulated, {100 * max(up, down) / (up + down):.0f}%,"
            f" so {way} prevails."
        ),
        level=SECONDARY,
        truth=LabelTruth(
            value=way,
            subject=figure.tissue,
            accept=(f"{way}regulated",),
            others=(other, f"{other}regulated"),
        ),
        facts=(f"kmp/derived/prevailing/{figure.tissue}/{figure.contrast}",),
        support=(f"{figure.id}/up", f"{figure.id}/down"),
        tissue=figure.tissue,
        take=2,
    )


def _threshold(figure: DegCount, limit: int) -> Draft:
    is_above = figure.genes > limit
    words = {
        "tissue": figure.tissue,
        "short": short(figure.contrast),
        "long": long(figure.contrast),
    }
    yes, side = ("Yes", "above") if is_above else ("No", "below")
    return Draft(
        slug=f"above/{figure.tissue}/{figure.contrast}",
        kind="chain_of_thought",
        prompts=tuple(prompt.format(limit=limit, **words) for prompt in THRESHOLD_PROMPTS),
        answer=f"{yes}. {stated(figure)} This is {side} {limit:,}.",
        level=derived_level((figure,)),
        truth=yes_truth(is_above, f"{words['short']} in {figure.tissue}"),
        facts=(f"kmp/derived/above_{limit}/{figure.tissue}/{figure.contrast}",),
        support=(figure.id,),
        tissue=figure.tissue,
    )


def _outnumber(first: DegCount, second: DegCount) -> Draft:
    is_larger = first.genes > second.genes
    yes, relation = ("Yes", "above") if is_larger else ("No", "below")
    words = {
        "tissue": first.tissue,
        "first": short(first.contrast),
        "second": short(second.contrast),
    }
    return Draft(
        slug=f"outnumber/{first.tissue}/{first.contrast}/{second.contrast}",
        kind="chain_of_thought",
        prompts=tuple(prompt.format(**words) for prompt in OUTNUMBER_PROMPTS),
        answer=(f"{yes}. {stated(first)} This is {relation} the {second.genes:,} of {words['second']}."),
        level=derived_level((first, second)),
        truth=yes_truth(is_larger, f"{words['first']} in {first.tissue}"),
        facts=(f"kmp/derived/outnumber/{first.tissue}/{first.contrast}/{second.contrast}",),
        support=(first.id, second.id),
        tissue=first.tissue,
        take=2,
    )
