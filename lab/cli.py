"""The `assay` command: its groups and commands, each imported from its file under `lab/commands` when it is called.

Exit codes: 0 done, 1 something you can fix (one message, no traceback), 2 wrong usage.
"""

import os
import sys
from importlib import import_module, metadata
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_group

GROUPS = {
    "data": "Question sets of your own; questions, pairs and reviewed papers as JSONL files.",
    "train": "Train a stage of an adapter chain: SFT, then DPO, KTO or GRPO on top of it.",
    "eval": "Run a chain on questions, judge answers, measure calibration.",
    "chain": "Adapter chains: list, show, check, add a published one, import adapters, serve, export.",
    "review": "Peer review: read, clean, score, merge and compare concerns.",
    "refiner": "Short answers whose claims cite evidence: score them, run a chain on records.",
    "prefs": "Count votes and annotations, and export them as data sets.",
    "people": "Say who may enter the lab, as what, and read what they did.",
    "publish": "Publish to the Hub: checked first, private unless --public, verified after the upload.",
}
COMMANDS = {
    "ask": ("ask", "Ask a question; every stage answers as it writes."),
    "leaderboard": ("eval", "Show models and baselines in one table for each set of questions."),
    "lab": ("lab", "Start the lab and open it at http://127.0.0.1:7860."),
    "doctor": ("lab", "Check what the lab needs: packages, model, folders, database, port."),
    "backup": ("lab", "Copy the database whole, also while the lab runs."),
}
"""Commands of no group: the file that holds each, and what its line of help says."""
READ_ON = {
    "data": "question-sets",
    "train": "training",
    "eval": "metrics",
    "review": "review",
    "prefs": "preferences",
    "publish": "publishing",
    "ask": "tutorials/first-hour",
    "leaderboard": "metrics",
    "lab": "tutorials/first-hour",
    "doctor": "settings",
    "backup": "people",
}
"""The document that a command's help names, in `docs/`; the one of its own name if it is not here."""


def load_command(name: str) -> Any:
    """Return a group or command that `assay` lists, from its file."""
    file, _ = COMMANDS.get(name, (name, ""))
    group = get_group(import_module(f"lab.commands.{file}").app)
    found = group.commands[name] if name in COMMANDS else group
    _name_document(
        found, f"Read on: docs/{READ_ON.get(name, name)}.md (in a running lab: /docs/{READ_ON.get(name, name)}.md)"
    )
    return found


def _name_document(command: Any, line: str) -> None:
    command.epilog = "\n\n".join(filter(None, (command.epilog, line)))
    for each in getattr(command, "commands", {}).values():
        _name_document(each, line)


class Assay(TyperGroup):
    """Lists its commands without importing their files."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that is called, from its file."""
        name, _, rest = super().resolve_command(ctx, args)
        return name, load_command(str(name)), rest


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
        app()
    except LabError as error:
        from lab.commands.terminal import notes

        notes.print("error:", style="red", end=" ")
        notes.print(str(error), soft_wrap=True)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.stderr.write("stopped\n")
        sys.exit(130)


if __name__ == "__main__":
    main()
