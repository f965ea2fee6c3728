"""Tools that a model may call while GRPO samples its answers: environments as TRL's `environment_factory` takes them.

    environment: enrichment                 a name below
    environment: mine.lab:Freezer           a class of one's own, by module and name

TRL makes one object per answer and calls `reset` with the columns of the row before each. Every other public method
is a tool: its name, type hints and docstring (with `Args:`) are what the chat template shows the model. What a tool
returns is read and not learned from; an exception reaches the model as the tool's answer.
"""

import os
import pkgutil
from typing import Any

from evals.errors import BadConfig
from evals.facts import load_enrichment
from evals.questions.pathways import HELD_OUT


class EnrichmentTable:
    """Looks gene sets up in the table that the questions on gene sets rest on; held-out tissues are not in it."""

    def __init__(self) -> None:
        self.rows = [row for row in load_enrichment() if row.tissue not in HELD_OUT]

    def reset(self, **row: Any) -> None:
        """Begin a new answer; nothing is remembered of the one before."""

    def lookup(self, tissue: str, pathway: str) -> str:
        """Look up how a gene set moved in a tissue of spaceflown mice, mission by mission.

        Args:
            tissue: A tissue, such as liver.
            pathway: A Hallmark gene set, such as HALLMARK_HYPOXIA.

        Returns:
            A line per mission with the normalised enrichment score (above 0: up) and the adjusted p-value.
        """
        name = f"HALLMARK_{pathway.strip().upper().replace(' ', '_').removeprefix('HALLMARK_')}"
        found = [row for row in self.rows if (row.tissue, row.pathway) == (tissue.strip().lower(), name)]
        if not found:
            tissues = ", ".join(sorted({row.tissue for row in self.rows}))
            raise ValueError(f"nothing is known of {name} in {tissue}; the tissues are {tissues}")
        return "\n".join(
            f"{row.mission}: NES {row.nes:+.2f}, adjusted p {'unknown' if row.padj is None else f'{row.padj:.2g}'}"
            for row in found
        )


ENVIRONMENTS = {"enrichment": EnrichmentTable}


def environment_of(name: str) -> type[Any]:
    """Return the class of an environment by its name here, or as MODULE:CLASS; BadConfig if there is none."""
    os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")  # it may change, and versions are pinned here
    if name in ENVIRONMENTS:
        return ENVIRONMENTS[name]
    try:
        found = pkgutil.resolve_name(name) if ":" in name else None
    except (ImportError, AttributeError, ValueError) as error:
        raise BadConfig(f"environment {name} cannot be imported ({error}); it is written as MODULE:CLASS.") from None
    if not isinstance(found, type) or not callable(getattr(found, "reset", None)):
        raise BadConfig(
            f"environment {name!r} is no environment; use {', '.join(ENVIRONMENTS)}, or MODULE:CLASS of a class with a"
            " method reset and a method for each tool (docs/training.md)."
        )
    return found
