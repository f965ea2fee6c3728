"""A report is shown only as long as it is about the chain, questions and verifiers of today."""

from pathlib import Path

import pytest

from evals.errors import LabError
from evals.report import save_report
from evals.schema import ChainManifest, ChainStage, EvalReport
from lab.results.reports import outdated_notices
from lab.services import load_reports
from lab.shared.evaluations import Evaluations, read_evaluations
from tests.lab.chains import manifest
from tests.lab.evaluations import STAGES, scripted_report

DATA = "kmp-test"


def chain_of_the_report() -> ChainManifest:
    """Return a manifest with the checksums that the scripted report was made with."""
    made = manifest()
    stages = tuple(
        ChainStage(
            name=name,
            kind=name,
            mode="stack",
            path=f"{name}/adapter",
            sha256=f"sha-of-{name}",
            config_sha256="",
            probe=made.base_probe,
        )
        for name in STAGES
        if name != "base"
    )
    base = made.base.model_copy(update={"weights_sha256": "sha-of-base"})
    return made.model_copy(update={"base": base, "stages": stages})


def read(folder: Path, *reports: EvalReport) -> Evaluations:
    """Return what is found of these reports beside the chain."""
    (folder / "chain.json").write_text(chain_of_the_report().model_dump_json(), encoding="utf-8")
    for place, report in enumerate(reports):
        save_report(report, folder / "reports" / f"{place}.json")
    return read_evaluations(str(folder), folder / "reports")


def test_a_report_of_this_chain_or_of_some_of_its_stages_is_current(tmp_path: Path) -> None:
    assert read_evaluations("nowhere", tmp_path / "reports") == Evaluations(), "a chain that was never measured"
    assert read(tmp_path, scripted_report(DATA)) == Evaluations(current=(scripted_report(DATA),))
    assert load_reports(str(tmp_path)).current == (scripted_report(DATA),)
    some = {"stage_checksums": {"base": "sha-of-base", "sft": "sha-of-sft"}}
    assert read(tmp_path, scripted_report(DATA).model_copy(update=some)).outdated == ()
    mine = scripted_report(DATA).model_copy(update={"data_name": "mine.jsonl", "data_sha256": "1" * 64})
    assert read(tmp_path, mine).current == (mine,), "a report on rows of one's own is taken at its word"
    (tmp_path / "chain.json").unlink()
    with pytest.raises(LabError, match="no chain"):
        load_reports(str(tmp_path))


def test_a_report_that_came_with_a_published_chain_knows_its_base_by_the_packed_file(tmp_path: Path) -> None:
    made = chain_of_the_report()
    base = {"weights_sha256": "sha of what it unpacks into", "packed_sha256": "sha-of-base"}
    back = made.model_copy(update={"base": made.base.model_copy(update=base)})
    (tmp_path / "chain.json").write_text(back.model_dump_json(), encoding="utf-8")
    save_report(scripted_report(DATA), tmp_path / "reports" / "0.json")
    assert len(read_evaluations(str(tmp_path), tmp_path / "reports").current) == 1


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"stage_checksums": {"base": "sha-of-base", "sft": "an earlier one"}}, "other weights"),
        ({"stage_checksums": {"base": "another base"}}, "other weights"),
        ({"stage_checksums": {"base": "sha-of-base", "dpo": "sha-of-dpo"}}, "other weights"),
        ({"data_sha256": "0" * 64}, "questions that have changed"),
        ({"settings": {"limit": 3}, "data_name": f"{DATA} (first 3)"}, "questions that have"),
    ],
)
def test_a_report_of_something_else_is_named_with_the_command_that_measures_again(
    changes: dict[str, object], reason: str, tmp_path: Path
) -> None:
    found = read(tmp_path, scripted_report(DATA).model_copy(update=changes), scripted_report(DATA))
    assert found.current == (scripted_report(DATA),)
    (old,) = found.outdated
    assert (old.file, old.reason.startswith(reason)) == ("0.json", True)
    assert old.command.startswith(
        f"assay eval run --chain {tmp_path} --stage all --data {DATA} --out {tmp_path}/reports/0.json"
    )
    assert ("--limit 3" in old.command) is ("settings" in changes)
    told = outdated_notices(found.outdated)
    assert "0.json was measured on" in told
    assert "so it is not shown. Measure again with <code>assay eval run" in told


def test_a_report_of_other_verifiers_is_named_with_the_command_that_judges_it_again(tmp_path: Path) -> None:
    old = scripted_report(DATA).model_copy(update={"versions": {"verifiers": "0", "confidence": "0"}})
    measured = read(tmp_path, old)
    (found,) = measured.outdated
    assert found.reason == "another version of the verifiers"
    assert found.command == f"assay eval rescore {tmp_path}/reports/0.json"
    assert measured.reports == (old,)
    assert measured.is_outdated(measured.reports[0])
    assert read(tmp_path, old, scripted_report(DATA)).reports == (scripted_report(DATA),), "not beside one of today"


def test_a_file_is_read_again_only_when_it_has_changed(tmp_path: Path) -> None:
    (first,) = read(tmp_path, scripted_report(DATA)).current
    (same,) = load_reports(str(tmp_path)).current
    assert same is first
    other = first.model_copy(update={"command": "assay eval run --seed 7"})
    save_report(other, tmp_path / "reports" / "0.json")
    assert load_reports(str(tmp_path)).current == (other,)


def test_two_reports_on_the_same_questions_are_told_apart_by_their_files(tmp_path: Path) -> None:
    first = scripted_report(DATA)
    found = read(tmp_path, first, first.model_copy(update={"command": "assay eval run --confidence stated,likelihood"}))
    one, other = found.current
    assert (one.data_name, one.command) == (DATA, first.command)
    assert other.data_name == f"{DATA} ({found.files[other.data_name].stem})" != one.data_name
    assert other.command.endswith("likelihood")


def test_a_report_of_ones_own_is_renamed_and_one_that_came_with_assay_is_not(tmp_path: Path) -> None:
    mine = scripted_report(DATA).model_copy(update={"data_name": "mine", "data_sha256": "1" * 64})
    found = read(tmp_path, mine)
    for title in ("mine", " ", DATA):
        with pytest.raises(LabError, match="is taken, or has characters other than"):
            found.rename(mine, title)
    assert found.rename(mine, " wet lab ") == "wet lab"
    assert [report.data_name for report in load_reports(str(tmp_path)).reports] == ["wet lab"]
    shipped = load_reports("embedded")
    assert shipped.reports and [shipped.own_file(report) for report in shipped.reports] == [None] * len(shipped.reports)
    with pytest.raises(LabError, match="comes with Assay"):
        shipped.rename(shipped.reports[0], "mine")
