"""The tables by name."""

from collections.abc import Callable
from functools import partial

from tests.frozen.pages import endpoints, options
from tests.frozen.script import run_script
from tests.frozen.table import Rows
from tests.frozen.verdicts import SOURCES, verdicts

SCRIPTS = ("commands", "cards", "figures", "formats")

TABLES: dict[str, Callable[[], Rows]] = {
    **{f"verdicts-{source}": partial(verdicts, source) for source in SOURCES},
    **{name: partial(run_script, name) for name in SCRIPTS},
    "options": options,
    "api": endpoints,
}
