"""Everything the tabs need from outside, in one typed bundle that tests can fill themselves.

What the first paint can do without is imported here, and late: the database when it is first asked,
torch in the engine's thread.
"""

import random
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from evals.model import Progress
from lab.engine import Chain, Engine
from lab.evaluations import Evaluations, read_evaluations
from lab.settings import EMBEDDED, Settings

if TYPE_CHECKING:
    from lab.store import Store
    from training.completions import Sampled
    from training.launch import Launch
    from training.plan import Plan

REPORTS = "reports"
Made = TypeVar("Made")


@dataclass(frozen=True)
class Services:
    """Collaborators of the user interface.

    `opened` gives the store, the same each time; `reports` reads the evaluations of the chain, those
    that no longer hold apart; `random` draws stages, sides and questions.
    """

    settings: Settings
    engine: Engine
    opened: "Callable[[], Store]"
    reports: Callable[[], Evaluations]
    now: Callable[[], datetime]
    random: random.Random

    @property
    def store(self) -> "Store":
        """Every answer and vote; opened by whoever asks first. Raises LabError if it cannot be."""
        return self.opened()


def build_services(settings: Settings) -> Services:
    """Return the real collaborators. Nothing is opened yet: `lab.app.launch` does, and loads the model."""

    def load(progress: Progress) -> Chain:
        return load_chain(settings, progress)

    return Services(
        settings=settings,
        engine=Engine(load),
        opened=once(lambda: open_store(settings.database_url)),
        reports=lambda: load_reports(settings.chain),
        now=lambda: datetime.now(UTC),
        random=random.SystemRandom(),
    )


def once(make: Callable[[], Made]) -> Callable[[], Made]:
    """Return a function that gives what `make` made at the first call; threads wait for that one.

    A call that raises has made nothing: the next one tries again.
    """
    lock, made = threading.Lock(), list[Made]()

    def given() -> Made:
        with lock:
            if not made:
                made.append(make())
        return made[0]

    return given


def open_store(url: str) -> "Store":
    """Return the store at `url`, its tables created or brought up to date first.

    Raises LabError if the database cannot be opened.
    """
    from lab.store import Store, is_current

    if not is_current(url):
        from lab.migrate import upgrade

        upgrade(url)
    return Store(url)


def load_chain(settings: Settings, progress: Progress) -> Chain:
    """Return the chain that the settings name, ready to answer. Takes seconds; imports torch."""
    progress(0.0, "starting PyTorch")
    from lab.gpu import Borrowed
    from training.chain import load_chain as load

    chain = load(settings.chain, dtype=settings.dtype, progress=progress, cache=settings.cache)
    return Borrowed(chain)


def load_reports(chain: str) -> Evaluations:
    """Return the evaluations that lie beside the chain; none if it was never evaluated."""
    return read_evaluations(chain, chain_folder(chain) / REPORTS)


def plan_training(stage: str, words: Sequence[str], launch: "Launch", *, is_dry: bool) -> "Plan":
    """Return what a training command would do; LabError if it cannot be run, see `training.plan`."""
    from training.plan import plan_of

    return plan_of(stage, words, launch, is_dry=is_dry)


def read_completions(file: Path) -> "tuple[Sampled, ...] | None":
    """Return the answers that a run sampled at one step; None while their file is not whole."""
    from training.completions import read_completions as read

    return read(file)


def chain_folder(chain: str) -> Path:
    """Return the folder of a chain without loading it: "embedded", a run folder or a chain.json.

    A chain that is a base model alone (base:NAME) has none; the path returned does not exist.
    """
    if chain == EMBEDDED:
        return Path(__file__).parents[1] / "training" / "embedded" / "grpo"
    path = Path(chain).expanduser()
    return path.parent if path.suffix == ".json" else path
