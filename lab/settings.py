"""What the lab is told from outside: where it keeps things and which chain it shows."""

import ipaddress
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from platformdirs import user_cache_path, user_data_path

from evals.errors import BadConfig
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
    that answer beside the chain's stages (`training.serve.hosted`). `people` names who may enter (`lab.roles`); without
    it others are let in only where `allows_everyone`, under the host names of this machine and `hosts`. `reports` is where those on chains go that have no folder of one's
    own.
    """

    cache: Path
    database_url: str
    chain: str = EMBEDDED
    dtype: Literal["bfloat16", "float32"] = "bfloat16"
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
    if (dtype := environment.get("ASSAY_DTYPE") or "bfloat16") not in ("bfloat16", "float32"):
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
