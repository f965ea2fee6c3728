"""The `assay` command: one sub-command per noun, registered here, in a file under `lab/commands`.

Exit codes: 0 done, 1 something you can fix (one message, no traceback), 2 wrong usage.
Heavy imports wait until a command runs, so `--help` answers at once.
"""

import logging
import sys

import typer

from evals.errors import LabError
from lab.commands import ask, chain, data, eval, lab, people, prefs, publish, refiner, review, train
from lab.commands.terminal import notes

app = typer.Typer(
    name="assay",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    help="Train, question, judge and publish biology language models, with numbers you can trust.",
)
app.add_typer(data.app, name="data")
app.add_typer(train.app, name="train")
app.add_typer(eval.app, name="eval")
app.add_typer(chain.app, name="chain")
app.add_typer(review.app, name="review")
app.add_typer(refiner.app, name="refiner")
app.add_typer(prefs.app, name="prefs")
app.add_typer(people.app, name="people")
publish.app.command("space")(publish.space)
app.add_typer(publish.app, name="publish")
app.command("ask")(ask.ask)
app.command("leaderboard")(eval.leaderboard)
app.command("lab")(lab.lab)
app.command("doctor")(lab.doctor)
app.command("backup")(lab.backup)


def main() -> None:
    """Run the command line; errors a person can fix become one line and exit code 1."""
    logging.getLogger("bitsandbytes").setLevel(logging.ERROR)  # it warns of a package that nobody here needs
    try:
        app()
    except LabError as error:
        notes.print("error:", style="red", end=" ")
        notes.print(str(error), soft_wrap=True)
        sys.exit(1)
    except KeyboardInterrupt:
        notes.print("stopped")
        sys.exit(130)
