"""The `assay` command: its groups and commands, each imported from its file under `lab/commands` when it is called.

Exit codes: 0 done, 1 something you can fix (one message, no traceback), 2 wrong usage, 130 stopped by Ctrl-C.
"""

import os
import sys
from importlib import metadata
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from lab.reference import COMMANDS, GROUPS, load_command


class Assay(TyperGroup):
    """Lists its commands without importing their files."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that is called, from its file."""
        name, _, rest = super().resolve_command(ctx, args)
        return name, load_command(str(name)), rest

    def invoke(self, ctx: Any) -> Any:
        """Run the command; Ctrl-C is one line and exit code 130, which typer would end without a word."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            sys.stderr.write("stopped\n")
            raise typer.Exit(130) from None


app = typer.Typer(
    name="assay",
    cls=Assay,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    help="Train, question, judge and publish biology language models, with numbers you can trust.",
)
for _name, _help in {**GROUPS, **{name: told for name, (_, told) in COMMANDS.items()}}.items():
    app.command(_name, help=_help)(lambda: None)


def _print_version(wanted: bool) -> None:
    if wanted:
        sys.stdout.write(f"assay {metadata.version('assay')}\n")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and end.")
    ] = False,
) -> None: ...


def main() -> None:
    """Run the command line; errors a person can fix become one line and exit code 1."""
    from evals.errors import LabError

    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")  # also those of transformers: ours say the same
    try:
        app(prog_name="assay")
    except LabError as error:
        from lab.commands.terminal import notes

        notes.print("error:", style="red", end=" ")
        notes.print(str(error), soft_wrap=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
