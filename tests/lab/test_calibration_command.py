"""`assay eval calibration` as people and programs use it."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from evals.errors import BadRow
from lab.commands.eval import app

RUN = CliRunner()
CONTRACT = (
    *("n", "n_missing_confidence", "ece", "mce", "brier", "brier_reliability"),
    *("brier_resolution", "brier_uncertainty", "log_loss", "auroc", "smece"),
    *("overconfidence_rate", "underconfidence_rate", "mean_confidence", "mean_accuracy"),
    *("base_rate_brier", "ece_if_calibrated", "intervals", "bins"),
)
BIN = {"lower", "upper", "n", "confidence", "accuracy", "gap", "interval"}


def row(number: int, confidence: object, correct: object = True, **more: object) -> dict:
    return {"id": str(number), "confidence": confidence, "correct": correct, **more}


def file_of(folder: Path, rows: list[dict]) -> str:
    path = folder / "rows.jsonl"
    path.write_text("\n".join(json.dumps(each) for each in rows), encoding="utf-8")
    return str(path)


def document(path: str, *options: str) -> dict:
    result = RUN.invoke(app, ["calibration", path, "--bootstrap", "200", *options, "--json"], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


MIXED = [row(i, (i % 11) / 10, i % 3 > 0, cluster=f"set {i // 2}") for i in range(44)]
CASES = {
    "one row": [row(1, 0.4)],
    "all right": [row(i, 0.9) for i in range(5)],
    "all wrong": [row(i, 0.9, False) for i in range(5)],
    "one confidence": [row(i, 0.5, i % 2 == 0) for i in range(6)],
    "none stated": [row(i, None) for i in range(3)],
    "the ends": [row(1, 0), row(2, 1), row(3, 0.0, False), row(4, 1.0, False)],
    "clusters": MIXED,
}


@pytest.mark.parametrize("options", [(), ("--binning", "mass"), ("--interval", "bca")])
@pytest.mark.parametrize("case", CASES)
def test_every_field_of_the_contract_is_there_whatever_the_rows(
    case: str, options: tuple[str, ...], tmp_path: Path
) -> None:
    found = document(file_of(tmp_path, CASES[case]), *options)
    assert set(CONTRACT) <= set(found)
    assert found["n"] == len(CASES[case])
    assert all(set(each) >= BIN for each in found["bins"])
    stated = found["n"] - found["n_missing_confidence"]
    assert sum(each["n"] for each in found["bins"]) == stated
    assert (found["ece"] is None) == (stated == 0)
    for name, (low, high) in found["intervals"].items():
        assert low < high, name


def test_bins_of_equal_width_are_cut_as_double_precision_cuts_them(tmp_path: Path) -> None:
    values = [0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1]
    found = document(file_of(tmp_path, [row(i, v) for i, v in enumerate(values)]))
    assert [each["n"] for each in found["bins"]] == [1, 1, 2, 0, 1, 2, 1, 0, 1, 2]


def test_bca_and_percentile_intervals_come_from_the_same_draws_and_differ(tmp_path: Path) -> None:
    path = file_of(tmp_path, MIXED)
    plain, corrected = document(path), document(path, "--interval", "bca")
    assert plain["ece"] == corrected["ece"]
    assert plain["intervals"]["ece"] != corrected["intervals"]["ece"]
    assert corrected["method"]["interval"] == "bca"


def test_the_seed_decides_the_intervals(tmp_path: Path) -> None:
    path = file_of(tmp_path, MIXED)
    assert document(path, "--seed", "4") == document(path, "--seed", "4")
    assert document(path, "--seed", "4")["intervals"] != document(path)["intervals"]


def test_rows_of_one_cluster_widen_the_interval(tmp_path: Path) -> None:
    four = [row(i, 0.7, i // 4 % 2 == 0, cluster=f"set {i // 4}") for i in range(80)]
    alone = [{key: value for key, value in each.items() if key != "cluster"} for each in four]
    wide = document(file_of(tmp_path, four))["intervals"]["mean_accuracy"]
    narrow = document(file_of(tmp_path, alone))["intervals"]["mean_accuracy"]
    assert wide[1] - wide[0] > 1.6 * (narrow[1] - narrow[0])


@pytest.mark.parametrize("value", [float("nan"), float("inf"), True, "0.8", 80, -0.1])
def test_a_confidence_that_is_no_share_is_named_by_line_and_field(value: object, tmp_path: Path) -> None:
    path = file_of(tmp_path, [row(1, 0.5), row(2, value)])
    with pytest.raises(BadRow) as caught:
        RUN.invoke(app, ["calibration", path], catch_exceptions=False)
    assert (caught.value.line, caught.value.field) == (2, "confidence")


def test_people_get_the_metrics_with_intervals_and_the_bins(tmp_path: Path) -> None:
    result = RUN.invoke(app, ["calibration", file_of(tmp_path, MIXED)], catch_exceptions=False)
    lines = [line for line in result.stdout.splitlines() if "│" in line]
    for name in ("ece", "smece", "aurc", "brier_within_variance", "ece_if_dependent"):
        assert any(line.split()[1] == name for line in lines), name
    assert any("0.90 to 1.00" in line and "bootstrap" in line for line in lines)


def test_the_help_teaches_rows_and_how_to_read_the_figures() -> None:
    said = " ".join(RUN.invoke(app, ["calibration", "--help"]).output.split())
    for told in (
        '"confidence": 0.8',
        "resampled together",
        "ece_if_calibrated",
        "base_rate_brier",
        "Example: assay eval calibration rows.jsonl",
    ):
        assert told in said
