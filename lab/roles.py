"""Who may enter and do what: names, hashed passwords and roles in a file, and what each role may call."""

import base64
import hashlib
import hmac
import os
import time
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Literal

from evals.errors import BadRow, LabError
from evals.io import write_whole
from lab.ui.text import say

Role = Literal["reader", "rater", "admin"]
ROLES: tuple[Role, ...] = ("reader", "rater", "admin")
COST = {"n": 2**14, "r": 8, "p": 1}
"""Of scrypt: 16 MB and about .05 s for each password."""
MOST_WRONG, WAIT_SECONDS = 5, 60
"""After so many wrong passwords in a row a name, and an address, has to wait."""
Log = Callable[[str, str, str], None]
"""Keeps who did what, and to what."""


@dataclass(frozen=True)
class Person:
    """A name that may enter; `password` is `hashed`, never the text."""

    name: str
    role: Role
    password: str

    def __str__(self) -> str:
        return f"{self.name}:{self.role}:{self.password}"


def hashed(password: str, salt: bytes | None = None) -> str:
    """Return `scrypt$<salt>$<key>`, both in base64; the same password twice gives two texts."""
    salt = salt or os.urandom(16)
    key = hashlib.scrypt(password.encode(), salt=salt, dklen=32, **COST)
    return "$".join(("scrypt", *(base64.b64encode(part).decode() for part in (salt, key))))


NOBODY = Person("", "reader", hashed("", b"assay of nobody!"))


def read_people(path: Path) -> dict[str, Person]:
    """Return who stands in a file, by name; BadRow for a line that is not name:role:hash, LabError if it names nobody."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise LabError(say("people.unreadable", path=path, error=type(error).__name__)) from error
    people = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, _, rest = line.strip().partition(":")
        role, _, password = rest.partition(":")
        known = next((each for each in ROLES if each == role), None)
        if not name or known is None or password.count("$") != 2 or not password.startswith("scrypt$"):
            # The line is not repeated: it may be a password.
            raise BadRow(path, number, "name:role:hash", say("people.line", path=path))
        people[name] = Person(name, known, password)
    if not people:
        raise LabError(say("people.nobody", path=path))
    return people


def write_people(path: Path, people: dict[str, Person]) -> None:
    """Write the file anew, readable by its owner alone."""
    write_whole(path, "".join(f"{person}\n" for person in people.values()))
    path.chmod(0o600)


def password_check(
    people: Mapping[str, Person], log: Log, now: Callable[[], float] = time.monotonic
) -> Callable[[str, str], bool]:
    """Return what says whether a name and password belong together; a name that is not known takes as long to refuse.

    After `MOST_WRONG` wrong passwords in a row a name has to wait `WAIT_SECONDS`, whoever tries and from wherever:
    `HTTPException` with status 429. Only a right password of that name ends its count before.
    """
    wrong: dict[str, list[float]] = {}

    def is_right(name: str, password: str) -> bool:
        person, told, at = people.get(name, NOBODY), name[:80], now()
        for known in [each for each, tries in wrong.items() if at - tries[-1] >= WAIT_SECONDS]:
            del wrong[known]
        if len(wrong.get(told, ())) >= MOST_WRONG:
            from starlette.exceptions import HTTPException

            log(told, "has to wait", "")
            raise HTTPException(429, say("login.wait", most=MOST_WRONG, seconds=WAIT_SECONDS))
        salt = base64.b64decode(person.password.split("$")[1])
        is_right = hmac.compare_digest(hashed(password, salt), person.password) and person is not NOBODY
        log(told, "logged in" if is_right else "wrong password", "")
        if is_right:
            wrong.pop(told, None)
        else:
            wrong.setdefault(told, []).append(at)
        return is_right

    return is_right


@cache
def role_needed(event: str) -> Role:
    """Return the least role that may call an event of the page (`roles.toml`); one that is not named takes an admin.

    >>> role_needed("leaderboard"), role_needed("vote_left"), role_needed("train_start"), role_needed("new_event")
    ('reader', 'rater', 'admin', 'admin')
    """
    known = tomllib.loads(Path(__file__).with_name("roles.toml").read_text(encoding="utf-8"))
    return next((role for role in ROLES[:-1] if any(fnmatchcase(event, each) for each in known[role])), "admin")
