"""`assay eval`, as a person or a script calls it."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from evals.errors import BadConfig, BadRow
from evals.questions import kmp_test, pathway_heldout, write_examples
from evals.report import load_report, summarise
from lab.commands.eval import app

RUN = CliRunner()
OUTCOMES = [
    {"id": "1", "confidence": 0.9, "correct": True, "cluster": "a"},
    {"id": "2", "confidence": 0.9, "correct": False, "cluster": "a"},
    {"id": "3", "confidence": None, "correct": True},
    {"id": "4", "confidence": 0.3, "correct": False},
]


def jsonl(tmp_path: Path, rows: list[dict[str, object]]) -> str:
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


def document(*arguments: str) -> object:
    result = RUN.invoke(app, [*arguments, "--json"], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_calibration_prints_every_metric_of_the_contract(tmp_path: Path) -> None:
    found = document("calibration", jsonl(tmp_path, OUTCOMES), "--bootstrap", "200")
    assert isinstance(found, dict)
    assert {
        *("n", "n_missing_confidence", "ece", "mce", "brier", "brier_reliability"),
        *("brier_resolution", "brier_uncertainty", "log_loss", "auroc", "smece"),
        *("overconfidence_rate", "underconfidence_rate", "mean_confidence", "mean_accuracy"),
        *("base_rate_brier", "ece_if_calibrated", "intervals", "bins"),
    } <= set(found)
    assert (found["n"], found["n_missing_confidence"]) == (4, 1)
    assert found["ece"] == pytest.approx((2 * 0.4 + 0.3) / 3)
    assert set(found["ece_if_calibrated"]) == {"mean", "q95"}
    assert len(found["bins"]) == 10
    fields = {"lower", "upper", "n", "confidence", "accuracy", "gap", "interval"}
    assert fields <= set(found["bins"][0])


def test_calibration_of_nothing_says_so(tmp_path: Path) -> None:
    rows = [{"id": "1", "confidence": None, "correct": True}]
    result = RUN.invoke(app, ["calibration", jsonl(tmp_path, rows), "--json"])
    assert json.loads(result.stdout)["ece"] is None
    assert "no row states a confidence" in result.stderr


@pytest.mark.parametrize(
    ("row", "field"),
    [
        ({"id": "9", "confidence": 80, "correct": True}, "confidence"),
        ({"id": "9", "confidence": 0.8, "correct": "yes"}, "correct"),
        ({"id": "9", "confidence": 0.8}, "correct"),
        ({"id": "1", "confidence": 0.8, "correct": True}, "id"),
    ],
)
def test_a_bad_row_is_named_by_line_and_field(row: dict[str, object], field: str, tmp_path: Path) -> None:
    rows = jsonl(tmp_path, [*OUTCOMES, row])
    with pytest.raises(BadRow) as caught:
        RUN.invoke(app, ["calibration", rows], catch_exceptions=False)
    assert caught.value.line == 5
    assert caught.value.field.startswith(field)


def test_without_json_a_table_is_printed(tmp_path: Path) -> None:
    result = RUN.invoke(app, ["calibration", jsonl(tmp_path, OUTCOMES)], catch_exceptions=False)
    assert "base_rate_brier" in result.stdout


@pytest.mark.parametrize("command", ["run", "calibration"])
def test_help_shows_an_example(command: str) -> None:
    result = RUN.invoke(app, [command, "--help"])
    assert result.exit_code == 0
    assert f"Example: assay eval {command}" in " ".join(result.output.split())


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tests.models import tiny_chain

    return tiny_chain(tmp_path_factory.mktemp("chain"))


def run(chain: Path, out: Path, *arguments: str) -> object:
    common = ("--chain", str(chain), "--max-new-tokens", "4", "--dtype", "float32")
    return document("run", *common, "--out", str(out), *arguments)


def test_run_writes_a_report_of_all_stages_and_baselines_with_full_rows(chain: Path, tmp_path: Path) -> None:
    out = tmp_path / "reports" / "kmp.json"
    printed = run(chain, out, "--data", "kmp-test", "--limit", "3", "--batch-size", "2")
    report = load_report(out)
    assert json.loads(report.model_dump_json()) == printed
    stages = list(dict.fromkeys(row.stage for row in report.rows))
    assert stages[:3] == ["base", "sft", "grpo"]
    assert "empty answer" in stages
    assert set(report.stage_checksums) == {"base", "sft", "grpo"}
    assert report.summaries == summarise(report.rows)
    assert {row.example.id for row in report.rows} == {each.id for each in kmp_test()[:3]}
    assert all([m.role for m in row.prompt] == ["system", "user"] for row in report.rows)
    assert report.command.startswith("assay eval run ")
    assert {"python", "assay", "torch", "transformers", "peft"} <= set(report.libraries)
    assert not set(report.libraries) & set(report.versions)
    assert [file.name for file in out.parent.iterdir()] == ["kmp.json"]


def test_run_takes_a_file_of_examples_and_some_stages(chain: Path, tmp_path: Path) -> None:
    rows = tmp_path / "mine.jsonl"
    write_examples(rows, pathway_heldout()[:2])
    run(chain, tmp_path / "r.json", "--data", str(rows), "--stage", "sft,grpo")
    report = load_report(tmp_path / "r.json")
    assert [r.stage for r in report.rows[:4]] == ["sft", "grpo", "sft", "grpo"]


OWN = """
questions:
- {id: a, prompt: "Which class is a kinase?", group: kinase, split: train,
   truth: {kind: choice, value: transferase, options: [transferase, hydrolase]}}
- {id: b, prompt: "Which class is a protease?", group: protease, split: test,
   truth: {kind: choice, value: hydrolase, options: [transferase, hydrolase]}}
- {id: c, prompt: "Why?", group: why, split: test, truth: {kind: rubric, items: [It says why.]}}
"""


def test_run_asks_the_test_rows_of_a_set_of_ones_own_and_reads_them_as_it_is_told(chain: Path, tmp_path: Path) -> None:
    rows = tmp_path / "mine.yaml"
    rows.write_text(OWN, encoding="utf-8")
    run(chain, tmp_path / "r.json", "--data", str(rows), "--stage", "base", "--read", "answer")
    report = load_report(tmp_path / "r.json")
    assert {row.example.id for row in report.rows} == {"b", "c"}
    assert (report.settings["read"], " --read answer " in report.command) == ("answer", True)
    found = {(s.stage, s.group): s for s in report.summaries}
    assert found["base", "all"].read_by == {"none": 1}
    assert {group for _, group in found} == {"all", "unaided", "choice"}
    constant = found["most frequent in training, 60%", "unaided"]
    assert (constant.metrics["accuracy"].value, constant.read_by) == (0.0, {"answer": 1})
    assert found["echo the question, 62%", "unaided"].metrics["accuracy"].value == 0.0


def test_readers_shows_agreement_confusion_and_kappa(tmp_path: Path) -> None:
    asked = {"prompt": "Which class?", "ground_truth": {"kind": "abstain"}}
    said = "Answer: cannot be told from these data"
    rows = [
        {"id": "1", "completion": said, "label": "correct", **asked},
        {"id": "2", "completion": said, "label": ["no_claim", "incorrect"], **asked},
        {"id": "3", "completion": "", "label": "no_claim", "labelled_twice": ["no_claim"] * 2, **asked},
    ]
    path = jsonl(tmp_path, rows)
    found = document("readers", path, "--read", "answer", "--draws", "50")
    assert isinstance(found, dict)
    (reader,) = found["readers"]
    assert (reader["reader"], reader["n"], reader["n_unread"]) == ("answer", 2, 1)
    assert reader["verdicts"]["value"] == 0.5 and found["labellers"]["cohen_kappa"]["n"] == 1
    shown = RUN.invoke(app, ["readers", path, "--show"], catch_exceptions=False).stdout
    for part in ("3 labelled answers to 1 question", "Label, and what auto reads", "What text reads otherwise"):
        assert part in " ".join(shown.split())
    with pytest.raises(BadRow, match="label"):
        document("readers", jsonl(tmp_path, [{**rows[0], "label": "right"}]))


def test_a_report_keeps_no_path_of_this_machine(chain: Path, tmp_path: Path) -> None:
    rows = tmp_path / "mine.jsonl"
    write_examples(rows, pathway_heldout()[:1])
    base = ("--base", str(chain.parent / "model"))
    run(chain, tmp_path / "r.json", "--data", str(rows), "--stage", "base", *base)
    report = load_report(tmp_path / "r.json")
    assert report.data_name == "mine.jsonl"
    assert " --chain grpo --base model --stage base --data mine.jsonl --out r.json " in report.command
    bare = ("--data", "kmp-test", "--limit", "1")
    run(Path(f"base:{chain.parent / 'model'}"), tmp_path / "bare.json", *bare)
    assert " --chain base:model " in load_report(tmp_path / "bare.json").command
    for file in ("r.json", "bare.json"):
        text = (tmp_path / file).read_text(encoding="utf-8")
        assert str(tmp_path) not in text
        assert str(chain.parent) not in text


def test_a_report_says_when_another_base_stood_in(chain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from training.models import chain as chains

    note = "the package is not installed, so a copy was taken"
    find = chains.find_base
    monkeypatch.setattr(chains, "find_base", lambda *a: replace(find(*a), substitutions=(note,)))
    run(chain, tmp_path / "r.json", "--data", "kmp-test", "--limit", "1", "--stage", "base")
    assert load_report(tmp_path / "r.json").settings["substitutions"] == note


def test_run_refuses_unknown_data_before_it_loads_anything(tmp_path: Path) -> None:
    with pytest.raises(BadConfig, match="kmp-test"):
        RUN.invoke(
            app,
            ["run", "--data", "kmp", "--chain", "nowhere", "--out", str(tmp_path / "r.json")],
            catch_exceptions=False,
        )
