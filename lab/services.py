"""Everything the tabs need from outside, in one typed bundle that tests can fill themselves.

What the first paint can do without is imported here, and late: the database when it is first asked,
torch in the engine's thread.
"""

import random
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from evals.model import Progress
from evals.schema import ChainManifest
from lab.engine import Chain, Engine
from lab.results.evaluations import Evaluations, read_evaluations
from lab.settings import EMBEDDED, EMBEDDED_RUNS, REFINER, JudgeServer, ReviewServer, Settings
from lab.ui.text import say
from training.models.manifest import OURS


@dataclass
class Turns:
    """`turn` is held while a review is written; each page has an event that ends its own."""

    turn: threading.Lock = field(default_factory=threading.Lock)
    _events: dict[str, threading.Event] = field(default_factory=dict)

    def begin(self, owner: str) -> threading.Event:
        """Return what ends the review of a page; an earlier one of the same page is ended."""
        self.stop(owner)
        self._events[owner] = threading.Event()
        return self._events[owner]

    def stop(self, owner: str) -> None:
        """End what a page is having reviewed; what was found stays."""
        if owner in self._events:
            self._events[owner].set()

    def end(self, owner: str, event: threading.Event) -> None:
        """Forget a review that is over; one that the same page has begun since stays."""
        if self._events.get(owner) is event:
            del self._events[owner]


if TYPE_CHECKING:
    from evals.refine.judge import Judge
    from evals.refine.score import Prepared
    from evals.schema import Article
    from evals.schema.refiner import RefinerRecord, ScoredAnswer
    from evals.schema.reviewruns import DraftConcern, KeptReview, ReviewForm
    from lab.review.export import Exported
    from lab.review.session import Reader
    from lab.store.answers import Store
    from lab.store.documents import ReviewVote
    from training.launch.accelerate import Launch
    from training.launch.plan import Plan
    from training.models.chain import LoadedChain
    from training.run.folder import Sampled

REPORTS = "reports"
JUDGE_SECONDS = 120.0
"""How long a visitor waits for the verdicts on all answers to a question."""
JUDGED_AT_ONCE = 8
Made = TypeVar("Made")


@dataclass(frozen=True)
class Services:
    """Collaborators of the user interface.

    `opened` gives the store, the same each time; `reports` reads the evaluations of the chain, those
    that no longer hold apart; `random` draws stages, sides and questions. `readers` are those who can
    review papers, one at a time by `turns`. `refiner` answers in the Refine tab where that is another
    chain than the lab's own, `judge` gives who grades there.
    """

    settings: Settings
    engine: Engine
    opened: "Callable[[], Store]"
    reports: Callable[[], Evaluations]
    now: Callable[[], datetime]
    random: random.Random
    readers: "Callable[[], tuple[Reader, ...]]" = tuple
    turns: Turns = field(default_factory=Turns)
    refiner: Engine | None = None
    judge: "Callable[[], Judge]" = lambda: find_judge(None)

    @property
    def store(self) -> "Store":
        """Every answer and vote; opened by whoever asks first. Raises LabError if it cannot be."""
        return self.opened()


def build_services(settings: Settings) -> Services:
    """Return the real collaborators. Nothing is opened yet: `lab.app.launch` does, and loads the model."""

    def loading(chain: str) -> Engine:
        return Engine(lambda progress: load_chain(replace(settings, chain=chain), progress))

    refiner = settings.refiner or (REFINER if chain_folder(REFINER).is_dir() else "")
    return Services(
        settings=settings,
        engine=loading(settings.chain),
        opened=once(lambda: open_store(settings.database_url)),
        reports=lambda: load_reports(settings.chain),
        now=lambda: datetime.now(UTC),
        random=random.SystemRandom(),
        readers=once(lambda: find_readers(settings)),
        refiner=loading(refiner) if refiner else None,
        judge=lambda: find_judge(settings.judge),
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
    from lab.store.answers import Store, is_current

    if not is_current(url):
        from lab.store.migrate import upgrade

        upgrade(url)
    return Store(url)


def load_chain(settings: Settings, progress: Progress) -> Chain:
    """Return the chain that the settings name, ready to answer. Takes seconds; imports torch."""
    progress(0.0, "starting PyTorch")
    from lab.gpu import Borrowed
    from training.models.chain import load_chain as load

    chain = load(settings.chain, dtype=settings.dtype, progress=progress, cache=settings.cache)
    return Borrowed(chain)


def load_reports(chain: str) -> Evaluations:
    """Return the evaluations that lie beside the chain; none if it was never evaluated."""
    return read_evaluations(chain, chain_folder(chain) / REPORTS)


def read_paper(file: str | None, text: str | None) -> "Article":
    """Return the paper in an uploaded file or, without one, in a pasted text; LabError if it is none."""
    from lab.review.papers import paper_of

    return paper_of(file, text)


def demonstration_paper() -> "Article":
    """Return a paper to try the reviewer on."""
    from lab.review.papers import demonstration_paper as found

    return found()


def find_readers(settings: Settings) -> "tuple[Reader, ...]":
    """Return who can review papers: every stage of the reviewer chain, its base, and a named server.

    Where the chain is not there, the embedded base stands alone. Nothing is loaded yet.
    """
    from lab.review.session import LateReader

    file = chain_folder(settings.reviewer) / "chain.json"
    stages = ("base",)
    if file.exists():
        manifest = ChainManifest.model_validate_json(file.read_bytes())
        stages = (*(stage.name for stage in reversed(manifest.stages)), "base")
    chain = once(lambda: load_reviewer(settings, has_chain=file.exists()))
    readers: list[Reader] = [
        LateReader(
            say(f"review.stage.{'base' if stage == 'base' else 'other'}", stage=stage),
            once(partial(chain_reader, stage, chain)),
        )
        for stage in stages
    ]
    server = settings.review_server
    if server is not None:
        name = say("review.server", model=server.model or server.url)
        readers.append(LateReader(name, once(partial(server_reader, name, server))))
    return tuple(readers)


def load_reviewer(settings: Settings, *, has_chain: bool) -> "LoadedChain":
    """Return the reviewer chain in memory; without one, the embedded base. Imports torch."""
    from training.models.chain import load_chain as load

    name = settings.reviewer if has_chain else f"base:{EMBEDDED}"
    return load(name, dtype=settings.dtype, cache=settings.cache)


def chain_reader(stage: str, chain: "Callable[[], LoadedChain]") -> "Reader":
    """Return one stage of a chain as reader. Imports torch."""
    from lab.review.reader import ChainReader

    return ChainReader(say(f"review.stage.{'base' if stage == 'base' else 'other'}", stage=stage), stage, chain)


def server_reader(name: str, server: ReviewServer) -> "Reader":
    """Return a model on a server as reader."""
    from lab.review.reader import ServerReader

    return ServerReader(name, server)


def show_review_board(settings: Settings) -> str:
    """Return the leaderboard of the scores that lie beside the reviewer chain, as HTML."""
    from lab.review.board import board_view

    return board_view(chain_folder(settings.reviewer) / REPORTS)


def export_review(
    review: "KeptReview",
    concerns: "Sequence[DraftConcern]",
    form: "ReviewForm",
    votes: "Sequence[ReviewVote]",
    folder: Path,
) -> "tuple[Exported, Path]":
    """Write a review in one form into `folder`; LabError where there is nothing to write."""
    from lab.review.export import export, write

    made = export(review, concerns, form, votes)
    return made, write(made, folder)


def find_judge(server: JudgeServer | None) -> "Judge":
    """Return who grades answers that cite evidence: a server's model, or word overlap, which says so."""
    from training.judge.judge import judge_of
    from training.judge.questions import HttpSettings

    if server is None:
        return judge_of("heuristic")
    asked = HttpSettings(
        base_url=server.url,
        model=server.model,
        key_variable=server.key_variable,
        allow_remote=server.allow_remote,
        concurrency=JUDGED_AT_ONCE,
    )
    return judge_of("http", asked)


def grade(judge: "Judge", answers: "Sequence[Prepared]") -> "list[ScoredAnswer]":
    """Return answers with all that was made of them; what the judge fails at is missing, never 0."""
    from evals.refine.score import explain
    from training.judge.judge import judged

    asked = [each.inquiry() for each in answers if each.is_judgeable]
    verdicts = iter(judged(judge, asked, JUDGE_SECONDS))
    return [explain(each, next(verdicts) if each.is_judgeable else None, judge.label) for each in answers]


def example_records() -> "tuple[Sequence[RefinerRecord], Sequence[RefinerRecord]]":
    """Return the refiner's example records: those kept for testing, and the others."""
    from evals.refine.bank import refiner_bank

    return refiner_bank().test, refiner_bank().train


def plan_training(stage: str, words: Sequence[str], launch: "Launch", *, is_dry: bool) -> "Plan":
    """Return what a training command would do; LabError if it cannot be run, see `training.launch.plan`."""
    from training.launch.plan import plan_of

    return plan_of(stage, words, launch, is_dry=is_dry)


def read_completions(file: Path) -> "tuple[Sampled, ...] | None":
    """Return the answers that a run sampled at one step; None while their file is not whole."""
    from training.run.folder import read_completions as read

    return read(file)


def chain_folder(chain: str) -> Path:
    """Return the folder of a chain without loading it: one of ours by name, a run folder, a chain.json.

    A chain that is a base model alone (base:NAME) has none; the path returned does not exist.
    """
    if chain in OURS:
        return EMBEDDED_RUNS / OURS[chain]
    path = Path(chain).expanduser()
    return path.parent if path.suffix == ".json" else path
