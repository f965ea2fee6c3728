"""Papers of our own with planted flaws and the concerns of five kinds of reviewer, for tests and demonstration.

None of it is real: no animal, patient or reader stands behind any figure. README.md beside this file says
how a paper is written down.
"""

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import get_args

from evals.papers.families import split_by_family
from evals.papers.outline import caption_of
from evals.schema import PlantedFlaw, ReviewExample, Section, TextOrigin
from evals.schema.reviews import Category, HumanConcern, Severity

LICENCE = "CC0-1.0"
SEVERITIES = {name[0].upper() if name == "major" else name[0]: name for name in get_args(Severity)}
CATEGORIES: Mapping[str, Category] = {
    "D": "design_flaw",
    "S": "statistical_methodology",
    "E": "missing_experiment",
    "F": "figure_issue",
    "N": "prior_art_novelty",
    "W": "writing_clarity",
    "R": "reagent_method_specificity",
    "I": "interpretation",
    "O": "other",
}
PART = re.compile(r"^(##+) (.*)\n((?:(?!##).*\n?)*)", re.M)
CONCERN = re.compile(
    r"(?P<reviewer>\d)(?P<severity>[Mmo])(?P<category>[DSEFNWRIO])(?P<figure>!?)"
    r" (?:\{(?P<kind>\w+): (?P<quote>.*?)\} )?(?P<text>\S.*)"
)
PLANTED, NOT_PLANTED = 0.95, 0.6
"""Confidence of a concern about a planted flaw, and of another."""


@cache
def demonstration() -> tuple[ReviewExample, ...]:
    """Return all papers by name, each with its split: whole families, and every style in each split."""
    paths = (path for path in sorted(Path(__file__).parent.glob("*.md")) if path.stem != "README")
    texts = {path.stem: path.read_text(encoding="utf-8") for path in paths}
    return split_by_family([_example(name, texts) for name in texts])


def _parts(text: str) -> tuple[dict[str, str], dict[str, str], dict[str, str]]:
    """Return the facts, the sections and the captions of a paper as it is written down."""
    title, *facts = text.partition("\n##")[0].removeprefix("# ").split("\n")
    found = [(marks, name.strip(), body.strip()) for marks, name, body in PART.findall(text)]
    sections, captions = ({name: body for marks, name, body in found if marks == level} for level in ("##", "###"))
    return {"title": title, **dict(fact.split(": ", 1) for fact in facts)}, sections, captions


def _example(name: str, texts: Mapping[str, str]) -> ReviewExample:
    facts, sections, captions = _parts(texts[name])
    written = sections.pop("Concerns").split("\n")
    if "revises" in facts:  # a later version leaves everything as it was that it does not name
        earlier = _parts(texts[facts["revises"]])
        facts, sections, captions = (
            {**old, **new} for old, new in zip(earlier, (facts, sections, captions), strict=True)
        )
        del sections["Concerns"]
    identity, source = f"demo:{name}", f"demo-{facts['style']}"
    matches = [match for line in written if (match := CONCERN.fullmatch(line.strip()))]
    concerns = tuple(
        HumanConcern(
            concern_id=f"{identity}:R{found['reviewer']}C{number}",
            reviewer_num=int(found["reviewer"]),
            concern_text=found["text"],
            category=CATEGORIES[found["category"]],
            severity=SEVERITIES[found["severity"]],
            author_stance="conceded" if found["kind"] else "unclear",
            resolution="conceded" if found["kind"] else "unclear",
            resolution_confidence=PLANTED if found["kind"] else NOT_PLANTED,
            was_valid=found["kind"] is not None,
            requires_figure_reading=bool(found["figure"]),
            source=source,
        )
        for number, found in enumerate(matches, 1)
    )
    figures = (caption_of(f"{label}. {text}") for label, text in captions.items())
    return ReviewExample(
        id=identity,
        source=source,
        title=facts["title"],
        abstract=sections.pop("Abstract"),
        sections=tuple(Section(name=each, text=text) for each, text in sections.items()),
        figures=tuple(figure for figure in figures if figure),
        subjects=(facts["topic"],),
        origin=TextOrigin(format="corpus", file=f"{name}.md"),
        family=facts.get("revises", name),
        editorial_decision="major_revision",
        revision_round=2 if "revises" in facts else 1,
        review_format="journal",
        concerns=concerns,
        synthetic=True,
        licence=LICENCE,
        flaws=tuple(
            PlantedFlaw(kind=found["kind"], quote=found["quote"], concerns=(concern.concern_id,))
            for found, concern in zip(matches, concerns, strict=True)
            if found["kind"]
        ),
    )
