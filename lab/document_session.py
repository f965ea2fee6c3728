"""What a visitor does with documents that models wrote, of any task: change, take back, find again, write as files."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from evals.errors import LabError
from evals.io import write_whole
from lab.services import Services
from lab.session import View, minute
from lab.ui.components import notice
from lab.ui.text import counted, say
from lab.visitors import Visitor

if TYPE_CHECKING:
    from lab.store.documents import Documents, Standing

    Shown = Callable[[Standing[Any, Any] | None, str], View]


@dataclass(frozen=True)
class Exported:
    """A file before it is written, what it holds, counted, and how much was left out by reason."""

    name: str
    text: str
    n: int
    noun: str = "row"
    left_out: Mapping[str, int] = field(default_factory=dict)


def write_export(make: Callable[[], tuple[Path, Exported]], task: str) -> tuple[str, str | None]:
    """Return a line and the file that `make` gives, written into the folder it names; or why there is none."""
    try:
        folder, made = make()
        write_whole(folder / made.name, made.text)
    except LabError as error:
        return notice(str(error), "problem"), None
    line = say("export.made", name=made.name, held=counted(made.n, made.noun))
    return notice(f"{line} {told(task, made.left_out)}".strip(), "good"), str(folder / made.name)


def told(task: str, left_out: Mapping[str, int]) -> str:
    """Return what was left out in words; empty if nothing was."""
    listed = ", ".join(say(f"{task}.left_out.{why}", n=n) for why, n in left_out.items())
    return say(f"{task}.left_out", listed=listed) if listed else ""


@dataclass(frozen=True)
class Work:
    """What a visitor does with the kept documents of a task: `show` gives their view, `label` a line to pick one by."""

    services: Services
    visitor: Visitor | None
    task: Literal["review", "refine"]
    show: "Shown"
    label: Callable[[Any], str]

    @property
    def session(self) -> str:
        """The name under which the visitor's documents are kept; LabError for nobody."""
        if self.visitor is None:
            raise LabError(say(f"{self.task}.gone"))
        return self.services.store.hash_rater(self.visitor.rater)

    @property
    def documents(self) -> "Documents[Any, Any]":
        return self.services.store.documents(self.task)

    def get(self, name: str | None) -> "Standing[Any, Any]":
        """Return a document as it stands; LabError if the visitor has none of that name."""
        return self.documents.get(name or "", self.session)

    def open(self, name: str | None, line: str = "") -> View:
        """Show a document as it stands, under a line."""
        try:
            return self.show(self.get(name), line)
        except LabError as error:
            return self.show(None, line or notice(str(error), "problem"))

    def change(
        self,
        name: str | None,
        action: str,
        change: "Callable[[Standing[Any, Any]], Sequence[Any]]",
        line: Callable[[], str] = str,
    ) -> View:
        """Keep what `change` makes of a document and show it under `line`, or what is wrong."""
        try:
            standing = self.get(name)
            parts = tuple(change(standing))
            if parts != standing.parts:
                self.documents.change(standing.document.id, self.session, action, parts)
        except LabError as error:
            return self.open(name, notice(str(error), "problem"))
        return self.open(name, line())

    def undo(self, name: str | None) -> View:
        """Take the last change back and show the document as it was before."""
        try:
            action = self.documents.undo(name or "", self.session)
        except LabError as error:
            return self.open(name, notice(str(error), "problem"))
        return self.open(name, notice(say(f"{self.task}.undone", action=action), "good"))

    def earlier(self) -> list[tuple[str, str]]:
        """Return a line and the id of each of the visitor's newest documents."""
        kept = self.documents.newest(self.session)
        return [(f"{minute(each.made_at)} · {self.label(each)}", each.id) for each in kept]

    def show_earlier(self, name: str | None) -> View:
        """Show an earlier document as it stands."""
        try:
            when = f"{minute(self.get(name).document.made_at)} UTC"
        except LabError as error:
            return self.show(None, notice(str(error), "problem"))
        return self.open(name, notice(say(f"{self.task}.mine.shown", when=when)))
