"""Everything the tabs need from outside, in one typed bundle that tests can fill themselves.

The only file that imports torch, and late: after the first paint, in the engine's thread.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from evals.model import Progress
from lab.engine import Chain, Engine
from lab.evaluations import Evaluations, read_evaluations
from lab.settings import EMBEDDED, Settings
from lab.store import Store, is_current

if TYPE_CHECKING:
    from training.completions import Sampled
    from training.launch import Launch
    from training.plan import Plan

REPORTS = "reports"


@dataclass(frozen=True)
class Services:
    """Collaborators of the user interface.

    `reports` reads the evaluations of the chain, those that no longer hold apart; `random` draws
    stages, sides and questions.
    """

    settings: Settings
    engine: Engine
    store: Store
    reports: Callable[[], Evaluations]
    now: Callable[[], datetime]
    random: random.Random


def build_services(settings: Settings) -> Services:
    """Return the real collaborators. The model is not loaded yet: `services.engine.start()` does.

    Raises LabError if the database cannot be opened.
    """

    def load(progress: Progress) -> Chain:
        return load_chain(settings, progress)

    return Services(
        settings=settings,
        engine=Engine(load),
        store=open_store(settings.database_url),
        reports=lambda: load_reports(settings.chain),
        now=lambda: datetime.now(UTC),
        random=random.SystemRandom(),
    )


def open_store(url: str) -> Store:
    """Return the store at `url`, its tables created or brought up to date first."""
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
