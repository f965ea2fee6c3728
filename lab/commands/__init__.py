"""The commands of `assay`, a file for each group. A command is a function of one record, its settings.

The fields of the record are the options, their docstrings the help; required fields without `typer.Option` are arguments.
What several commands take is a record that theirs inherit from.
"""

from argparse import ArgumentError, ArgumentParser
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_type_hints

import typer
from pydantic import BaseModel, ConfigDict, ValidationError
from typer.core import TyperCommand

from evals.errors import BadConfig
from lab.commands.terminal import progress_shown

Function = TypeVar("Function", bound=Callable[..., None])
LicenceOption = Annotated[str | None, typer.Option("--license")]
HostedModels = Annotated[list[str] | None, typer.Option("--hosted", envvar="ASSAY_HOSTED")]
AllowHost = Annotated[list[str] | None, typer.Option(envvar="ASSAY_ALLOW_HOST")]


class CommandSettings(BaseModel):
    """Settings of a command."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True, coerce_numbers_to_str=True)


class JsonSettings(CommandSettings):
    """Settings of a command that prints a table, or one JSON document."""

    as_json: Annotated[bool, typer.Option("--json")] = False
    """One JSON document on standard output."""


class InFile:
    """Marks a field that the help names beside the file of `--config`, as it is rarely set; it may be typed as well.

    For example: `top_p: Annotated[float, InFile()] = 0.9`.
    """


class FileSettings(JsonSettings):
    """Settings of which a YAML file may hold any; what is typed goes before."""

    config: Path | None = None
    """A YAML file with any of these settings by name"""


class SettingsCommand(TyperCommand):
    """A command that gives its settings, a record made of what was typed, to a function."""

    kind: type[CommandSettings]
    function: Callable[..., None]

    def __init__(self, *words: Any, params: Any, **more: Any) -> None:
        fields = self.kind.model_fields
        order = list(
            dict.fromkeys(name for each in self.kind.__mro__ for name in vars(each).get("__annotations__", ()))
        )
        self.only_in_file = [
            name for name, each in fields.items() if any(isinstance(one, InFile) for one in each.metadata)
        ]
        options = sorted(
            (each for each in params if each.name not in self.only_in_file), key=lambda one: order.index(one.name)
        )
        for each in options:
            each.help = (fields[each.name].description or "").replace("[", "\\[")
            if each.name == "config":
                told = ", ".join(f"--{_dashed(name)} ({fields[name].default})" for name in self.only_in_file)
                each.help += f"; rarely set: {told}.".replace(" ()", "").replace(" (None)", "") if told else "."
            if each.param_type_name == "option" and each.is_flag and each.default is False:
                each.secondary_opts = []  # a flag that is off needs no word that turns it off
        super().__init__(*words, params=options, **more)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Take the settings that have no option of their own out of what was typed."""
        words = ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
        for name in self.only_in_file:
            is_list = "list" in str(self.kind.model_fields[name].annotation)
            words.add_argument(f"--{_dashed(name)}", dest=name, action="append" if is_list else "store")
        try:
            given, rest = words.parse_known_args(args)
        except ArgumentError as error:
            raise typer.BadParameter(str(error), ctx) from None
        ctx.meta["in file"] = {name: each for name, each in vars(given).items() if each is not None}
        return super().parse_args(ctx, rest)

    def invoke(self, ctx: Any) -> None:
        """Run the function with the settings."""
        settings = self.settings(ctx)
        with progress_shown(ctx.command_path):
            self.function(settings)

    def settings(self, ctx: Any) -> Any:
        """Return the settings that were typed or stand in the file of --config; wrong ones are wrong usage."""
        typed = {name: each for name, each in ctx.params.items() if ctx.get_parameter_source(name).name != "DEFAULT"}
        typed |= ctx.meta.get("in file", {})
        known = _read_settings(typed["config"]) if "config" in typed else {}
        try:
            return self.kind.model_validate(known | typed)
        except ValidationError as error:
            first = error.errors()[0]
            name = str(first["loc"][0])
            option = next((each.opts[0] for each in self.params if each.name == name), name)
            raise typer.BadParameter(f"{first['msg']}, found {first['input']!r}.", ctx, param_hint=option) from None


def _dashed(name: str) -> str:
    return name.replace("_", "-")


def command(
    app: typer.Typer, name: str | None = None, cls: type[SettingsCommand] = SettingsCommand, **more: Any
) -> Callable[[Function], Function]:
    """Register a function of one record of settings, named `settings`, as a command; its docstring is the help."""

    def register(function: Function) -> Function:
        kind = get_type_hints(function)["settings"]
        fields: dict[str, Any] = {"kind": kind, "function": staticmethod(function)}
        own: Any = type(f"{kind.__name__}Command", (cls,), fields)  # ty: ignore[unsupported-dynamic-base]
        about: dict[str, Any] = {"help": function.__doc__, **more}
        app.command(name or getattr(function, "__name__", ""), cls=own, **about)(kind)
        return function

    return register


def _read_settings(file: Path) -> dict[str, Any]:
    import yaml

    try:
        found = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise BadConfig(f"{file} cannot be read: {error}; name a YAML file of settings") from error
    if not isinstance(found, dict):
        raise BadConfig(f"{file} holds no settings; write lines such as seed: 1")
    return found
