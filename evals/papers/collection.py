"""Whole collections of reviewed papers: a folder of split files, one file, or the papers that come with Assay.

Versions of one paper are a family, which is never divided among splits.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

from pydantic import ValidationError

from evals.errors import BadRow, LabError, first_problem
from evals.io import first_of, sha256_of_text
from evals.papers import demonstration
from evals.papers.jats import ARTICLE_TYPES
from evals.papers.outline import without_markup
from evals.schema import Reference, ReviewExample, Section, Split, TextOrigin
from evals.schema.reviews import HumanConcern
from evals.tables import parquet_rows

VERSIONED = re.compile(
    r"(?P<stem>10\.12688/[a-z0-9]+\.\d+|10\.1101/[\d.]+\d|10\.21203/rs\.\d+\.rs-\d+|10\.7287/peerj\.preprints\.\d+)",
    re.I,
)
"""DOIs of publishers that number versions in the DOI: F1000, bioRxiv, Research Square, PeerJ preprints."""
ELIFE = re.compile(r"(?P<stem>10\.7554/elife\.\d+)", re.I)
SHARES = {"train": 0.7, "dev": 0.12, "test": 0.18}


def family_of(identity: str, doi: str) -> str:
    """Return what all versions of a manuscript have in common, in lower case.

    >>> family_of("f1000:10.12688/f1000research.27123.2", "10.12688/f1000research.27123.2")
    '10.12688/f1000research.27123'
    >>> family_of("elife:84798", "10.7554/eLife.84798.3")
    '10.7554/elife.84798'
    """
    name = (doi or identity.partition(":")[2] or identity).strip().lower()
    name = re.sub(r"^(?:https?://(?:dx\.)?doi\.org/|doi:)", "", name)
    match = ELIFE.match(name) or VERSIONED.match(name)
    if match:
        return re.sub(r"v\d+$", "", match["stem"])
    return re.sub(r"v\d+$", "", name) if name.startswith("10.") else name


def without_leaks(examples: Sequence[ReviewExample]) -> tuple[tuple[ReviewExample, ...], Counter[str]]:
    """Return examples whose families lie on one side each, and how many others are left out, by the reason.

    Test stays whole, train gives way to dev and test: a published test set is never changed, so figures stay
    comparable; what would leak into it goes.
    """
    nearest: dict[str, Split] = {}
    for split in get_args(Split):  # train, dev, test
        nearest |= {each.family: split for each in examples if (each.split or "train") == split}
    kept = tuple(each for each in examples if (each.split or "train") == nearest[each.family])
    leaks = (each for each in examples if (each.split or "train") != nearest[each.family])
    return kept, Counter(f"{each.split} has a version of the paper in {nearest[each.family]}" for each in leaks)


def split_by_family(examples: Iterable[ReviewExample], seed: int = 0) -> tuple[ReviewExample, ...]:
    """Return examples in their order, each with a split; whole families, and each source in its shares.

    The same families get the same split for the same seed.
    """
    rows = tuple(examples)
    by_source: dict[str, list[str]] = {}
    for each in rows:
        families = by_source.setdefault(each.source, [])
        if each.family not in families and not any(each.family in known for known in by_source.values()):
            families.append(each.family)
    splits: dict[str, Split] = {}
    for families in by_source.values():
        ordered = sorted(families, key=lambda family: sha256_of_text(f"{seed}:{family}"))
        test, dev = (max(1, round(SHARES[name] * len(ordered))) for name in ("test", "dev"))
        for place, family in enumerate(ordered):
            splits[family] = "test" if place < test else "dev" if place < test + dev else "train"
    return tuple(each.model_copy(update={"split": splits[each.family]}) for each in rows)


LETTERS = ("decision_letter_raw", "author_response_raw")
"""Never model input: they hold what a reviewer is to find."""
PASSED_ON = ("licence", "editorial_decision", "review_format", "has_author_response", "revision_round")
CONCERN_FIELDS = tuple(HumanConcern.model_fields)


def example_of(
    row: Mapping[str, Any], origin: TextOrigin, left_out: Counter[str], split: Split | None = None
) -> ReviewExample:
    """Return a published row as an example; ValueError (pydantic's, or with a field) if it cannot be one.

    Sections keep the order and the names of the row, also where names are the same. A concern that has
    no text, or a label outside the benchmark's, is left out and counted in `left_out` by the reason.
    """
    identity = str(row.get("id") or row.get("article_id") or "")
    doi = str(row.get("doi") or "")
    return ReviewExample(
        id=identity,
        source=str(row.get("source") or identity.partition(":")[0]),
        doi=doi,
        title=without_markup(str(row.get("title") or "")),
        abstract=without_markup(str(row.get("abstract") or "")),
        sections=tuple(_sections(row.get("paper_text_sections") or row.get("sections") or {})),
        references=tuple(_reference(each) for each in row.get("structured_references") or ()),
        subjects=tuple(each for each in row.get("subjects") or () if each.lower() not in ARTICLE_TYPES),
        published_date=row.get("published_date") or None,
        origin=origin,
        family=str(row.get("family") or family_of(identity, doi)),
        split=split,
        concerns=tuple(_concerns(identity, row.get("concerns") or (), left_out)),
        **{name: row[name] for name in PASSED_ON if row.get(name) not in (None, "")},
    )


def from_flat(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return rows of one concern each as rows of one article each, in the order of first appearance."""
    articles: dict[str, dict[str, Any]] = {}
    for row in rows:
        article = {key: value for key, value in row.items() if key not in CONCERN_FIELDS}
        article["source"] = row.get("source")
        found = articles.setdefault(str(row.get("article_id")), {**article, "concerns": []})
        found["concerns"].append({key: row[key] for key in CONCERN_FIELDS if key in row})
    return list(articles.values())


def _concerns(article: str, found: Sequence[Any], left_out: Counter[str]) -> Iterator[HumanConcern]:
    for number, each in enumerate(found, start=1):
        if not isinstance(each, Mapping):
            left_out["is no object"] += 1
            continue
        given = {"concern_id": f"{article}:C{number}", "reviewer_num": 1}
        given |= {key: each[key] for key in CONCERN_FIELDS if each.get(key) is not None}
        text = re.sub(r"[ \t]+\n", "\n", without_markup(str(each.get("concern_text") or each.get("text") or "")))
        given["concern_text"] = re.sub(r"\n{3,}", "\n\n", text).strip()
        try:
            yield HumanConcern.model_validate(given)
        except ValidationError as error:
            left_out[f"{first_problem(error)[0].partition('.')[0]} is not what the benchmark allows"] += 1


def _sections(found: Any) -> Iterable[Section]:
    """Give sections from a mapping, from pairs of names and texts, or from objects with both."""
    for pair in found.items() if isinstance(found, Mapping) else found:
        name, text = pair if not isinstance(pair, Mapping) else (None, pair.get("text", pair.get("value")))
        if isinstance(pair, Mapping):
            name = pair.get("name") or pair.get("title") or pair.get("key")
        if text is not None and str(text).strip():
            yield Section(name=without_markup(str(name or "")), text=without_markup(str(text)))


def _reference(found: Any) -> Reference:
    if not isinstance(found, Mapping):
        return Reference(text=str(found))
    authors = found.get("authors") or ""
    parts = {name: str(found.get(name) or "") for name in ("year", "title", "journal")}
    return Reference(authors=authors if isinstance(authors, str) else ", ".join(map(str, authors)), **parts)


OWN = "demonstration"
NAMES: Mapping[str, Split] = {"train": "train", "val": "dev", "validation": "dev", "dev": "dev", "test": "test"}
OnFile = Callable[[str, int], None]
"""Called with the name of a file and how many of its rows are read."""
EVERY = 200


@dataclass
class Collection:
    """Papers with their reviews; `left_out` counts what could not be used, by the reason, `skipped` are the bad rows."""

    name: str
    examples: tuple[ReviewExample, ...]
    left_out: Counter[str] = field(default_factory=Counter)
    skipped: list[BadRow] = field(default_factory=list)

    @property
    def has_splits(self) -> bool:
        return all(each.split is not None for each in self.examples)


def read_collection(source: str, progress: OnFile | None = None, *, skips: bool = False) -> Collection:
    """Return the papers of `demonstration`, of a JSONL or Parquet file, or of a folder of split files.

    A folder holds train, val (or validation, dev) and test as .jsonl or .parquet, alone or in shards
    such as train-00000-of-00002.parquet. LabError for what is not there; BadRow with file and line, unless bad rows
    are to be skipped (`skips`): then they are noted, and of an article that is there twice the first row stands.
    """
    if source == OWN:
        return Collection(OWN, demonstration())
    path = Path(source)
    found: dict[str, ReviewExample] = {}
    bad: list[BadRow] = []
    left_out: Counter[str] = Counter()
    for file, split in _files(path):
        is_table = file.suffix == ".parquet"
        numbered = list(enumerate(parquet_rows(file), start=1) if is_table else _jsonl(file, bad))
        origin = TextOrigin(format="hub" if is_table else "split", file=file.name)
        for number, example in _examples(file, numbered, split, origin, left_out, bad):
            if example.id in found:
                bad.append(BadRow(file, number, "id", f"{path} holds the article {example.id!r} twice; ids are unique"))
            else:
                found[example.id] = example
            if bad and not skips:
                raise first_of(bad)
            if progress is not None and len(found) % EVERY == 0:
                progress(file.name, len(found))
    if bad and (not skips or not found):
        raise first_of(bad)
    if not found:
        raise LabError(f"{path} holds no papers.")
    return Collection(path.name, tuple(found.values()), left_out, bad)


def _files(path: Path) -> list[tuple[Path, Split | None]]:
    if path.is_file():
        return [(path, NAMES.get(path.stem.split("-")[0].lower()))]
    if not path.is_dir():
        raise LabError(
            f"there are no papers at {path}; name a folder with train.jsonl, val.jsonl and test.jsonl, one"
            f" file of them (.jsonl or .parquet), or {OWN} for those that come with Assay."
        )
    files = (file for file in sorted(path.iterdir()) if file.suffix in (".jsonl", ".parquet"))
    named = [(file, NAMES[name]) for file in files if (name := file.stem.split("-")[0].lower()) in NAMES]
    if not named:
        raise LabError(
            f"{path} holds no split files; they are called {', '.join(NAMES)} and end in .jsonl or .parquet."
        )
    order = get_args(Split)
    return sorted(named, key=lambda each: (order.index(each[1]), each[0].name))


def _examples(
    file: Path,
    numbered: list[tuple[int, dict[str, Any]]],
    split: Split | None,
    origin: TextOrigin,
    left_out: Counter[str],
    bad: list[BadRow],
) -> Iterator[tuple[int, ReviewExample]]:
    if numbered and "concern_text" in numbered[0][1] and "concerns" not in numbered[0][1]:
        numbered = list(enumerate(from_flat(row for _, row in numbered), start=1))
    for number, row in numbered:
        try:
            if str(row.get("schema_version", "")).startswith("assay-review"):
                yield number, ReviewExample.model_validate(row)
            else:
                yield number, example_of(row, origin, left_out, split)
        except ValidationError as error:
            place, problem, seen = first_problem(error)
            bad.append(BadRow(file, number, place or "(whole line)", f"{problem}, seen {str(seen)[:80]!r}"))


def _jsonl(file: Path, bad: list[BadRow]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Give the rows of a file with their lines. A key that repeats inside sections keeps both texts."""
    number = 0
    try:
        with file.open(encoding="utf-8-sig") as lines:
            for number, line in enumerate(lines, start=1):
                if not line.strip():
                    continue
                try:
                    row = json.loads(
                        line, object_pairs_hook=lambda pairs: pairs if len(dict(pairs)) < len(pairs) else dict(pairs)
                    )
                except json.JSONDecodeError as error:
                    bad.append(BadRow(file, number, "(whole line)", f"is not JSON: {error.msg}"))
                    continue
                if isinstance(row, dict):
                    yield number, row
                else:
                    bad.append(BadRow(file, number, "(whole line)", "is no object, or a key of it stands twice"))
    except UnicodeDecodeError:
        raise LabError(f"{file} is not UTF-8 after line {number}; save it as UTF-8.") from None
    except OSError as error:
        raise LabError(f"{file} cannot be read ({error.strerror}); check the path.") from None
