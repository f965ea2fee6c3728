"""People at work on a disk that is full: `python -m tests.lab.full FOLDER` says what they were told, as JSON."""

import json
import sqlite3
import sys
from contextlib import closing, suppress
from pathlib import Path

from evals.errors import LabError
from evals.schema.votes import Guidelines
from lab.compare.tab import next_pair, vote
from lab.shared.rater import Rater, item_of_answer, new_project
from lab.visitors import new_visitor
from tests.lab.chains import lab_with


def main(folder: Path) -> None:
    """Vote and rate with room on the disk, without any, and with room again."""
    room, visitor, ballast = lab_with(folder), new_visitor(), folder / "ballast"
    project, rater = new_project(room, "Liver", 1, Guidelines(text="Look closely.")), Rater(room, visitor)
    *_, (state, _) = next_pair(room, visitor, None)
    item = item_of_answer(state.pair.answers[0], project.id)
    room.store.annotations.keep_project(project)
    room.store.annotations.add_items([item])
    told = []
    for has_room in (True, False, True):
        if has_room:
            ballast.unlink(missing_ok=True)
        else:
            with suppress(OSError), ballast.open("wb", buffering=0) as file:
                while file.write(b"x" * 4096):
                    pass
        voted, view = next(vote(room, visitor, state, "left"))
        try:
            rated = rater.say_of(item.id, comment=f"remark {len(told)}").said.comment
        except LabError as error:
            rated = str(error)
        votes, said = room.store.comparisons(), room.store.annotations.standing(project.id)
        told.append(
            [
                view.notice if "problem" in view.notice else view.revealed,
                len(votes),
                rated,
                [each.comment for each in said],
            ]
        )
        if voted.pair is None:
            *_, (state, _) = next_pair(room, visitor, voted)
    room.store.close()
    with closing(sqlite3.connect(folder / "assay.db")) as database:
        json.dump([told, database.execute("PRAGMA integrity_check").fetchone()[0]], sys.stdout)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
