"""A store in a temporary folder, and short ways to put answers and votes into it."""

import random
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from evals.schema import Answer, Choice, Comparison, EvalReport
from lab.engine import LabEngine
from lab.services import Services
from lab.settings import LabSettings
from lab.shared.evaluations import Evaluations
from lab.store.answers import Store
from lab.store.database import upgrade

NOON = datetime(2026, 1, 2, 12, 0, tzinfo=UTC)
OPENED: list[Store] = []
"""Stores of labs, closed after each test."""


def url_in(folder: Path) -> str:
    return f"sqlite:///{folder / 'assay.db'}"


def new_store(folder: Path) -> Store:
    upgrade(url_in(folder))
    return Store(url_in(folder), now=lambda: NOON + timedelta(days=1))


@cache
def migrated() -> bytes:
    """Return the file of a new database: it is made once a process, not once a lab."""
    with TemporaryDirectory() as name:
        new_store(Path(name)).close()
        return (Path(name) / "assay.db").read_bytes()


def answer(answer_id: str, stage: str = "base", **changes: object) -> Answer:
    fields: dict[str, object] = {
        "id": answer_id,
        "asked_at": NOON,
        "session": "s1",
        "question": "Is MYC up in liver?",
        "example_id": None,
        "stage": stage,
        "text": f"{stage} says yes.\nConfidence: 80%",
        "finish_reason": "stop",
        "chain": "embedded",
        "stage_sha256": f"sha-of-{stage}",
        "system_prompt": "Answer briefly.",
        "seed": 7,
        "max_new_tokens": 96,
        "temperature": 0.0,
        "dtype": "bfloat16",
    }
    return Answer.model_validate(fields | changes)


def vote(left: Answer, right: Answer, choice: Choice, **changes: object) -> Comparison:
    fields: dict[str, object] = {
        "id": f"vote-{left.id}-{right.id}",
        "voted_at": NOON + timedelta(minutes=1),
        "rater": "kim",
        "question": left.question,
        "example_id": left.example_id,
        "left_answer": left.id,
        "right_answer": right.id,
        "left_stage": left.stage,
        "right_stage": right.stage,
        "choice": choice,
    }
    return Comparison.model_validate(fields | changes)


def cast(store: Store, number: int, stages: tuple[str, str], choice: Choice, **changes: object) -> Comparison:
    """Store two answers to one question and a vote between them; `changes` go to both answers."""
    left, right = (answer(f"{side}{number}", stage, **changes) for side, stage in zip(("l", "r"), stages, strict=True))
    store.add_answers([left, right])
    voted_at = NOON + timedelta(minutes=number)
    return store.add_comparison(vote(left, right, choice, voted_at=voted_at))


def services_in(folder: Path, reports: tuple[EvalReport, ...] = ()) -> Services:
    """The lab's collaborators around the store of a folder, new if there is none; the engine has nothing to load."""

    def load(*_: object) -> object:
        raise AssertionError("these tests need no model")

    if not (folder / "assay.db").exists():
        (folder / "assay.db").write_bytes(migrated())
    store = Store(url_in(folder), now=lambda: NOON + timedelta(days=1))
    OPENED.append(store)
    return Services(
        settings=LabSettings(cache=folder / "cache", database_url=url_in(folder), reports=folder / "reports"),
        engine=LabEngine(load),
        opened=lambda: store,
        readers=tuple,
        reports=lambda: Evaluations(reports),
        now=lambda: NOON + timedelta(days=1),
        random=random.Random(0),
    )
