"""A run on its way to the Hub, the same for `assay publish adapter` and for Train: packed, planned, published."""

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evals.errors import LabError
from evals.schema.questions import Progress
from lab.settings import from_environment
from lab.ui.text import say
from training.models.manifest import read_chain

if TYPE_CHECKING:
    from evals.schema.runs import Diagnostic
    from hub.adapters import BaseCopy, Publication
    from hub.checks import PublishPlan

Shown = Callable[[], AbstractContextManager[Progress]]
"""Shows how far the packing is while a block lasts."""


def check_order(run: Path, wanted: "Publication", with_base: bool | None) -> None:
    """Raise LabError for what can be refused within seconds: what is no chain, names, a stage or a base that is not there."""
    from hub.chains import check_wishes
    from hub.client import connect

    read_chain(run)
    check_wishes(connect(), run, wanted, with_base)


@contextmanager
def pack(
    run: Path,
    wanted: "Publication",
    shown: Shown,
    cache: Path,
    with_base: bool | None = None,
    merged: bool = False,
    *,
    is_dry: bool = False,
) -> "Generator[Publication]":
    """Write, for as long as they are published, the chain up to each stage as one adapter, with the tokenizer.

    A dry run leaves nothing behind: the embedded base is then unpacked beside them, unless it is in the cache.
    """
    from hub.publish import fresh_folder
    from training.models.base import unpacked_weights
    from training.models.export import write_for_hub

    with fresh_folder("assay-base-") as spare, fresh_folder("assay-publish-") as place:
        cache = spare if is_dry and unpacked_weights(cache) is None else cache
        with shown() as progress:
            whole = write_for_hub(run, place, merged=merged, cache=cache, progress=progress)
            wanted = replace(with_copy(run, wanted, with_base, progress, cache), whole=whole)
        yield wanted


def with_copy(
    run: Path, wanted: "Publication", with_base: bool | None, progress: Progress, cache: Path
) -> "Publication":
    """Return how a chain is published; imports torch where a copy of its base is published or compared."""
    from hub.chains import publication_of

    def find_copy(named: str | None) -> "BaseCopy":
        from hub.adapters import BaseCopy
        from training.models.base import find_base, licence_file, origin_of
        from training.models.chain import base_source

        found = find_base(base_source(read_chain(run), cache), progress, cache)
        return BaseCopy(found.folder, origin_of(found, named), licence_file(found))

    return publication_of(run, wanted, with_base, find_copy)


@dataclass(frozen=True)
class Order:
    """What somebody asked to be published in the lab, as it is kept with the job: a run folder, and where it goes."""

    run: str
    repo: str
    tag: str = "v1.0"
    licence: str = ""
    base: str = ""
    with_base: bool | None = None
    is_public: bool = False

    def pack(self, progress: Progress, *, is_dry: bool = False) -> "AbstractContextManager[Publication]":
        """Write what is published for as long as it is looked at or sent."""
        from hub.adapters import Publication

        known: dict[str, Any] = {
            "base": self.base or None,
            "licence": self.licence or None,
            "is_public": self.is_public,
        }
        wanted = Publication(self.repo, self.tag, **known)
        check_order(Path(self.run), wanted, self.with_base)
        how = (lambda: nullcontext(progress), from_environment().cache, self.with_base)
        return pack(Path(self.run), wanted, *how, is_dry=is_dry)


@dataclass(frozen=True)
class PublicationPreview:
    """What publishing would do: its plans, the card as it will be, and what must be mended first."""

    plans: "Sequence[PublishPlan]"
    card: str
    problem: str = ""
    refused: "Sequence[Diagnostic]" = ()

    @property
    def needs_token(self) -> bool:
        """Whether nobody is logged in to the Hub."""
        return any(found.check == "token" for plan in self.plans for found in plan.warnings)


def preview_upload(order: Order, tell: Callable[[str], None] = lambda _: None) -> PublicationPreview:
    """Return what publishing would do, telling how far it is; nothing is written. LabError for a run that cannot be published at all."""
    from hub.chains import pack_last, plan_chain
    from hub.checks import Refused
    from hub.client import connect

    plans: Sequence[PublishPlan] = ()
    refused: Sequence[Diagnostic] = ()
    problem, card = "", ""
    with order.pack(lambda _, line: tell(line), is_dry=True) as wanted:
        try:
            plans = plan_chain(
                connect(), Path(order.run), wanted, lambda upload: tell(say("publish.checked", repo=upload.repo))
            )
        except Refused as error:
            refused = error.findings
        except LabError as error:
            problem = str(error)
        try:
            card = pack_last(Path(order.run), wanted).parts["README.md"].text()
        except Refused as error:
            refused = refused or error.findings
        except LabError as error:
            problem = problem or str(error)
    return PublicationPreview(plans, card, problem, refused)


def publish(
    settings: Mapping[str, Any], told: Callable[[int, int, str], None], is_cancelled: Callable[[], bool], resume: Any
) -> list[dict[str, Any]]:
    """Publish an `Order`, as a job of the lab, and return its receipts; a second time it continues where it stopped."""
    from hub.chains import publish_chain
    from hub.client import connect

    known = {field.name for field in fields(Order)}
    order = Order(**{name: value for name, value in settings.items() if name in known})

    def tell(line: str) -> None:
        if is_cancelled():
            raise LabError(say("publish.stopped"))
        told(0, 0, line)

    with order.pack(lambda _, line: tell(line)) as wanted:
        receipts = publish_chain(connect(), Path(order.run), wanted, tell)
    return [each.model_dump(mode="json") for each in receipts]
