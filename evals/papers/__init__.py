"""Papers from files: published review benchmarks, JATS XML, Markdown, plain text and PDF.

    article = read_article(Path("paper.pdf").read_bytes(), "paper.pdf")

Every reader gives the same `Article`. What a file says is data; nothing in it is followed or run.
"""

from evals.papers.reading import read_article, read_article_file
from evals.papers.text import Limits

__all__ = ["Limits", "read_article", "read_article_file"]
