"""Questions across tissues: which of two has more, which has most, and what else holds for it.

Facts of the test set are left out, see `TESTED_EXTREMES` and `TESTED_PAIRS`; tests prove it.
"""

from collections.abc import Iterator
from itertools import combinations

from evals.facts import DegCount, load_kmp
from evals.questions.kmp.draft import (
    PHRASES,
    TISSUES,
    Draft,
    cell,
    class_level,
    class_truth,
    count_truth,
    degs,
    derived_level,
    long,
    pattern_truth,
    short,
    stated,
    tissue_truth,
)
from evals.questions.pathways import DERIVED

TESTED_EXTREMES = {
    "KMP_x_HU": ("soleus",),
    "HU_x_IR": ("liver", "hippocampus"),
    "KMP_in_HU_IR": ("heart",),
}
"""Contrasts whose largest or smallest tissue the test asks for: training names neither rank nor pair."""
TESTED_PAIRS = (("KMP_x_HU", "heart", "liver"),)

PAIR_PROMPTS = (
    "Which has more DEGs for {short}, {first} or {second}?",
    "Is the response to {long} larger in {first} or in {second}?",
    "Compare {first} with {second} for {short}: which count is higher?",
)
"""Contrasts whose largest tissue is asked in the test: training ranks none of them."""
TESTED_PAIRS = (("KMP_x_HU", "heart", "liver"),)

PAIR_PROMPTS = (
    "Which has more DEGs for {short}, {first} or {second}?",
    "Is the response to {long} larger in {first} or in {second}?",
    "Compare {first} with {second} for {short}: which count is higher?",
)
"""Orderings that the test asks for."""

PAIR_PROMPTS = (
    "Which has more DEGs for {short}, {first} or {second}?",
    "Is the response to {long} larger in {first} or in {second}?",
    "Compare {first} with {second} for {short}: which count is higher?",
)
EXTREME_PROMPTS = (
    "Which tissue has the {rank} DEG count for {short}?",
    "Of heart, hippocampus, liver and soleus, which has the {rank} gene list for {long}?",
    "Name the tissue with the {rank} response to {short}.",
)
HOP_COUNTS = (
    ("largest", "HU", "KMP_x_IR"),
    ("smallest", "HU", "KMP_x_IR"),
    ("largest", "IR", "KMP_x_HU"),
    ("smallest", "IR", "KMP_baseline"),
    ("largest", "HU_IR", "KMP_in_IR"),
    ("largest", "KMP_in_IR", "HU_x_IR"),
    ("largest", "KMP_in_HU", "KMP_baseline"),
    ("largest", "KMP_x_IR", "HU_IR"),
    ("smallest", "KMP_baseline", "IR"),
)
"""Rank, the contrast that finds the tissue, and the contrast asked for there."""


def drafts() -> Iterator[Draft]:
    """Yield comparison and multi-hop questions."""
    yield from _pairs()
    for rank, contrast in ranked():
        yield _extreme(rank, contrast)
        yield from _class_hops(rank, contrast)
    for rank, contrast, target in HOP_COUNTS:
        yield _count_hop(rank, contrast, target)


def ranked() -> Iterator[tuple[str, str]]:
    """Yield the extremes that training may name: ("largest" or "smallest", contrast), no ties."""
    for contrast in PHRASES:
        if contrast in TESTED_EXTREMES:
            continue
        genes = sorted(cell(tissue, contrast).genes for tissue in TISSUES)
        if genes[-1] > genes[-2]:
            yield "largest", contrast
        if genes[0] < genes[1]:
            yield "smallest", contrast


def _pairs() -> Iterator[Draft]:
    """Yield orderings of two tissues; ties and what leads to a tested extreme are left out."""
    for contrast in PHRASES:
        for pair in combinations(TISSUES, 2):
            first, second = (cell(tissue, contrast) for tissue in pair)
            extremes = set(TESTED_EXTREMES.get(contrast, ()))
            is_tested = (contrast, *pair) in TESTED_PAIRS or bool(extremes & set(pair))
            if first.genes != second.genes and not is_tested:
                yield _pair(first, second)


def _pair(first: DegCount, second: DegCount) -> Draft:
    more, less = (first, second) if first.genes > second.genes else (second, first)
    pair = (first.tissue, second.tissue)
    words = {"short": short(first.contrast), "long": long(first.contrast)}
    asked = (pair, pair[::-1], pair)
    return Draft(
        slug=f"order/{first.contrast}/{'/'.join(pair)}",
        kind="comparison",
        prompts=tuple(
            prompt.format(first=one, second=two, **words)
            for prompt, (one, two) in zip(PAIR_PROMPTS, asked, strict=True)
        ),
        answer=(
            f"{more.tissue.capitalize()} has more DEGs for {words['short']}: {more.genes:,} against {less.genes:,}."
        ),
        level=derived_level((first, second)),
        truth=tissue_truth(more.tissue, pair, first.contrast),
        facts=(f"kmp/derived/order/{first.contrast}/{'/'.join(pair)}",),
        support=(first.id, second.id),
    )


def _extreme(rank: str, contrast: str) -> Draft:
    figure, figures = _ranked(rank, contrast)
    words = {"rank": rank, "short": short(contrast), "long": long(contrast)}
    return Draft(
        slug=f"{rank}/{contrast}",
        kind="comparison",
        prompts=tuple(prompt.format(**words) for prompt in EXTREME_PROMPTS),
        answer=(f"{figure.tissue.capitalize()} has the {rank} count for {short(contrast)}, {degs(figure.genes)}."),
        level=derived_level(figures),
        truth=tissue_truth(figure.tissue, subject=contrast),
        facts=(f"kmp/derived/{rank}/{contrast}",),
        support=tuple(each.id for each in figures),
        take=2,
    )


def _class_hops(rank: str, contrast: str) -> Iterator[Draft]:
    figure, figures = _ranked(rank, contrast)
    row = load_kmp().tissue(figure.tissue)
    first = f"{figure.tissue.capitalize()} has the {rank} count for {short(contrast)}."
    level = min(derived_level(figures), class_level(row), DERIVED)
    support = tuple(each.id for each in figures)
    which = f"the tissue with the {rank} DEG count for {short(contrast)}"
    yield Draft(
        slug=f"{rank}/{contrast}/class",
        kind="multi_hop",
        prompts=(f"What type is {which}?", f"To which class belongs {which}?"),
        answer=f"{first} {figure.tissue.capitalize()} is Type {row.letter} ({row.name}).",
        level=level,
        truth=class_truth(row),
        facts=(f"kmp/hop/{rank}/{contrast}/class",),
        support=(*support, f"kmp/class/{row.tissue}"),
        tissue=figure.tissue,
    )
    yield Draft(
        slug=f"{rank}/{contrast}/oxphos",
        kind="multi_hop",
        prompts=(
            f"What OXPHOS pattern does {which} show?",
            f"Which of rescue, suppression and KMP only applies to {which}?",
        ),
        answer=f"{first} In {row.tissue}, OXPHOS shows the {row.oxphos_pattern} pattern.",
        level=level,
        truth=pattern_truth(row),
        facts=(f"kmp/hop/{rank}/{contrast}/oxphos",),
        support=(*support, f"kmp/oxphos/{row.tissue}"),
        tissue=figure.tissue,
    )


def _count_hop(rank: str, contrast: str, target: str) -> Draft:
    figure, figures = _ranked(rank, contrast)
    asked = cell(figure.tissue, target)
    which = f"the tissue with the {rank} DEG count for {short(contrast)}"
    return Draft(
        slug=f"{rank}/{contrast}/{target}",
        kind="multi_hop",
        prompts=(
            f"Take {which}. How many DEGs does {short(target)} give there?",
            f"What is the DEG count for {long(target)} in {which}?",
        ),
        answer=(f"{figure.tissue.capitalize()} has the {rank} count for {short(contrast)}. {stated(asked)}"),
        level=derived_level((*figures, asked)),
        truth=count_truth(asked),
        facts=(f"kmp/hop/{rank}/{contrast}/{target}",),
        support=(*(each.id for each in figures), asked.id),
        tissue=figure.tissue,
    )


def _ranked(rank: str, contrast: str) -> tuple[DegCount, tuple[DegCount, ...]]:
    """Return the figure of that rank, and all it was ranked against."""
    figures = tuple(cell(tissue, contrast) for tissue in TISSUES)
    choose = max if rank == "largest" else min
    return choose(figures, key=lambda figure: figure.genes), figures
