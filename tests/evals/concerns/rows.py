"""Small reviews for the tests of scoring: rows, panels, and an encoder whose vectors are known."""

import hashlib
from collections.abc import Sequence

import numpy as np

from evals.review.match import Panel, ReadySimilarity, panel_of
from evals.schema.reports import Matcher
from evals.schema.reviews import PredictionRow, ReferenceRow


def human(text: str, category: str = "other", severity: str = "minor", figure: bool = False) -> dict:
    return {"text": text, "category": category, "severity": severity, "requires_figure_reading": figure}


def reference(name: str, *concerns: dict | str, source: str | None = None) -> ReferenceRow:
    listed = [human(each) if isinstance(each, str) else each for each in concerns]
    row = {"article_id": name, "concerns": listed}
    return ReferenceRow.model_validate(row if source is None else row | {"source": source})


def predicted(name: str, *concerns: dict | str) -> PredictionRow:
    return PredictionRow.model_validate({"article_id": name, "concerns": concerns})


def panel(*pairs: tuple[ReferenceRow, PredictionRow | None]) -> Panel:
    tools = [tool for _, tool in pairs if tool is not None]
    return panel_of([row for row, _ in pairs], tools)


def ready(of: Panel, **matrices: Sequence[Sequence[float]]) -> ReadySimilarity:
    return ReadySimilarity(matrices, of)


def matcher(threshold: float) -> Matcher:
    names = {"encoder": "words", "revision": "1", "threshold_from": "given", "assignment": "optimal"}
    return Matcher.model_validate({**names, "threshold": threshold})


class WordEncoder:
    """Each word a direction of its own: texts are as alike as they share words."""

    name = "words"

    def __init__(self, width: int = 256, revision: str = "1") -> None:
        self.width, self.revision = width, revision
        self.asked: list[str] = []

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        self.asked += texts
        vectors = np.full((len(texts), self.width), 1e-3, dtype=np.float32)
        for row, text in enumerate(texts):
            for word in text.lower().split():
                digest = hashlib.sha256(word.encode()).digest()
                vectors[row, int.from_bytes(digest[:4], "big") % self.width] += 1
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
