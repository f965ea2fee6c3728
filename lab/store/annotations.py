"""What people say of answers, in the store: projects, their answers, and every version of each annotation."""

import uuid
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from datetime import datetime

from sqlalchemy import Engine, delete, func, insert, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session, aliased

from evals.errors import LabError
from evals.schema.votes import Annotation, AnnotationItem, AnnotationProject
from lab.store.database import AnnotationRow, ItemRow, ProjectRow, SettingRow, reading, writing
from lab.ui.text import say

NAME = "name of "
"""Begins the settings that hold what a rater is called."""


class Annotations:
    """Projects, answers and annotations in one database; every method may be called from any thread."""

    def __init__(self, engine: Engine, now: Callable[[], datetime]) -> None:
        self._engine, self._now = engine, now

    # ---- projects and their answers --------------------------------------------------------

    def projects(self) -> tuple[AnnotationProject, ...]:
        """Return all projects, the newest first."""
        query = select(ProjectRow).order_by(ProjectRow.created_at.desc(), ProjectRow.id)
        with reading(self._engine) as session:
            return tuple(AnnotationProject.model_validate(row.document) for row in session.scalars(query))

    def project(self, name: str) -> AnnotationProject:
        """Return a project; LabError if there is none of that id."""
        with reading(self._engine) as session:
            row = session.get(ProjectRow, name)
            if row is None:
                raise LabError(say("annotate.no_project", project=name))
            return AnnotationProject.model_validate(row.document)

    def keep_project(self, project: AnnotationProject) -> None:
        """Keep a new project, or a known one as it is now."""
        row = {"id": project.id, "created_at": project.created_at, "document": project.model_dump(mode="json")}
        with suppress(IntegrityError), writing(self._engine, is_preparing=True) as session:
            session.merge(ProjectRow(**row))
            return
        with writing(self._engine, is_preparing=True) as session:  # another process made the same one meanwhile
            session.merge(ProjectRow(**row))

    def make(self, project: AnnotationProject, items: Sequence[AnnotationItem]) -> None:
        """Keep a new project with its answers, in one piece: what a page asked for, which it may send again."""
        row = {"id": project.id, "created_at": project.created_at, "document": project.model_dump(mode="json")}
        with writing(self._engine) as session:
            session.add(ProjectRow(**row))
            session.flush()
            _queue(session, items)

    def delete(self, name: str) -> None:
        """Delete a project with its answers and everything that was said of them."""
        with writing(self._engine) as session:
            mine = select(ItemRow.id).where(ItemRow.project == name)
            session.execute(delete(AnnotationRow).where(AnnotationRow.item.in_(mine)))
            session.execute(delete(ItemRow).where(ItemRow.project == name))
            session.execute(delete(ProjectRow).where(ProjectRow.id == name))

    def add_items(self, items: Sequence[AnnotationItem]) -> None:
        """Put answers at the end of their project's queue; known ones stay as they are."""
        with writing(self._engine, is_preparing=True) as session:
            _queue(session, items)

    def items(self, project: str | None = None, questions: Collection[str] | None = None) -> tuple[AnnotationItem, ...]:
        """Return answers in the order of their queue: of one project, those to these questions."""
        query = select(ItemRow).order_by(ItemRow.project, ItemRow.place)
        query = query if project is None else query.where(ItemRow.project == project)
        if questions is not None:
            query = query.where(ItemRow.document["question"].as_string().in_(questions))
        with reading(self._engine) as session:
            return tuple(AnnotationItem.model_validate(row.document) for row in session.scalars(query))

    def open(self, name: str, rater: str) -> tuple[AnnotationProject, AnnotationItem, list[Annotation]] | None:
        """Return an answer with its project and what a rater said of it as it stands; None if it is not there."""
        query = select(AnnotationRow).filter_by(item=name, rater=rater, voided_at=None).order_by(AnnotationRow.number)
        with reading(self._engine) as session:
            found = session.execute(select(ProjectRow, ItemRow).join(ItemRow).where(ItemRow.id == name)).first()
            if found is None:
                return None
            said = {row.role: Annotation.model_validate(row.document) for row in session.scalars(query)}
            project, item = (row.document for row in found)
            return AnnotationProject.model_validate(project), AnnotationItem.model_validate(item), [*said.values()]

    # ---- annotations -----------------------------------------------------------------------

    def save(self, annotations: Iterable[Annotation], name: tuple[str, str] | None = None) -> None:
        """Keep new versions of annotations: all of them or, if anything fails, none. `name` is a rater's, as they gave it."""
        with writing(self._engine) as session:
            if name is not None:
                session.merge(SettingRow(name=f"{NAME}{name[0]}", value=name[1]))
            for each in annotations:
                role = "adjudicator" if each.is_adjudication else "rater"
                session.execute(select(ItemRow.id).filter_by(id=each.item).with_for_update()).one()  # they take turns
                who = {"item": each.item, "rater": each.rater, "role": role}
                number = session.scalar(select(func.max(AnnotationRow.number)).filter_by(**who)) or 0
                row = {"id": uuid.uuid4().hex, **who, "number": number + 1, "made_at": self._now()}
                document = each.model_dump(mode="json")
                session.execute(insert(AnnotationRow), {**row, "document": document, "voided_at": None})

    def latest(
        self, project: str | None = None, names: Collection[str] | None = None, rater: str | None = None
    ) -> tuple[Annotation, ...]:
        """Return the last annotation of each rater on each answer, oldest first: of a project, of these answers, of one rater."""
        newer, stands = aliased(AnnotationRow), AnnotationRow.voided_at.is_(None)
        same = [getattr(newer, name) == getattr(AnnotationRow, name) for name in ("item", "rater", "role")]
        is_newer = (newer.number > AnnotationRow.number) & newer.voided_at.is_(None)
        query = select(AnnotationRow).where(stands, ~select(newer.id).where(*same, is_newer).exists())
        if project is not None:
            query = query.join(ItemRow, ItemRow.id == AnnotationRow.item).where(ItemRow.project == project)
        if names is not None:
            query = query.where(AnnotationRow.item.in_(names))
        if rater is not None:
            query = query.where(AnnotationRow.rater == rater)
        with reading(self._engine) as session:
            rows = session.scalars(query.order_by(AnnotationRow.made_at, AnnotationRow.id))
            return tuple(Annotation.model_validate(row.document) for row in rows)

    def names(self) -> dict[str, str]:
        """Return what raters are called, by their hash, of those who said it."""
        query = select(SettingRow).where(SettingRow.name.startswith(NAME))
        with reading(self._engine) as session:
            return {row.name.removeprefix(NAME): row.value for row in session.scalars(query)}

    def count(self) -> int:
        """Return how many answers somebody annotated, each rater's counted."""
        who = select(AnnotationRow.item, AnnotationRow.rater, AnnotationRow.role).distinct()
        query = select(func.count()).select_from(who.where(AnnotationRow.voided_at.is_(None)).subquery())
        with reading(self._engine) as session:
            return session.execute(query).scalar_one()

    def undo(self, item: str, rater: str, *, is_adjudication: bool) -> None:
        """Take the last standing version back; LabError if there is none."""
        who = {"item": item, "rater": rater, "role": "adjudicator" if is_adjudication else "rater"}
        query = select(AnnotationRow).filter_by(**who, voided_at=None).order_by(AnnotationRow.number.desc()).limit(1)
        with writing(self._engine) as session:
            last = session.scalar(query)
            if last is None:
                raise LabError(say("annotate.nothing_to_undo"))
            last.voided_at = self._now()


def forget_annotations(session: Session, raters: Collection[str]) -> None:
    """Delete every version of what these raters said, and what they are called."""
    session.execute(delete(SettingRow).where(SettingRow.name.in_([f"{NAME}{rater}" for rater in raters])))
    session.execute(delete(AnnotationRow).where(AnnotationRow.rater.in_(raters)))


def _queue(session: Session, items: Sequence[AnnotationItem]) -> None:
    """Put the answers that are new at the end of their project's queue."""
    for project in sorted({item.project for item in items}):
        session.get_one(ProjectRow, project, with_for_update=True)  # two queues filled at once take turns
    names = [item.id for item in items]
    known = set(session.scalars(select(ItemRow.id).where(ItemRow.id.in_(names))))
    new = list({item.id: item for item in items if item.id not in known}.values())
    for project in dict.fromkeys(item.project for item in new):
        last = session.scalar(select(func.max(ItemRow.place)).where(ItemRow.project == project)) or 0
        own = [item for item in new if item.project == project]
        session.add_all(
            ItemRow(id=item.id, project=project, place=place, document=item.model_dump(mode="json"))
            for place, item in enumerate(own, last + 1)
        )
