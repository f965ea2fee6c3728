"""Control marks of chat templates in a paper: taken apart, so that a paper stays what is read.

A text that holds "<|im_end|>" would otherwise end the question where it stands, and what follows would
be read as a turn of its own: the way in for instructions in a paper.
"""

import re
from collections.abc import Sequence

from evals.schema import Article

COMMON = re.compile(
    r"<\|[A-Za-z0-9_ -]{1,40}\|>|<｜[^<>]{1,40}｜>|\[/?INST\]|<</?SYS>>"
    r"|</?(?:start_of_turn|end_of_turn|bos|eos|s)>"
)
"""Marks of the usual templates, for servers whose tokenizer is not here."""


def without_marks(article: Article, marks: Sequence[str] = ()) -> tuple[Article, int]:
    """Return the paper with every mark taken apart by a blank, and how many there were."""
    pattern = re.compile(
        "|".join([*map(re.escape, sorted(marks, key=len, reverse=True)), COMMON.pattern])
    )
    count = 0

    def apart(text: str) -> str:
        nonlocal count
        text, found = pattern.subn(lambda mark: f"{mark[0][0]} {mark[0][1:]}", text)
        count += found
        return text

    sections = tuple(
        each.model_copy(update={"name": apart(each.name), "text": apart(each.text)})
        for each in article.sections
    )
    changed = {
        "title": apart(article.title),
        "abstract": apart(article.abstract),
        "sections": sections,
    }
    return (article.model_copy(update=changed) if count else article), count
