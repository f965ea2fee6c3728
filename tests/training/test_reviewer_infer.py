"""Many papers into one file: interrupted, gone on with, and one row per paper at the end."""

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

import pytest

from evals.errors import BadConfig, LabError
from evals.io import read_rows
from evals.schema import Article, Section
from evals.schema.articles import EngineRecord, ReviewedRow
from evals.schema.reviews import PredictionRow, RawRow
from tests.training.reviewers import paper
from training.reviewer.engine import Asking, Estimate, Reply, Room
from training.reviewer.infer import Clocks, ReviewFile, ReviewPlan, infer

ASKING = Asking(max_new_tokens=300)
PAPERS = [paper(name) for name in ("a", "b", "c", "d", "e")]


class Scripted:
    """An engine that says one concern about each paper, or what `say` makes of the request."""

    def __init__(self, say: Callable[[str], Reply] | None = None, name: str = "scripted") -> None:
        self.room = Room(Estimate(), 8192)
        self.name, self.say = name, say
        self.batches: list[int] = []

    def record(self) -> EngineRecord:
        return EngineRecord(kind="server", name=self.name, tokenizer="t", constraint="none", prompt_sha256="p")

    def answer(self, requests: Sequence[str], told: Callable[[int], None] | None = None) -> list[Reply]:
        self.batches.append(len(requests))
        if told:
            told(20)
        return [self.say(each) if self.say else said(each) for each in requests]


def said(request: str) -> Reply:
    title = next(line for line in request.splitlines() if line.startswith("# "))
    concern = {"text": f"No control in {title[2:]}.", "category": "design_flaw", "severity": "major"}
    return Reply(json.dumps([concern]), "stop", 900, 30)


def run(out: Path, engine: Scripted, papers: Sequence[Article] = PAPERS, **more):
    seconds = count()
    clocks = Clocks(lambda: float(next(seconds)), lambda: datetime(2026, 1, 1, tzinfo=UTC))
    job = ReviewPlan(papers, engine, more.pop("asking", ASKING), more.pop("batch", 2))
    seen: list[tuple[int, int]] = []
    done = infer(job, ReviewFile(out), clocks, lambda at, of, _: seen.append((at, of)), **more)
    return done, seen


def rows(out: Path) -> list[ReviewedRow]:
    return read_rows(out, ReviewedRow, key=lambda row: row.article_id)


def breaking_at(letter: str) -> Callable[[str], Reply]:
    def say(request: str) -> Reply:
        if f"about {letter}" in request:
            raise KeyboardInterrupt
        return said(request)

    return say


def test_progress_within_a_paper_tells_its_parts_and_the_tokens_written(tmp_path: Path):
    told: list[str] = []
    long = paper("l").model_copy(update={"sections": (Section(name="Methods", text="Mice were fed twice. " * 2_500),)})
    run(tmp_path / "p.jsonl", Scripted(), (long,), batch=1, within=told.append)
    assert told[:3] == ["demo:l: part 1 of 3", "demo:l: part 1 of 3, 20 tokens", "demo:l: part 2 of 3"]


def test_every_paper_has_one_row_in_order_with_progress_and_seconds(tmp_path: Path):
    out = tmp_path / "p.jsonl"
    engine = Scripted()
    done, seen = run(out, engine)
    assert [row.article_id for row in rows(out)] == [each.id for each in PAPERS]
    assert engine.batches == [2, 2, 1]
    assert seen == [(n, 5) for n in range(6)]
    assert (done.status, done.articles, done.by_status) == ("finished", 5, {"ok": 5})
    assert done.seconds_per_article.median > 0
    assert [row.seconds for row in rows(out)] == [0.5, 0.5, 0.5, 0.5, 1.0]
    assert read_rows(out, RawRow)[0].raw.startswith("[{")  # rows can be parsed again and scored as they are
    assert read_rows(out, PredictionRow)[0].concerns[0].text == "No control in A paper about a."


def test_an_interrupted_run_leaves_its_rows_and_goes_on_to_what_a_whole_one_gives(tmp_path: Path):
    whole, out = tmp_path / "whole.jsonl", tmp_path / "parts.jsonl"
    run(whole, Scripted())
    with pytest.raises(KeyboardInterrupt):
        run(out, Scripted(breaking_at("d")))
    assert [row.article_id for row in rows(out)] == ["demo:a", "demo:b"]
    engine = Scripted()
    done, seen = run(out, engine)
    assert sum(engine.batches) == 3
    assert seen[0] == (2, 5)
    assert done.reviewed_before == 2
    parts, one_go = ([row.model_dump(exclude={"seconds"}) for row in rows(each)] for each in (out, whole))
    assert parts == one_go
    assert not out.with_name("parts.jsonl.journal").exists()


def test_a_killed_run_loses_no_row_even_where_the_last_line_was_cut(tmp_path: Path):
    out = tmp_path / "p.jsonl"
    run(out, Scripted(), PAPERS[:2])
    text = out.read_text()
    out.unlink()
    journal = out.with_name("p.jsonl.journal")
    journal.write_text(text + text[:100])  # killed: rows in the journal, one of them torn
    engine = Scripted()
    run(out, engine)
    assert sum(engine.batches) == 3
    assert len(rows(out)) == 5


def failing(request: str) -> Reply:
    return Reply(finish_reason="error", error="the server answered 500") if "about b" in request else said(request)


def test_a_failed_paper_is_asked_about_again_and_the_good_row_is_the_one_that_stands(tmp_path: Path):
    out = tmp_path / "p.jsonl"
    done, _ = run(out, Scripted(failing))
    assert done.by_status == {"ok": 4, "failed": 1}
    assert rows(out)[1].problems == ("the server answered 500",)
    engine = Scripted()
    again, _ = run(out, engine)
    assert (sum(engine.batches), again.by_status) == (1, {"ok": 5})
    file, good = ReviewFile(out), rows(out)[0]
    file.add([good, good.model_copy(update={"status": "failed"})])
    assert file.rows["demo:a"].status == "ok"


def test_only_a_paper_whose_text_changed_is_reviewed_again_whatever_the_batch(tmp_path: Path):
    out = tmp_path / "p.jsonl"
    run(out, Scripted())
    engine = Scripted()
    run(out, engine, [paper("a", "Another text."), *PAPERS[1:]], batch=5)
    assert engine.batches == [1]


@pytest.mark.parametrize(
    ("engine", "asking", "said"),
    [
        (Scripted(name="other"), ASKING, "name 'scripted', now 'other'"),
        (Scripted(), Asking(max_new_tokens=300, seed=7), "seed 0, now 7"),
    ],
)
def test_rows_of_another_model_or_setting_are_not_mixed_in(tmp_path, engine, asking, said):
    out = tmp_path / "p.jsonl"
    run(out, Scripted())
    with pytest.raises(BadConfig, match=rf"{said}.* delete p\.jsonl and p\.jsonl\.journal"):
        run(out, engine, asking=asking)
    out.unlink()
    done, _ = run(out, engine, asking=asking)
    assert done.reviewed_before == 0


def test_a_file_that_this_command_did_not_write_is_left_alone(tmp_path: Path):
    out = tmp_path / "p.jsonl"
    out.write_text("{}\n")
    with pytest.raises(BadConfig, match="no record of it beside them"):
        run(out, Scripted())
    assert out.read_text() == "{}\n"


@pytest.mark.parametrize(
    ("name", "papers", "batch", "said"),
    [
        ("p.json", PAPERS, 2, "ends in .jsonl"),
        ("p.jsonl", [PAPERS[0], PAPERS[0]], 2, "'demo:a' is there twice"),
        ("p.jsonl", PAPERS, 0, "batch is 0"),
    ],
)
def test_what_cannot_be_run_is_refused_before_anything_is_asked(tmp_path, name, papers, batch, said):
    with pytest.raises(LabError, match=said):
        run(tmp_path / name, Scripted(), papers, batch=batch)
