"""Model outputs damaged in every way seen, and what a person would still find in them.

A concern that the damage did not touch must be found word for word; one with a character lost or doubled
outside its words must be found nearly so; of one that was cut or emptied nothing is asked.
"""

import json
import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from difflib import SequenceMatcher

from evals.review.parse import parse
from evals.schema.reviews import CATEGORIES, SEVERITIES

ALIKE = 0.8
TEXTS = (
    "The sample size of n = 3 per group is too small to support the claim in section 2.1.",
    "No correction for multiple testing is described, although 14,000 genes were compared.",
    'The so-called "rescue" experiment lacks a vector-only control, as in [12] and [3, 4].',
    "The authors' interpretation of Fig. 3 {panel B} overstates the effect: it isn't significant.",
    "Prior work (Smith et al., 2019; Müller, 2020) already reported this; please discuss it.",
    "Antibody clones, lot numbers and dilutions are missing: the assay cannot be repeated.",
    "Please state whether α was 0.05 or 0.01, and whether tests were one- or two-sided.",
    "Mice were not randomised, and the analyst was not blinded to genotype.",
    "The Discussion claims causality, yet only correlations (r = 0.41) are shown.",
    "Why was HEK293 used? The phenotype is neuronal; iPSC-derived neurons would be apt.",
    "The path C:\\data\\raw in the supplement does not exist, so nothing can be reproduced.",
    "Batch effects are not addressed.\nSamples of both sites were processed months apart.",
)


@dataclass
class Output:
    """A model's output with the texts that must be found in it, exactly or nearly."""

    raw: str
    exact: list[str]
    near: list[str]


def rendered(dice: random.Random) -> tuple[list[str], list[str]]:
    """Return texts and the JSON objects that hold them, spaced in one of several ways."""
    texts = dice.sample(TEXTS, dice.randint(2, 8))
    indent = dice.choice([None, None, 1, 2])
    keys = dice.choice([("text", "category", "severity"), ("category", "severity", "text")])
    objects = []
    for text in texts:
        labels = {"text": text, "category": dice.choice(CATEGORIES), "severity": dice.choice(SEVERITIES)}
        ordered = {key: labels[key] for key in keys}
        objects.append(json.dumps(ordered, indent=indent, ensure_ascii=dice.random() < 0.3))
    return texts, objects


def one_lost(dice: random.Random, written: str) -> str:
    """Leave out one character of the grammar."""
    at = dice.choice(_grammar(written))
    return written[:at] + written[at + 1 :]


def one_doubled(dice: random.Random, written: str) -> str:
    """Write one character of the grammar twice."""
    at = dice.choice(_grammar(written))
    return written[:at] + written[at] + written[at:]


def bad_label(dice: random.Random, written: str) -> str:
    """Write a label that is none, unquoted."""
    label = dice.choice(SEVERITIES)
    return written.replace(f'"severity": "{label}"', '"severity": High-ish')


DAMAGES: tuple[Callable[[random.Random, str], str], ...] = (
    *(one_lost, one_lost, one_lost, one_doubled),
    lambda dice, written: written.replace(" the ", "\nthe ", 1).replace("\\n", "\n"),  # a bare newline
    lambda dice, written: written.replace('\\"', '"'),  # bare quotes
    lambda dice, written: repr(json.loads(written)),  # single quotes, as Python writes them
    lambda dice, written: re.sub('"(text|category|severity)":', r"\1:", written),  # bare keys
    bad_label,
)


def _grammar(written: str) -> list[int]:
    return [at for at in range(len(written)) if _is_grammar(written, at)]


def _is_grammar(written: str, at: int) -> bool:
    """Return whether a character is a quote, brace, colon or comma outside the words of the text."""
    if written[at] not in '"{}:,' or written[at - 1 : at] == "\\":
        return False
    if written[at] == '"':
        return True
    depth = sum(1 for i in range(at) if written[i] == '"' and written[i - 1 : i] != "\\")
    return depth % 2 == 0


def wrapped(dice: random.Random, objects: list[str]) -> str:
    """Return the objects as one output, in one of many ways."""
    body = "[" + dice.choice([", ", ",\n", ",\n  "]).join(objects) + "]"
    ways = (
        body,
        f"```json\n{body}\n```",
        f"```\n{body}",
        f"As shown in [12] and [3, 4] (see {{a}}), I note:\n\n{body}\n\nDone [1].",
        f'<think>First [the design], then {{stats}}. ["not this one"]</think>\n{body}',
        f"Let me look at [1]. {{Hm}} I would say so.\n</think>\n\n{body}",
        '{"summary": "A study of mice.", "concerns": ' + body + "}",
        "\n".join(objects),
        ", ".join(objects),
        ", ".join(objects) + "]",
        "[" + ", ".join(f"[{each}]" for each in objects) + "]",
        body[:-1] + ",]",
        "[" + "\n".join(objects) + "]",
        body[:-1],
        "\ufeff" + body,
        body + "\n\n[End of review. Word count: 214]",
    )
    return dice.choice(ways)


def mutated(seed: int) -> Output:
    """Return a damaged output and what must be found in it; the same for the same seed."""
    dice = random.Random(seed)
    texts, objects = rendered(dice)
    exact, near = list(texts), []
    for _ in range(dice.choice([0, 1, 1, 1, 2])):
        at = dice.randrange(len(objects))
        if texts[at] not in exact:
            continue
        exact.remove(texts[at])
        if dice.random() < 0.1:
            objects[at] = json.dumps(json.loads(objects[at]) | {"text": None})
            continue
        objects[at] = dice.choice(DAMAGES)(dice, objects[at])
        near.append(texts[at])
    raw = wrapped(dice, objects)
    if dice.random() >= 0.2:
        return Output(raw, exact, near)
    cut = dice.randrange(len(raw) // 3, len(raw))  # only what stands before the cut is asked for
    kept, at = [], 0
    for text, written in zip(texts, objects, strict=True):
        at = raw.find(written, at)
        at = at + len(written) if at >= 0 else len(raw) + 1
        kept.append(text if at <= cut else None)
    return Output(raw[:cut], [text for text in exact if text in kept], [text for text in near if text in kept])


def lost(output: Output) -> list[str]:
    """Return the texts that a person would find in an output and the parser does not."""
    found = [_plain(concern.text) for concern in parse("x", output.raw).concerns]
    missing = [text for text in output.exact if _plain(text) not in found]
    for text in output.near:
        ratios = [SequenceMatcher(None, _plain(text), each).ratio() for each in found]
        if max(ratios, default=0.0) < ALIKE:
            missing.append(text)
    return missing


def _plain(text: str) -> str:
    return " ".join(text.split())
