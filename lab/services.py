"""Everything the tabs need from outside, in one bundle; what the first paint can do without is imported late."""

import random
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from evals.model import Progress
from lab.engine import LabEngine, Load
from lab.jobs import Jobs
from lab.roles import Person, Role, read_people
from lab.settings import REFINER, REPORTS, LabSettings, Server
from training.models.manifest import OURS, chain_file

if TYPE_CHECKING:
    from evals.refine.judge import Judge
    from evals.refine.task import Refine
    from evals.schema.refiner import RewardConfig
    from lab.compare.recorded import Recorded
    from lab.results.evaluations import Evaluations
    from lab.review.reader import Reader
    from lab.store.answers import Store

JUDGE_SECONDS = 120.0
"""How long a visitor waits for the verdicts on all answers to a question."""
JUDGED_AT_ONCE = 8
Made = TypeVar("Made")


@dataclass(frozen=True)
class Services:
    """Collaborators of the user interface.

    `opened` gives the store, the same each time; `reports` reads the evaluations of the chain, those
    that no longer hold apart; `random` draws stages, sides and questions. `readers` are those who can
    review papers. `refiner` names the chain that answers in the Refine tab, "" the lab's own; `judge` gives
    who grades there. `people` may enter, by name; nobody named: everybody may. `recorded` are answers of before that
    Compare shows; without them a model writes new ones.
    """

    settings: LabSettings
    engine: LabEngine
    opened: "Callable[[], Store]"
    reports: "Callable[[], Evaluations]"
    now: Callable[[], datetime]
    random: random.Random
    readers: "Callable[[], tuple[Reader, ...]]" = tuple
    refiner: str = ""
    judge: "Callable[[], Judge]" = lambda: find_judge(None)
    recorded: "Recorded | None" = None
    people: Mapping[str, Person] = field(default_factory=dict)

    def role_of(self, name: str | None) -> Role:
        """Return what somebody may do who came in by this name, None = without one."""
        person = self.people.get(name or "")
        return person.role if person else "reader" if self.people else self.settings.everyone

    def log(self, who: str, what: str, about: str) -> None:
        """Keep who did what, for `assay people log`."""
        self.store.log(who, what, about, self.now())

    @property
    def store(self) -> "Store":
        """Every answer and vote; opened by whoever asks first. Raises LabError if it cannot be."""
        return self.opened()

    @cached_property
    def jobs(self) -> Jobs:
        """Long work: who builds a tab registers how its kind is done, and the running lab does it."""
        return Jobs(lambda: self.store.jobs)


def build_services(settings: LabSettings) -> Services:
    """Return the real collaborators. Nothing is opened yet: `lab.app.launch` does, and loads the model."""

    def readers() -> "tuple[Reader, ...]":
        from lab.review.reader import find_readers

        return find_readers(settings)

    return Services(
        settings=settings,
        engine=LabEngine(loading(settings)),
        opened=once(lambda: open_store(settings.database_url)),
        reports=lambda: load_reports(settings.chain, reports_folder(settings.chain, settings.reports)),
        now=lambda: datetime.now(UTC),
        random=random.SystemRandom(),
        readers=once(readers),
        refiner=settings.refiner or (REFINER if chain_file(REFINER).parent.is_dir() else ""),
        judge=lambda: find_judge(settings.judge),
        people=read_people(settings.people) if settings.people else {},
    )


def once(make: Callable[[], Made]) -> Callable[[], Made]:
    """Return a function that gives what `make` made at the first call that did not raise; threads wait for that one."""
    lock, made = threading.Lock(), list[Made]()

    def given() -> Made:
        with lock:
            if not made:
                made.append(make())
        return made[0]

    return given


def open_store(url: str) -> "Store":
    """Return the store at `url`, its tables created or brought up to date first; LabError if it cannot be opened.

    The questions of its frozen sets are known from then on: answers to test rows of a set train nothing.
    """
    from lab.store.answers import Store, is_current

    if not is_current(url):
        from lab.store.migrate import upgrade

        upgrade(url)
    store = Store(url)
    if sets := [each.document for each in store.documents("question_set").everything()]:
        from evals.questions import register
        from evals.questions.sets import to_example  # not in every bundle

        for kept in sets:
            register(to_example(row, kept.title) for row in kept.rows)
    return store


def loading(settings: LabSettings) -> Load:
    """Return what loads a chain by name, "" the lab's own, or a server's model; chains on one base share it. Imports torch."""
    loaded: list[Any] = []

    def load(name: str, progress: Progress) -> Any:
        progress(0.0, "starting PyTorch")
        from lab.gpu import Borrowed
        from training.models.chain import load_chain

        named = settings.chain if not name or is_hosted(name) else name
        loaded.append(load_chain(named, settings.dtype, progress, cache=settings.cache, beside=loaded))
        hosted = settings.hosted if not name else (name,) if is_hosted(name) else ()
        if not hosted:
            return Borrowed(loaded[-1])
        from training.serve.hosted import with_hosted

        return with_hosted(Borrowed(loaded[-1]), hosted)

    return load


def is_hosted(name: str) -> bool:
    """Whether a name is that of a server's model, NAME=URL#MODEL, and not of a chain."""
    return "=http" in name


def load_reports(chain: str, *others: Path) -> "Evaluations":
    """Return the evaluations that lie beside the chain, or in other folders; none if it was never evaluated."""
    from lab.results.evaluations import read_evaluations

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


def refine_task(judge: "Judge", reward: "RewardConfig") -> "Refine":
    """Return the task `refine` with a judge; what the judge fails at is missing, never 0."""
    from evals.refine.task import Refine
    from training.judge.judge import judged

    return Refine(judge=lambda asked: judged(judge, asked, JUDGE_SECONDS), label=judge.label, reward=reward)
