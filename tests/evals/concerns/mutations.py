"""Model outputs damaged in every way seen, and what a person would still find in them.

    python -m tests.evals.concerns.mutations 10000

prints how many concerns were asked for, found and lost, by kind of damage. A concern that the damage
did not touch must be found word for word; one with a character lost or doubled outside its words must
be found nearly so; of one that was cut or emptied nothing is asked.
"""

import json
import random
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
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
    near: list[str] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)


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
    places = [i for i, mark in enumerate(written) if _is_grammar(written, i)]
    at = dice.choice(places)
    return written[:at] + written[at + 1 :]


def one_doubled(dice: random.Random, written: str) -> str:
    """Write one character of the grammar twice."""
    at = dice.choice([i for i in range(len(written)) if _is_grammar(written, i)])
    return written[:at] + written[at] + written[at:]


def bare_newline(dice: random.Random, written: str) -> str:
    """Break a line inside a text without escaping it."""
    return written.replace(" the ", "\nthe ", 1).replace("\\n", "\n")


def bare_quotes(dice: random.Random, written: str) -> str:
    """Leave the quotes inside a text unescaped."""
    return written.replace('\\"', '"')


def other_quotes(dice: random.Random, written: str) -> str:
    """Write single quotes as Python does."""
    return repr(json.loads(written))


def bare_keys(dice: random.Random, written: str) -> str:
    """Leave the quotes of the keys out."""
    for key in ("text", "category", "severity"):
        written = written.replace(f'"{key}":', f"{key}:")
    return written


def bad_label(dice: random.Random, written: str) -> str:
    """Write a label that is none, unquoted."""
    label = dice.choice(SEVERITIES)
    return written.replace(f'"severity": "{label}"', '"severity": High-ish')


DAMAGES: tuple[Callable[[random.Random, str], str], ...] = (
    *(one_lost, one_lost, one_lost, one_doubled, bare_newline, bare_quotes),
    *(other_quotes, bare_keys, bad_label),
)


def _is_grammar(written: str, at: int) -> bool:
    """Return whether a character is a quote, brace, colon or comma outside the words of the text."""
    if written[at] not in '"{}:,' or written[at - 1 : at] == "\\":
        return False
    if written[at] == '"':
        return True
    depth = sum(1 for i in range(at) if written[i] == '"' and written[i - 1 : i] != "\\")
    return depth % 2 == 0


def emptied(written: str) -> str:
    """Return an object whose text is null."""
    return json.dumps(json.loads(written) | {"text": None})


def wrapped(dice: random.Random, objects: list[str]) -> tuple[str, str]:
    """Return the objects as one output, and how it was written."""
    body = "[" + dice.choice([", ", ",\n", ",\n  "]).join(objects) + "]"
    ways = {
        "plain": body,
        "fenced": f"```json\n{body}\n```",
        "unclosed fence": f"```\n{body}",
        "prose with citations": f"As shown in [12] and [3, 4] (see {{a}}), I note:\n\n{body}\n\nDone [1].",
        "reasoning": f'<think>First [the design], then {{stats}}. ["not this one"]</think>\n{body}',
        "closed reasoning": f"Let me look at [1]. {{Hm}} I would say so.\n</think>\n\n{body}",
        "wrapper": '{"summary": "A study of mice.", "concerns": ' + body + "}",
        "lines": "\n".join(objects),
        "bare": ", ".join(objects),
        "bare, closed": ", ".join(objects) + "]",
        "nested": "[" + ", ".join(f"[{each}]" for each in objects) + "]",
        "trailing comma": body[:-1] + ",]",
        "no commas": "[" + "\n".join(objects) + "]",
        "not closed": body[:-1],
        "byte order mark": "\ufeff" + body,
        "with a note": body + "\n\n[End of review. Word count: 214]",
    }
    kind = dice.choice(list(ways))
    return ways[kind], kind


def mutated(seed: int) -> Output:
    """Return a damaged output and what must be found in it; the same for the same seed."""
    dice = random.Random(seed)
    texts, objects = rendered(dice)
    exact, near, kinds = list(texts), [], []
    for _ in range(dice.choice([0, 1, 1, 1, 2])):
        at = dice.randrange(len(objects))
        if texts[at] not in exact:
            continue
        exact.remove(texts[at])
        if dice.random() < 0.1:
            objects[at] = emptied(objects[at])
            kinds.append("emptied")
            continue
        damage = dice.choice(DAMAGES)
        objects[at] = damage(dice, objects[at])
        near.append(texts[at])
        kinds.append(damage.__name__)
    raw, way = wrapped(dice, objects)
    kinds.append(way)
    if dice.random() < 0.2:
        return _truncated(dice, raw, Output(raw, exact, near, kinds), objects, texts)
    return Output(raw, exact, near, kinds)


def _truncated(dice: random.Random, raw: str, whole: Output, objects: list[str], texts: list[str]) -> Output:
    """Return an output that stops early; only what stands before the cut is asked for."""
    cut = dice.randrange(len(raw) // 3, len(raw))
    kept, at = [], 0
    for text, written in zip(texts, objects, strict=True):
        at = raw.find(written, at)
        at = at + len(written) if at >= 0 else len(raw) + 1
        kept.append(text if at <= cut else None)
    exact = [text for text in whole.exact if text in kept]
    near = [text for text in whole.near if text in kept]
    return Output(raw[:cut], exact, near, [*whole.kinds, "truncated"])


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


def main(n: int) -> int:
    """Parse many damaged outputs; print what was lost, and return 1 if anything was."""
    asked, missing, slowest = 0, 0, 0.0
    by_kind = Counter[str]()
    for output in map(mutated, range(n)):
        begun = time.process_time()
        gone = lost(output)
        slowest = max(slowest, time.process_time() - begun)
        asked += len(output.exact) + len(output.near)
        missing += len(gone)
        by_kind.update(output.kinds if gone else [])
        if gone:
            sys.stdout.write(f"{output.kinds}: lost {gone}\n{output.raw}\n\n")
    sys.stdout.write(
        f"{n} outputs, {asked} concerns to find, {missing} lost in {dict(by_kind)}; slowest {slowest:.3f} s\n"
    )
    return int(missing > 0)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
