"""From the written papers to examples: read, joined with the version they revise, and split by family."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import get_args

from evals.errors import LabError
from evals.papers.families import split_by_family
from evals.papers.outline import caption_of
from evals.schema import Figure, PlantedFlaw, ReviewExample, Section, TextOrigin
from evals.schema.reviews import Category, HumanConcern, Severity

FOLDER = Path(__file__).parent
LICENCE = "CC0-1.0"
SEVERITIES: Mapping[str, Severity] = {
    name[0].upper() if name == "major" else name[0]: name for name in get_args(Severity)
}
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
CONCERN = re.compile(
    r"(?P<reviewer>\d)(?P<severity>[Mmo])(?P<category>[DSEFNWRIO])(?P<figure>!?)"
    r" (?:\{(?P<kind>\w+): (?P<quote>.*?)\} )?(?P<text>\S.*)"
)
PLANTED, NOT_PLANTED = 0.95, 0.6
"""Confidence of a concern about a planted flaw, and of another."""


@dataclass(frozen=True)
class Paper:
    """A paper as it is written down: facts, then sections, captions and concerns by name and in order."""

    name: str
    title: str
    facts: Mapping[str, str]
    sections: Mapping[str, str]
    captions: Mapping[str, str]
    concerns: tuple[re.Match[str], ...]


@cache
def demonstration() -> tuple[ReviewExample, ...]:
    """Return all papers by name, each with its split: whole families, and every style in each split."""
    papers = {path.stem: read_paper(path) for path in sorted(FOLDER.glob("*.md")) if path.stem != "README"}
    whole = [_example(_revised(paper, papers)) for paper in papers.values()]
    return split_by_family(whole)


def read_paper(path: Path) -> Paper:
    """Return the paper in a file; LabError, with the line, if a concern is not written as it should be."""
    text = path.read_text(encoding="utf-8")
    head, *parts = re.split(r"^##+ ", text, flags=re.M)
    title, *facts = head.strip().removeprefix("# ").split("\n")
    found = {part.partition("\n")[0].strip(): part.partition("\n")[2].strip() for part in parts}
    levels = re.findall(r"^(##+) (.*)$", text, flags=re.M)
    captions = {name.strip() for marks, name in levels if marks == "###"}
    concerns = found.pop("Concerns").split("\n")
    return Paper(
        name=path.stem,
        title=title,
        facts=dict(fact.split(": ", 1) for fact in facts),
        sections={name: body for name, body in found.items() if name not in captions},
        captions={name: body for name, body in found.items() if name in captions},
        concerns=tuple(_concern(path, line) for line in concerns if line.strip()),
    )


def _concern(path: Path, line: str) -> re.Match[str]:
    match = CONCERN.fullmatch(line.strip())
    if match is None:
        raise LabError(
            f"{path.name}: {line[:60]!r} is no concern; it starts with reviewer, severity and category, such"
            " as `1MS The sample is too small.` README.md beside it has the table."
        )
    return match


def _revised(paper: Paper, papers: Mapping[str, Paper]) -> Paper:
    """Return a later version with everything that it leaves as it was."""
    if "revises" not in paper.facts:
        return paper
    before = papers[paper.facts["revises"]]
    return Paper(
        name=paper.name,
        title=paper.title,
        facts={**before.facts, **paper.facts},
        sections={**before.sections, **paper.sections},
        captions={**before.captions, **paper.captions},
        concerns=paper.concerns,
    )


def _example(paper: Paper) -> ReviewExample:
    identity, source = f"demo:{paper.name}", f"demo-{paper.facts['style']}"
    sections = dict(paper.sections)
    abstract = sections.pop("Abstract")
    concerns = tuple(_human(identity, source, number, each) for number, each in enumerate(paper.concerns, 1))
    flaws = [
        PlantedFlaw(kind=each["kind"], quote=each["quote"], concerns=(concern.concern_id,))
        for each, concern in zip(paper.concerns, concerns, strict=True)
        if each["kind"]
    ]
    return ReviewExample(
        id=identity,
        source=source,
        title=paper.title,
        abstract=abstract,
        sections=tuple(Section(name=name, text=text) for name, text in sections.items()),
        figures=tuple(_figure(name, text) for name, text in paper.captions.items()),
        subjects=(paper.facts["topic"],),
        origin=TextOrigin(format="corpus", file=f"{paper.name}.md"),
        family=paper.facts.get("revises", paper.name),
        editorial_decision="major_revision",
        revision_round=2 if "revises" in paper.facts else 1,
        review_format="journal",
        concerns=concerns,
        synthetic=True,
        licence=LICENCE,
        flaws=tuple(flaws),
    )


def _figure(name: str, text: str) -> Figure:
    figure = caption_of(f"{name}. {text}")
    if figure is None:
        raise LabError(f"{name!r} is no caption's name; write Figure or Table and a number")
    return figure


def _human(identity: str, source: str, number: int, found: re.Match[str]) -> HumanConcern:
    is_planted = found["kind"] is not None
    return HumanConcern(
        concern_id=f"{identity}:R{found['reviewer']}C{number}",
        reviewer_num=int(found["reviewer"]),
        concern_text=found["text"],
        category=CATEGORIES[found["category"]],
        severity=SEVERITIES[found["severity"]],
        author_stance="conceded" if is_planted else "unclear",
        resolution="conceded" if is_planted else "unclear",
        resolution_confidence=PLANTED if is_planted else NOT_PLANTED,
        was_valid=is_planted,
        requires_figure_reading=bool(found["figure"]),
        source=source,
    )
