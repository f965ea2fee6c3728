"""The commands of `assay`, and options that several of them take."""

import inspect
from collections.abc import Callable, Collection
from functools import wraps
from typing import Annotated, Any

import typer

Json = Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Check and show the plan; write nothing anywhere.")]
Licence = Annotated[str | None, typer.Option("--license", help="A licence id of the Hub, such as apache-2.0.")]
KeyEnv = Annotated[str, typer.Option("--key-env", help="Variable that holds the server's key; empty = no key.")]
Remote = Annotated[bool, typer.Option("--allow-remote", help="Let a server on another machine read what is sent.")]
Timeout = Annotated[float, typer.Option(help="Seconds that a reply of the server may take.")]
Retries = Annotated[int, typer.Option(help="How often a server that fails or is busy is asked again.")]
HostedModels = Annotated[
    list[str] | None,
    typer.Option(
        "--hosted",
        envvar="ASSAY_HOSTED",
        help="A model on a server, as a stage: NAME=URL#MODEL, or a TOML file with prices and budgets. Questions are sent"
        " there. Its key: ASSAY_KEY_NAME.",
    ),
]
AllowHost = Annotated[
    list[str] | None,
    typer.Option(
        envvar="ASSAY_ALLOW_HOST",
        help="A further host name under which it answers where nobody gives a name or key, such as lab.example behind a proxy.",
    ),
]
Command = Callable[..., None]


def with_options(
    options: Callable[..., object], name: str, without: Collection[str] = ()
) -> Callable[[Command], Command]:
    """Give a command the options that `options` takes; what it returns is the command's argument `name`."""
    added = {each: told for each, told in inspect.signature(options).parameters.items() if each not in without}

    def decorate(command: Command) -> Command:
        @wraps(command)
        def called(**given: Any) -> None:
            command(**{name: options(**{each: given.pop(each) for each in added})}, **given)

        own = [each for each in inspect.signature(command).parameters.values() if each.name != name]
        both = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in (*own, *added.values())]
        called.__annotations__ = {each.name: each.annotation for each in both}
        vars(called)["__signature__"] = inspect.Signature(both)
        return called

    return decorate
