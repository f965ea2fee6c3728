"""Who judges, as the commands of `assay refiner` are told: options, the judge they make, and its verdicts."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evals.errors import BadConfig
from lab.console import counted, notes
from training.judging.settings import MAX_VOTES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from evals.refiner.judging import Inquiry, Judge, Verdicts
    from training.judging.settings import HttpSettings

DEADLINE_SECONDS = 3600.0
Word = Annotated[
    str, typer.Option("--judge", help="heuristic (word overlap), or the address of a server.")
]
Model = Annotated[
    str, typer.Option(help="Model to ask of the server; empty = the one that it lists.")
]
KeyEnv = Annotated[
    str, typer.Option("--key-env", help="Variable that holds the server's key; empty = no key.")
]
Remote = Annotated[
    bool,
    typer.Option(
        "--allow-remote", help="Let a server on another machine read evidence and answers."
    ),
]
Cache = Annotated[
    Path | None,
    typer.Option(help="A file that keeps verdicts, so the same question is asked once."),
]
Votes = Annotated[
    int,
    typer.Option(help=f"Votes of a server on each verdict, 1 to {MAX_VOTES}; the majority stands."),
]
Json = Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")]


def judge_of_answers(settings: "HttpSettings") -> "tuple[Judge, str]":
    """Return who judges, and how they are asked; `settings.base_url` is the word for the judge.

    BadConfig for the stub judge: it reads a table that such answers do not have.
    """
    from training.judging.choice import backend_of, judge_of

    backend = backend_of(settings.base_url)
    if backend == "stub":
        raise BadConfig(
            "the stub judge reads a table that answers of a model do not have; use heuristic, or the"
            " address of a server."
        )
    if backend == "heuristic":
        return judge_of(backend), "no language model"
    return judge_of(backend, settings), how_asked(settings)


def how_asked(settings: "HttpSettings") -> str:
    """Return how a server is asked, in words."""
    votes = settings.votes
    return settings.mode if votes == 1 else f"{settings.mode}, majority of {votes} votes"


def verdicts_on(
    judge: "Judge", inquiries: "Sequence[Inquiry]", deadline_seconds: float = DEADLINE_SECONDS
) -> "list[Verdicts]":
    """Return a judge's verdicts, counting on standard error how many answers are judged."""
    from training.judging.batch import judged

    of = counted(len(inquiries), "answer")
    with notes.status(f"judging {of}") as status:
        return judged(
            judge, inquiries, deadline_seconds, lambda n: status.update(f"{n} of {of} judged")
        )


def judge_words(settings: "HttpSettings") -> dict[str, object]:
    """Return the options that ask the same judge again, without a server's address or a cache."""
    from training.runs import public_path

    is_server = settings.base_url.startswith("http")
    return {
        "judge": "URL" if is_server else settings.base_url,
        "model": public_path(settings.model),
        "key-env": settings.key_variable,
        "votes": None if settings.votes == 1 else settings.votes,
        "allow-remote": settings.allow_remote or None,
    }


def command_of(name: str, arguments: "Sequence[str]", options: dict[str, object]) -> str:
    """Return a command as it is typed; options that are None or empty are left out, True has no value."""
    import shlex

    words = ["assay", "refiner", name, *arguments]
    for option, value in options.items():
        if value not in (None, "", False):
            words += [f"--{option}", *([] if value is True else [str(value)])]
    return shlex.join(words)
