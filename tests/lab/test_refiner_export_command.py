import json

from typer.testing import CliRunner

from evals.refine.files import read_records
from lab.cli import app
from lab.refine.session import rate, score, work
from lab.visitors import new_visitor
from tests.lab.refined import HALF, TYPED, refining_lab
from tests.lab.votes import url_in


def test_answers_of_all_visitors_are_written_as_records(tmp_path, monkeypatch):
    room = refining_lab(tmp_path)
    for _ in range(2):
        visitor = new_visitor()
        kept = score(room, visitor, TYPED, HALF, "assay").kept
        (worked,) = room.store.documents("refine").everything(work(room, visitor).session)
        rate(room, visitor, kept, worked.document.answers[0].id, "good")
    monkeypatch.setenv("ASSAY_DATABASE_URL", url_in(tmp_path))
    out = tmp_path / "rows" / "refined.jsonl"

    done = CliRunner().invoke(app, ["refiner", "export", "--out", str(out), "--json"])

    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["rows"] == 1
    assert [row.reference for row in read_records(out)] == [HALF]
