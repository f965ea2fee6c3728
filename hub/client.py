"""The Hub's client: which Hub, who asks, and its errors in words that say what to do."""

import re
import tempfile
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Literal

import yaml
from httpx2 import HTTPError
from huggingface_hub import HfApi
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    LocalTokenNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
)
from huggingface_hub.utils import parse_ratelimit_headers, validate_repo_id
from pydantic import ValidationError

from evals.errors import LabError
from evals.io import write_whole
from evals.schema import Record
from evals.schema.runs import Diagnostic

REPO = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
TRANSIENT = frozenset((408, 409, 425, 429, 500, 502, 503, 504))
"""Statuses after which the same request may succeed."""
TROUBLE = (HfHubHTTPError, HTTPError, OSError, RuntimeError, ValueError, KeyError)
"""What the client raises when a request fails: ValueError for a card that the Hub refuses, KeyError for
an answer that lacks what it should hold."""
MOST_WAIT = 300.0
"""Seconds that are waited at most when the Hub asks for it: one of its windows."""
WORDS = yaml.safe_load(Path(__file__).with_name("words.yaml").read_text(encoding="utf-8"))
"""What is said where something must not or cannot be published."""
PublicationKind = Literal["adapter", "model", "dataset", "space"]
Visibility = Literal["private", "public"]


class Receipt(Record):
    """What was published, and where. `files` holds the SHA-256 of each file that was uploaded."""

    schema_version: Literal[1] = 1
    kind: PublicationKind
    endpoint: str
    repo: str
    revision: str
    tag: str | None
    pull_request: int | None
    visibility: Visibility
    outcome: Literal["published", "already there"]
    files: dict[str, str]
    finished_at: datetime


class HubTrouble(LabError):
    """The Hub refused or could not be reached. `is_transient`: trying again may help, after `wait` seconds."""

    def __init__(self, message: str, *, is_transient: bool = False, wait: float = 0.0) -> None:
        super().__init__(message)
        self.is_transient, self.wait = is_transient, wait


def wording(key: str, **values: object) -> str:
    """Return an error's words with its places filled in; KeyError if there is none of that name."""
    return WORDS["errors"][key].format(**values)


def finding(key: str, path: str, line: int | None = None, **values: object) -> Diagnostic:
    """Return what was found in a file, and what to do about it."""
    check, problem, remedy, *warning = WORDS["findings"][key]
    told = {"problem": problem.format(**values), "remedy": remedy.format(**values)}
    return Diagnostic(check=check, path=path, line=line, is_error=not warning, **told)


def connect() -> HfApi:
    """Return the client of the Hub of HF_ENDPOINT, with the token that is set there."""
    return HfApi(library_name="assay")


def check_repo(name: str) -> str:
    """Return a repository's name; LabError if it is no ORG/NAME that the Hub takes."""
    problem = "it is not of the form ORG/NAME"
    if REPO.fullmatch(name):
        try:
            validate_repo_id(name)
        except HFValidationError as error:
            problem = str(error).splitlines()[0]
        else:
            return name
    raise LabError(wording("repo", name=name, problem=problem))


def explain(error: Exception, doing: str) -> HubTrouble:
    """Return a client's error as a sentence: what failed, why, what to do next."""
    again = "Try again: it continues where it stopped."
    if isinstance(error, OfflineModeIsEnabled):
        return HubTrouble(f"{doing}: offline mode is set; unset HF_HUB_OFFLINE.")
    if isinstance(error, LocalTokenNotFoundError):
        return HubTrouble(f"{doing}: {WORDS['meanings'][401]}.")
    if isinstance(error, GatedRepoError):
        return HubTrouble(f"{doing}: the repository is gated; ask for access on its page first.")
    if isinstance(error, RepositoryNotFoundError):
        told = "there is no such repository, or your token may not see it. Check the name, and `hf auth whoami`."
        return HubTrouble(f"{doing}: {told}")
    if isinstance(error, HfHubHTTPError):
        status = error.response.status_code
        words = _short(error)
        other = "the Hub failed; try again" if status >= 500 else "refused"
        meaning = WORDS["meanings"].get(status, other)
        if status == 403:
            found = (each for name, each in WORDS["reasons"].items() if re.search(name, words, re.IGNORECASE))
            meaning = next(found, meaning)
        wait = _wait(error.response.headers)
        later = f" The Hub asks to wait {wait / 60:.0f} minutes." if wait > MOST_WAIT else ""
        is_transient = status in TRANSIENT and not later
        return HubTrouble(f"{doing}: {words} ({status}): {meaning}.{later}", is_transient=is_transient, wait=wait)
    if isinstance(error, ValueError) and "Invalid metadata" in str(error):
        return HubTrouble(f"{doing}: the Hub refuses the card. {_short(error)}")
    return HubTrouble(
        f"{doing}: the connection failed ({type(error).__name__}: {_short(error)}). {again}", is_transient=True
    )


def _wait(headers: Mapping[str, str]) -> float:
    """Return how many seconds the Hub asks to wait, by RateLimit or Retry-After, as huggingface_hub's `http_backoff` reads them."""
    limit = parse_ratelimit_headers(headers)
    later = headers.get("retry-after", "")
    return limit.reset_in_seconds + 1.0 if limit and not limit.remaining else float(later if later.isdecimal() else 0)


def _short(error: Exception) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    text = getattr(error, "server_message", None) or (lines[-1] if lines else "no reason given")
    return " ".join(str(text).split())[:300]


def write_receipt(receipt: Receipt, folder: Path) -> Path:
    """Keep a receipt below `folder`, in published/, and return its file."""
    file = folder / "published" / f"{receipt.repo.replace('/', '--')}.json"
    write_whole(file, receipt.model_dump_json(indent=1) + "\n")
    return file


def check_receipts(*folders: Path) -> None:
    """Raise LabError for a folder in which no receipt can be kept: to be asked before anything is uploaded."""
    for folder in folders:
        try:
            (place := folder / "published").mkdir(exist_ok=True)
            with tempfile.TemporaryFile(dir=place):
                pass
        except OSError as error:
            raise LabError(wording("no place", folder=folder, reason=error.strerror)) from None


def read_receipt(folder: Path, repo: str) -> Receipt | None:
    """Return the receipt of what was published from `folder` to a repository, None if there is none."""
    file = folder / "published" / f"{repo.replace('/', '--')}.json"
    try:
        return Receipt.model_validate_json(file.read_bytes()) if file.is_file() else None
    except ValidationError:
        raise LabError(wording("no receipt", file=file)) from None
