"""Safetensors files, read once: checksum, what they hold, and whether every number is one.

Reading never runs anything and needs no tensor library. One pass gives all of it, so that checking a
large adapter costs little more than hashing it.
"""

import hashlib
import json
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Any

import numpy as np

from evals.schema.publishing import Finding

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
SIZES |= {"F8_E4M3": 1, "F8_E5M2": 1} | {
    name: kind.itemsize for name, (kind, _) in INFINITE.items()
}
OPTIMIZER = re.compile(r"(^|[._])(optimizer|exp_avg|exp_avg_sq|momentum_buffer|max_exp_avg)", re.I)
LORA = re.compile(
    r"base_model\.model\.(?P<module>.+)\.lora_(?:embedding_)?(?P<side>[AB])(?:\.weight)?"
)


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
    return [
        Finding(check="weights", path=path, problem=f"{path} {problem}", remedy=remedy)
        for problem in problems[:5]
    ]


def _pair_problems(
    module: str, found: dict[str, tuple[int, ...]], config: dict[str, Any]
) -> list[str]:
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
