"""What the lab is told from outside: where it keeps things, which chain it shows, who may do what."""

import base64
import hashlib
import hmac
import ipaddress
import os
import time
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Literal

from platformdirs import user_cache_path, user_data_path

from evals.errors import BadConfig, BadRow, LabError
from evals.io import write_whole
from lab.ui.text import say
from training.models.manifest import run_folders

EMBEDDED = "embedded"
REVIEWER = "reviewer"
REFINER = "refiner"
REPORTS = "reports"
"""The folder beside a chain that its evaluations lie in."""
EMBEDDED_RUNS = Path(__file__).parents[1] / "training" / "embedded"


@dataclass(frozen=True)
class TrainingSettings:
    """Where runs are looked for, and who may start one from the page.

    New runs go below the first of `runs`. `is_allowed` None: on this machine's own page and behind a
    password, but not on a page that anybody can reach (`is_shared`) or on a Space. `at_once` 0: one at
    a time on a machine without a GPU, any number on one with.
    """

    runs: tuple[Path, ...] = (Path("runs"), EMBEDDED_RUNS)
    configs: Path = field(default_factory=lambda: _data_folder() / "configs")
    is_allowed: bool | None = None
    is_shared: bool = False
    is_space: bool = False
    at_once: int = 0


@dataclass(frozen=True)
class Server:
    """A server whose model reviews papers or grades answers. `key_variable` names where its key is.

    `allow_remote`: it may be on another machine, to which papers and answers are then sent. `context` is how many
    tokens a reviewer reads.
    """

    url: str
    model: str = ""
    key_variable: str = ""
    allow_remote: bool = False
    context: int = 16_384


@dataclass(frozen=True)
class LabSettings:
    """Everything the lab needs to know before it starts.

    `cache` holds what can be made again, the database what cannot. `chain` and `reviewer` are names of ours, run
    folders or chain.json files; so is `refiner`, empty: ours if it is there, else `chain`. `judge` None: answers are
    graded by word overlap. `questions` are question sets of one's own that get a verdict in Ask. `hosted` are models
    that answer beside the chain's stages (`training.serve.hosted`). `people` names who may enter (`lab.settings`); without
    it others are let in only where `allows_everyone`, under the host names of this machine and `hosts`. `reports` is where those on chains go that have no folder of one's
    own.
    """

    cache: Path
    database_url: str
    chain: str = EMBEDDED
    dtype: Literal["bfloat16", "float32"] | None = None
    training: TrainingSettings = field(default_factory=TrainingSettings)
    reviewer: str = REVIEWER
    review_server: Server | None = None
    refiner: str = ""
    judge: Server | None = None
    questions: tuple[str, ...] = ()
    hosted: tuple[str, ...] = ()
    people: Path | None = None
    allows_everyone: bool = False
    hosts: tuple[str, ...] = ()
    reports: Path = field(default_factory=lambda: _data_folder() / REPORTS)

    @property
    def everyone(self) -> Literal["rater", "admin"]:
        """What somebody without a name may do: all on a page of this machine alone, judge on one that others reach."""
        is_open = (self.training.is_shared or self.training.is_space) and not self.training.is_allowed
        return "rater" if is_open else "admin"


def from_environment(environment: Mapping[str, str] = os.environ) -> LabSettings:
    """Return the settings of the variables that begin with ASSAY_, or their defaults.

    Where Gradio is told to listen counts as well: app.py has no options of its own. BadConfig for a value that
    makes no sense.
    """
    cache, configs = environment.get("ASSAY_CACHE"), environment.get("ASSAY_CONFIGS")
    if not (at_once := environment.get("ASSAY_TRAININGS_AT_ONCE", "0")).isdecimal():
        raise BadConfig(f"ASSAY_TRAININGS_AT_ONCE is {at_once!r}; it takes a whole number.")
    is_allowed = _is_on(environment, "ASSAY_ALLOW_TRAINING") if environment.get("ASSAY_ALLOW_TRAINING") else None
    if (dtype := environment.get("ASSAY_DTYPE") or None) not in (None, "bfloat16", "float32"):
        raise BadConfig(f"ASSAY_DTYPE is {dtype!r}; it takes bfloat16 or float32.")
    return LabSettings(
        cache=Path(cache).expanduser() if cache else user_cache_path("assay", appauthor=False),
        database_url=environment.get("ASSAY_DATABASE_URL") or f"sqlite:///{_data_folder() / 'assay.db'}",
        chain=environment.get("ASSAY_CHAIN") or EMBEDDED,
        dtype=dtype,
        training=TrainingSettings(
            runs=(*run_folders(environment), *(() if environment.get("ASSAY_RUNS") else (EMBEDDED_RUNS,))),
            configs=Path(configs).expanduser() if configs else TrainingSettings().configs,
            is_allowed=is_allowed,
            is_shared=not is_loopback(environment.get("GRADIO_SERVER_NAME") or "127.0.0.1"),
            is_space="SPACE_ID" in environment,
            at_once=int(at_once),
        ),
        reviewer=environment.get("ASSAY_REVIEWER") or REVIEWER,
        review_server=_server(environment, "ASSAY_REVIEW_SERVER"),
        refiner=environment.get("ASSAY_REFINER", ""),
        judge=_server(environment, "ASSAY_JUDGE"),
        questions=comma_separated(environment.get("ASSAY_QUESTIONS", "")),
        hosted=tuple(environment.get("ASSAY_HOSTED", "").split()),
        people=Path(people).expanduser() if (people := environment.get("ASSAY_PEOPLE")) else None,
        allows_everyone=_is_on(environment, "ASSAY_ALLOW_EVERYONE"),
        hosts=tuple(environment.get("ASSAY_ALLOW_HOST", "").split()),
        reports=Path(reports).expanduser()
        if (reports := environment.get("ASSAY_REPORTS"))
        else _data_folder() / REPORTS,
    )


def comma_separated(text: str) -> tuple[str, ...]:
    """Return the parts of a text between commas, without blanks and empty ones."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def is_loopback(host: str) -> bool:
    """Whether an address to listen on is reached from this machine alone.

    >>> is_loopback("localhost"), is_loopback("127.0.0.1"), is_loopback("0.0.0.0"), is_loopback("box")
    (True, True, False, False)
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _server(environment: Mapping[str, str], name: str) -> Server | None:
    """Return the server of a variable and of those with _MODEL, _KEY_VARIABLE, _ALLOW_REMOTE and _CONTEXT behind it."""
    url = environment.get(name)
    if not url:
        return None
    if not url.startswith(("http://", "https://")):
        raise BadConfig(f"{name} is {url!r}; it takes the address of a server, such as http://127.0.0.1:8000/v1.")
    context = environment.get(f"{name}_CONTEXT") or str(Server.context)
    if not context.isdecimal() or int(context) < 1024:
        raise BadConfig(f"{name}_CONTEXT is {context!r}; it takes a whole number from 1024 up.")
    return Server(
        url=url,
        model=environment.get(f"{name}_MODEL", ""),
        key_variable=environment.get(f"{name}_KEY_VARIABLE", ""),
        allow_remote=_is_on(environment, f"{name}_ALLOW_REMOTE"),
        context=int(context),
    )


def _is_on(environment: Mapping[str, str], name: str) -> bool:
    value = environment.get(name, "")
    if value not in ("", "0", "1"):
        raise BadConfig(f"{name} is {value!r}; it takes 1 or 0.")
    return value == "1"


def _data_folder() -> Path:
    return user_data_path("assay", appauthor=False)


# ---- who may enter and do what -------------------------------------------------------------------


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
    """A name that may enter; `password` is `hash_password`, never the text."""

    name: str
    role: Role
    password: str

    def __str__(self) -> str:
        return f"{self.name}:{self.role}:{self.password}"


def hash_password(password: str, salt: bytes | None = None) -> str:
    """Return `scrypt$<salt>$<key>`, both in base64; the same password twice gives two texts."""
    salt = salt or os.urandom(16)
    key = hashlib.scrypt(password.encode(), salt=salt, dklen=32, **COST)
    return "$".join(("scrypt", *(base64.b64encode(part).decode() for part in (salt, key))))


NOBODY = Person("", "reader", hash_password("", b"assay of nobody!"))


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
        is_right = hmac.compare_digest(hash_password(password, salt), person.password) and person is not NOBODY
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

    >>> role_needed("results"), role_needed("vote_left"), role_needed("train_start"), role_needed("new_event")
    ('reader', 'rater', 'admin', 'admin')
    """
    known = tomllib.loads(Path(__file__).with_name("roles.toml").read_text(encoding="utf-8"))
    return next((role for role in ROLES[:-1] if any(fnmatchcase(event, each) for each in known[role])), "admin")
