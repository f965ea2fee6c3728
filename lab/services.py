"""Everything the tabs need from outside, made once; what the first paint can do without is imported late."""

import random
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property, partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evals.schema.questions import Progress
from lab.engine import LabEngine, Load
from lab.jobs import Jobs
from lab.settings import REFINER, REPORTS, LabSettings, Person, Role, Server, read_people
from training.models.manifest import OURS, chain_file

if TYPE_CHECKING:
    from evals.refine.judge import Judge
    from lab.session import Recorded
    from lab.shared.evaluations import Evaluations
    from lab.shared.reader import Reader
    from lab.store.answers import Store

JUDGED_AT_ONCE = 8
OPENING = threading.Lock()
"""Held while a store is opened, which may change its tables."""


@dataclass(frozen=True)
class Services:
    """What the user interface works with.

    `opened` gives the store. `reports` reads the evaluations of the chain, those that no longer hold apart; `random` draws stages, sides and
    questions. `readers` gives who can review papers. `refiner` names the chain that answers from evidence, "" the
    lab's own. `people` may enter, by name; nobody named: everybody may. `recorded` are earlier answers that Compare
    shows; without them a model writes new ones.
    """

    settings: LabSettings
    engine: LabEngine
    opened: "Callable[[], Store]"
    reports: "Callable[[], Evaluations]"
    readers: "Callable[[], tuple[Reader, ...]]"
    now: Callable[[], datetime]
    random: random.Random
    refiner: str = ""
    recorded: "Recorded | None" = None
    people: Mapping[str, Person] = field(default_factory=dict)

    def role_of(self, name: str | None) -> Role:
        """Return what somebody may do who came in by this name, None = without one."""
        person = self.people.get(name or "")
        return person.role if person else "reader" if self.people else self.settings.everyone

    @property
    def is_local(self) -> bool:
        """Whether sets are kept and runs published here: not on a Space, nor in a bundle, which hold nobody's token."""
        return not self.settings.training.is_space and find_spec("lab.publishing") is not None

    @cached_property
    def store(self) -> "Store":
        """Every answer and vote, opened on first use: the page is on the air before. Raises LabError if it cannot be opened."""
        with OPENING:
            return self.opened()

    @property
    def is_open(self) -> bool:
        """Whether the store has been opened."""
        return "store" in vars(self)

    @cached_property
    def jobs(self) -> Jobs:
        """Long work: who builds a tab registers how its kind is done, and the running lab does it."""
        return Jobs(self)

    @cached_property
    def going(self) -> dict[tuple[str, str], Any]:
        """What is being written for visitors who may load the page again, by who they are and what it will be called."""
        return {}

    def log(self, who: str, what: str, about: str) -> None:
        """Keep who did what, for `assay people log`."""
        self.store.log(who, what, about, self.now())


def build_services(settings: LabSettings, tell: Callable[[str], None] | None = None) -> Services:
    """Return the real collaborators, nothing opened or loaded so far; `tell` is given each vote, as of `Store`."""
    return Services(
        settings=settings,
        engine=LabEngine(loading(settings)),
        opened=partial(open_store, settings.database_url, tell),
        reports=partial(load_reports, settings.chain, reports_folder(settings.chain, settings.reports)),
        readers=partial(readers_of, settings),
        now=partial(datetime.now, UTC),
        random=random.SystemRandom(),
        refiner=settings.refiner or (REFINER if chain_file(REFINER).parent.is_dir() else ""),
        people=read_people(settings.people) if settings.people else {},
    )


def open_store(url: str, tell: Callable[[str], None] | None = None) -> "Store":
    """Return the store at `url`, its tables created or brought up to date first; LabError if it cannot be opened.

    The questions of its frozen sets are known from then on: answers to test rows of a set train nothing.
    """
    from lab.store.answers import Store, is_current

    if not is_current(url):
        from lab.store.database import upgrade

        upgrade(url)
    store = Store(url, tell=tell)
    if sets := [each.document for each in store.documents("question_set").everything()]:
        from evals.questions import register
        from evals.questions.sets import to_example  # not in every bundle

        for kept in sets:
            register(to_example(row, kept.title) for row in kept.rows)
    return store


def loading(settings: LabSettings) -> Load:
    """Return what loads a chain by name, "" the lab's own with the hosted models; chains on one base share it. Imports torch."""
    loaded: list[Any] = []

    def load(name: str, progress: Progress) -> Any:
        progress(0.0, "starting PyTorch")
        from lab.gpu import the_gpu
        from training.models.chain import load_chain

        named = name or settings.chain
        loaded.append(load_chain(named, settings.dtype, progress, cache=settings.cache, beside=loaded))
        loaded[-1].lend = the_gpu().lend
        if name or not settings.hosted:
            return loaded[-1]
        from training.serve.hosted import with_hosted

        return with_hosted(loaded[-1], settings.hosted)

    return load


def load_reports(chain: str, *others: Path) -> "Evaluations":
    """Return the evaluations that lie beside the chain, or in other folders; none if it was never evaluated."""
    from lab.shared.evaluations import read_evaluations

    return read_evaluations(chain, *dict.fromkeys((chain_file(chain).parent / REPORTS, *others)))


def reports_folder(chain: str, others: Path) -> Path:
    """Return where the lab writes reports on a chain: beside one of one's own, else into a folder of `others`."""
    folder = chain_file(chain).parent
    return folder / REPORTS if chain not in OURS and folder.is_dir() else others / re.sub(r"[^\w.-]+", "-", chain)


def find_judge(server: Server | None) -> "Judge":
    """Return who grades answers that cite evidence: a server's model, or word overlap, which says so."""
    from training.judge.judge import judge_of
    from training.judge.prompts import HttpSettings

    if server is None:
        return judge_of(HttpSettings("heuristic"))
    known = (server.url, server.model, server.key_variable, server.allow_remote)
    return judge_of(HttpSettings(*known, concurrency=JUDGED_AT_ONCE))


def readers_of(settings: LabSettings) -> "tuple[Reader, ...]":
    from lab.shared.reader import find_readers

    return find_readers(settings)
