"""Concerns as models write them: labels repaired, counts and grades before a text taken off, rows cleaned.

A row is cleaned without a loss that is not told. The order is: labels repaired, blanks out, repeats out (the first is
kept), the first `cap` kept. Two concerns repeat one another if their texts are equal but for case and runs of blanks.

Beside rows stands the record of who gave the answers, and how: NAME.run.json.
"""

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, cast

from pydantic import ValidationError

from evals.errors import BadConfig, LabError
from evals.io import write_whole
from evals.schema.articles import ReviewRun
from evals.schema.reviews import (
    CATEGORIES,
    SEVERITIES,
    UNKNOWN,
    Category,
    MadeBy,
    PredictionRow,
    Severity,
    Unknown,
    WrittenConcern,
)

LABELS: dict[str, dict[str, Any]] = tomllib.loads(Path(__file__).with_name("labels.toml").read_text(encoding="utf-8"))
TEXT_KEYS, CATEGORY_KEYS, SEVERITY_KEYS, DETAIL_KEYS, PASSED_OVER = (
    tuple(LABELS["keys"][name]) for name in ("text", "category", "severity", "detail", "passed_over")
)

PATTERNS = {name: re.compile(pattern, re.IGNORECASE) for name, pattern in LABELS["patterns"].items()}
_IDEOGRAPH = re.compile("[\u3040-\u30ff\u3400-\u9fff]")


CLOSE = 0.85
"""How alike (difflib's ratio) a misspelt label must be to the one that is meant."""

_APART = re.compile(r"[\W_]+")


def n_words(text: str) -> int:
    """Return how many words a text has; two signs of Chinese or Japanese count as one."""
    return len(text.split()) + len(_IDEOGRAPH.findall(text)) // 2


def plain_label(written: str) -> str:
    """Return a label in lower case, its words joined by one underscore: " Design-Flaw. " gives "design_flaw"."""
    return _APART.sub("_", written.lower()).strip("_")


@lru_cache(maxsize=4096)
def category_of(written: str | None) -> Category | Unknown:
    """Return the category that is meant, `UNKNOWN` if none is.

    category_of("Statistical methodolgy")  ->  "statistical_methodology"
    """
    return cast(Category | Unknown, _meant(written, CATEGORIES, LABELS["category"]))


@lru_cache(maxsize=4096)
def severity_of(written: str | None) -> Severity | Unknown:
    """Return the severity that is meant, `UNKNOWN` if none is: "Critical" and "major_issues" give "major"."""
    graded = re.sub(rf"[\W_](?:{NOUNS})\W*$", "", written or "", flags=re.IGNORECASE)
    return cast(Severity | Unknown, _meant(graded, SEVERITIES, LABELS["severity"]))


def is_label(written: str) -> bool:
    """Return whether a text is nothing but a category or a severity."""
    return len(written) <= 40 and {category_of(written), severity_of(written)} != {UNKNOWN}


def _meant(written: str | None, labels: Sequence[str], variants: Mapping[str, list[str]]) -> str:
    plain = plain_label((written or "")[:80])
    exact = [label for label in labels if plain == label or plain in variants.get(label, ())]
    return next(iter(exact or get_close_matches(plain, labels, n=1, cutoff=CLOSE)), UNKNOWN)


MOST = 4
"""Leads that may stand one before the other: "- **Minor concern 2:** 1) ..."."""

SEVERITY_WORDS = r"major|minor|optional|critical|essential|serious|severe|fatal|moderate|trivial|suggestion"
NOUNS = r"concerns?|comments?|issues?|points?|weakness(?:es)?|problems?|criticisms?"
_COUNT = r"(?:no\.?\s*|\#\s*)?[(\[]?\d{1,3}(?:\.\d{1,2})?[)\]]?"
_MARKS = r"[*_]{0,3}"
END = r"\s*(?:[.:)\]]|[-–—](?=\s))"
_STARTS = r"(?=[*_]{0,3}[\"“‘'(\[]?[^\W_])"
"""What follows a lead: a word, in marks or quotes if it likes."""
_LEADS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        # "**Major** " before a sentence of its own
        rf"(?:\*\*|__)(?P<severity>{SEVERITY_WORDS})(?:\s+(?:{NOUNS}))?(?:\*\*|__)\s+(?=(?-i:[A-Z]))",
        # "Major 1.", "**Minor concern #2:**", "Concern 3 -", "(Major) 1:"
        rf"{_MARKS}[(\[]?(?:(?P<severity>{SEVERITY_WORDS})[)\]]?\s+)?(?:(?:{NOUNS})\s*)?(?<=[a-z)\]\s]){_COUNT}"
        rf"{_MARKS}{END}{_MARKS}\s+{_STARTS}",
        # "Major:", "[Minor]", "**Major concern.**", "Suggestion -"
        rf"{_MARKS}[(\[]?(?P<severity>{SEVERITY_WORDS})(?:\s+(?:{NOUNS}))?{_MARKS}{END}{_MARKS}\s+{_STARTS}",
        # "Concern:", "**Comment:**"
        rf"{_MARKS}(?:{NOUNS}){_MARKS}\s*:{_MARKS}\s+{_STARTS}",
        # "1.", "(2)", "**3)**", "#4:", "a)"
        rf"{_MARKS}(?:\#?\d{{1,2}}[.):]|\(\d{{1,2}}\)|\(?[a-z]\)){_MARKS}\s+(?!(?:and|or|to|vs)\b){_STARTS}(?![\d])",
        # "- ", "• "
        rf"[-*•–]\s+{_STARTS}(?![\d])",
    )
)


def without_lead(text: str) -> tuple[str, str | None]:
    """Return a concern without what only counts or grades it, and the severity that stood there.

    without_lead("**Minor concern 2:** The legend is missing.")  ->  ("The legend is missing.", "minor")
    without_lead("Major depressive disorder was not diagnosed.")  ->  (the same text, None)

    A text that is nothing but a lead stays as it is.
    """
    severity: str | None = None
    rest = text.strip()
    for _ in range(MOST):
        found = next((match for each in _LEADS if (match := each.match(rest))), None)
        if found is None:
            break
        named = found.groupdict().get("severity")
        severity = severity or (severity_of(named) if named else None)
        rest = rest[found.end() :]
        if found[0].count("**") % 2:  # what the mark opened goes on behind the lead
            rest = f"**{rest}"
    return rest, severity


WORDS_OF_A_CUT = 5
"""A text that the output ended in is kept from so many words on."""

_WORD = re.compile(r"[^\W\d_]")
_ESCAPE_BEGUN = re.compile(r"\\(?:u[0-9a-f]{0,3})?$")


class CutText(str):
    """A string that the output ended in."""


@dataclass(frozen=True)
class Candidate:
    """A concern as written; `lost` says why one that stands there cannot be used."""

    text: str
    category: str | None = None
    severity: str | None = None
    is_cut: bool = False
    lost: str | None = None

    def with_text(self, text: str) -> "Candidate":
        """Return the concern of this text under these labels."""
        is_cut = isinstance(text, CutText)
        item = replace(self, text=(_ESCAPE_BEGUN.sub("", text) if is_cut else text).strip(), is_cut=is_cut)
        if not _WORD.search(item.text) or item.text.lower() in ("none", "null", "nan"):
            return replace(item, lost="has no text")
        is_stub = item.is_cut and n_words(item.text) < WORDS_OF_A_CUT
        return replace(item, lost="is cut off after a few words") if is_stub else item

    def with_labels(self, *words: str) -> "Candidate":
        """Return the item with those of the words that are a category or a severity."""
        item = self
        for word in words:
            if category_of(word) != UNKNOWN:
                item = replace(item, category=word)
            elif severity_of(word) != UNKNOWN:
                item = replace(item, severity=word)
        return item


NOTHING = Candidate("")


class Cleaning(NamedTuple):
    """How rows are cleaned; `cap` None keeps any number."""

    dedup: bool = True
    cap: int | None = None


class CleanedRow(NamedTuple):
    """A row after cleaning, in the form it had.

    `removed` are concerns with their labels, place, reason and the place of their twin; `repaired` are labels by place
    in the row read, before and after.
    """

    row: PredictionRow
    removed: list[dict[str, Any]]
    repaired: list[dict[str, Any]]
    unknown_labels: int

    def document(self, cleaning: Cleaning) -> dict[str, object]:
        """Return the row as it goes into a file: the fields it had, and what cleaning did."""
        return {
            **self.row.model_dump(mode="json", exclude_none=True),
            "removed": self.removed,
            "repaired": self.repaired,
            "postprocess": {
                "dedup_exact": cleaning.dedup,
                "cap": cleaning.cap,
                "removed": len(self.removed),
                "categories_fixed": sum(each["field"] == "category" for each in self.repaired),
                "unknown_labels": self.unknown_labels,
            },
        }


def concerns_in(row: PredictionRow) -> list[WrittenConcern]:
    """Return the concerns of a row with what labels they have; strings have none.

    Where a row says its concerns twice, the labelled ones are read.
    """
    if row.structured_concerns is not None:
        return list(row.structured_concerns)
    return [WrittenConcern(text=each) if isinstance(each, str) else each for each in row.concerns]


def key_of(text: str) -> str:
    """Return what repeats share: case and runs of blanks do not count.

    key_of(" No  Control ")  ->  "no control"
    """
    return " ".join(text.split()).lower()


def clean(row: PredictionRow, cleaning: Cleaning) -> CleanedRow:
    """Return a row cleaned; concerns keep their order and their form (string or object)."""
    repaired: list[dict[str, Any]] = []
    concerns = [_repair_labels(index, each, repaired) for index, each in enumerate(concerns_in(row))]
    kept: list[int] = []
    removed: list[dict[str, Any]] = []
    first: dict[str, int] = {}
    for index, each in enumerate(concerns):
        key = key_of(each.text or "")
        reason = ""
        if not key:
            reason = "blank"
        elif cleaning.dedup and key in first:
            reason = "duplicate"
        elif cleaning.cap is not None and len(kept) >= cleaning.cap:
            reason = "cap"
        if not reason:
            kept.append(index)
        else:
            twin = first[key] if reason == "duplicate" else None
            labels = each.model_dump(include={"category", "severity"})
            removed.append({"index": index, "text": each.text or "", **labels, "reason": reason, "kept": twin})
        first.setdefault(key, index)
    labelled = tuple(concerns[index] for index in kept)
    if row.structured_concerns is not None:
        texts = tuple(each.text or "" for each in labelled)
        update: dict[str, Any] = {"concerns": texts, "structured_concerns": labelled}
    else:
        as_given = (row.concerns[index] if isinstance(row.concerns[index], str) else concerns[index] for index in kept)
        update = {"concerns": tuple(as_given)}
    labels = [(each.category, CATEGORIES) for each in labelled] + [(each.severity, SEVERITIES) for each in labelled]
    return CleanedRow(
        row=row.model_copy(update=update),
        removed=removed,
        repaired=[each for each in repaired if each["index"] in set(kept)],
        unknown_labels=sum(
            label is not None and plain_label(label) not in (*known, UNKNOWN) for label, known in labels
        ),
    )


def _repair_labels(index: int, given: WrittenConcern, notes: list[dict[str, Any]]) -> WrittenConcern:
    """Return a concern with the labels that are meant; labels nobody knows stay as written."""
    update: dict[str, str] = {}
    for name, label in (("category", category_of(given.category)), ("severity", severity_of(given.severity))):
        before = getattr(given, name)
        if label not in (UNKNOWN, before):
            notes.append({"index": index, "field": name, "before": before, "after": label})
            update[name] = label
    return given.model_copy(update=update) if update else given


# ---- the record beside rows ----------------------------------------------------------------------


def record_beside(rows: Path) -> Path:
    """Return where the record of how rows came about stands: NAME.run.json beside NAME.jsonl."""
    return rows.with_suffix(".run.json")


def check_out(read: Iterable[Path], out: Path, ending: str = ".jsonl") -> None:
    """Raise BadConfig if `out` has another ending, is the record of rows, or is one of the files that are read."""
    if out.suffix != ending or out.name.endswith(".run.json"):
        raise BadConfig(f"--out is {out}; name a file that ends in {ending}, and not in .run.json")
    if out.resolve() in [rows.resolve() for rows in read]:
        raise BadConfig(f"--out {out} is a file that is read; name another file")


def read_record(rows: Path) -> ReviewRun | None:
    """Return the record beside rows, None if there is none; LabError if it cannot be read."""
    file = record_beside(rows)
    try:
        return ReviewRun.model_validate_json(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (ValidationError, UnicodeDecodeError) as error:
        raise LabError(
            f"{file} says how the rows of {rows.name} came about, and cannot be read"
            f" ({str(error).splitlines()[0]}); put the original back, or move it away."
        ) from None


def copy_record(rows: Path, out: Path) -> bool:
    """Put the record beside `rows` beside `out` as well, which was made of them; return whether there is one.

    Without one, an older record beside `out` goes: it speaks of rows that are there no more.
    """
    record = read_record(rows)
    if record is None:
        drop_record(out)
    else:
        write_whole(record_beside(out), record.model_dump_json(indent=1) + "\n")
    return record is not None


def drop_record(rows: Path) -> None:
    """Remove the record beside rows that were written anew and of which no single run tells."""
    record_beside(rows).unlink(missing_ok=True)


def maker_of(rows: Path) -> MadeBy | None:
    """Return who gave the answers in a file of rows; None where no record stands beside it."""
    run = read_record(rows)
    if run is None:
        return None
    return MadeBy(
        **run.engine.model_dump(include=set(MadeBy.model_fields)),
        settings=run.settings,
        prompt_version=run.prompt_version,
        date=(run.ended_at or run.started_at).date(),
    )
