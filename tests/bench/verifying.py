"""How many answers the verifiers judge per second on one core, and how time grows with length.

    lines      the last two lines and their verdict
    reward     an explanation of 300 characters and the two lines, as a training reward reads them: V1 to V4
    short,     free texts of 290 and 1,165 characters on average, without an answer line
    long
    embedded   what the embedded chain really answered

The reference, measured in the same run, is one pass of `re` over the words of the same texts: the least that
any reader of words must do. Texts are written from templates, all of them different; the seed fixes them.
Times are process time, the median of five rounds, readings and passes in turn.
"""

import json
import random
import re
import statistics
from functools import partial
from pathlib import Path
from typing import Any

import yaml
from rich.table import Table

from evals.questions import pathway_heldout
from evals.schema import Example
from evals.verifiers import Read, verify
from tests.bench._measure import ROOT, SMALL, in_turns, seconds, show

PER_QUESTION = 1 if SMALL else 16
LENGTHS = {"short": 290, "long": 1165}
"""Mean characters per free text."""
RUN = ROOT / "training" / "embedded" / "grpo"
WORD = re.compile(r"[^\W_]+")
GROWTH = tuple(2**power for power in range(3 if SMALL else 11))
"""Kilobytes of the texts that show how time grows."""

TEXTS: dict[str, Any] = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))


def completions(question: Example, mean: int, rng: random.Random) -> list[str]:
    """Return PER_QUESTION different answers to a question, of `mean` characters on average."""
    texts = []
    for serial in range(PER_QUESTION):
        length = mean * rng.uniform(0.55, 1.45)
        side = rng.choice(("UP", "DOWN"))
        slots = {
            "tissue": question.tissue,
            "name": question.cluster.partition("/")[2].removeprefix("HALLMARK_").replace("_", " "),
            "way": rng.choice(TEXTS["ways"][side]),
            "noun": "rise" if side == "UP" else "decline",
            "short": "up" if side == "UP" else "down",
            "other": "down" if side == "UP" else "up",
            "n": rng.randint(2, 9),
            "nes": f"{rng.uniform(1, 2.6) * (1 if side == 'UP' else -1):.2f}",
            "p": f"{rng.uniform(0, 0.05):.4f}",
            "days": rng.randint(12, 60),
            "serial": f"{serial}-{rng.randint(1, 10**6)}",
            "c": rng.randint(11, 99),
        }
        sentences = [rng.choice(TEXTS["openings"])]
        while sum(map(len, sentences)) < length - 60:
            sentences.append(rng.choice(TEXTS["fillers"]))
        text = " ".join(sentences) + "\n" + rng.choice(TEXTS["closings"])
        texts.append(text.format(**slots))
    return texts


def written(mean: int) -> list[tuple[Example, str]]:
    """Return the held-out questions, each with its different answers in free text."""
    rng = random.Random(mean)
    return [(q, text) for q in pathway_heldout() for text in completions(q, mean, rng)]


def lined(explained: int) -> list[tuple[Example, str]]:
    """Return answers that end with the two lines, behind an explanation of so many characters.

    The line says the truth in most of them: a wrong one is judged faster, as nothing else is read.
    """
    rng = random.Random(explained)
    rows = []
    for question, text in written(max(explained, 60)):
        own = question.answer.split("\n")
        said = f"{own[0]} {text.split(chr(10))[0]}"[:explained].replace("\n", " ") + "\n" if explained else ""
        answer = own[-2] if rng.random() < 0.7 else "Answer: up"
        rows.append((question, f"{said}{answer}\nConfidence: {rng.randint(1, 99)}%"))
    return rows


def embedded() -> list[tuple[Example, str]]:
    """Return what the embedded chain really answered, with its questions."""
    reports = [json.loads(path.read_bytes()) for path in sorted(RUN.glob("reports/*.json"))]
    rows = [row for report in reports for row in report["rows"] if row["stage"] in report["stage_checksums"]]
    return [(Example.model_validate(row["example"]), row["completion"]) for row in rows]


def main() -> None:
    """Print answers judged per second by what is read, then time by length."""
    answers: list[tuple[str, list[tuple[Example, str]], Read]] = [
        ("lines", lined(0), "answer"),
        ("reward", lined(300), "answer"),
        *((name, written(mean), "text") for name, mean in LENGTHS.items()),
        ("embedded", embedded(), "auto"),
    ]
    table = Table("answers", "n", "different", "characters", "judged/s", "words only/s", "times")
    for name, pairs, read in answers:
        works = (
            lambda pairs=pairs, read=read: [verify(row, text, read=read) for row, text in pairs],
            lambda pairs=pairs: [WORD.findall(text.lower()) for _, text in pairs],
        )
        turns = in_turns(5, {str(at): partial(seconds, work) for at, work in enumerate(works)})
        judged, split = (len(pairs) / statistics.median(times) for times in turns.values())
        cells = (len(pairs), len({(question.id, text) for question, text in pairs}))
        length = statistics.mean(len(text) for _, text in pairs)
        figures = (f"{length:.0f}", f"{judged:,.0f}", f"{split:,.0f}", f"{split / judged:.1f}")
        table.add_row(name, *map(str, cells), *figures)
    show(table)
    question = pathway_heldout()[0]
    source = " ".join(text for _, text in written(LENGTHS["long"]))[: GROWTH[-1] << 10]
    table, first = Table("kB", "seconds", "times the first, per character"), 0.0
    for size in GROWTH:
        taken = min(seconds(lambda text=source[: size << 10]: verify(question, text)) for _ in range(3))
        first = first or taken
        table.add_row(str(size), f"{taken:.4f}", f"{taken / size / first:.2f}")
    show(table)
