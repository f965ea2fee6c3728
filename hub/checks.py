"""What must hold before anything is uploaded, whatever is published."""

import hashlib
import json
import re
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from evals.errors import LabError
from evals.schema.publishing import Finding
from hub.cards.lint import PATTERNS, PERSONAL, lint_card, scan
from hub.plan import Parcel

HEADER_LIMIT = 100_000_000
PIECE = 1 << 20
INFINITE = {
    "F64": (np.dtype("<u8"), 0x7FF0000000000000),
    "F32": (np.dtype("<u4"), 0x7F800000),
    "F16": (np.dtype("<u2"), 0x7C00),
    "BF16": (np.dtype("<u2"), 0x7F80),
}
"""Exponent bits that are all set in what is infinite or no number (IEEE 754; bfloat16 alike)."""
SIZES = {"BOOL": 1, "U8": 1, "I8": 1, "I16": 2, "U16": 2, "I32": 4, "U32": 4, "I64": 8, "U64": 8}
SIZES |= {"F8_E4M3": 1, "F8_E5M2": 1} | {name: kind.itemsize for name, (kind, _) in INFINITE.items()}
OPTIMIZER = re.compile(r"(^|[._])(optimizer|exp_avg|exp_avg_sq|momentum_buffer|max_exp_avg)", re.I)
LORA = re.compile(r"base_model\.model\.(?P<module>.+)\.lora_(?:embedding_)?(?P<side>[AB])(?:\.weight)?")


@dataclass(frozen=True)
class Tensor:
    """What a file says about one tensor; `start` and `end` are bytes after the header."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    start: int
    end: int


@dataclass(frozen=True)
class Weights:
    """A file that was read: its checksum, its tensors, and what is wrong with it."""

    sha256: str
    size: int
    tensors: tuple[Tensor, ...]
    findings: tuple[Finding, ...]


class Unreadable(Exception):
    """The file is not whole, or no safetensors at all."""


def inspect(file: Path, path: str) -> Weights:
    """Return what is in a safetensors file; `path` is its name in messages."""
    size = file.stat().st_size
    digest = hashlib.sha256()
    with file.open("rb") as source:
        try:
            tensors = _header(source, size, digest)
            bad = _read(source, tensors, digest)
        except Unreadable as error:
            remedy = "save the adapter again with save_pretrained, or fetch it again"
            finding = Finding(check="weights", path=path, problem=str(error), remedy=remedy)
            return Weights("", size, (), (finding,))
    return Weights(digest.hexdigest(), size, tensors, tuple(_findings(path, tensors, bad)))


def fit_findings(path: str, tensors: tuple[Tensor, ...], config: dict[str, Any]) -> list[Finding]:
    """Return where the tensors are not those that adapter_config.json announces."""
    problems: list[str] = []
    sides: dict[str, dict[str, tuple[int, ...]]] = {}
    for tensor in tensors:
        match = LORA.fullmatch(tensor.name)
        if match is None:
            problems.append(f"holds {tensor.name!r}, which is no part of a LoRA adapter")
        else:
            sides.setdefault(match["module"], {})[match["side"]] = tensor.shape
    if not sides:
        problems.append("holds no LoRA matrices at all")
    for module, found in sides.items():
        problems += _pair_problems(module, found, config)
    for target in _targets(config):
        if not any(_is_target(module, target) for module in sides):
            problems.append(f"has nothing for the target module {target!r}")
    remedy = "publish the adapter folder as it was saved: weights and adapter_config.json together"
    return [Finding(check="weights", path=path, problem=f"{path} {problem}", remedy=remedy) for problem in problems[:5]]


def _pair_problems(module: str, found: dict[str, tuple[int, ...]], config: dict[str, Any]) -> list[str]:
    down, up = found.get("A"), found.get("B")
    if down is None or up is None:
        return [f"has only one of the two matrices of {module}"]
    if len(down) != 2 or len(up) != 2 or down[0] != up[1]:
        return [f"has matrices of {module} that do not fit each other: {down} and {up}"]
    ranks = config.get("rank_pattern") or {}
    rank = next((r for name, r in ranks.items() if module.endswith(name)), config.get("r"))
    if down[0] != rank:
        return [f"has rank {down[0]} in {module}, but the configuration says {rank}"]
    targets = _targets(config)
    if targets and not any(_is_target(module, target) for target in targets):
        return [f"changes {module}, which is none of the target modules"]
    return []


def _targets(config: dict[str, Any]) -> list[str]:
    """Return the modules that the configuration lists; none where it gives a pattern."""
    targets = config.get("target_modules")
    return [str(each) for each in targets] if isinstance(targets, list) else []


def _is_target(module: str, target: str) -> bool:
    return module == target or module.endswith(f".{target}")


def _header(source: BufferedReader, size: int, digest: Any) -> tuple[Tensor, ...]:
    start = source.read(8)
    if len(start) < 8:
        raise Unreadable("is no safetensors file: it is shorter than a header")
    (length,) = struct.unpack("<Q", start)
    if length > min(HEADER_LIMIT, size - 8):
        raise Unreadable("is no safetensors file, or was cut short: its header does not fit in it")
    text = source.read(length)
    digest.update(start)
    digest.update(text)
    try:
        header = json.loads(text)
        tensors = tuple(
            Tensor(name, str(each["dtype"]), tuple(map(int, each["shape"])), *each["data_offsets"])
            for name, each in header.items()
            if name != "__metadata__"
        )
    except (ValueError, TypeError, KeyError, AttributeError):
        raise Unreadable("is no safetensors file: its header cannot be read") from None
    tensors = tuple(sorted(tensors, key=lambda each: each.start))
    _check_places(tensors, size - 8 - length)
    return tensors


def _check_places(tensors: tuple[Tensor, ...], available: int) -> None:
    """Raise Unreadable unless the tensors lie one after the other and fill the file."""
    at = 0
    for tensor in tensors:
        width = SIZES.get(tensor.dtype)
        if width is None:
            raise Unreadable(f"holds {tensor.name!r} in the unknown type {tensor.dtype!r}")
        length = width * int(np.prod(tensor.shape, dtype=object))
        if tensor.start != at or tensor.end - tensor.start != length:
            raise Unreadable(f"is damaged: {tensor.name!r} does not lie where the header says")
        at = tensor.end
    if at != available:
        raise Unreadable(f"was cut short or added to: {available} bytes of numbers, {at} announced")


def _read(source: BufferedReader, tensors: tuple[Tensor, ...], digest: Any) -> list[str]:
    """Hash the numbers and return the tensors that hold something infinite or no number."""
    bad = []
    buffer = bytearray(PIECE)
    for tensor in tensors:
        is_sound = True
        for piece in _pieces(source, tensor.end - tensor.start, memoryview(buffer)):
            digest.update(piece)
            is_sound = is_sound and _is_finite(piece, tensor.dtype)
        if not is_sound:
            bad.append(tensor.name)
    return bad


def _pieces(source: BufferedReader, length: int, buffer: memoryview) -> Iterator[memoryview]:
    while length > 0:
        piece = buffer[: min(length, len(buffer))]
        read = source.readinto(piece)
        if read != len(piece):
            raise Unreadable("was cut short while it was read")
        length -= read
        yield piece


def _is_finite(piece: memoryview, dtype: str) -> bool:
    if dtype not in INFINITE:
        return True
    kind, exponent = INFINITE[dtype]
    bits = np.frombuffer(piece, kind)
    return not bool(((bits & kind.type(exponent)) == kind.type(exponent)).any())


def _findings(path: str, tensors: tuple[Tensor, ...], bad: list[str]) -> Iterator[Finding]:
    for name in bad[:5]:
        yield Finding(
            check="weights",
            path=path,
            problem=f"{name!r} holds numbers that are infinite or no number at all",
            remedy="the training went wrong; go back to an earlier checkpoint and train again",
        )
    for tensor in tensors:
        if OPTIMIZER.search(tensor.name):
            yield Finding(
                check="weights",
                path=path,
                problem=f"{tensor.name!r} is the state of an optimizer, not a weight",
                remedy="publish what save_pretrained writes, not a checkpoint",
            )
            return


GIGABYTE = 1_000_000_000
PICKLES = frozenset((".bin", ".pt", ".pth", ".pkl", ".pickle", ".ckpt", ".joblib", ".npy", ".h5", ".msgpack"))
STATE = frozenset(("optimizer.pt", "scheduler.pt", "rng_state.pth", "training_args.bin"))
TEXT_LIMIT = 50_000_000
"""Texts up to this size (bytes) are searched for secrets; larger ones are refused unread."""
ROWS = (".jsonl", ".csv", ".parquet")


class Refused(LabError):
    """Something must not be published; `findings` say what, file by file."""

    def __init__(self, findings: Sequence[Finding]) -> None:
        self.findings = tuple(findings)
        lines = [f"nothing was uploaded: {len(self.findings)} problems were found."]
        lines += [f"  {told(each)}" for each in self.findings]
        super().__init__("\n".join(lines).replace(": 1 problems were", ": 1 problem was"))


@dataclass(frozen=True)
class Limits:
    """What the Hub takes, with room to spare."""

    file_bytes: int = 2 * GIGABYTE
    files: int = 10_000


def told(finding: Finding) -> str:
    """Return a finding as one line: where, what, what to do."""
    line = f", line {finding.line}" if finding.line else ""
    return f"{finding.path}{line}: {finding.problem}; {finding.remedy}"


def check_parcel(parcel: Parcel, limits: Limits) -> tuple[Finding, ...]:
    """Return the warnings about a parcel; Refused with all errors if there is one."""
    found = list(parcel.findings)
    found += _shape(parcel, limits)
    found += _card(parcel)
    found += _texts(parcel)
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
        yield Finding(
            check="size",
            path=".",
            problem=f"{len(parcel.parts):,} files, and the limit is {limits.files:,}",
            remedy="put rows together into fewer, larger files",
        )
    for path, part in parcel.parts.items():
        problem = path_problem(path)
        if problem:
            yield Finding(check="path", path=path, problem=problem, remedy="rename or remove the file")
        too_large = size_finding(path, part.size, limits)
        if too_large:
            yield too_large


def path_problem(path: str) -> str | None:
    """Return why a file may not be published under this name; None if it may."""
    place = PurePosixPath(path)
    if place.is_absolute() or "\\" in path or {"..", ".", ""} & set(path.split("/")):
        return "the name leads out of the repository"
    if ".git" in place.parts or place.name in (".env", ".netrc", ".npmrc", ".pypirc"):
        return "files of this name hold settings or secrets and are never published"
    if place.name in STATE:
        return "this is the state of a training run, not part of what is published"
    if place.suffix.lower() in PICKLES:
        return "files of this kind can run code when they are loaded; only safetensors are published"
    if any(ord(letter) < 32 for letter in path) or len(path) > 255:
        return "the name holds control characters or is too long"
    return None


def _card(parcel: Parcel) -> Iterator[Finding]:
    part = parcel.parts.get("README.md")
    if part is None:
        yield Finding(
            check="card",
            path="README.md",
            problem="there is no card",
            remedy="write one, with front matter: license at least",
        )
        return
    text = part.read().decode("utf-8", "replace")
    yield from (
        each
        for each in lint_card(text, parcel.repo_type, parcel.parts)
        if each.check not in ("secrets", "personal data")  # searched for with all other texts
    )


def _texts(parcel: Parcel) -> Iterator[Finding]:
    for path, text in parcel.texts(TEXT_LIMIT):
        is_rows = parcel.kind == "dataset" and path.endswith(ROWS)
        if is_rows:
            kept = [each for each in PATTERNS if each.name not in {one.name for one in PERSONAL}]
            yield from scan(path, text, (*kept, *PERSONAL))
        else:
            yield from scan(path, text)
    for path, part in parcel.parts.items():
        is_text = path.endswith((".json", ".jsonl", ".csv", ".md", ".txt", ".yaml", ".py"))
        if is_text and part.size > TEXT_LIMIT:
            yield Finding(
                check="secrets",
                path=path,
                problem="is too large to be searched for secrets",
                remedy="split it into files below 50 MB",
            )
