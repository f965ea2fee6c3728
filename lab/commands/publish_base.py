"""The base below a chain that is published: whether a copy of it goes along, and which."""

from pathlib import Path
from typing import TYPE_CHECKING

from evals.errors import LabError
from lab.console import notes
from lab.settings import from_environment

if TYPE_CHECKING:
    from evals.schema import BaseIdentity
    from hub.adapters import Wishes
    from hub.bases import BaseCopy
    from hub.chains import Publication

EMBEDDED = "embedded"


def publication_of(run: Path, wishes: "Wishes", with_base: bool | None) -> "Publication":
    """Return how a chain is published; imports torch where a copy of the base is published or compared.

    `with_base` None = the embedded base goes along, unless one on the Hub was named; any other base only
    when it is asked for. LabError for wishes that contradict each other.
    """
    from hub.chains import Publication
    from hub.runs import read_run

    base = read_run(run).manifest.base
    is_named = wishes.base is not None or wishes.base_revision is not None
    _refuse_contradictions(base, wishes, with_base)
    is_embedded = base.source == EMBEDDED and base.revision is None
    goes_along = is_embedded and not is_named if with_base is None else with_base
    needs_copy = goes_along or (is_embedded and is_named)
    copy = _copy(run, None if goes_along else _named(wishes)) if needs_copy else None
    return Publication(wishes, copy=copy, with_base=goes_along)


def _named(wishes: "Wishes") -> str:
    """Return the options that named a base on the Hub, as they were given."""
    given = {"--base": wishes.base, "--base-revision": wishes.base_revision}
    return " ".join(f"{option} {value}" for option, value in given.items() if value is not None)


def _refuse_contradictions(base: "BaseIdentity", wishes: "Wishes", with_base: bool | None) -> None:
    if not with_base:
        return
    if base.hub_id and base.revision:
        raise LabError(
            f"the chain stands on {base.hub_id} at {base.revision}, which is on the Hub already; leave"
            " --with-base out."
        )
    if wishes.base_revision is not None:
        raise LabError(
            f"--base-revision {wishes.base_revision} pins a base that is on the Hub, and --with-base publishes"
            " one; leave one of them out."
        )


def _copy(run: Path, named: str | None) -> "BaseCopy":
    """Return the base that a chain was trained on as it lies on this machine, unpacked if need be."""
    from hub.bases import BaseCopy
    from training.base import find_base
    from training.chain import base_source, read_chain
    from training.origin import licence_file, origin_of

    cache = from_environment().cache
    source = base_source(read_chain(run), cache)
    with notes.status("looking for the base") as status:
        base = find_base(source, lambda _, message: status.update(message), cache)
    return BaseCopy(base.folder, origin_of(base, named), licence_file(base))
