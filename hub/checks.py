"""What is to be published, as one parcel of files, and what must hold before anything is uploaded."""

import hashlib
import json
import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open

from evals.errors import LabError
from evals.schema.publishing import Finding, PublicationKind
from hub.cards.lint import PATTERNS, ROW_PATTERNS, lint_card, scan

GIGABYTE = 1_000_000_000
PICKLES = frozenset((".bin", ".pt", ".pth", ".pkl", ".pickle", ".ckpt", ".joblib", ".npy", ".h5", ".msgpack"))
STATE = frozenset(("optimizer.pt", "scheduler.pt", "rng_state.pth", "training_args.bin"))
SETTINGS = (".env", ".netrc", ".npmrc", ".pypirc")
ROWS = (".jsonl", ".csv", ".parquet")
TEXTS = (".json", ".jsonl", ".csv", ".md", ".txt", ".yaml", ".py")
TEXT_LIMIT = 50_000_000
"""Texts up to this size (bytes) are searched for secrets; larger ones are refused unread."""


@dataclass(frozen=True)
class Part:
    """One file: its bytes, or where they lie."""

    content: bytes | Path
    sha256: str
    size: int

    def read(self) -> bytes:
        """Return the bytes."""
        return self.content.read_bytes() if isinstance(self.content, Path) else self.content

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


@dataclass(frozen=True)
class Parcel:
    """Everything that one publication puts into one repository.

    `findings` are what was noticed while it was packed.
    """

    kind: PublicationKind
    title: str
    parts: dict[str, Part]
    findings: tuple[Finding, ...] = ()

    @property
    def repo_type(self) -> str:
        """What the Hub calls this kind of repository."""
        return "model" if self.kind == "adapter" else self.kind


class Refused(LabError):
    """Something must not be published; `findings` say what, file by file."""

    def __init__(self, findings: Sequence[Finding]) -> None:
        self.findings = tuple(findings)
        count = len(self.findings)
        lines = [f"nothing was uploaded: {count} {'problem was' if count == 1 else 'problems were'} found."]
        for each in findings:
            line = f", line {each.line}" if each.line else ""
            lines.append(f"  {each.path}{line}: {each.problem}; {each.remedy}")
        super().__init__("\n".join(lines))


@dataclass(frozen=True)
class Limits:
    """What the Hub takes, with room to spare."""

    file_bytes: int = 2 * GIGABYTE
    files: int = 10_000


def check_parcel(parcel: Parcel, limits: Limits) -> tuple[Finding, ...]:
    """Return the warnings about a parcel; Refused with all errors if there is one."""
    found = [*parcel.findings, *_shape(parcel, limits), *_card(parcel), *_texts(parcel)]
    errors = [each for each in found if each.is_error]
    if errors:
        raise Refused(errors)
    return tuple(found)


def size_finding(path: str, size: int, limits: Limits) -> Finding | None:
    """Return what speaks against a file of this size; to be asked before it is read."""
    if size <= limits.file_bytes:
        return None
    return Finding(
        check="size",
        path=path,
        problem=f"has {size / GIGABYTE:.1f} GB, and the limit is {limits.file_bytes / GIGABYTE:.1f} GB",
        remedy="an adapter has megabytes: look at what was saved; if it is right, lift the limit with --max-file-gb",
    )


def _shape(parcel: Parcel, limits: Limits) -> Iterator[Finding]:
    if len(parcel.parts) > limits.files:
        problem = f"{len(parcel.parts):,} files, and the limit is {limits.files:,}"
        yield Finding(check="size", path=".", problem=problem, remedy="put rows together into fewer, larger files")
    for path, part in parcel.parts.items():
        if problem := _path_problem(path):
            yield Finding(check="path", path=path, problem=problem, remedy="rename or remove the file")
        if too_large := size_finding(path, part.size, limits):
            yield too_large


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


def _card(parcel: Parcel) -> list[Finding]:
    part = parcel.parts.get("README.md")
    if part is None:
        remedy = "write one, with front matter: license at least"
        return [Finding(check="card", path="README.md", problem="there is no card", remedy=remedy)]
    found = lint_card(part.text(), parcel.repo_type, parcel.parts)
    return [each for each in found if each.check == "card"]  # secrets are searched for with all other texts


def _texts(parcel: Parcel) -> Iterator[Finding]:
    for path, part in parcel.parts.items():
        if part.size <= TEXT_LIMIT:
            content = part.read()
            if b"\0" not in content[: 1 << 20]:
                is_rows = parcel.kind == "dataset" and path.endswith(ROWS)
                yield from scan(path, content.decode("utf-8", "replace"), ROW_PATTERNS if is_rows else PATTERNS)
        elif path.endswith(TEXTS):
            problem, remedy = "is too large to be searched for secrets", "split it into files below 50 MB"
            yield Finding(check="secrets", path=path, problem=problem, remedy=remedy)


NUMBERS = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2"}
"""How numpy reads the types that can be infinite; it knows no bfloat16, of which the bits are looked at."""
BF16_EXPONENT = 0x7F80
OPTIMIZER = re.compile(r"(^|[._])(optimizer|exp_avg|exp_avg_sq|momentum_buffer|max_exp_avg)", re.I)
LORA = re.compile(r"base_model\.model\.(?P<module>.+)\.lora_(?:embedding_)?(?P<side>[AB])(?:\.weight)?")


@dataclass(frozen=True)
class Weights:
    """A safetensors file that was read: its checksum, the shapes of its tensors, and what is wrong with it."""

    part: Part
    shapes: dict[str, tuple[int, ...]]
    findings: tuple[Finding, ...]


def inspect(file: Path, path: str) -> Weights:
    """Return what is in a safetensors file; `path` is its name in messages."""
    part = part_of(file)
    try:
        safe_open(file, framework="np")  # reads no numbers; that the header is sound and fills the file is all it tells
    except SafetensorError as error:
        problem = (
            f"is no safetensors file, or was cut short: {str(error).removeprefix('Error while deserializing header: ')}"
        )
        remedy = "save the adapter again with save_pretrained, or fetch it again"
        return Weights(part, {}, (Finding(check="weights", path=path, problem=problem, remedy=remedy),))
    with file.open("rb") as source:
        (length,) = struct.unpack("<Q", source.read(8))
        header = {name: each for name, each in json.loads(source.read(length)).items() if name != "__metadata__"}
    problems = []
    for name, each in header.items():
        if not _is_finite(file, 8 + length, each):
            remedy = "the training went wrong; go back to an earlier checkpoint and train again"
            problems.append((f"{name!r} holds numbers that are infinite or no number at all", remedy))
    states = [name for name in header if OPTIMIZER.search(name)]
    if states:
        remedy = "publish what save_pretrained writes, not a checkpoint"
        problems = [*problems[:5], (f"{states[0]!r} is the state of an optimizer, not a weight", remedy)]
    findings = [Finding(check="weights", path=path, problem=problem, remedy=remedy) for problem, remedy in problems[:6]]
    return Weights(part, {name: tuple(each["shape"]) for name, each in header.items()}, tuple(findings))


def _is_finite(file: Path, at: int, tensor: Mapping[str, Any]) -> bool:
    start, end = tensor["data_offsets"]
    if tensor["dtype"] not in NUMBERS or start == end:
        return True
    kind = np.dtype(NUMBERS[tensor["dtype"]])
    numbers: Any = np.memmap(file, kind, "r", at + start, ((end - start) // kind.itemsize,))
    if tensor["dtype"] == "BF16":
        return not ((numbers & BF16_EXPONENT) == BF16_EXPONENT).any()
    return bool(np.isfinite(numbers).all())


def fit_findings(path: str, shapes: Mapping[str, tuple[int, ...]], config: Mapping[str, Any]) -> list[Finding]:
    """Return where the tensors are not those that adapter_config.json announces."""
    problems: list[str] = []
    sides: dict[str, dict[str, tuple[int, ...]]] = {}
    for name, shape in shapes.items():
        match = LORA.fullmatch(name)
        if match is None:
            problems.append(f"holds {name!r}, which is no part of a LoRA adapter")
        else:
            sides.setdefault(match["module"], {})[match["side"]] = shape
    if not sides:
        problems.append("holds no LoRA matrices at all")
    listed = config.get("target_modules")
    targets = [str(each) for each in listed] if isinstance(listed, list) else []
    for module, found in sides.items():
        if problem := _pair_problem(module, found, targets, config):
            problems.append(problem)
    for target in targets:
        if not any(_is_target(module, target) for module in sides):
            problems.append(f"has nothing for the target module {target!r}")
    remedy = "publish the adapter folder as it was saved: weights and adapter_config.json together"
    return [Finding(check="weights", path=path, problem=f"{path} {problem}", remedy=remedy) for problem in problems[:5]]


def _pair_problem(
    module: str, found: Mapping[str, tuple[int, ...]], targets: Sequence[str], config: Mapping[str, Any]
) -> str | None:
    down, up = found.get("A"), found.get("B")
    if down is None or up is None:
        return f"has only one of the two matrices of {module}"
    if len(down) != 2 or len(up) != 2 or down[0] != up[1]:
        return f"has matrices of {module} that do not fit each other: {down} and {up}"
    ranks = config.get("rank_pattern") or {}
    rank = next((r for name, r in ranks.items() if module.endswith(name)), config.get("r"))
    if down[0] != rank:
        return f"has rank {down[0]} in {module}, but the configuration says {rank}"
    if targets and not any(_is_target(module, target) for target in targets):
        return f"changes {module}, which is none of the target modules"
    return None


def _is_target(module: str, target: str) -> bool:
    return module == target or module.endswith(f".{target}")
