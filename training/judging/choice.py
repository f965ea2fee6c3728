"""Which judge is meant by a word: stub, heuristic, or the address of a server."""

from typing import Literal

from evals.errors import BadConfig
from evals.refiner.heuristic import HeuristicJudge
from evals.refiner.judging import Judge
from evals.refiner.stub import StubJudge
from training.judging.http import HttpJudge
from training.judging.settings import HttpSettings

Backend = Literal["http", "heuristic", "stub"]


def judge_of(backend: Backend, settings: HttpSettings | None = None) -> Judge:
    """Return the judge of a name; `settings` are for "http"."""
    if backend == "heuristic":
        return HeuristicJudge()
    if backend == "stub":
        return StubJudge()
    if settings is None:
        raise BadConfig(
            "the judge is http, but no address was given; set judge to one, such as http://127.0.0.1:8000/v1."
        )
    return HttpJudge(settings)


def backend_of(word: str) -> Backend:
    """Return which judge a word names; BadConfig for what is neither a name nor an address."""
    if word in ("stub", "heuristic"):
        return "stub" if word == "stub" else "heuristic"
    if word.startswith(("http://", "https://")):
        return "http"
    raise BadConfig(
        f"there is no judge {word!r}; use stub, heuristic, or the address of a server, such as"
        " http://127.0.0.1:8000/v1."
    )
