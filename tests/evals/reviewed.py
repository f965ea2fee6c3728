"""Papers and a tokenizer for tests of what prepares reviews: words and marks are its tokens."""

import re
from collections.abc import Mapping, Sequence

from evals.schema import ReviewExample, Section, TextOrigin
from evals.schema.articles import PaperRow
from evals.schema.reviews import HumanConcern

WORDS = ("cells", "mice", "were", "treated", "with", "drug", "and", "the", "controls", "grew", "on", "plates")


class WordCounter:
    """A tokenizer whose tokens are words and single marks; a turn costs four more."""

    name = "words"

    def ends(self, text: str) -> Sequence[int]:
        return [found.end() for found in re.finditer(r"\w+|[^\w\s]", text)]

    def chat(self, messages: Sequence[Mapping[str, str]]) -> int:
        return sum(4 + len(self.ends(each["content"])) for each in messages)


def prose(words: int, mark: str = "") -> str:
    """Return sentences of ten words, `words` in all; each begins with its number."""
    texts = []
    for n in range(words // 10):
        rest = " ".join(WORDS[(n + k) % len(WORDS)] for k in range(8))
        texts.append(f"{mark or 'In'}{n} group {rest}.")
    return " ".join(texts)


def concern(text, number=1, **changes):
    """Return a human concern."""
    known = {"category": "design_flaw", "severity": "major", "resolution_confidence": 0.9, **changes}
    return HumanConcern.model_validate({"concern_id": f"c{number}", "reviewer_num": 1, "concern_text": text, **known})


def example(sections, concerns=(), **changes):
    """Return a reviewed paper with these sections (name, text)."""
    known = {"id": "s:1", "source": "s", "family": "1", "split": "train", "origin": TextOrigin(format="split")}
    known |= {"title": "A paper about mice", "abstract": "Mice were treated.", "concerns": tuple(concerns), **changes}
    return ReviewExample.model_validate({"sections": tuple(Section(name=n, text=t) for n, t in sections), **known})


def paper(name: str, text: str = "", concerns: Sequence[str] = (), family: str = "", **more: object) -> PaperRow:
    """Return a paper as controls know it."""
    said = [{"text": each} for each in concerns]
    return PaperRow.model_validate({"article_id": name, "abstract": text, "concerns": said, "family": family, **more})
