"""Papers, human concerns and answers in any number, to time a score with.

    python -m tests.evals.many_papers 1000 many
    time assay review score --reference many/test.jsonl --predictions many/answers.jsonl \
        --retrieve-from many/train.jsonl --encoder embedded --out many/score.json

Concerns and sections are those of the demonstration papers, with words put in the place of others, so that lengths are
those of real texts and no two texts are the same. A paper has 14 human and 17 said concerns, as the published test split
has on average, and there are 4.74 papers to search for each that is scored.
"""

import json
import random
import sys
from pathlib import Path

from evals.papers.collection import read_collection
from evals.review.prompt import sections_of
from evals.schema.reviews import CATEGORIES, SEVERITIES

HUMAN, SAID, SEARCHED = 14, 17, 4.74


def write(n: int, folder: Path) -> None:
    """Write test.jsonl, answers.jsonl and train.jsonl of so many scored papers."""
    known = read_collection("demonstration").examples
    concerns = [each.concern_text for paper in known for each in paper.concerns]
    texts = [[(name, text) for name, text in sections_of(paper.article)] for paper in known]
    dice = random.Random(0)
    words = sorted({word for text in concerns for word in text.split() if word.isalpha() and len(word) > 3})

    def other(text: str) -> str:
        return " ".join(dice.choice(words) if dice.random() < 0.15 else word for word in text.split(" "))

    def paper(name: str) -> dict[str, object]:
        said = [
            {
                "text": other(dice.choice(concerns)),
                "category": dice.choice(CATEGORIES[:-1]),
                "severity": dice.choice(SEVERITIES),
            }
            for _ in range(HUMAN)
        ]
        sections = {each: other(text) for each, text in dice.choice(texts)}
        return {
            "article_id": name,
            "title": other("Effects of a treatment on growth in mice"),
            "sections": sections,
            "concerns": said,
        }

    folder.mkdir(parents=True, exist_ok=True)
    sources = ("f1000", "elife", "plos", "peerj")
    files = {
        "test": [paper(f"{sources[at % 4]}:{at}") for at in range(n)],
        "train": [paper(f"{sources[at % 4]}:train-{at}") for at in range(round(n * SEARCHED))],
    }
    files["answers"] = [
        {"article_id": row["article_id"], "concerns": [other(dice.choice(concerns)) for _ in range(SAID)]}
        for row in files["test"]
    ]
    for name, rows in files.items():
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / f"{name}.jsonl").write_text(lines, encoding="utf-8")


if __name__ == "__main__":
    write(int(sys.argv[1]), Path(sys.argv[2]))
