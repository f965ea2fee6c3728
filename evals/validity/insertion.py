"""Insertion test: does a reviewer name a planted flaw, and stay silent about the same paper without it?

Every pair is one paper twice, apart by one sentence or number. A list of objections that fits any paper names as many
flaws in the mended version as in the planted one, and so does a copy of the paper: d' is 0 for both.
Kinds of flaw, and the words that name them, are data: `flaws.toml`.
"""

import re
import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import Field

from evals.errors import LabError
from evals.io import sha256_of_text
from evals.papers.places import LITTLE, QUOTED, WORD, sentences
from evals.schema import Article, ReviewExample, Section
from evals.schema.record import Record
from evals.stats.intervals import NORMAL, Floats, Interval, Units, is_point, percentile_interval, resample

FLAWS = Path(__file__).with_name("flaws.toml")
PARTS = {"methods": r"method|material|procedure|patients|participants", "results": r"result|finding"}
PARTS["discussion"] = r"discuss|conclu|comment"
P_VALUE = re.compile(r"\b[pP] ?[<=] ?(0?\.0[0-4]\d*|0?\.05)\b")
NO_EFFECT = re.compile(r"\b(?:not?|nor|neither|un(?:changed|affected))\b", re.I)
LOSSES = re.compile(r"exclu|left out|lost|withdr|dropped|removed|died", re.I)
WRONG_P = ("0.21", "0.34", "0.47")
COPIED = 0.6
"""Share of a concern's words in one run of the paper's from which it is a copy."""
WHOLE = 0.4
"""The same for a whole sentence of the paper, with words of the concern's own around it."""
STEM = 6
"""Letters by which words of a concern and of a planted sentence are compared."""


class Kind(Record):
    """A kind of flaw as `flaws.toml` writes it; the patterns know no case."""

    name: str
    names: str = ""
    topic: str = ""
    good: str = ""
    needs: str = ""
    edits: tuple[tuple[str, str], ...] = ()
    mended: tuple[str, ...] = ()
    planted: tuple[str, ...] = ()
    section: Literal["methods", "results", "discussion"]
    is_local: bool = False
    statement: str


class InsertionPair(Record):
    """One paper with a flaw (`planted`, an id) and without it (`mended`); `sentence` is the flawed one, if there is one.

    `values` fill the pattern that names the flaw: the number that is wrong, and the right one.
    """

    id: str
    kind: str
    paper: str
    family: str
    planted: str
    mended: str
    section: str
    sentence: str
    instead: str
    statement: str
    values: dict[str, str] = Field(default_factory=dict)


Versions = tuple[Article, Article, Section | None, str, str, dict[str, str]]
"""The planted and the mended paper, where they differ, the sentence in the one and in the other, and the values."""


@cache
def kinds() -> dict[str, Kind]:
    """Return the kinds of flaw by name, in the order of the file."""
    rows = (Kind.model_validate({**row, **_fill_patterns(row)}) for row in _data()["kind"])
    return {each.name: each for each in rows}


def make_insertions(
    papers: Sequence[ReviewExample], n: int, seed: int = 0, chosen: Sequence[str] = ()
) -> tuple[list[InsertionPair], list[ReviewExample]]:
    """Return at most `n` pairs, as many of each kind as can be, and both versions of each paper.

    Ids tell neither the kind nor which version is which. LabError for a kind that is none, or where nothing fits.
    """
    if unknown := set(chosen) - set(kinds()):
        raise LabError(f"no kind of flaw {', '.join(sorted(unknown))}; known are {', '.join(kinds())}.")
    generator = np.random.default_rng(seed)
    wanted = [each for name, each in kinds().items() if not chosen or name in chosen]
    queues = [[(kind, papers[at]) for at in generator.permutation(len(papers))] for kind in wanted]
    pairs: list[InsertionPair] = []
    versions: list[ReviewExample] = []
    while len(pairs) < n and any(queues):
        for queue in queues:
            made = None
            while queue and made is None and len(pairs) < n:
                kind, paper = queue.pop()
                made = plant(paper.article, kind, generator)
                if made is None:
                    continue
                names = [f"insertion:{len(pairs):03d}{side}" for side in generator.permutation(["a", "b"])]
                planted, mended, section, sentence, instead, values = made
                pair = InsertionPair(
                    id=names[0][:-1],
                    kind=kind.name,
                    paper=paper.id,
                    family=paper.family or paper.id,
                    planted=names[0],
                    mended=names[1],
                    section=section.name if section else "",
                    sentence=sentence,
                    instead=instead,
                    statement=kind.statement.format(**values) if values else kind.statement,
                    values=values,
                )
                pairs.append(pair)
                both = {names[0]: planted, names[1]: mended}
                versions += [_example(paper, name, both[name]) for name in sorted(names)]
    if not pairs:
        raise LabError("no flaw could be planted: these papers have no Methods, Results or Discussion that are known.")
    return pairs, versions


def plant(article: Article, kind: Kind, generator: np.random.Generator) -> Versions | None:
    """Return a paper with and without a flaw; None where the kind does not fit the paper."""
    if not kind.mended:
        return (_wrong_n if kind.name == "n_mismatch" else _wrong_p)(article, kind, generator)
    whole = paper_text(article)
    if not re.search(kind.needs, whole, re.I | re.S):
        return None
    nouns = (re.findall(rf"\b({_data()[kind]})\b", whole) for kind in ("beings", "things"))
    unit = next((max(sorted(set(found)), key=found.count) for found in nouns if found), _data()["without_unit"])
    at = int(generator.integers(len(kind.mended)))
    fields = {"unit": unit, "code": f"{generator.integers(10**5):05d}", "number": f"{generator.integers(10**7):07d}"}
    flawed = kind.planted[int(generator.integers(len(kind.planted)))]
    if len(kind.planted) == len(kind.mended):
        flawed = kind.planted[at]
    flawed, sound = flawed.format(**fields), kind.mended[at].format(**fields)
    if kind.good and re.search(kind.good, whole, re.I):
        return _without_good_practice(article, kind, flawed)
    if re.search(kind.topic, whole, re.I):
        return None
    number = part_of(article, kind.section)
    if number is None:
        return None
    text = article.sections[number].text
    ends = [end for _, end in sentences(text)]
    cut = ends[int(generator.integers(len(ends)))] if ends else len(text)
    both = [_with(article, number, text[:cut] + (f" {new}" if new else "") + text[cut:]) for new in (flawed, sound)]
    return both[0], both[1], article.sections[number], flawed, sound, {}


def _without_good_practice(article: Article, kind: Kind, flawed: str) -> Versions | None:
    """Return the paper without the sentences that show good practice; None if they carry more than that."""

    def edit(text: str) -> str:
        for pattern, new in kind.edits:
            text = re.sub(pattern, new, text)
        return text

    if re.search(kind.good, edit(f"{article.title}\n{article.abstract}"), re.I):
        return None
    planted, where, gone = list[Section](), None, list[str]()
    for section in article.sections:
        text, kept = edit(section.text), list[str]()
        is_open = not re.search(PARTS["results"], section.name, re.I)
        for start, end in sentences(text):
            if re.search(kind.good, text[start:end], re.I):
                if not is_open or NO_EFFECT.search(text[start:end]):
                    return None  # more than good practice stands there, or that it was not followed
                gone.append(text[start:end].strip())
                where = where or section
                if len(gone) == 1 and flawed:
                    kept.append(flawed)
            else:
                kept.append(text[start:end])
        planted.append(section.model_copy(update={"text": " ".join(kept) if where else text}))
    if where is None or len(gone) > 3:
        return None
    changed = {"title": edit(article.title), "abstract": edit(article.abstract), "sections": tuple(planted)}
    return article.model_copy(update=changed), article, where, flawed, " ".join(gone), {}


def _wrong_n(article: Article, kind: Kind, generator: np.random.Generator) -> Versions | None:
    """Return the paper with another number of units in its results than elsewhere."""
    number = part_of(article, kind.section)
    if number is None:
        return None
    section = article.sections[number]
    counted = re.compile(rf"(?<![\w.,-])(\d{{2,4}}) ((?:[a-z-]+ ){{0,2}}?)({_data()['beings']})\b")
    before = {(each[1], each[3]) for each in counted.finditer(paper_text(article).replace(section.text, ""))}
    here = [each for each in counted.finditer(section.text) if (each[1], each[3]) in before]
    added = sorted(each for each in before if each[1] not in section.text and not LOSSES.search(paper_text(article)))
    right = here[0][1] if here else added[0][0] if added else ""
    if not right:
        return None
    wrong = str(int(right) + max(2, round(int(right) * float(generator.uniform(0.1, 0.25)))))
    if wrong in paper_text(article):
        return None
    values = {"wrong": wrong, "right": right}
    if here:
        start, end = next(span for span in sentences(section.text) if span[0] <= here[0].start() < span[1])
        sound, at = section.text[start:end], here[0].start() - start
        flawed = sound[:at] + wrong + sound[at + len(right) :]
        return _with(article, number, section.text[:start] + flawed + section.text[end:]), article, section, flawed, sound, values  # fmt: skip
    flawed, sound = (f"All {n} {added[0][1]} were analysed." for n in (wrong, right))
    both = [_with(article, number, f"{new} {section.text}") for new in (flawed, sound)]
    return both[0], both[1], section, flawed, sound, values


def _wrong_p(article: Article, kind: Kind, generator: np.random.Generator) -> Versions | None:
    """Return the paper with a p value that does not bear out what its sentence claims."""
    number = part_of(article, kind.section)
    if number is None:
        return None
    section = article.sections[number]
    spans = [span for span in sentences(section.text) if not NO_EFFECT.search(section.text[slice(*span)])]
    found = [(span, hit) for span in spans if (hit := P_VALUE.search(section.text, *span))]
    if not found:
        return None
    (start, end), hit = found[int(generator.integers(len(found)))]
    wrong = WRONG_P[int(generator.integers(len(WRONG_P)))]
    sound = section.text[start:end]
    flawed = f"{section.text[start : hit.start()]}p = {wrong}{section.text[hit.end() : end]}"
    changed = _with(article, number, section.text[:start] + flawed + section.text[end:])
    return changed, article, section, flawed, sound, {"wrong": wrong, "right": hit[1]}


def part_of(article: Article, part: str) -> int | None:
    """Return the place of the first section of a part (methods, results, discussion) that holds text; None without."""
    hits = (at for at, each in enumerate(article.sections) if re.search(PARTS[part], each.name, re.I) and each.text)
    return next(hits, None)


def paper_text(article: Article) -> str:
    """Return title, abstract and sections, one after another."""
    return "\n".join((article.title, article.abstract, *(each.text for each in article.sections)))


def _with(article: Article, number: int, text: str) -> Article:
    changed = [*article.sections]
    changed[number] = changed[number].model_copy(update={"text": text, "pages": ()})
    return article.model_copy(update={"sections": tuple(changed)})


def _example(paper: ReviewExample, name: str, article: Article) -> ReviewExample:
    fields = {key: getattr(article, key) for key in ("title", "abstract", "sections")}
    origin = article.origin.model_copy(update={"file": "", "sha256": ""})
    more = {"id": name, "source": "insertion", "family": name, "concerns": (), "flaws": (), "origin": origin, "doi": ""}
    return paper.model_copy(update={**fields, **more})


@cache
def _data() -> dict[str, Any]:
    return tomllib.loads(FLAWS.read_text(encoding="utf-8"))


def _fill_patterns(row: Mapping[str, Any]) -> dict[str, str]:
    """Return the patterns of a kind that name the nouns of studies, with the nouns filled in."""
    nouns = {f"{{{name}}}": rf"\b(?:{_data()[name]})\b" for name in ("beings", "things")} | {"{{": "{", "}}": "}"}
    patterns = {name: row.get(name, "").replace("{units}", "{beings}|{things}") for name in ("needs", "names", "topic")}
    for mark, text in nouns.items():
        patterns = {name: pattern.replace(mark, text) for name, pattern in patterns.items()}
    return patterns


# ---- what a reviewer says about the pairs ---------------------------------------------------------


class Detected(Record):
    """How often a flaw was named where it is (`detection`) and where it is not (`false_alarm`), and d' of both.

    d' is z(detection) - z(false alarm), half a pair added to both outcomes (log-linear, Hautus 1995).
    """

    pairs: int
    papers: int
    hits: int
    false_alarms: int
    detection: float
    false_alarm: float
    d_prime: float
    intervals: dict[str, Interval | None]


class PairOutcome(Record):
    """The concerns that name a pair's flaw in either version."""

    id: str
    kind: str
    paper: str
    hits: tuple[str, ...]
    false_alarms: tuple[str, ...]


class InsertionScore(Record):
    """The insertion test of one system: all pairs together, and each kind of flaw."""

    system: str
    pairs_sha256: str
    unanswered: int
    seed: int
    draws: int
    all: Detected
    kinds: dict[str, Detected]
    outcomes: tuple[PairOutcome, ...]


def names_flaw(text: str, pair: InsertionPair) -> bool:
    """Return whether a concern objects to the flaw of a pair, by the words of its kind; quoted words only say where."""
    kind, own = kinds()[pair.kind], QUOTED.sub(" ", text)
    pattern = kind.names or kind.topic
    for name, value in pair.values.items():
        pattern = pattern.replace(f"{{{name}}}", re.escape(value))
    if not (re.search(pattern, own, re.I) and re.search(_data()["objection"], own)):
        return False
    return not kind.is_local or len(_stems(text) & _stems(pair.sentence)) >= 2


def score_pairs(
    pairs: Sequence[InsertionPair],
    versions: Mapping[str, Article],
    said: Mapping[str, Sequence[str]],
    system: str = "",
    draws: int = 1000,
    seed: int = 0,
) -> InsertionScore:
    """Return the insertion test of what a system said, by the id of a version; pairs without both are left out.

    A concern that is nothing but a sentence of the paper objects to nothing, so it names no flaw. Intervals are from
    draws of papers, the versions of a pair and of a manuscript together. LabError if no pair was answered.
    """
    answered = [pair for pair in pairs if pair.planted in said and pair.mended in said]
    if not answered:
        raise LabError(
            f"no pair has an answer to both versions; the rows are to have ids such as {pairs[0].planted!r} and"
            f" {pairs[0].mended!r}: review the papers.jsonl of the test."
        )

    def naming(pair: InsertionPair, version: str) -> tuple[str, ...]:
        found = (each for each in said[version] if names_flaw(each, pair))
        return tuple(each for each in found if not is_copied(QUOTED.sub(" ", each), versions[version]))

    outcomes = tuple(
        PairOutcome(
            id=pair.id,
            kind=pair.kind,
            paper=pair.paper,
            hits=naming(pair, pair.planted),
            false_alarms=naming(pair, pair.mended),
        )
        for pair in answered
    )
    families = [pair.family for pair in answered]

    def detect(chosen: Sequence[int]) -> Detected:
        hit, alarm = (
            np.array([bool(getattr(outcomes[at], side)) for at in chosen], float) for side in ("hits", "false_alarms")
        )

        def measure(weights: Floats) -> dict[str, Floats]:
            n = weights.sum(axis=1)
            hits, alarms = weights @ hit, weights @ alarm
            z = np.vectorize(NORMAL.inv_cdf, otypes=[float])
            rates = {"detection": hits / n, "false_alarm": alarms / n}
            return {**rates, "d_prime": z((hits + 0.5) / (n + 1)) - z((alarms + 0.5) / (n + 1))}

        units = Units.of([families[at] for at in chosen])
        values = {name: float(each[0]) for name, each in measure(units.whole()).items()}
        spans = {name: percentile_interval(each) for name, each in resample(measure, units, draws, seed).items()}
        spans = {name: None if span is None or is_point(span) else span for name, span in spans.items()}
        counts = {"pairs": len(chosen), "papers": units.n, "hits": int(hit.sum()), "false_alarms": int(alarm.sum())}
        return Detected(**counts, **values, intervals=spans)

    by_kind = {name: [at for at, pair in enumerate(answered) if pair.kind == name] for name in kinds()}
    return InsertionScore(
        system=system,
        pairs_sha256=sha256_of_text("\n".join(pair.model_dump_json() for pair in pairs)),
        unanswered=len(pairs) - len(answered),
        seed=seed,
        draws=draws,
        all=detect(range(len(answered))),
        kinds={name: detect(chosen) for name, chosen in by_kind.items() if chosen},
        outcomes=outcomes,
    )


def _stems(text: str) -> set[str]:
    return {word[:STEM] for each in WORD.finditer(text) if (word := each[0].lower()) not in LITTLE}


def is_copied(concern: str, article: Article) -> bool:
    """Return whether most of a concern's words stand in the paper in one run: a copy objects to nothing."""
    words = _words(concern)
    longest = max(3, round(COPIED * len(words)))
    runs = {f" {' '.join(words[at : at + longest])} " for at in range(len(words) - longest + 1)}
    texts, whole = _flat(article)
    said = f" {' '.join(words)} "
    return any(run in text for run in runs for text in texts) or any(
        n >= max(3, WHOLE * len(words)) and sentence in said for sentence, n in whole
    )


@cache
def _flat(article: Article) -> tuple[tuple[str, ...], tuple[tuple[str, int], ...]]:
    """Return the texts of a paper, and its sentences with how many words they have, as words between blanks."""
    texts = (article.title, article.abstract, *(each.text for each in article.sections))
    cut = [_words(text[a:b]) for text in texts for a, b in sentences(text)]
    return tuple(f" {' '.join(_words(text))} " for text in texts), tuple(
        (f" {' '.join(each)} ", len(each)) for each in cut
    )


def _words(text: str) -> list[str]:
    return [each[0].lower() for each in WORD.finditer(text)]
