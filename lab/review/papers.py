"""A paper from an upload or a pasted text. Apart, because reading PDF needs a library that the vote arena lacks."""

import re
from pathlib import Path

from evals.errors import UnreadableArticle
from evals.papers import read_article, read_article_file
from evals.papers.corpus import demonstration
from evals.papers.families import split_by_family
from evals.schema import Article
from lab.ui.text import say

SHORTEST_PAPER = 200
"""Characters below which a text is no paper that anything could be said of."""
SEED = 0
"""Of the split, as `assay data review` has it when nothing else is said."""
HEADING = re.compile(r"^#{1,4} \S", re.M)
"""What tells pasted Markdown from plain text."""


def paper_of(file: str | None, text: str | None) -> Article:
    """Return the paper that was uploaded or, without a file, pasted; UnreadableArticle says what is wrong."""
    if file:
        return read_article_file(Path(file))
    pasted = (text or "").strip()
    if not pasted:
        raise UnreadableArticle(say("review.nothing"))
    name = "pasted.md" if HEADING.search(pasted) else "pasted.txt"
    article = read_article(pasted.encode("utf-8", "replace"), name)
    length = len(article.abstract) + sum(len(each.text) for each in article.sections)
    if length < SHORTEST_PAPER:
        raise UnreadableArticle(say("review.short", length=len(pasted), limit=SHORTEST_PAPER))
    return article


def demonstration_paper() -> Article:
    """Return a paper written for demonstration, one of the test split: no reviewer was trained on it."""
    return next(each for each in split_by_family(demonstration(), SEED) if each.split == "test").article
