"""A reviewer of rules: reporting guidelines by words, reported tests recomputed, means that whole numbers cannot give.

What is asked for is data (`guidelines.toml`). Tests are recomputed as statcheck does (Nuijten et al. 2016, Behav Res
48:1205): a p value is wrong if no value that rounds to the reported statistic gives it, on two sides or one. GRIM
(Brown and Heathers 2017, SPPS 8:363) holds a mean of whole numbers against n. A rule knows no merit: it is a control.
"""

import math
import re
import tomllib
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, Literal

from scipy import stats

from evals.schema import Article
from evals.schema.record import Record
from evals.schema.reviews import Category, Concern, Severity
from evals.validity.grounding import is_said, sentences, topics

GUIDELINES = Path(__file__).with_name("guidelines.toml")
EVERY = "every study"
LONGEST = 200
NUMBER = r"-?\d*\.?\d+"
TEST = re.compile(
    rf"(?<![\w.])(?P<kind>[tFrzZ]|χ\s?[²2]|[xX]2|chi-?squared?)\s?(?:\(\s?(?P<df>[\d.]+)(?:\s?,\s?(?:[Nn]\s?=\s?)?(?P<df2>[\d.]+))?\s?\))?"
    rf"\s?=\s?(?P<value>{NUMBER})\s?[,;]\s?[pP]\s?(?P<sign>[<=>])\s?(?P<p>\d?\.\d+)(?!\s?[x×]\s?10)"
)
MEAN = re.compile(r"\bmeans?\b[^.;()]{0,80}?(?P<mean>\d+\.\d{1,2})\s?\([^)]*?\bn\s?=\s?(?P<n>\d+)", re.I)
WHOLE = re.compile(
    r"\b(?:counts?|number of|whole numbers?|integers?|Likert|items?|scores?|errors?|pups|eggs|colonies|events)\b", re.I
)
P_VALUE = re.compile(r"\b[pP] ?= ?(0?\.\d+)")
CHANGED = re.compile(
    r"\b(?:rose|fell|increased|decreased|reduced|improved|higher|lower|greater|larger|smaller|longer|shorter|fewer|more|less|better|worse|differed|faster|slower)\b"
)
DENIED = re.compile(r"\b(?:not?|nor|neither|un\w+|similar|trend|tended|equal|comparable)\b", re.I)
Kind = Literal["guideline", "statistics"]


class Finding(Record):
    """One thing that a check found: the guideline's item or the statistic, the paper's words, and the concern it makes."""

    kind: Kind
    source: str
    item: str
    quote: str = ""
    concern: Concern


def check(article: Article, named: tuple[str, ...] = ()) -> list[Finding]:
    """Return what a paper lacks by the guidelines that apply to it, or those named, and its impossible statistics."""
    chosen = named or tuple(applying(article))
    return [*_missing(article, {*chosen, EVERY}), *_statistics(article)]


def applying(article: Article) -> list[str]:
    """Return the guidelines whose kind of study a paper reports, by its title, abstract and methods."""
    text = "\n".join((article.title, article.abstract, *(text for name, text in _parts(article) if "method" in name)))
    return [name for name, rule in _data()["guideline"].items() if re.search(rule["applies"], text, re.I | re.S)]


def guidelines() -> tuple[str, ...]:
    """Return the names of the guidelines."""
    return tuple(_data()["guideline"])


def _missing(article: Article, chosen: set[str]) -> Iterator[Finding]:
    parts = _parts(article)
    whole = "\n".join(text for _, text in parts)
    for item in _data()["item"]:
        source = next((name for name in item["guidelines"] if name in chosen), None)
        if source is None or ("needs" in item and not re.search(item["needs"], whole, re.I)):
            continue
        where = item.get("where", "")
        text = "\n".join(text for name, text in parts if re.search(where, name)) if where else whole
        quote = ""
        if "fault" in item:
            spans = (text[a:b] for a, b in sentences(text))
            quote = next((each for each in spans if re.search(item["fault"], each, re.I)), "")
            if not quote:
                continue
        else:
            topic = topics().get(item.get("topic", ""), {"shown": r"(?!)", "denied": ""})
            patterns = "|".join(item[name] for name in ("shown", "more") if name in item)
            if patterns and re.search(patterns, text, re.I):
                continue
            told = (text[a:b] for a, b in sentences(text))
            if any(is_said(topic, each) for each in told):
                continue
        words = item["concern"].format(quote=quote[:LONGEST])
        yield _finding("guideline", source, item["name"], quote, words, item["category"], item["severity"])


def _statistics(article: Article) -> Iterator[Finding]:
    for _, text in _parts(article):
        for a, b in sentences(text):
            sentence = text[a:b]
            for test in TEST.finditer(sentence):
                yield from _recomputed(test, sentence)
            for mean in MEAN.finditer(sentence):
                if WHOLE.search(sentence) and not possible_mean(mean["mean"], int(mean["n"])):
                    words = f"The mean of {mean['mean']} cannot come from whole numbers of {mean['n']} units (GRIM), so mean or n must be wrong: “{sentence[:LONGEST]}”"
                    yield _finding("statistics", "GRIM", mean[0], sentence, words, "statistical_methodology", "major")
            found = P_VALUE.search(sentence)
            if (
                found
                and float(found[1]) > 0.1
                and CHANGED.search(sentence[: found.start()])
                and not DENIED.search(sentence)
            ):
                words = (
                    f"The text claims a difference although p = {found[1]} is not significant: “{sentence[:LONGEST]}”"
                )
                yield _finding("statistics", "p value", found[0], sentence, words, "interpretation", "major")


def _recomputed(test: re.Match[str], sentence: str) -> Iterator[Finding]:
    kind = test["kind"][0].lower() if test["kind"][0] not in "xXχc" else "χ"
    bounds = p_bounds(kind, test["value"], float(test["df"] or 0), float(test["df2"] or 0))
    if bounds is None or agrees(test["sign"], test["p"], bounds):
        return
    low, high = bounds
    crosses = (float(test["p"]) < 0.05) != (high < 0.05) and test["sign"] != ">"
    at = f"{high:.3g}" if math.isclose(low, high, rel_tol=0.05) else f"{low:.3g} to {high:.3g}"
    words = f"The p value is inconsistent with the statistic: {test[0]} should give p = {at}, so one of them must be wrong: “{sentence[:LONGEST]}”"
    yield _finding(
        "statistics", "recomputed", test[0], sentence, words, "statistical_methodology", "major" if crosses else "minor"
    )


def p_bounds(kind: str, value: str, df: float, df2: float = 0) -> tuple[float, float] | None:
    """Return the smallest and largest two-sided p of values that round to the one reported; None without its df.

    >>> [round(p, 3) for p in p_bounds("t", "2.52", 18)]
    [0.021, 0.022]
    """
    tails: dict[str, Callable[[float], float]] = {
        "t": lambda x: 2 * float(stats.t.sf(abs(x), df)),
        "z": lambda x: 2 * float(stats.norm.sf(abs(x))),
        "f": lambda x: float(stats.f.sf(x, df, df2)),
        "χ": lambda x: float(stats.chi2.sf(x, df)),
        "r": lambda x: 2 * float(stats.t.sf(abs(x) * math.sqrt(df / max(1e-9, 1 - x * x)), df)),
    }
    if kind not in tails or (kind != "z" and df <= 0) or (kind == "f" and df2 <= 0):
        return None
    half, x = 0.5 * 10.0 ** -_decimals(value), abs(float(value))
    if kind == "r" and x >= 1:
        return None
    both = tails[kind](max(0.0, x - half)), tails[kind](x + half if kind != "r" else min(0.999999, x + half))
    return min(both), max(both)


def agrees(sign: str, reported: str, bounds: tuple[float, float]) -> bool:
    """Return whether a reported p can be the two-sided p within the bounds, or half of it."""
    half, p = 0.5 * 10.0 ** -_decimals(reported), float(reported)
    for low, high in (bounds, (bounds[0] / 2, bounds[1] / 2)):
        if (
            (sign == "<" and low < p)
            or (sign == ">" and high > p)
            or (sign == "=" and low <= p + half and high >= p - half)
        ):
            return True
    return False


def possible_mean(mean: str, n: int) -> bool:
    """Return whether n whole numbers can have a mean that rounds to this one.

    >>> possible_mean("3.50", 12), possible_mean("3.47", 12)
    (True, False)
    """
    half = 0.5 * 10.0 ** -_decimals(mean) + 1e-9
    nearest = round(float(mean) * n)
    return any(abs(each / n - float(mean)) <= half for each in (nearest - 1, nearest, nearest + 1))


def _finding(
    kind: Kind, source: str, item: str, quote: str, text: str, category: Category, severity: Severity
) -> Finding:
    concern = Concern(text=text, category=category, severity=severity)
    return Finding(kind=kind, source=source, item=item, quote=quote, concern=concern)


def _parts(article: Article) -> list[tuple[str, str]]:
    """Return the texts of a paper with what they are called, in lower case."""
    return [
        ("abstract", f"{article.title}.\n{article.abstract}"),
        *((s.name.lower(), s.text) for s in article.sections),
    ]


def _decimals(number: str) -> int:
    return len(number.partition(".")[2])


@cache
def _data() -> dict[str, Any]:
    return tomllib.loads(GUIDELINES.read_text(encoding="utf-8"))
