"""How many completions the verifiers judge per second on one core, and how time grows with length.

The reference, measured in the same run, is one pass of `re` over the words of the same texts: the
least that any reader of words must do. Texts are written from templates, all of them different; the
seed fixes them. What GRPO samples repeats itself, and the reward judges what repeats in a batch once; so
the batches of the embedded run are timed apart. Times are process time, the median of ROUNDS rounds,
readings and passes in turn.
"""

import json
import random
import re
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow.parquet as pq

from evals.questions import (
    kmp_training,
    lone_missions,
    lone_missions_parted,
    pathway_heldout,
    pathway_training,
)
from evals.schema import Example
from evals.verifiers import verify
from training.data import grpo_row
from training.rewards import text_of, verifier_reward

ROUNDS = 5
PER_QUESTION = 16
LENGTHS = (290, 1165)
"""Mean characters per completion."""
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
    """Return the held-out questions, each with its different answers."""
    rng = random.Random(mean)
    return [(q, text) for q in pathway_heldout() for text in completions(q, mean, rng)]


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


def sampled() -> list[list[tuple[Example, str]]]:
    """Return what each step of the embedded GRPO run sampled, with its questions."""
    trained = (*pathway_training(), *lone_missions_parted(), *lone_missions(), *kmp_training())
    asked = {each.prompt: each for each in trained}
    batches = []
    for path in sorted(RUN.glob("completions/*.parquet")):
        rows = pq.read_table(path, columns=["prompt", "completion"]).to_pylist()
        batches.append(
            [(asked[text_of(row["prompt"])], text_of(row["completion"])) for row in rows]
        )
    return batches


def seconds(work: Callable[[], object]) -> float:
    """Return the process time that `work` takes."""
    started = time.process_time()
    work()
    return time.process_time() - started


def rates(pairs: Sequence[tuple[Example, str]]) -> tuple[float, float]:
    """Return completions per second: verified, and merely split into words."""
    verified: list[float] = []
    split: list[float] = []
    for _ in range(ROUNDS):
        split.append(seconds(lambda: [WORD.findall(text.lower()) for _, text in pairs]))
        verified.append(seconds(lambda: [verify(question, text) for question, text in pairs]))
    return len(pairs) / statistics.median(verified), len(pairs) / statistics.median(split)


def print_batches() -> None:
    """Print how fast the batches of a GRPO run are judged, answer by answer and as rewards."""
    batches = sampled()
    rows = [row for batch in batches for row in batch]
    columns = [[grpo_row(question)["example"] for question, _ in batch] for batch in batches]
    answers = [[text for _, text in batch] for batch in batches]

    def reward() -> None:
        for examples, completions in zip(columns, answers, strict=True):
            verifier_reward(completions=completions, example=examples)

    apart: list[float] = []
    together: list[float] = []
    for _ in range(ROUNDS):
        apart.append(seconds(lambda: [verify(question, text) for question, text in rows]))
        together.append(seconds(reward))
    one, all_of = len(rows) / statistics.median(apart), len(rows) / statistics.median(together)
    different = sum(len({(question.id, text) for question, text in batch}) for batch in batches)
    print(
        f"\nsampled by GRPO: {len(rows):,} answers in {len(batches)} batches, {different:,} of them"
        f" different within theirs\n{one:,.0f}/s one by one, {all_of:,.0f}/s as rewards,"
        f" {all_of / one:.2f} times"
    )


def main() -> None:
    """Print verified completions per second by kind of text, then time by length."""
    tables = [(f"written, mean {mean}", written(mean)) for mean in LENGTHS]
    print("texts                     n   different  characters  verified/s  words only/s  times")
    for name, pairs in [*tables, ("embedded chain", embedded())]:
        length = statistics.mean(len(text) for _, text in pairs)
        different = len({(question.id, text) for question, text in pairs})
        verified, split = rates(pairs)
        print(
            f"{name:20} {len(pairs):6} {different:11} {length:11.0f} {verified:11,.0f}"
            f" {split:13,.0f} {split / verified:6.1f}"
        )
    print_batches()
    question = pathway_heldout()[0]
    source = " ".join(text for _, text in written(LENGTHS[1]))[: GROWTH[-1] << 10]
    print("\n   kB   seconds   times the first, per character")
    first = 0.0
    for size in GROWTH:
        text = source[: size << 10]
        taken = min(seconds(lambda text=text: verify(question, text)) for _ in range(3))
        first = first or taken
        print(f"{size:5} {taken:9.4f} {taken / size / first:8.2f}")
