"""What is to be published, as one upload of files, and what must hold before any of it is sent.

Patterns of secrets and what is wrong with a card stand in checks.yaml.
"""

import codecs
import gzip
import hashlib
import io
import json
import re
import struct
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import chain, islice
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, Literal

import numpy as np
import pyarrow.parquet as pq
import yaml
from pydantic import Field
from safetensors import SafetensorError, safe_open

from evals.errors import LabError
from evals.schema import Record
from evals.schema.runs import Diagnostic, check_patterns
from evals.tables import parquet_rows
from hub.cards import HUB_IDS, body_of, read_front_matter
from hub.client import PublicationKind, Visibility, finding

GIGABYTE = 1_000_000_000
MAX_BYTES, MAX_FILES = 50 * GIGABYTE, 10_000
"""What the Hub takes, with room to spare."""
PICKLES = frozenset((".bin", ".pt", ".pth", ".pkl", ".pickle", ".ckpt", ".joblib", ".npy", ".h5", ".msgpack"))
STATE = frozenset(("optimizer.pt", "scheduler.pt", "rng_state.pth", "training_args.bin"))
SETTINGS = (".env", ".netrc", ".npmrc", ".pypirc")
ROWS = (".parquet", *(f"{kind}{packed}" for kind in (".jsonl", ".csv", ".tsv") for packed in ("", ".gz")))
"""Kinds of file that hold the rows of a data set."""
TEXTS = (".json", ".jsonl", ".csv", ".tsv", ".md", ".txt", ".yaml", ".py")
TEXT_LIMIT = 50_000_000
"""Texts up to this size (bytes) are searched for secrets; larger ones are refused unread. Of other files the beginning is searched."""
ROW_BATCH = 1000
PRINTABLE = rb"[\t\n\r -~]"
RUNS = re.compile(rb"%b{12,}|(?:%b\0){12,}|(?:\0%b){12,}" % (PRINTABLE, PRINTABLE, PRINTABLE))
"""Text in binary content: ASCII, or UTF-16 of either order without its mark."""


@dataclass(frozen=True)
class Part:
    """One file: its bytes, or where they lie."""

    content: bytes | Path = field(compare=False)
    sha256: str
    size: int

    def read(self) -> bytes:
        """Return the bytes."""
        return self.content.read_bytes() if isinstance(self.content, Path) else self.content

    def open(self) -> BinaryIO:
        """Return the content as a file."""
        return self.content.open("rb") if isinstance(self.content, Path) else io.BytesIO(self.content)

    def text(self) -> str:
        """Return the content as text."""
        return self.read().decode("utf-8", "replace")

    def git_oid(self) -> str:
        """Return the SHA-1 by which git, and the Hub for small files, know the content."""
        return hashlib.sha1(f"blob {self.size}\0".encode() + self.read()).hexdigest()


def part_of(content: bytes | Path) -> Part:
    """Return a file with its checksum; a large one is read piece by piece."""
    if isinstance(content, bytes):
        return Part(content, hashlib.sha256(content).hexdigest(), len(content))
    with content.open("rb") as file:
        return Part(content, hashlib.file_digest(file, "sha256").hexdigest(), content.stat().st_size)


def file_of(part: Part) -> Path:
    """Return the file of a part that is read where it lies."""
    assert isinstance(part.content, Path), "weights and tables are read where they lie"
    return part.content


def unpack(path: str, part: Part) -> tuple[str, Part]:
    """Return the name and content of what a .gz file holds, up to one byte more than `TEXT_LIMIT`; other files as they are.

    OSError, EOFError or zlib.error where it is no sound gzip file.
    """
    if not path.endswith(".gz"):
        return path, part
    with part.open() as file, gzip.open(file) as content:
        return path.removesuffix(".gz"), part_of(content.read(TEXT_LIMIT + 1))


MARK = ".assay.json"
"""Stands in every repository that Assay published, also after its history was squashed; no loader of rows reads hidden files.
It holds git's checksum of the card, by which words are known that somebody wrote into the card there."""


@dataclass(frozen=True)
class Upload:
    """What one publication puts into one repository, how it is seen there, and what was noticed while it was packed."""

    kind: PublicationKind
    repo: str
    parts: dict[str, Part]
    findings: tuple[Diagnostic, ...] = ()
    tag: str | None = None
    is_public: bool = False
    is_pull_request: bool = False
    replaces: bool = False
    resource_group: str | None = None

    def __post_init__(self) -> None:
        card = self.parts.get("README.md")
        told = {"published_with": "assay"} | ({"card": card.git_oid()} if card else {})
        object.__setattr__(self, "parts", {**self.parts, MARK: part_of((json.dumps(told) + "\n").encode())})

    @property
    def repo_type(self) -> str:
        """What the Hub calls this kind of repository."""
        return "model" if self.kind == "adapter" else self.kind


Change = Literal["add", "change", "same", "remote_only"]


class PlannedFile(Record):
    """What publishing would do with one file; sizes in bytes."""

    path: str
    change: Change
    size: int = Field(ge=0)


class PublishPlan(Record):
    """What publishing would do. Nothing has been written."""

    kind: PublicationKind
    endpoint: str
    repo: str
    tag: str | None
    is_new: bool
    is_pull_request: bool
    visibility: Visibility
    parent: str | None
    files: tuple[PlannedFile, ...]
    upload_bytes: int = Field(ge=0)
    warnings: tuple[Diagnostic, ...] = ()


class Refused(LabError):
    """Something must not be published; `findings` say what, file by file."""

    def __init__(self, findings: Sequence[Diagnostic]) -> None:
        lines = [f"nothing was uploaded: {len(findings)} problem{'s were' if len(findings) > 1 else ' was'} found."]
        lines += [f"  {each}" for each in findings]
        super().__init__("\n".join(lines))
        self.findings = tuple(findings)


def check_upload(upload: Upload) -> tuple[Diagnostic, ...]:
    """Return the warnings about an upload; Refused with all errors if there is one."""
    found = list(upload.findings)
    unreadable = {each.path for each in found if each.is_error and each.check == "rows"}
    if len(upload.parts) > MAX_FILES:
        found.append(finding("many files", ".", n=len(upload.parts), most=MAX_FILES))
    if "README.md" not in upload.parts:
        found.append(finding("no card", "README.md"))
    for path, part in upload.parts.items():
        if problem := _path_problem(path):
            found.append(finding("name", path, problem=problem))
        if too_large := size_finding(path, part.size):
            found.append(too_large)
        if path == "README.md":
            found += lint_card(part.text(), upload.repo_type, upload.parts)
        if path in unreadable:
            continue
        try:
            is_rows = path == "README.md" or (upload.kind == "dataset" and path.endswith(ROWS))
            found += search(path, part, is_rows)
        except (OSError, EOFError, zlib.error, LabError) as error:
            found.append(finding("unreadable rows", path, error=str(error)))
    found = list(dict.fromkeys(found))
    if errors := [each for each in found if each.is_error]:
        raise Refused(errors)
    return tuple(found)


@lru_cache(maxsize=256)
def search(path: str, part: Part, is_rows: bool) -> tuple[Diagnostic, ...]:
    """Return what must not be published in a file; one that lies in several repositories is read once."""
    name, content = unpack(path, part)
    if content.size > TEXT_LIMIT and name.endswith(TEXTS):
        return (finding("unsearched", path),)
    return tuple(scan(path, texts_of(name, content), ROW_PATTERNS if is_rows else PATTERNS))


def texts_of(path: str, part: Part) -> Iterator[str]:
    """Yield all that can be read in a file, in pieces: rows of parquet as JSON lines, the header of safetensors, else `text_in`.

    LabError for parquet that cannot be read.
    """
    with part.open() as file:
        if path.endswith(".parquet"):
            rows = parquet_rows(file_of(part))
            while some := list(islice(rows, ROW_BATCH)):
                yield "".join(json.dumps(row, ensure_ascii=False, default=_cell) + "\n" for row in some)
            yield f"{pq.read_schema(file).metadata or ''}"
            return
        size = TEXT_LIMIT
        if path.endswith(".safetensors"):
            size = min(int.from_bytes(file.read(8), "little"), size)
        yield text_in(file.read(size))


def text_in(content: bytes) -> str:
    """Return the text in bytes: UTF-8, UTF-16 by its mark, and of anything that holds a NUL its runs of printable characters."""
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return content.decode("utf-16", "replace")
    if b"\0" not in content:
        return content.decode("utf-8", "replace")
    return "\0".join(run.replace(b"\0", b"").decode("ascii") for run in RUNS.findall(content))


def _cell(value: object) -> str:
    return text_in(value) if isinstance(value, bytes) else str(value)


def size_finding(path: str, size: int) -> Diagnostic | None:
    """Return what speaks against a file of this size; to be asked before it is read."""
    if size <= MAX_BYTES:
        return None
    return finding("large", path, gigabytes=size / GIGABYTE, limit=MAX_BYTES / GIGABYTE)


def _path_problem(path: str) -> str | None:
    place = PurePosixPath(path)
    if place.is_absolute() or "\\" in path or {"..", ".", ""} & set(path.split("/")):
        return "the name leads out of the repository"
    if ".git" in place.parts or place.name in SETTINGS:
        return "files of this name hold settings or secrets and are never published"
    if place.name in STATE:
        return "this is the state of a training run, not part of what is published"
    if place.suffix.lower() in PICKLES:
        return "files of this kind can run code when they are loaded; only safetensors are published"
    if any(ord(letter) < 32 for letter in path) or len(path) > 255:
        return "the name holds control characters or is too long"
    return None


NUMBERS = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2"}
"""How numpy reads the types that can be infinite; it knows no bfloat16, of which the bits are looked at."""
BF16_EXPONENT = 0x7F80
OPTIMIZER = re.compile(r"(^|[._])(optimizer|exp_avg|exp_avg_sq|momentum_buffer|max_exp_avg)", re.I)
LORA = re.compile(r"base_model\.model\.(?P<module>.+)\.lora_(?:embedding_)?(?P<side>[AB])(?:\.weight)?")


@lru_cache(maxsize=64)
def inspect(part: Part, path: str) -> tuple[Mapping[str, tuple[int, ...]], tuple[Diagnostic, ...]]:
    """Return the shapes of the tensors in a safetensors file, and what is wrong with it; `path` is its name in messages."""
    file = file_of(part)
    try:
        safe_open(file, framework="np")  # reads no numbers; that the header is sound and fills the file is all it tells
    except SafetensorError as error:
        reason = str(error).removeprefix("Error while deserializing header: ")
        return {}, (finding("no safetensors", path, reason=reason),)
    with file.open("rb") as source:
        (length,) = struct.unpack("<Q", source.read(8))
        header = {name: each for name, each in json.loads(source.read(length)).items() if name != "__metadata__"}
    infinite = (name for name, each in header.items() if not _is_finite(file, 8 + length, each))
    found = [finding("not finite", path, name=name) for name in infinite]
    if state := next(filter(OPTIMIZER.search, header), None):
        found = [*found[:5], finding("optimizer", path, name=state)]
    return {name: tuple(each["shape"]) for name, each in header.items()}, tuple(found[:6])


def _is_finite(file: Path, at: int, tensor: Mapping[str, Any]) -> bool:
    start, end = tensor["data_offsets"]
    if tensor["dtype"] not in NUMBERS or start == end:
        return True
    kind = np.dtype(NUMBERS[tensor["dtype"]])
    numbers: Any = np.memmap(file, kind, "r", at + start, ((end - start) // kind.itemsize,))
    if tensor["dtype"] == "BF16":
        return not ((numbers & BF16_EXPONENT) == BF16_EXPONENT).any()
    return bool(np.isfinite(numbers).all())


def fit_findings(path: str, shapes: Mapping[str, tuple[int, ...]], config: Mapping[str, Any]) -> list[Diagnostic]:
    """Return where the tensors are not those that adapter_config.json announces."""
    problems: list[str] = []
    sides: dict[str, dict[str, tuple[int, ...]]] = {}
    for name, shape in shapes.items():
        if match := LORA.fullmatch(name):
            sides.setdefault(match["module"], {})[match["side"]] = shape
        else:
            problems.append(f"holds {name!r}, which is no part of a LoRA adapter")
    if not sides:
        problems.append("holds no LoRA matrices at all")
    try:
        check_patterns(config, sides)
    except ValueError as error:
        return [finding("unfit", path, file=path, problem=f"stands beside an adapter_config.json of which {error}")]
    listed, ranks = config.get("target_modules"), config.get("rank_pattern") or {}
    targets = [str(each) for each in listed] if isinstance(listed, list) else []

    def is_target(module: str, target: str) -> bool:
        return module == target or module.endswith(f".{target}")

    for module, found in sides.items():
        down, up = found.get("A"), found.get("B")
        rank = next((r for name, r in ranks.items() if re.match(rf"(.*\.)?({name})$", module)), config.get("r"))
        if down is None or up is None:
            problems.append(f"has only one of the two matrices of {module}")
        elif len(down) != 2 or len(up) != 2 or down[0] != up[1]:
            problems.append(f"has matrices of {module} that do not fit each other: {down} and {up}")
        elif down[0] != rank:
            problems.append(f"has rank {down[0]} in {module}, but the configuration says {rank}")
        elif targets and not any(is_target(module, target) for target in targets):
            problems.append(f"changes {module}, which is none of the target modules")
    for target in targets:
        if not any(is_target(module, target) for module in sides):
            problems.append(f"has nothing for the target module {target!r}")
    return [finding("unfit", path, file=path, problem=problem) for problem in problems[:5]]


# ---- what no text may hold -----------------------------------------------------------------------
# Measured on tests/hub/secrets.yaml, detect-secrets 1.5 (without entropy) and kingfisher 2.14 find a third and less than half
# of it; docs/publishing.md has the figures.


RULES: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("checks.yaml").read_text(encoding="utf-8"))
BEFORE, AFTER = 100, 400
"""How far before and behind its word a secret is looked for, in characters."""
ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|(.))|%([0-7][0-9a-fA-F])")
"""Of JSON, also written into JSON again, of Python, and of addresses."""
NESTED = 3
HIDDEN = "\u00ad\u200b\u200c\u200d\u2060\ufeff"
INVISIBLE = str.maketrans(dict.fromkeys(HIDDEN))


@dataclass(frozen=True)
class Pattern:
    """One kind of thing to look for: near `words`, in a text in lower case, or anywhere if there are none."""

    name: str
    words: tuple[str, ...]
    regex: re.Pattern[str]
    remedy: str = "remove it, or ask the person first"
    is_error: bool = True

    @classmethod
    def of(cls, name: str, rule: Sequence[str], **named: Any) -> "Pattern":
        """Return a kind as checks.yaml writes it."""
        words, regex = rule
        return cls(name, tuple(words.split()), re.compile(regex), **named)


WITHDRAW = "remove it, and withdraw it where it was issued"
KEYS = (
    *(Pattern.of(name, rule, remedy=WITHDRAW) for name, rule in RULES["secrets"].items()),
    Pattern.of("a path of this machine", RULES["local_path"], remedy="write a name or a relative path instead"),
)
E_MAIL = Pattern.of("an e-mail address", RULES["e_mail"])
PATTERNS = (*KEYS, E_MAIL)
ROW_PATTERNS = (
    *KEYS,
    replace(E_MAIL, is_error=False),
    Pattern.of("a telephone number", RULES["phone"], is_error=False),
)
"""In the rows of a data set, and on cards, people may be named on purpose: those are warnings there."""


def _of_card(problem: str, remedy: str, line: int, is_error: bool = True) -> Diagnostic:
    return Diagnostic(check="card", path="README.md", problem=problem, remedy=remedy, line=line, is_error=is_error)


def scan(path: str, texts: Iterable[str], patterns: Sequence[Pattern] = PATTERNS) -> list[Diagnostic]:
    """Return what must not be published in a file whose text comes in pieces of whole lines: errors first, each kind once.

    Every kind tells its first line and how many more there are, never a value. Escapes, such as those of JSON, are read both ways.
    """
    lines: dict[Pattern, set[int]] = {}
    start = 0  # the name of the file may hold one as well
    for text in chain([f"{path}\n"], texts):
        for each in _readings(text):
            lower = each.replace("İ", "i").lower()  # the only letter that is two in lower case
            for pattern in patterns:
                lines.setdefault(pattern, set()).update(_lines(each, lower, pattern, start))
        start += text.count("\n")
    found = []
    for pattern, on in lines.items():
        if on:
            more = f", and in {len(on) - 1:,} more line{'s' if len(on) > 2 else ''}" if len(on) > 1 else ""
            told = {
                "problem": f"{pattern.name} stands there{more}",
                "remedy": pattern.remedy,
                "is_error": pattern.is_error,
            }
            check = "secrets" if pattern.is_error else "personal data"
            found.append(Diagnostic(check=check, path=path, line=min(on) or None, **told))
    return sorted(found, key=lambda each: (not each.is_error, each.line or 0))


def _readings(text: str) -> Iterator[str]:
    """Yield a text as it stands, then without what is not seen and its escapes, as often as it was put into JSON."""
    yield text
    for _ in range(NESTED):
        seen = text.translate(INVISIBLE) if any(map(text.__contains__, HIDDEN)) else text
        if (plain := ESCAPE.sub(_unescape, seen) if "\\" in seen or "%" in seen else seen) == text:
            return
        text = plain
        yield text


def _unescape(match: re.Match[str]) -> str:
    """Return what an escape stands for; a line break becomes a space, so that lines keep their numbers."""
    code = match[1] or match[2] or match[4]
    if code is None:
        return " " if match[3] in "nrt" else match[3]
    return " " if (letter := chr(int(code, 16))) in "\n\r" else letter


def _lines(text: str, lower: str, pattern: Pattern, line: int) -> Iterator[int]:
    at = 0
    for start, end in _around(lower, pattern.words) if pattern.words else ((0, len(text)),):
        for match in pattern.regex.finditer(text, start, end):
            line, at = line + text.count("\n", at, match.start()), match.start()
            yield line


def _around(text: str, words: Iterable[str]) -> Iterator[tuple[int, int]]:
    """Yield the stretches of a text that are near one of these words, in order."""
    spots = []
    for word in words:
        at = text.find(word)
        while at >= 0:
            spots.append(at)
            at = text.find(word, at + 1)
    start = end = 0
    for spot in sorted(spots):
        if spot - BEFORE > end:
            if end:
                yield start, end
            start = max(0, spot - BEFORE)
        end = spot + AFTER
    if end:
        yield start, end


# ---- cards ---------------------------------------------------------------------------------------


REPO_ID = re.compile(r"(?:[A-Za-z0-9][\w.-]{0,95}/)?[A-Za-z0-9][\w.-]{0,95}")
LISTS = ("tags", "datasets", "metrics", "language", "task_categories", "size_categories")


def front_matter_findings(text: str, kind: str) -> list[Diagnostic]:
    """Return what is wrong with the front matter of a card: what people write in, and what would mislead readers.

    Whatever else the Hub refuses, it tells when the card is sent, before any file is.
    """
    front, found = text[: len(text) - len(body_of(text))].splitlines(), []

    def add(key: str, got: object = None, rule: str | None = None, *, is_error: bool = True) -> None:
        problem, remedy, *warning = RULES["front_matter"][rule or key]
        line = next((number for number, each in enumerate(front, 1) if each.startswith(f"{key}:")), 1)
        found.append(_of_card(problem.format(got=got, key=key), remedy.format(key=key), line, is_error and not warning))

    try:
        data = read_front_matter(text)
    except ValueError as error:
        add("yaml", error)
        return found
    if data is None:
        add("missing", is_error=kind == "space")
        return found
    licences = _values(data, "license")
    if not licences:
        add("license", rule="no license")
    for licence in licences:
        if licence not in HUB_IDS:
            add("license", licence)
    if "licence" in data:
        add("licence")
    if "other" in licences and not data.get("license_name"):
        add("license_name")
    for key in LISTS:
        value = data.get(key)
        is_plain = isinstance(value, str) and key in ("datasets", "language")
        if value is not None and not is_plain and not all(isinstance(each, str) for each in _values(data, key)):
            add(key, rule="list")
    for base in (str(each) for each in _values(data, "base_model") if each is not None):
        if not REPO_ID.fullmatch(base):
            add("base_model", "a local path" if re.match(r"[/~.]|.*\\", base) else repr(base))
    for key, shape in RULES["shapes"].items():
        for value in _values(data, key) if key != "datasets" or kind == "model" else ():
            if not re.fullmatch(shape, str(value)):
                add(key, value)
    return found


def _values(data: dict[str, Any], key: str) -> list[Any]:
    value = data.get(key)
    return value if isinstance(value, list) else [] if value is None else [value]


FENCED = re.compile(r"^```.*?^```|`[^`\n]+`", re.DOTALL | re.MULTILINE)
ELSEWHERE = re.compile(r"[a-z]+:|\.\./|/|discussions(?:/|$)")
IN_REPOSITORY = re.compile(r"^(?:\./)?(?:(?:blob|resolve|tree|raw)/[^/]+/)?")
LINK = re.compile(r"!?\[[^\]]*\]\((?P<target>[^)\s]+)\)")


def lint_card(text: str, kind: str, files: Collection[str]) -> list[Diagnostic]:
    """Return what is wrong with a model's, data set's or Space's card: what the Hub refuses, and what misleads readers.

    `files` are those beside it, to look for what it links to.
    """
    found = front_matter_findings(text, kind)
    prose = FENCED.sub(lambda block: "\n" * block[0].count("\n"), text)
    body = "\n" * (len(text.splitlines()) - len(body_of(text).splitlines())) + body_of(prose)
    for pattern, what in RULES["placeholders"].items():
        if match := re.search(pattern, body):
            told = (f"{what} stands there: readers learn nothing", "write what is the case, or leave it out")
            found.append(_of_card(*told, _at(body, match)))
    for match in LINK.finditer(prose):
        target = match["target"].split("#")[0]
        if target and not ELSEWHERE.match(target) and IN_REPOSITORY.sub("", target) not in files:
            problem = f"the link to {target!r} leads nowhere: there is no such file beside the card"
            found.append(_of_card(problem, "add the file, or link to a full address", _at(prose, match)))
    return sorted(found, key=lambda each: (not each.is_error, each.line or 0))


def _at(text: str, match: re.Match[str]) -> int:
    return text.count("\n", 0, match.start()) + 1
