"""Fresh outputs of models in every form seen, with planted concerns: what is lost of them, and what is invented.

python -m tests.evals.concerns.outputs 2000 7        so many outputs from this seed, counted by family
"""

import json
import random
import re
import sys
from collections import Counter
from collections.abc import Callable

from rich.console import Console

from evals.review.parse import parse
from evals.schema.reviews import CATEGORIES, SEVERITIES

WHAT = ("sample size", "control arm", "randomisation", "statistical test", "antibody", "cell line", "blinding")
MORE = ("dose", "follow-up", "registration", "outcome measure", "baseline", "analysis plan", "power calculation")
WORDED = (
    "The {a} of experiment {n} is too small to support the claim about the {b}.",
    "No correction for multiple testing is described, although {n} hypotheses on the {a} were tested.",
    'The so-called "{a}" in Fig. {k} lacks a vehicle control; see also [{k}] and the {b}.',
    "Why was the {a} changed after {n} animals? This confounds the {b}.",
    "The authors' reading of the {a} {{panel {k}}} overstates the effect on the {b} (r = 0.{n}).",
    "Prior work (Müller et al., 20{k}; Smith, 2019) already reported the {a}, please discuss it.",
    "It is unclear whether the {a} was fixed before the {b}: {n} of 40 mice are unaccounted for.",
    "The {a} is not described\\u2014neither in Methods nor in supplement {n}.",
)
IDEOGRAPHS = (
    "第{n}组的样本量太小，无法支持关于{k}的结论。",
    "没有对{n}个假设进行多重检验校正，表{k}需要补充。",
    "第{n}節の対照群の説明が不足しており、図{k}は再現できない。",
)
Item = dict[str, str]
Written = tuple[str, list[str]]


def items(dice: random.Random, worded: tuple[str, ...] = WORDED) -> list[Item]:
    """Return two to nine labelled concerns, all different."""
    found = {}
    for _ in range(dice.randint(2, 9)):
        fill = {"a": dice.choice(WHAT), "b": dice.choice(MORE), "n": dice.randint(11, 999), "k": dice.randint(10, 23)}
        text = dice.choice(worded).format(**fill).replace("\\u2014", "—")
        found[text] = {"text": text, "category": dice.choice(CATEGORIES[:-1]), "severity": dice.choice(SEVERITIES)}
    return list(found.values())


def dumped(found: object, dice: random.Random) -> str:
    return json.dumps(found, ensure_ascii=dice.random() < 0.3, indent=dice.choice((None, None, 1, 2)))


def texts(found: list[Item]) -> list[str]:
    return [each["text"] for each in found]


def wrapped(before: str, after: str = "") -> Callable[[random.Random], Written]:
    """Return a family: an array of objects between two texts."""
    return lambda dice: (before + dumped(found := items(dice), dice) + after, texts(found))


def listed(
    line: str, joint: str = "\n", head: str = "", worded: tuple[str, ...] = WORDED
) -> Callable[[random.Random], Written]:
    """Return a family: a line for each concern."""

    def made(dice: random.Random) -> Written:
        found = items(dice, worded)
        rows = [line.format(i=i, **each, C=each["category"].replace("_", " ")) for i, each in enumerate(found, start=1)]
        return head + joint.join(rows), texts(found)

    return made


def written(write: Callable[[list[Item]], str], worded: tuple[str, ...] = WORDED) -> Callable[[random.Random], Written]:
    """Return a family: what a function makes of the concerns."""
    return lambda dice: (write(found := items(dice, worded)), texts(found))


def cut(dice: random.Random) -> Written:
    """Return an array that ends anywhere: whole texts must be there, and no debris of keys."""
    found = items(dice)
    raw = dumped(found, dice)
    raw = raw[: dice.randrange(len(raw) // 3, len(raw))]
    plain = raw if "\\u" not in raw else re.sub(r"\\u([0-9a-f]{4})", lambda m: chr(int(m[1], 16)), raw)
    return raw, [text for text in texts(found) if json.dumps(text, ensure_ascii=False) in plain]


def damaged(dice: random.Random) -> Written:
    """Return objects with something else than a comma between them."""
    found = items(dice)
    return "[" + dice.choice((" ", "\n", ", ,", ";")).join(json.dumps(each) for each in found) + dice.choice(
        "] "
    ).strip(), texts(found)


def headed(dice: random.Random) -> Written:
    """Return sections by severity."""
    found = items(dice)
    parts = [
        f"## {each.title()} concerns\n" + "\n".join(f"- {one['text']}" for one in found if one["severity"] == each)
        for each in SEVERITIES
    ]
    return "\n\n".join(parts), texts(found)


def nested(dice: random.Random) -> Written:
    """Return bullets below bullets that only name a subject."""
    found = items(dice)
    rows = [
        f"{'' if at % 3 else f'- {dice.choice(WHAT).title()}' + chr(10)}  - {each['text']}"
        for at, each in enumerate(found)
    ]
    return "\n".join(rows), texts(found)


def with_detail(dice: random.Random) -> Written:
    found = items(dice)
    rows = [
        {"issue": each["category"].replace("_", " ").title(), "detail": each["text"], "severity": each["severity"]}
        for each in found
    ]
    return json.dumps(rows), [f"{row['issue']}: {row['detail']}" for row in rows]


def beside_none(dice: random.Random) -> Written:
    """Return a list with praise, a refusal and a heading among the concerns."""
    found = items(dice)
    others = (
        "The manuscript is clearly written.",
        "I do not have access to the supplementary files.",
        "Materials and Methods",
    )
    rows = texts(found)
    for each in others:
        rows.insert(dice.randrange(len(rows) + 1), each)
    return "\n".join(f"{at}. {row}" for at, row in enumerate(rows, start=1)), texts(found)


def none(dice: random.Random) -> Written:
    said = (
        "There are no {} concerns with this manuscript.",
        "I have read the paper and found no {} issues.",
        "No {} problems were identified.",
    )
    return dice.choice((*said, "[]", "null", "{{}}", '{{"concerns": []}}')).format(
        dice.choice(("major", "serious", "further"))
    ), []


def latex(dice: random.Random) -> Written:
    found = [
        each | {"text": f"The {name} of model {at}{dice.randint(10, 99)} is not justified."}
        for at, (each, name) in enumerate(
            zip(
                items(dice),
                (
                    r"\beta term",
                    r"\tau = \frac{1}{2}",
                    r"\rho (95 % CI)",
                    r"\nu and \theta",
                    r"\alpha level",
                    r"\times 10",
                ),
                strict=False,
            )
        )
    ]
    return json.dumps(found).replace("\\\\", "\\"), texts(found)


DRAFT = "First, [1] the design; perhaps:\n1. The draft objection is not meant at all.\n2. Another draft that is not meant.\n"
FAMILIES: dict[str, Callable[[random.Random], Written]] = {
    "array": wrapped(""),
    "fence": wrapped("Here you are:\n```json\n", "\n```\nI hope this helps [1]."),
    "fence left open": wrapped("```json\n"),
    "wrapper": wrapped('{"summary": "A study of mice.", "concerns": ', "}"),
    "think": wrapped(f"<think>{DRAFT}</think>\n"),
    "think not opened": wrapped(f"{DRAFT}</think>\n"),
    "Magistral": wrapped(f"[THINK]{DRAFT}[/THINK]"),
    "Seed": wrapped(f"<seed:think>{DRAFT}</seed:think>"),
    "gpt-oss": wrapped(f"<|channel|>analysis<|message|>{DRAFT}<|end|><|start|>assistant<|channel|>final<|message|>"),
    "Kimi": wrapped(f"◁think▷{DRAFT}◁/think▷"),
    "Command A": wrapped(f"<|START_THINKING|>{DRAFT}<|END_THINKING|><|START_RESPONSE|>", "<|END_RESPONSE|>"),
    "OpenThinker": wrapped(
        f"<|begin_of_thought|>{DRAFT}<|end_of_thought|>\n<|begin_of_solution|>", "<|end_of_solution|>"
    ),
    "JSON lines": written(lambda found: "\n".join(map(json.dumps, found))),
    "Python": written(repr),
    "bare keys": written(lambda found: re.sub('"(text|category|severity)":', r"\1:", json.dumps(found))),
    "strings": written(lambda found: json.dumps(texts(found))),
    "twice encoded": written(lambda found: json.dumps(json.dumps(found))),
    "other keys": written(
        lambda found: json.dumps(
            [{"comment": each["text"], "type": each["category"], "level": each["severity"]} for each in found]
        )
    ),
    "issue and detail": with_detail,
    "separators lost": damaged,
    "cut": cut,
    "numbered": listed("{i}. {text}", head="I have these concerns:\n\n"),
    "numbered, labels before": listed("{i}. **{severity}** ({category}): {text}"),
    "numbered, labels in bold": listed("{i}. **{C} ({severity}):** {text}", "\n\n"),
    "labels behind": listed("{i}) {text} [{category}, {severity}]"),
    "blocks": listed("Concern: {text}\nCategory: {category}\nSeverity: {severity}", "\n---\n"),
    "bold blocks": listed("**Concern {i}:** {text}\n**Category:** {category}\n**Severity:** {severity}", "\n\n"),
    "labels as bullets": listed("{i}. {text}\n   - **Category**: {category}\n   - **Severity**: {severity}"),
    "headings": headed,
    "nested bullets": nested,
    "table": listed(
        "| {i} | {text} | {category} | {severity} |", head="| # | concern | category | severity |\n|---|---|---|---|\n"
    ),
    "ideographs, numbered": listed("{i}. {text}", head="审稿意见：\n", worded=IDEOGRAPHS),
    "ideographs, full width": listed("{i}、{text}", worded=IDEOGRAPHS),
    "ideographs, JSON": written(json.dumps, IDEOGRAPHS),
    "praise among them": beside_none,
    "LaTeX": latex,
    "none": none,
}


def output(seed: int) -> tuple[str, str, list[str]]:
    """Return the family, the output and the planted texts of a seed."""
    dice = random.Random(seed)
    family = list(FAMILIES)[seed % len(FAMILIES)]
    return family, *FAMILIES[family](dice)


def read(seed: int) -> tuple[list[str], list[str]]:
    """Return the planted texts that are lost, and the concerns that nobody wrote."""
    family, raw, planted = output(seed)
    found = [_plain(each.text) for each in parse("x", raw).concerns]
    wanted = {_plain(text) for text in planted}
    lost = [text for text in wanted if text not in found]
    others = [text for text in found if text not in wanted]
    if family == "cut":  # the one that the output ends in may be there as far as it goes
        others = [
            each for each in others if _plain(raw).find(json.dumps(each)[1:-3]) < 0 and _plain(raw).find(each[:-2]) < 0
        ]
    return lost, others


def _plain(text: str) -> str:
    return " ".join(text.split())


def main(n: int = 2_000, seed: int = 0) -> None:
    """Print what is lost and invented in each family."""
    show = Console(width=200, markup=False, highlight=False).print
    lost, invented, planted = Counter[str](), Counter[str](), Counter[str]()
    for each in range(seed, seed + n):
        family, raw, texts_of = output(each)
        gone, others = read(each)
        planted[family] += len(texts_of)
        lost[family] += len(gone)
        invented[family] += len(others)
        if (gone or others) and lost[family] + invented[family] <= 3:
            show(family, each, "LOST", gone, "INVENTED", others, "IN", raw[:600], sep="\n  ")
    show(
        f"{n} outputs of {len(planted)} families, {planted.total()} items planted: {lost.total()} lost, {invented.total()} invented"
    )
    for family in planted:
        if lost[family] or invented[family]:
            show(f"  {family}: {lost[family]} lost, {invented[family]} invented of {planted[family]}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
