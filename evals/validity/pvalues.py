"""Recomputed statistics: does a reported p follow from its test statistic and degrees of freedom?

After the rules of statcheck (Nuijten et al. 2016, Behav Res 48:1205): t, F, χ², r, z and Q with a p beside them; every
value that rounds to the reported statistic counts; two-sided, except where the text says one-tailed; F and χ² have no
two sides to halve; p = .000 is an error. Unlike statcheck, p values that the paper calls corrected for several tests are
not called too large, and exact and resampled ones are not recomputed.
"""

import math
import re
import unicodedata
from collections.abc import Callable
from typing import Literal, NamedTuple

from scipy import stats

from evals.papers.places import sentences
from evals.schema import Article
from evals.schema.record import Record
from evals.schema.reviews import Concern

ALPHA = 0.05
LONGEST = 300
"""Characters of a sentence that a concern quotes."""
LOOKALIKES = str.maketrans(
    dict.fromkeys("−–—‐‑‒﹣", "-") | dict.fromkeys("≤⩽", "<") | dict.fromkeys("≥⩾", ">") | {"$": " "}
)
DECIMAL_DOT = re.compile(r"(?<=[\d=<>\s])[·∙⋅‧](?=\d)")
WHOLE = r"\d{1,3}(?:,\d{3})+(?!\d)|\d+"
VALUE = rf"(?:(?:{WHOLE})(?:\.\d+)?|\.\d+)"
DF = rf"(?:{WHOLE})(?:\.\d+)?"
TIMES = r"(?:[x×*·]|\\times)\s*10"
IN_BRACKETS = rf"_?\s?[(\[]\s?(?:d\.?f\.?\s?=\s?)?(?P<KIND>{DF})\s?[)\]]"
BESIDE = r"(?:M[Ss](?:E|e|[Ee]rror)?|S\.?E\.?M?|S\.?D\.?|(?:Cohen['’]s\s)?d|g|(?:partial\s)?[ηω]p?\s*\^?2p?|V|φ)"
TEST = re.compile(
    rf"""(?<![\w.])(?:
      t(?:{IN_BRACKETS.replace("KIND", "t")}|_?\{{?(?P<t_sub>\d{{2,4}}(?:\.\d+)?|[3-9])\}}?)
    | F(?:_?\s*[(\[]\s*(?P<f1>[Il]|\d+(?:\.\d+)?)\s*[,;](?P<gap>\s*)(?P<f2>{DF})\s*[)\]]|_?\{{?(?P<f1_sub>\d{{1,2}}(?:\.\d+)?),\s*(?P<f2_sub>\d+(?:\.\d+)?)\}}?)
    | r{IN_BRACKETS.replace("KIND", "r")}
    | (?P<z>[zZ])
    | Q[\s-]?_?(?:[wWbBtTmMeE][a-z]*)?{IN_BRACKETS.replace("KIND", "q")}
    | (?:[χΧꭓ]|[χΧꭓxXc]\s*\^?2|[Cc]hi[\s_-]?(?:\^?2|squared?)|(?<=[\s(])2)\s*[(\[]\s*(?:d\.?f\.?\s*=\s*)?(?P<chi>{DF})\s*(?:[,;]\s*(?:[Nn]\s*=\s*)?{DF}\s*)?[)\]]
    | [χΧꭓ](?:_(?P<chi_low>\d+)\^2|_?(?P<chi_sub>\d{{2,4}}))
    | (?P<bare>[tr]|[χΧꭓX]\s*\^?2|(?:[Cc]hi|X)-squared?)
    )\s*(?P<sign>[<=>])\s*[^\w\s.,;()<=>]{{0,3}}\s*(?P<value>{VALUE})
    (?(bare)\s*[,;]\s*(?:d\.?f\.?\s*=\s*(?P<df>{DF})|(?P<df_before>{DF})\s*d\.?f\.?))
    (?:\s*[,;]\s*(?:{BESIDE}\s*=\s*-?{VALUE}|9[05]\s*%\s*CI\s*[=:]?\s*[(\[][^()\[\]]{{3,40}}[)\]])){{0,3}}
    \s*(?:[,;(]|,?\s*(?:and|with))?\s*
    (?:(?:[pP]\s*=\s*)?(?P<ns>n\.?s\b)|(?:(?:one|two|1|2)[\s-]?(?:tailed|sided)\s)?[pP](?:\s*-?\s*values?)?\s*(?P<p_sign>[<=>])\s*(?P<p>\d?\.\d+|\d(?=\s*{TIMES}|0\s?\^?\{{?-|[eE]-))(?:(?:\s*{TIMES}|(?<=1)0)\s*\^?\{{?(?P<power>-\s*\d+)|[eE](?P<e>-?\d+))?(?!\.?\d|\s*{TIMES}))
    """,
    re.X,
)
ONE_TAILED = re.compile(
    r"\b(?:one|1|single)[\s-]?(?:tailed|sided)\b|\bnon[\s-]?inferiority\b|\bequivalence\stests?\b|\bTOST\b|(?<![\w-])directional(?:\s(?:test|hypothes[ei]s|prediction)|\s?(?:[.,;)]|$))",
    re.I,
)
DENIED = re.compile(
    r"(?:\b(?:not?|never|nor|without|rather than|instead of|neither)\b|n['’]t\b)(?:[\s-]+(?:us(?:ed?|ing)|run|do|be|made?|make|perform(?:ed)?|report(?:ed)?|appl(?:y|ied)|a|an|any"
    r"|the|as|by|with|on|of|for|to|based|correct(?:ed|ions?|ing)?|adjust(?:ed|ments?|ing)?))*[\s(“\"'-]*$",
    re.I,
)
"""Words right before what a text says that it did not do, "no", "we did not use"; "not significant" before it is none."""
DENIED_AFTER = re.compile(r"^[\w\s-]{0,30}\b(?:were|was|are|is)\s(?:not|never)\b", re.I)
CORRECTED = re.compile(
    r"\bBonferroni|\bHolm\b|\b[ŠS]id[aá]k|\bTukey|\bDunnett|\bScheff|\bHochberg|false discovery|\bFDR\b|\bFWER?\b|family-?\s?wise"
    r"|Greenhouse|Huynh|\bmultiple (?:comparisons?|testing|tests)|(?<![uU]n)(?<![uU]n-)\b(?:corrected|adjusted)(?=\s?(?:[),;.]|p\b|alpha|α"
    r"|post|pairwise|df\b|degrees|significance|threshold|for (?:multiple|the number|violation|spher)))",
    re.I,
)
"""What makes a p larger than its test alone gives it."""
EXACT = re.compile(
    r"\bexact\s(?:p\b|tests?\b|binomial|probabilit|significance|method|Wilcoxon|Mann|McNemar)|\bpermut|\bbootstrap|Monte[\s-]Carlo|\bresampl"
    r"|\brandomi[sz]ation tests?\b|Fisher['’]?s\sexact|Wilcoxon|Mann[\s-]+Whitney|\brank[\s-]?sum|\bsigned[\s-]rank|Kruskal|Spearman|Kendall|Rayleigh"
    r"|non-?parametric",
    re.I,
)
"""Whose p, or whose z, is not that of the distribution of t, F, χ² or the normal one."""
Verdict = Literal["consistent", "error", "decision error", "not judged"]


class PaperFinding(Record):
    """One thing that a check found: by what, the item or the statistic, the paper's words, and the concern it makes."""

    kind: Literal["guideline", "statistics"]
    source: str
    item: str
    quote: str = ""
    concern: Concern


class RecomputedTest(Record):
    """A reported test with the lowest and highest p (0..1) that its rounded statistic allows.

    A decision error crosses p = .05. `is_one_tailed`: the p is right only so, and the text says so; without that,
    `would_be_one_tailed`. `why` says why a test was not judged.
    """

    test: str
    sentence: str
    low: float
    high: float
    verdict: Verdict
    is_one_tailed: bool = False
    would_be_one_tailed: bool = False
    why: str = ""


class Reported(NamedTuple):
    """What a paper reports of a test: the kind (t F r z χ), degrees of freedom, how statistic and p are stated."""

    kind: str
    df: tuple[float, ...]
    sign: str
    value: float
    half: float
    p_sign: str
    p: float
    p_half: float


def recompute(article: Article) -> list[RecomputedTest]:
    """Return the tests of a paper whose p can be recomputed, in their order, each once."""
    parts = [f"{article.title}.\n{article.abstract}", *(each.text for each in article.sections)]
    whole = _plain("\n".join(parts))
    is_one_tailed, is_corrected, exact = (_first_match(each, whole) for each in (ONE_TAILED, CORRECTED, EXACT))
    found: dict[str, RecomputedTest] = {}
    for text in parts:
        plain = _plain(text)
        spans = sentences(text)
        for match in TEST.finditer(plain):
            reported = _read_test(match)
            if reported is None:
                continue
            quote = " ".join(next((text[a:b] for a, b in spans if a <= match.start() < b), match[0]).split())
            why = _first_match(EXACT, _plain(quote)) or (exact if reported.kind == "z" else "")
            made = _finding(
                reported,
                " ".join(text[slice(*match.span())].split()),
                quote,
                why=f"the text speaks of “{why}”" if why else "",
                one_tailed=bool(is_one_tailed),
                may_be_larger=bool(is_corrected),
            )
            if "error" in made.verdict and re.search(r"\d,\d{3}$", match["value"]):
                decimal = reported._replace(value=reported.value / 1000, half=0.0005)
                if agrees(decimal, *p_range(decimal)):
                    made = made.model_copy(update={"verdict": "not judged", "why": "the comma may be one of decimals"})
            found.setdefault(made.test, made)
    return list(found.values())


def finding(test: RecomputedTest) -> PaperFinding:
    """Return the concern that an error makes; a decision error is major."""
    at = f"{test.high:.3g}" if math.isclose(test.low, test.high, rel_tol=0.05) else f"{test.low:.3g} to {test.high:.3g}"
    words = f"The p value is inconsistent with the statistic: {test.test} should give p = {at}, so one of them must be wrong"
    if test.would_be_one_tailed:
        words += ", or the test is one-tailed, which the text does not say"
    if re.search(r"=\s?\d?\.0+$", _plain(test.test)):
        words = f"A p value is never exactly 0, as in {test.test}; it should be stated as p < .001 or exactly"
    concern = Concern(
        text=f"{words}: “{test.sentence[:LONGEST]}”",
        category="statistical_methodology",
        severity="major" if test.verdict == "decision error" else "minor",
    )
    return PaperFinding(kind="statistics", source="recomputed", item=test.test, quote=test.sentence, concern=concern)


def _finding(
    reported: Reported, test: str, sentence: str, why: str, *, one_tailed: bool, may_be_larger: bool
) -> RecomputedTest:
    low, high = p_range(reported)
    verdict: Verdict = "consistent"
    is_halved, side = False, None
    if not agrees(reported, low, high):
        least, most = low / 2, high / 2
        sides = [(least, most), (1 - most, 1 - least)] if reported.kind in "trz" else []
        side = next((each for each in sides if agrees(reported, *each)), None)
        too_large = reported.p_sign != "<" and reported.p > high
        if side and one_tailed:
            (low, high), is_halved = side, True
        elif why:
            verdict = "not judged"
        elif too_large and may_be_larger:
            verdict, why = "not judged", "the text speaks of corrected p values, which are larger"
        else:
            verdict = "decision error" if _crosses(reported) else "error"
    return RecomputedTest(
        test=test,
        sentence=sentence,
        low=low,
        high=high,
        verdict=verdict,
        is_one_tailed=is_halved,
        would_be_one_tailed=side is not None and "error" in verdict,
        why=why if verdict == "not judged" else "",
    )


def p_range(reported: Reported) -> tuple[float, float]:
    """Return the smallest and largest p of statistics that round to the one reported, two-sided for t, r and z.

    >>> reported = Reported("t", (18,), "=", 2.52, 0.005, "=", 0.02, 0.005)
    >>> [round(p, 3) for p in p_range(reported)]
    [0.021, 0.022]
    """
    df = reported.df
    tails: dict[str, Callable[[float], float]] = {
        "t": lambda x: 2 * float(stats.t.sf(x, *df)),
        "z": lambda x: 2 * float(stats.norm.sf(x)),
        "F": lambda x: float(stats.f.sf(x, *df)),
        "χ": lambda x: float(stats.chi2.sf(x, *df)),
        "r": lambda x: 2 * float(stats.t.sf(x * math.sqrt(df[0] / max(1e-12, 1 - x * x)), *df)),
    }
    tail = tails[reported.kind]
    if reported.sign == "<":
        return tail(reported.value), tail(0.0)
    if reported.sign == ">":
        return 0.0, tail(reported.value)
    most = 1.0 if reported.kind == "r" else math.inf
    return tail(min(most, reported.value + reported.half)), tail(max(0.0, reported.value - reported.half))


def agrees(reported: Reported, low: float, high: float) -> bool:
    """Return whether a reported p can be one within a range; p = 0 never can."""
    if reported.p_sign == "=":
        slack = reported.p_half + 1e-12
        return reported.p > 0 and low - slack <= reported.p <= high + slack
    return low <= reported.p if reported.p_sign == "<" else reported.p <= high


def _crosses(reported: Reported) -> bool:
    """Return whether a reported p and the one of the statistic as it stands lie on two sides of .05."""
    low, high = p_range(reported._replace(half=0.0))
    says_significant = reported.p <= ALPHA if reported.p_sign != ">" else None
    says_none = reported.p > ALPHA if reported.p_sign == "=" else reported.p_sign == ">" and reported.p >= ALPHA
    return bool((says_significant and low > ALPHA) or (says_none and high <= ALPHA))


def _read_test(match: re.Match[str]) -> Reported | None:
    """Return a matched test; None where it cannot be read in one way only, or is impossible."""
    named = {name: value for name, value in match.groupdict().items() if value is not None}
    value = _number(named["value"])
    kind, df = _kind(match[0], named)
    if not df and kind != "z":
        return None
    minus = "-" in match[0][match.start("sign") - match.start() : match.start("value") - match.start()]
    p, decimals = (ALPHA, 0) if "ns" in named else (float(named["p"]), _decimals(named["p"]))
    power = int(named.get("power", named.get("e", "0")).replace(" ", ""))
    p *= 10.0**power
    is_possible = (
        p <= 1 and (kind != "r" or value <= 1) and not (minus and kind in "Fχ") and all(each > 0 for each in df)
    )
    if not is_possible:
        return None
    half = 0.5 * 10.0 ** -_decimals(named["value"])
    p_sign = ">" if "ns" in named else named["p_sign"]
    return Reported(kind, df, named["sign"], value, half, p_sign, p, 0.5 * 10.0 ** (power - decimals))


def _kind(text: str, named: dict[str, str]) -> tuple[str, tuple[float, ...]]:
    """Return the kind of a test and its degrees of freedom; none where they can be read in two ways."""
    if "z" in named:
        return "z", ()
    if "f2" in named:
        is_ambiguous = "," in named["f2"] and not named["gap"]
        first = named["f1"].replace("I", "1").replace("l", "1")
        return "F", () if is_ambiguous else (float(first), _number(named["f2"]))
    if "f2_sub" in named:
        return "F", (float(named["f1_sub"]), float(named["f2_sub"]))
    if digits := named.get("chi_sub"):  # the power and the degrees of freedom in one run of digits, in either order
        read = {each for each in (digits[0] == "2" and digits[1:], digits[-1] == "2" and digits[:-1]) if each}
        return "χ", (float(read.pop()),) if len(read) == 1 else ()
    bare = named.get("df") or named.get("df_before")
    kind = "χ" if "chi" in named or "q" in named or text[0] in "χΧꭓXCc" else text[0]
    df = next((named[name] for name in ("t", "t_sub", "r", "q", "chi", "chi_low") if name in named), bare)
    return kind, (_number(df),) if df else ()


def _plain(text: str) -> str:
    """Return a text of the same length with mathematical letters, signs, blanks and decimal points as on a keyboard, and no $ around them."""
    characters = (normal if len(normal := unicodedata.normalize("NFKC", c)) == 1 else c for c in text)
    return DECIMAL_DOT.sub(".", re.sub(r"\s", " ", "".join(characters)).translate(LOOKALIKES))


def _first_match(pattern: re.Pattern[str], text: str) -> str:
    """Return the first words of a text that a pattern finds and that are not denied; "" if there are none."""
    for found in pattern.finditer(text):
        before, after = text[max(0, found.start() - 80) : found.start()], text[found.end() : found.end() + 50]
        if not DENIED.search(before) and not DENIED_AFTER.search(after):
            return found[0].lower()
    return ""


def _number(text: str) -> float:
    return float(text.replace(",", ""))


def _decimals(number: str) -> int:
    return len(number.partition(".")[2])
