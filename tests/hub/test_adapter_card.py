"""What the card of an adapter says, and what the check of anybody's card finds."""

import json
import re
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from evals.confidence import fit_calibrator
from evals.errors import LabError
from evals.report import load_report
from evals.schema.votes import DpoRow, ExportStatistics
from evals.stats.calibration import CalibrationSettings
from hub.adapters import Publication, read_run
from hub.cards import read_front_matter, read_own, write_card
from hub.cards.dataset import dataset_card
from hub.chains import pack_last
from hub.checks import check_upload, lint_card
from hub.datasets import pack_dataset
from hub.spaces import bundle_folder, pack_space
from tests.hub.cases import CASES, was
from tests.hub.rows import put
from tests.hub.runs import REVISION, change_manifest, change_record, write_run

EMBEDDED = Path(__file__).parents[2] / "training/embedded"


def packed(folder, **wishes):
    """Return what would be published of the last stage of the run in `folder`."""
    return pack_last(folder, Publication("org/mine", **wishes))


def card_of(folder, **wishes):
    return packed(folder, **wishes).parts["README.md"].text()


def section(card):
    return card.split("## Evaluation")[1].split("## Training")[0]


@pytest.fixture(scope="module")
def embedded():
    return packed(EMBEDDED / "grpo")


def test_the_card_of_a_chain_reads_as_it_did(tmp_path):
    text = card_of(write_run(tmp_path, stages=("sft", "grpo")))
    assert text == was("adapter-card", text)
    assert "not by a revision of the Hub" not in text


def test_the_front_matter_names_hub_data_sets_where_the_run_tells_them_and_invents_nothing(tmp_path):
    config = {"data": ["org/pairs@main:500", "kmp-train", "rows/v.jsonl"]}
    text = card_of(write_run(tmp_path, config=config))
    assert read_front_matter(text)["datasets"] == ["org/pairs"]
    bare = card_of(write_run(tmp_path / "bare"))
    assert not {"model-index", "datasets"} & set(read_front_matter(bare))


def test_a_stage_that_the_hub_never_heard_of_is_published_under_its_own_name(tmp_path):
    run = write_run(tmp_path)
    change_record(run, stage="toy")
    manifest = json.loads((run / "chain.json").read_text())
    manifest["stages"][-1]["kind"] = "toy"
    (run / "chain.json").write_text(json.dumps(manifest))
    text = card_of(run)
    assert "Trained by toy on 8 rows." in text
    assert "toy" in read_front_matter(text)["tags"]


def test_a_card_tells_what_its_own_run_is_about_and_not_what_another_is(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    put(tmp_path / "rows", "law.jsonl", CASES["chat"])
    (tmp_path / "rows/README.md").write_text("---\nlicense: cc-by-4.0\n---\n")
    config = {"data": ["rows/law.jsonl"], "language": ["de"], "scale_rewards": "none", **CASES["unset"]}
    run = write_run(tmp_path / "runs", config=config)
    change_manifest(run, system_prompt="")
    text = card_of(run)
    assert '{"role": "user", "content": \'Ist dieser Mietvertrag wirksam?\'},' in text
    assert read_front_matter(text)["language"] == ["de"]
    assert read_front_matter(text)["license"] == "apache-2.0", "the licence of the rows stands on their own card"
    assert "scale_rewards: none" in text
    for word in ("mice", "biology", "confidence", "spaceflight", "answered without a model", *CASES["unset"]):
        assert word not in text, word
    assert "It needs `rows/law.jsonl`, which is not published here." in text


@pytest.mark.parametrize(("run", "words"), [("review", "Review the paper below"), ("refiner/grpo", "<tool_output>")])
def test_the_example_of_a_reviewer_is_a_paper_and_that_of_a_refiner_has_passages(run, words):
    code = card_of(EMBEDDED / run).split("```python\n")[1].split("```")[0]
    turns = eval(code.split("messages = [")[1].split("\n]\n")[0].partition("\n")[2].join("[]"))
    assert [each["role"] for each in turns] == ["system", "user"]
    assert words in turns[1]["content"]


def test_a_calibrator_of_the_stage_is_published_with_code_that_uses_it_and_one_of_other_weights_is_refused(tmp_path):
    run = write_run(tmp_path, stages=("sft", "grpo"))
    measured = load_report(EMBEDDED / "grpo/reports/kmp-rewordings.json")
    made = fit_calibrator(measured, "grpo", "platt", settings=CalibrationSettings(draws=50))
    ours = made.model_copy(update={"stage_sha256": read_run(run).stage.sha256})
    (run / "calibrator.json").write_text(ours.model_dump_json())
    upload = packed(run)
    card = upload.parts["README.md"].text()
    assert "calibrator.json" in upload.parts and not [each for each in upload.findings if each.is_error]
    told = card.split("## Confidence")[1].split("## ")[0]
    assert "| as stated | 166 | 0.248 [" in told and "cross-fitted" in told
    code = told.split("```python")[1].split("```")[0]
    said = []
    fake = SimpleNamespace(hf_hub_download=lambda repo, name, revision: run / name)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "huggingface_hub", fake)
        exec(code, {"print": said.append})
    assert said == [pytest.approx(made.honest(0.8, "count"))]
    (run / "calibrator.json").write_text(made.model_dump_json())
    assert ["is about other weights" in each.problem for each in packed(run).findings if each.is_error] == [True]


def test_what_is_not_published_yet_has_no_revision_and_the_card_says_how_it_gets_one(embedded, tmp_path):
    text = embedded.parts["README.md"].text()
    assert "0" * 40 not in text
    assert "`assay publish adapter` publishes it, and then writes its commit here" in text
    assert "not published yet" not in card_of(write_run(tmp_path))


def test_figures_on_questions_stand_in_the_front_matter(embedded):
    front = read_front_matter(embedded.parts["README.md"].text())
    index = front["model-index"][0]["results"]
    assert {each["task"]["type"] for each in index} == {"text-generation"}
    assert sorted(each["dataset"]["type"] for each in index) == ["custom"] * 3
    assert front["license"] == "apache-2.0" and "Apache License" in embedded.parts["LICENSE"].text()


@pytest.mark.parametrize("run", ["grpo", "review", "refiner/grpo", "refiner/sft"])
def test_every_run_that_comes_with_assay_can_be_packed_with_a_sound_card(run, embedded):
    upload = embedded if run == "grpo" else packed(EMBEDDED / run)
    text = upload.parts["README.md"].text()
    assert not [each for each in (*upload.findings, *lint_card(text, "model", upload.parts)) if each.is_error]
    assert not re.search(r"\bNone\b|/home/|/root|/tmp|More Information", text)


def test_a_report_about_other_weights_supports_nothing_on_the_card(tmp_path):
    run = write_run(tmp_path)
    (run / "reports").mkdir()
    shutil.copy(EMBEDDED / "grpo/reports/kmp-test.json", run / "reports")
    text = card_of(run)
    assert "Nothing was measured" in text
    assert "## Evaluation" not in text
    assert "kmp-test" not in text


def test_a_base_with_terms_of_its_own_gives_its_licence_and_its_duties(tmp_path):
    run = write_run(tmp_path)
    change_manifest(run, base={"licence": "llama3.1"})
    text = card_of(run)
    assert read_front_matter(text)["license"] == "llama3.1"
    assert "Built with Llama" in text
    change_manifest(run, base={"licence": "other"})
    front = read_front_matter(card_of(run))
    assert (front["license"], front["license_link"]) == ("other", f"https://huggingface.co/{front['base_model']}")


def test_the_base_is_pinned_in_code_and_configuration_a_local_one_under_the_name_that_is_given(tmp_path):
    run = write_run(tmp_path)
    upload = packed(run)
    assert f'revision="{REVISION}"' in upload.parts["README.md"].text()
    assert REVISION in upload.parts["adapter_config.json"].text()
    change_manifest(run, base={"hub_id": None, "source": "my-model", "revision": None})
    change_record(run, config={"base": "my-model"})
    upload = packed(run, base="org/real", base_revision="34" * 20)
    assert read_front_matter(upload.parts["README.md"].text())["base_model"] == "org/real"
    assert '"hub_id": "org/real"' in upload.parts["chain.json"].text()


def test_the_card_of_a_refiner_has_its_rewards_beside_those_of_trivial_answers(tmp_path):
    folder = shutil.copytree(EMBEDDED / "refiner", tmp_path / "refiner") / "grpo"
    report = json.loads((folder / "reports/held-out.json").read_text())
    (metrics,) = (each["metrics"] for each in report["summaries"] if each["stage"] == "refiner")
    metrics["citation_f1"] |= {"value": 0.5, "low": 0.4, "high": 0.6, "n": 12}
    (folder / "reports/held-out.json").write_text(json.dumps(report))
    told = section(card_of(folder))
    assert "### refiner-test, all records" in told
    for name in ("sft", "refiner", "without a model: silent", "without a model: reference"):
        assert f"| {name} | 53 |" in told
    (row,) = (line for line in told.splitlines() if line.startswith("| refiner |"))
    assert "| 0.500 [0.400, 0.600], n 12 |" in row, "a figure over fewer answers has its own n"
    assert row.count(", n ") == 1


def test_the_card_of_a_reviewer_has_its_score_above_the_strongest_control_and_that_of_no_other(tmp_path):
    folder = shutil.copytree(EMBEDDED / "review", tmp_path / "review")
    file, stage = folder / "reports/held-out.json", read_run(folder).stage
    report = json.loads(file.read_text())
    known = report["stages"]["review"]
    known["made_by"] = CASES["made_by"] | {"checksums": {"review": stage.sha256}}
    file.write_text(json.dumps(report))
    told = section(card_of(folder))
    assert "| review | 8 | 0.371 [0.267, 0.475] | -0.013 [-0.156, 0.130] | 0.265 [0.126, 0.404] |" in told
    assert "| without a model: permuted papers = generic objections with the title | 8 | 0.106 | – | – |" in told
    assert "| without a model: sentences copied from the paper = " in told
    report["stage_checksums"]["review"] = "0" * 64
    file.write_text(json.dumps(report))
    assert "held-out.json" not in read_run(folder).reports
    report["matcher"] = {}
    file.write_text(json.dumps(report))
    with pytest.raises(LabError, match=r"held-out\.json is not a report .*field 'matcher\.encoder"):
        read_run(folder)


def test_a_fault_of_any_card_is_named_with_its_line_and_what_to_do():
    wrong = []
    for text, word, line in CASES["cards"]:
        mine = [each for each in lint_card(text, "model", []) if word in f"{each.problem} {each.remedy}"]
        if not mine or mine[0].line != line or not mine[0].remedy:
            wrong.append((text, word, mine))
    assert wrong == []


def test_front_matter_that_the_hub_refuses_is_an_error_of_the_card():
    fronts = [f"---\n{text}\n---\n" for text, _ in CASES["refused_cards"]]
    assert [front for front in fronts if not any(each.is_error for each in lint_card(front, "model", []))] == []


def imported(folder, stages=("alpha", "beta"), **changes):
    """Write a chain of adapters that somebody trained elsewhere."""
    for at in range(len(stages)):
        run = write_run(folder / str(at), stages=stages[: at + 1])
        (run / "run.json").unlink()
        known = json.loads((run / "chain.json").read_text())["stages"]
        change_manifest(run, system_prompt="", stages=[each | {"kind": "imported"} for each in known], **changes)
        for each in stages[:at]:
            (run.parent / each / "run.json").unlink()
    return run


def screens(text):
    """Return what a window of 1440x900 shows of a card in two screens: 70 lines of text, 110 characters each."""
    lines, height = text.split("---\n", 2)[2].splitlines(), 0.0
    for number, line in enumerate(lines):
        height += 0.3 if not line.strip() else max(1, len(line) / 110)
        if height > 70:
            return "\n".join(lines[:number])
    return "\n".join(lines)


def test_ten_questions_have_their_answers_on_the_first_two_screens_of_each_kind_of_card(embedded, tmp_path):
    votes = put(tmp_path / "votes", "train.jsonl", [{"prompt": "?", "chosen": "up", "rejected": "down"}])
    statistics = ExportStatistics.model_validate(CASES["votes"])
    (votes / "README.md").write_text(str(dataset_card(statistics, DpoRow, guidelines="GUIDELINES.md")))
    (votes / "GUIDELINES.md").write_text("# What raters were told\n")
    cards = {
        "embedded chain": embedded,
        "imported adapter": packed(imported(tmp_path / "imported", ("alpha", "beta"))),
        "question set": pack_dataset(Path("kmp-test"), "org/mine", "apache-2.0"),
        "votes": pack_dataset(votes, "org/mine", "cc-by-4.0"),
        "Space": pack_space(bundle_folder("arena"), "org/mine", {}),
    }
    shown = {kind: screens(each.parts["README.md"].text()) for kind, each in cards.items()}
    missing = [
        (kind, asks)
        for kind, text in shown.items()
        for asks, answer in CASES["ten_questions"].items()
        if not re.search(answer, text)
    ]
    assert not missing, missing
    assert all("make setup" in text for text in shown.values()), "how to install Assay"
    chain = shown["embedded chain"]
    assert chain.index("0.661 [0.540, 0.780], which is higher") < chain.index("(not held out"), "held-out ones first"


def test_the_card_of_an_imported_chain_claims_nothing_of_its_training_or_its_figures(tmp_path):
    for stages in (("alpha",), ("alpha", "beta")):
        text = card_of(imported(tmp_path / str(len(stages)), stages))
        assert "How it was trained is not recorded: it came as a plain adapter" in text
        assert "What it is for, and what not, is not recorded." in text
        assert "Without a system text" in text
        for claim in CASES["unknown_of_imports"]:
            assert claim not in text, claim
        assert not re.search(r"\bNone\b|- biology|thymus|All settings|How to train it again|role\": \"system", text)
        for heading in ("## Evaluation", "## Training"):
            assert heading not in text, heading


def test_what_a_publisher_writes_in_card_md_stands_on_every_card_and_is_never_dropped(tmp_path):
    run = write_run(tmp_path)
    (run / "card.md").write_text(CASES["own_adapter_card"])
    (run / "README.md").write_text("# Mine\n\nTrained by me on a Sunday.\n")
    (problem,) = (each for each in packed(run).findings if each.is_error)
    assert (problem.path, problem.line) == ("README.md", 1)
    assert "card.md" in problem.remedy
    (run / "README.md").unlink()
    upload = packed(run)
    text, front = upload.parts["README.md"].text(), read_front_matter(upload.parts["README.md"].text())
    assert (front["license"], front["language"]) == ("mit", ["en"])
    assert {"plants", "lora"} <= set(front["tags"])
    places = [text.index(each) for each in CASES["own_card_in_order"]]
    assert places == sorted(places)
    assert text.count("## Citation") == 1
    assert "is not recorded." not in text
    assert not [each for each in check_upload(upload) if each.is_error]
    write_card(run / "README.md", text)
    assert not [each for each in packed(run, tag="v2.0").findings if each.is_error], "Assay's own card is no obstacle"
    (run / "README.md").write_text((run / "README.md").read_text() + "\nA word of mine.\n")
    told = rf"README\.md, line {len(text.splitlines()) + 3}: somebody edited this card.*card\.md"
    with pytest.raises(LabError, match=told):
        write_card(run / "README.md", text)


def test_a_mistake_in_card_md_is_told_with_its_line_and_the_keys_that_it_takes(tmp_path):
    wrong = []
    for text, place in CASES["own_mistakes"]:
        (tmp_path / "card.md").write_text(text)
        with pytest.raises(LabError) as told:
            read_own(tmp_path)
        if place not in str(told.value) or "authors, contact, language" not in str(told.value):
            wrong.append((text, place, str(told.value)))
    assert wrong == []


def test_a_card_names_the_address_of_assay_where_it_is_known_and_never_a_package_of_another(tmp_path, monkeypatch):
    run = write_run(tmp_path)
    monkeypatch.delenv("ASSAY_URL", raising=False)
    told = "installed from a copy of its source by `make setup` (the package `assay` on PyPI is a different program)"
    assert told in card_of(run)
    monkeypatch.setenv("ASSAY_URL", "https://example.org/assay")
    text = card_of(run)
    assert "[Assay](https://example.org/assay), installed by `git clone https://example.org/assay assay" in text
    assert "pip install assay" not in text
