"""What must hold before anything is uploaded, whatever is published."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from evals.errors import LabError
from evals.schema.publishing import Finding
from hub.lint import lint_card
from hub.parcel import Parcel
from hub.secrets import PATTERNS, PERSONAL, scan

GIGABYTE = 1_000_000_000
PICKLES = frozenset(
    (".bin", ".pt", ".pth", ".pkl", ".pickle", ".ckpt", ".joblib", ".npy", ".h5", ".msgpack")
)
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
        remedy="an adapter has megabytes: look at what was saved; if it is right, lift the limit with"
        " --max-file-gb",
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
            yield Finding(
                check="path", path=path, problem=problem, remedy="rename or remove the file"
            )
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
        return (
            "files of this kind can run code when they are loaded; only safetensors are published"
        )
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
