"""How many answers the verifiers judge per second on one core, and how time grows with length.

    lines      the last two lines and their verdict
    reward     an explanation of 300 characters and the two lines, as a training reward reads them: V1 to V4
    short,     free texts of 290 and 1,165 characters on average, without an answer line
    long
    embedded   what the embedded chain really answered

The reference, measured in the same run, is one pass of `re` over the words of the same texts: the least that
any reader of words must do. Texts are written from templates, all of them different; the seed fixes them.
Times are process time, the median of ROUNDS rounds, readings and passes in turn.
"""

import json
import random
import re
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from evals.questions import pathway_heldout
from evals.schema import Example
from evals.verifiers import Read, verify

ROUNDS = 5
PER_QUESTION = 16
LENGTHS = {"short": 290, "long": 1165}
"""Mean characters per free text."""
RUN = Path(__file__).resolve().parents[2] / "training" / "embedded" / "grpo"
WORD = re.compile(r"[^\W_]+")
GROWTH = tuple(2**power for power in range(11))
"""Kilobytes of the texts that show how time grows."""

OPENINGS = (
    "In mouse {tissue}, the {name} gene set is {way} after spaceflight, significant in {n} of 3 missions.",
    "The {name} gene set goes {short} in spaceflown mouse {tissue}.",
    "Based on the GeneLab data, {name} appears to be {way} in {tissue}.",
    "{name} shows a {noun} in flight (NES = {nes}, padj = {p}).",
    "Gene set enrichment analysis of {tissue} points to {way} {name}.",
    "Direction: **{way}**.",
    "It is likely that {name} is {way} in the {tissue}, but not in liver.",
    "Spaceflight leaves {name} {way}; the effect is modest.",
    "There is no evidence that {name} is {way} in {tissue}.",
    "While liver goes {other}, {tissue} shows {way} {name}.",
    "Missions disagree about {name} in {tissue}: up in RR-{n}, down in RR-6.",
    "- {tissue}: {short}\n- liver: {other}",
    "The consensus across missions is that {name} is {way} (NES {nes}).",
)
FILLERS = (
    "This would be in line with altered nutrient sensing and a shift of the cells towards maintenance.",
    "Microgravity unloads the skeleton and changes the fluid balance of the animals within hours.",
    "The leading edge contains genes of the electron transport chain, chaperones and several kinases.",
    "Ground controls were housed in the same hardware and fed the same diet for {days} days.",
    "Such a response has been described for other organs too, although the sample sizes were small.",
    "Glucocorticoid release after launch and landing is a plausible contributor to these changes.",
    "Expression alone does not show the cause, so protein measurements would be needed.",
    "Lymphocyte numbers, stromal remodelling and cell composition could each explain part of it.",
    "The sequencing depth was {days} million reads per sample, and {n} samples per group were kept.",
    "Radiation dose, strain and age of the mice differ from flight to flight and add to the noise.",
    "Mitochondrial stress and redox signalling are recurrent themes in studies of space biology.",
    "Genes such as Ppara, Cdk1, Stat1 and Col1a1 were examined one by one in run {serial}.",
    "Its targets take part in lipid handling, vesicle transport and the organisation of the matrix.",
    "A follow-up with single-cell data would tell which cell types carry the signal.",
)
CLOSINGS = (
    "Confidence: {c}%",
    "Confidence: 0.{c}",
    "I am {c}% confident in this answer.",
    "**Confidence:** high",
    "Overall confidence is moderate.",
    "",
)
WAYS = {
    "UP": ("upregulated", "activated", "higher", "increased", "elevated"),
    "DOWN": ("downregulated", "suppressed", "lower", "decreased", "reduced"),
}


def completions(question: Example, mean: int, rng: random.Random) -> list[str]:
    """Return PER_QUESTION different answers to a question, of `mean` characters on average."""
    texts = []
    for serial in range(PER_QUESTION):
        length = mean * rng.uniform(0.55, 1.45)
        side = rng.choice(("UP", "DOWN"))
        slots = {
            "tissue": question.tissue,
            "name": question.cluster.partition("/")[2].removeprefix("HALLMARK_").replace("_", " "),
            "way": rng.choice(WAYS[side]),
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
        sentences = [rng.choice(OPENINGS)]
        while sum(map(len, sentences)) < length - 60:
            sentences.append(rng.choice(FILLERS))
        text = " ".join(sentences) + "\n" + rng.choice(CLOSINGS)
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
    rows: list[tuple[Example, str]] = []
    for path in sorted(RUN.glob("reports/*.json")):
        report = json.loads(path.read_text(encoding="utf-8"))
        stages = report["stage_checksums"]
        for row in report["rows"]:
            if row["stage"] in stages:
                rows.append((Example.model_validate(row["example"]), row["completion"]))
    return rows


def seconds(work: Callable[[], object]) -> float:
    """Return the process time that `work` takes."""
    started = time.process_time()
    work()
    return time.process_time() - started


def rates(pairs: Sequence[tuple[Example, str]], read: Read) -> tuple[float, float]:
    """Return answers per second: judged, and merely split into words."""
    judged: list[float] = []
    split: list[float] = []
    for _ in range(ROUNDS):
        split.append(seconds(lambda: [WORD.findall(text.lower()) for _, text in pairs]))
        judged.append(seconds(lambda: [verify(row, text, read=read) for row, text in pairs]))
    return len(pairs) / statistics.median(judged), len(pairs) / statistics.median(split)


def main() -> None:
    """Print answers judged per second by what is read, then time by length."""
    tables: list[tuple[str, list[tuple[Example, str]], Read]] = [
        ("lines", lined(0), "answer"),
        ("reward", lined(300), "answer"),
        *((name, written(mean), "text") for name, mean in LENGTHS.items()),
        ("embedded", embedded(), "auto"),
    ]
    print("answers       n   different  characters   judged/s  words only/s  times")
    for name, pairs, read in tables:
        length = statistics.mean(len(text) for _, text in pairs)
        different = len({(question.id, text) for question, text in pairs})
        judged, split = rates(pairs, read)
        print(
            f"{name:9} {len(pairs):6} {different:9} {length:11.0f} {judged:11,.0f} {split:13,.0f} {split / judged:6.1f}"
        )
    question = pathway_heldout()[0]
    source = " ".join(text for _, text in written(LENGTHS["long"]))[: GROWTH[-1] << 10]
    print("\n   kB   seconds   times the first, per character")
    first = 0.0
    for size in GROWTH:
        text = source[: size << 10]
        taken = min(seconds(lambda text=text: verify(question, text)) for _ in range(3))
        first = first or taken
        print(f"{size:5} {taken:9.4f} {taken / size / first:8.2f}")
