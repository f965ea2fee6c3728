"""Reviewers for tests: a chain on a random tiny model with room for a paper, and short papers."""

from pathlib import Path
from typing import Any

from evals.review.prompt import review_system_prompt
from evals.schema import Article, Section, TextOrigin
from tests.models import tiny_base, tiny_stage

CONTEXT = 4096


def reviewer_chain(folder: Path, prompt: str | None = None) -> Path:
    """Write a base and a review stage under `folder` and return the run folder."""
    base = tiny_base(folder / "model", context=CONTEXT)
    return tiny_stage(folder / "review", base, prompt=prompt or review_system_prompt()).folder


def paper(name: str, text: str = "Mice were treated with a drug.", **changes: object) -> Article:
    """Return a paper with one section."""
    known = {
        "id": f"demo:{name}",
        "source": "demo",
        "title": f"A paper about {name}",
        "abstract": "Mice were treated.",
        "sections": (Section(name="Methods", text=text),),
        "origin": TextOrigin(format="plain"),
    }
    return Article.model_validate(known | changes)


def review_article(article: Article, engine: Any, asking: Any) -> Any:
    """Return the row of a paper that an engine answers, its parts in one batch."""
    from training.reviewer.engine import requests_for, row_of

    asked = requests_for(article, engine.room, asking.budget(engine.room.context))
    return row_of(asked, engine.answer(asked.requests), 1.0)
