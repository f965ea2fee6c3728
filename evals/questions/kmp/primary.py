"""Questions after the figures themselves: counts, up/down splits, classes, OXPHOS patterns and scores."""

from collections.abc import Iterator

from evals.facts import DegCount, TissueClass, load_kmp
from evals.questions.kmp.draft import (
    Draft,
    class_level,
    class_truth,
    count_truth,
    degs,
    long,
    pattern_truth,
    short,
    stated,
    table_level,
)
from evals.questions.pathways import NOT_SIGNIFICANT, SECONDARY, TABLE
from evals.schema import CountTruth, FactsTruth

COUNT_PROMPTS = (
    "How many DEGs does the study list for {long} in {tissue}?",
    "What is the DEG count for {short} in {tissue}?",
    "In {tissue}, how many differentially expressed genes belong to {long}?",
    "{short} in mouse {tissue}: how many DEGs?",
    "Give the number of genes with padj below 0.05 for {short} in {tissue}.",
    "How large is the {tissue} gene list of {long}?",
    "State the {tissue} figure for {short}.",
    "For {tissue}, what DEG number stands in the table under {short}?",
)
SPLIT_PROMPTS = (
    "How many genes go {way} in {tissue} under {long}?",
    "Of the {tissue} DEGs of {short}, how many are {way}regulated?",
    "Give the number of {way}regulated DEGs for {short} in {tissue}.",
)
CONFIRM_PROMPTS = (
    "A summary gives {figure} for {short} in {tissue}. Does that match the table?",
    "Someone quotes {figure} for {long} in {tissue}. Is the quote right?",
)
CLASS_PROMPTS = (
    "What type of response does {tissue} show to kaempferol?",
    "Is {tissue} Type A, Type B or Type C?",
    "To which response class does {tissue} belong?",
    "How does the study classify {tissue}?",
    "Which tissue type is assigned to mouse {tissue}?",
    "Name the class of {tissue} in the KMP study.",
    "Kaempferol response of {tissue}: stress-activated, baseline-active or stress-blocked?",
)
PATTERN_PROMPTS = (
    "What OXPHOS pattern does {tissue} show?",
    "Is OXPHOS in {tissue} a case of rescue, suppression or KMP only?",
    "How is the response of oxidative phosphorylation in {tissue} labelled?",
    "Which OXPHOS label does the study give to {tissue}?",
    "Name the oxidative phosphorylation pattern of {tissue} under kaempferol.",
    "Kaempferol and OXPHOS in {tissue}: which of the three patterns is it?",
    "What is the OXPHOS category of mouse {tissue}?",
)
STRESS_PROMPTS = (
    "What is the OXPHOS NES of {tissue} under stress?",
    "Give the enrichment score of oxidative phosphorylation in stressed {tissue}.",
    "Which NES does stress alone give for OXPHOS in {tissue}?",
)
KMP_PROMPTS = (
    "What is the OXPHOS NES of {tissue} for kaempferol?",
    "Give the enrichment score of oxidative phosphorylation under KMP in {tissue}.",
    "Which NES does kaempferol give for OXPHOS in {tissue}?",
)
CONFIRMED = (
    ("heart", "HU_IR"),
    ("heart", "KMP_baseline"),
    ("hippocampus", "HU"),
    ("hippocampus", "KMP_in_IR"),
    ("liver", "IR"),
    ("liver", "KMP_x_IR"),
    ("soleus", "KMP_x_HU"),
    ("soleus", "KMP_in_HU_IR"),
)
"""Figures that are quoted rightly, so that a quoted figure is not always a wrong one."""


def drafts() -> Iterator[Draft]:
    """Yield the questions after every figure of the tables."""
    facts = load_kmp()
    for figure in facts.counts:
        yield _count(figure)
        yield from _splits(figure)
    for tissue, contrast in CONFIRMED:
        yield _confirmed(facts.count(tissue, contrast))
    for row in facts.tissues:
        yield _class(row)
        yield _pattern(row)
        yield from _scores(row)


def _count(figure: DegCount) -> Draft:
    words = _words(figure)
    answer = stated(figure)
    if figure.doubt:
        answer += " The same figure stands twice in the tables, so it may be a copy error."
    return Draft(
        slug=f"{figure.tissue}/{figure.contrast}",
        kind="count",
        prompts=tuple(_sentence(prompt.format(**words)) for prompt in COUNT_PROMPTS),
        answer=answer,
        level=table_level(figure),
        truth=count_truth(figure),
        facts=(figure.id,),
        support=(figure.id,),
        tissue=figure.tissue,
        take=4,
    )


def _splits(figure: DegCount) -> Iterator[Draft]:
    for way, genes in (("up", figure.up), ("down", figure.down)):
        if genes is None:
            continue
        subject = f"{way}regulated by {short(figure.contrast)} in {figure.tissue}"
        yield Draft(
            slug=f"{figure.tissue}/{figure.contrast}/{way}",
            kind="count",
            prompts=tuple(prompt.format(way=way, **_words(figure)) for prompt in SPLIT_PROMPTS),
            answer=(f"In {figure.tissue}, {degs(genes)} of {short(figure.contrast)} are {way}regulated."),
            level=SECONDARY,
            truth=CountTruth(value=genes, subject=subject),
            facts=(f"{figure.id}/{way}",),
            support=(f"{figure.id}/{way}",),
            tissue=figure.tissue,
            take=2,
        )


def _confirmed(figure: DegCount) -> Draft:
    words = {**_words(figure), "figure": degs(figure.genes)}
    return Draft(
        slug=f"{figure.tissue}/{figure.contrast}/quoted",
        kind="count",
        prompts=tuple(prompt.format(**words) for prompt in CONFIRM_PROMPTS),
        answer=f"Yes, it matches. {stated(figure)}",
        level=table_level(figure),
        truth=count_truth(figure),
        facts=(figure.id,),
        support=(figure.id,),
        tissue=figure.tissue,
    )


def _class(row: TissueClass) -> Draft:
    return Draft(
        slug=row.tissue,
        kind="type",
        prompts=tuple(prompt.format(tissue=row.tissue) for prompt in CLASS_PROMPTS),
        answer=f"{row.tissue.capitalize()} is Type {row.letter} ({row.name}).",
        level=class_level(row),
        truth=class_truth(row),
        facts=(f"kmp/class/{row.tissue}",),
        support=(f"kmp/class/{row.tissue}",),
        tissue=row.tissue,
        take=5,
    )


def _pattern(row: TissueClass) -> Draft:
    return Draft(
        slug=row.tissue,
        kind="pattern",
        prompts=tuple(prompt.format(tissue=row.tissue) for prompt in PATTERN_PROMPTS),
        answer=f"In {row.tissue}, OXPHOS shows the {row.oxphos_pattern} pattern.",
        level=class_level(row),
        truth=pattern_truth(row),
        facts=(f"kmp/oxphos/{row.tissue}",),
        support=(f"kmp/oxphos/{row.tissue}",),
        tissue=row.tissue,
        take=5,
    )


def _scores(row: TissueClass) -> Iterator[Draft]:
    stress = f"In {row.tissue}, the OXPHOS score under stress is NES {row.oxphos_stress_nes:g}"
    doubt = row.oxphos_stress_doubt
    cases = (
        ("stress", STRESS_PROMPTS, stress + (f", {doubt}." if doubt else "."), bool(doubt)),
        (
            "kaempferol",
            KMP_PROMPTS,
            f"In {row.tissue}, the OXPHOS score for kaempferol is NES {row.oxphos_kmp_nes:g}.",
            False,
        ),
    )
    for name, prompts, answer, is_doubted in cases:
        yield Draft(
            slug=f"{row.tissue}/nes_{name}",
            kind="pattern",
            prompts=tuple(prompt.format(tissue=row.tissue) for prompt in prompts),
            answer=answer,
            level=NOT_SIGNIFICANT if is_doubted else TABLE,
            truth=FactsTruth(facts=(answer,)),
            facts=(f"kmp/nes_{name}/{row.tissue}",),
            support=(f"kmp/nes_{name}/{row.tissue}",),
            tissue=row.tissue,
            take=2,
        )


def _words(figure: DegCount) -> dict[str, str]:
    return {
        "tissue": figure.tissue,
        "short": short(figure.contrast),
        "long": long(figure.contrast),
    }


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:]
