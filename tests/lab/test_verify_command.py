"""`assay eval verify`, as a person or a script calls the installed command."""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from evals.questions import pathway_heldout
from evals.verifiers import instrument, verify

ASSAY = Path(sys.executable).with_name("assay")
DIRECT = {"kind": "direct", "tissue": "thymus", "pathway": "HALLMARK_ADIPOGENESIS", "direction": "DOWN"}
ANSWERS: list[dict[str, object]] = [
    {
        "id": "right",
        "prompt": "In mouse thymus, is adipogenesis up or down?",
        "completion": "It falls in two missions.\nAnswer: down\nConfidence: 80%",
        "ground_truth": DIRECT,
    },
    {"id": "silent", "prompt": "How much should people take?", "completion": "", "ground_truth": {"kind": "abstain"}},
]


def jsonl(tmp_path: Path, rows: Sequence[object]) -> Path:
    path = tmp_path / "rows.jsonl"
    lines = (row if isinstance(row, str) else json.dumps(row) for row in rows)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def called(*arguments: object) -> subprocess.CompletedProcess[str]:
    words = [str(ASSAY), "eval", "verify", *map(str, arguments)]
    return subprocess.run(words, capture_output=True, text=True, check=False)


def test_every_row_gets_verdict_scores_reward_reason_and_claims(tmp_path: Path) -> None:
    done = called(jsonl(tmp_path, ANSWERS), "--json")
    assert done.returncode == 0, done.stderr
    right, silent = json.loads(done.stdout)
    assert (right["id"], right["verdict"], right["stated_confidence"]) == ("right", "correct", 0.8)
    assert right["scores"] == {"V1": 1.0, "V2": None, "V3": 1.0, "V4": pytest.approx(0.96)}
    assert right["reward"] == pytest.approx((0.29 + 0.29 + 0.13 * 0.96) / 0.71)
    assert (right["answer"], right["read_by"]) == ("down", "answer")
    assert right["reason"] == "down, as the data say"
    (claim,) = right["claims"]
    assert ANSWERS[0]["completion"][claim["start"] : claim["end"]] == claim["says"] == "down"
    assert (silent["verdict"], silent["answer"], silent["stated_confidence"], silent["reward"]) == (
        "no_claim",
        None,
        None,
        0,
    )
    versions = ", ".join(f"{name} {version}" for name, version in instrument().items())
    assert f"judged 2 answers by {versions}; read by line 1, text 1" in " ".join(done.stderr.split())


PLAIN = {**ANSWERS[0], "id": "plain", "completion": "The adipogenesis gene set is downregulated."}
FREE = {**ANSWERS[1], "id": "free", "completion": "It is.", "ground_truth": {"kind": "rubric", "items": ["It is."]}}


@pytest.mark.parametrize(
    ("read", "found"),
    [
        ("auto", [("correct", "answer"), ("correct", "text")]),
        ("answer", [("correct", "answer"), ("no_claim", None)]),
        ("text", [(None, "text"), ("correct", "text")]),
    ],
)
def test_answers_are_read_from_the_line_the_text_or_both_and_a_rubric_has_no_reward(
    read: str, found: list[tuple[str | None, str | None]], tmp_path: Path
) -> None:
    done = called(jsonl(tmp_path, [ANSWERS[0], PLAIN, FREE]), "--read", read, "--json")
    assert done.returncode == 0, done.stderr
    *rows, free = json.loads(done.stdout)
    for row, (verdict, read_by) in zip(rows, found, strict=True):
        assert (row["read_by"], verdict in (None, row["verdict"])) == (read_by, True)
    assert free["reward"] is None and set(free["scores"].values()) == {None}


@pytest.mark.parametrize(
    ("options", "reward"),
    [
        (("--weights", "V1=.3,V2=.15,V3=.1,V4=.45"), (0.4 + 0.45 * 0.96) / 0.85),
        (("--weights", "phase4"), (0.4 + 0.45 * 0.96) / 0.85),
        (("--weights", "mve"), 0.6 + 0.4 * 0.96),
        (("--weights", "V4=1", "--v4", "legacy"), 0.55),
        (("--weights", "V4=1", "--v4", "match_v1"), 0.6),
    ],
)
def test_weights_and_the_mode_of_v4_can_be_chosen_by_name(
    options: tuple[str, ...], reward: float, tmp_path: Path
) -> None:
    done = called(jsonl(tmp_path, ANSWERS), *options, "--json")
    assert json.loads(done.stdout)[0]["reward"] == pytest.approx(reward)
    assert ("v4 " in done.stderr) == ("--v4" in options)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--weights", "V1"), "cannot read the weights 'V1'; name a set (assay, mve"),
        (("--weights", "V1=x"), "cannot read the weights"),
        (("--weights", "V7=1"), "no verifier is called V7"),
        (("--weights", "V1=0"), "every weight is 0"),
        (("--weights", "V1=.5,V1=.5"), "V1 is weighed twice"),
        (("--v4", "brier"), "V4 has no mode 'brier'; choose one of proper, legacy"),
        (("--read", "ear"), "cannot be read by 'ear'; choose one of auto, answer, text, judge"),
    ],
)
def test_an_option_that_makes_no_sense_is_refused_in_one_line(
    options: tuple[str, ...], complaint: str, tmp_path: Path
) -> None:
    done = called(jsonl(tmp_path, ANSWERS), *options, "--json")
    assert (done.returncode, done.stdout) == (1, "")
    assert complaint in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("row", "field"),
    [
        ({"id": "9", "prompt": "", "completion": "", "ground_truth": {}}, "ground_truth"),
        ({"id": "9", "prompt": "", "ground_truth": {"kind": "abstain"}}, "completion"),
        ({**ANSWERS[0], "id": "9", "ground_truth": {**DIRECT, "direction": "SIDEWAYS"}}, "direction"),
        ({**ANSWERS[0], "id": "9", "completion": None}, "completion"),
        ({**ANSWERS[0], "id": "right"}, "id"),
        ('{"id": "9", ', "whole line"),
    ],
)
def test_a_bad_row_is_named_by_line_and_field_and_nothing_is_written(row: object, field: str, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    done = called(jsonl(tmp_path, [*ANSWERS, row]), "--out", out, "--json")
    assert (done.returncode, done.stdout) == (1, "")
    told = " ".join(done.stderr.split())
    assert "rows.jsonl, line 3, field" in told
    assert field in told
    assert [file.name for file in tmp_path.iterdir()] == ["rows.jsonl"]


def test_a_file_is_written_with_one_line_per_row_and_the_totals_are_shown(tmp_path: Path) -> None:
    out = tmp_path / "new" / "out.jsonl"
    done = called(jsonl(tmp_path, ANSWERS), "--out", out)
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    assert [line["id"] for line in lines] == ["right", "silent"]
    assert [file.name for file in out.parent.iterdir()] == ["out.jsonl"]
    assert "mean reward of 2 answers" in done.stdout
    assert "adipogenesis" not in done.stdout


def test_the_file_of_answers_is_never_overwritten(tmp_path: Path) -> None:
    rows = jsonl(tmp_path, ANSWERS)
    before = rows.read_bytes()
    done = called(rows, "--out", rows)
    assert done.returncode == 1
    assert rows.read_bytes() == before


def test_without_json_a_table_shows_every_row(tmp_path: Path) -> None:
    done = called(jsonl(tmp_path, ANSWERS))
    assert "1 correct, 1 no_claim" in done.stdout
    assert "silent" in done.stdout


def test_help_shows_a_row_and_an_example() -> None:
    told = " ".join(called("--help").stdout.split())
    assert '{"id": "q1", "prompt":' in told
    assert "Example: assay eval verify answers.jsonl --weights phase4 --json" in told


def test_a_large_file_is_judged_as_each_of_its_rows_would_be(tmp_path: Path) -> None:
    examples = pathway_heldout()
    rows = [
        {
            "id": f"{copy} {each.id}",
            "prompt": each.prompt,
            "completion": each.answer,
            "ground_truth": each.ground_truth.model_dump(mode="json"),
        }
        for copy in range(12)
        for each in examples
    ]
    done = called(jsonl(tmp_path, rows), "--json")
    judged = json.loads(done.stdout)
    expected = [verify(each, each.answer).reward for each in examples] * 12
    assert [row["reward"] for row in judged] == pytest.approx(expected)
    assert len(done.stderr.splitlines()) == 1
