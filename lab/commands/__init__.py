"""The commands of `assay`, a file for each group. A command is a function of one record, its settings.

The fields of the record are the options, their docstrings the help; required fields without `typer.Option` are arguments.
What several commands take is a record that theirs inherit from.
"""

import inspect
from collections.abc import Callable, Collection
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer
from pydantic import BaseModel, ConfigDict, ValidationError
from typer.core import TyperCommand

from evals.errors import BadConfig


class CommandSettings(BaseModel):
    """Settings of a command."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class JsonSettings(CommandSettings):
    """Settings of a command that prints a table, or one JSON document."""

    as_json: Annotated[bool, typer.Option("--json")] = False
    """One JSON document on standard output."""


class InFile:
    """Marks a field that no option sets, only the file of `--config`: `top_p: Annotated[float, InFile()] = 0.9`."""


class FileSettings(JsonSettings):
    """Settings of which a YAML file may hold any; what is typed goes before."""

    config: Path | None = None
    """A YAML file with any of these settings by name"""


class SettingsCommand(TyperCommand):
    """A command that gives its settings, a record made of what was typed, to a function."""

    kind: type[CommandSettings]
    function: Callable[[Any], None]

    def __init__(self, *words: Any, params: Any, **more: Any) -> None:
        super().__init__(*words, params=params, **more)
        fields, order = self.kind.model_fields, [vars(each).get("__annotations__", {}) for each in self.kind.__mro__]
        only_in_file = [name for name, each in fields.items() if any(isinstance(one, InFile) for one in each.metadata)]
        self.params = [each for each in self.params if each.name not in only_in_file]
        self.params.sort(key=lambda each: next(at for at, names in enumerate(order) if each.name in names))
        for each in self.params:
            each.help = each.help or fields[each.name].description
            if each.name == "config":
                each.help += "".join(f", {name} ({fields[name].default})" for name in only_in_file) + "."
            if each.param_type_name == "option" and each.is_flag and each.default is False:
                each.secondary_opts = []

    def invoke(self, ctx: Any) -> None:
        """Run the function with the settings; wrong ones are wrong usage."""
        typed = {name: each for name, each in ctx.params.items() if ctx.get_parameter_source(name).name != "DEFAULT"}
        known = _read_settings(typed["config"]) if "config" in typed else {}
        try:
            settings = self.kind.model_validate(known | typed)
        except ValidationError as error:
            first = error.errors()[0]
            option = next((each.opts[0] for each in self.params if each.name == first["loc"][0]), str(first["loc"][0]))
            raise typer.BadParameter(f"{first['msg']}, found {first['input']!r}.", ctx, param_hint=option) from None
        self.function(settings)


def _read_settings(file: Path) -> dict[str, Any]:
    import yaml

    try:
        found = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise BadConfig(f"{file} cannot be read: {error}; name a YAML file of settings") from error
    if not isinstance(found, dict):
        raise BadConfig(f"{file} holds no settings; write lines such as seed: 1")
    return found


def command(app: typer.Typer, name: str | None = None, **more: Any) -> Callable[[Any], Any]:
    """Register a function of one record of settings, named `settings`, as a command; its docstring is the help."""

    def register(function: Any) -> Any:
        kind = get_type_hints(function)["settings"]
        own = {"kind": kind, "function": staticmethod(function)}
        cls = type(kind.__name__ + "Command", (SettingsCommand,), own)
        app.command(name or function.__name__.strip("_"), cls=cls, help=function.__doc__, **more)(kind)
        return function

    return register


class AskedServer(CommandSettings):
    """Settings of asking a model on a server."""

    key_env: str = ""
    """Variable that holds the server's key; empty = no key."""
    allow_remote: bool = False
    """Let a server on another machine read what is sent."""


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
