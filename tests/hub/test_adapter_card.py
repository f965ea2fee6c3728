"""What the card of an adapter says, and what the check of anybody's card finds."""

import json
import re
import shutil
from pathlib import Path

import pytest
import yaml

from evals.errors import LabError
from hub.adapters import Publication, read_run
from hub.cards.lint import lint_card
from hub.chains import pack_last
from tests.hub.cases import CASES, was
from tests.hub.rows import put
from tests.hub.runs import REVISION, change_manifest, change_record, write_run

EMBEDDED = Path(__file__).parents[2] / "training/embedded"


def packed(folder, **wishes):
    """Return what would be published of the last stage of the run in `folder`."""
    return pack_last(folder, Publication("org/mine", **wishes))


def card_of(folder, **wishes):
    return packed(folder, **wishes).parts["README.md"].text()


def front_matter(text):
    return yaml.safe_load(text.split("---\n")[1])


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
    assert front_matter(text)["datasets"] == ["org/pairs"]
    bare = card_of(write_run(tmp_path / "bare"))
    assert not {"model-index", "datasets"} & set(front_matter(bare))


def test_a_stage_that_the_hub_never_heard_of_is_published_under_its_own_name(tmp_path):
    run = write_run(tmp_path)
    change_record(run, stage="toy")
    manifest = json.loads((run / "chain.json").read_text())
    manifest["stages"][-1]["kind"] = "toy"
    (run / "chain.json").write_text(json.dumps(manifest))
    text = card_of(run)
    assert "Trained by toy on 8 rows." in text
    assert "toy" in front_matter(text)["tags"]


def chat(*prompts):
    return [
        {"messages": [{"role": "user", "content": each}, {"role": "assistant", "content": "Ja."}]} for each in prompts
    ]


def test_a_card_tells_what_its_own_run_is_about_and_not_what_another_is(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    put(tmp_path / "rows", "law.jsonl", chat("Ist dieser Mietvertrag wirksam?", "Und dieser?"))
    (tmp_path / "rows/README.md").write_text("---\nlicense: cc-by-4.0\n---\n")
    unset = {
        "epsilon_high": 0.0,
        "max_steps": 0,
        "vllm": "off",
        "vllm_server": "http://localhost:8000",
        "judge_key_env": "",
    }
    run = write_run(
        tmp_path / "runs", config={"data": ["rows/law.jsonl"], "language": ["de"], "scale_rewards": "none", **unset}
    )
    change_manifest(run, system_prompt="")
    text = card_of(run)
    assert '{"role": "user", "content": \'Ist dieser Mietvertrag wirksam?\'},' in text
    assert front_matter(text)["language"] == ["de"]
    assert front_matter(text)["license"] == "apache-2.0", "the licence of the rows stands on their own card"
    assert "scale_rewards: none" in text
    for word in ("mice", "biology", "confidence", "spaceflight", "answered without a model", *unset):
        assert word not in text, word
    assert "It needs `rows/law.jsonl`, which is not published here." in text


@pytest.mark.parametrize(("run", "words"), [("review", "Review the paper below"), ("refiner/grpo", "<tool_output>")])
def test_the_example_of_a_reviewer_is_a_paper_and_that_of_a_refiner_has_passages(run, words):
    code = card_of(EMBEDDED / run).split("```python\n")[1].split("```")[0]
    turns = eval(code.split("messages = [")[1].split("\n]\n")[0].partition("\n")[2].join("[]"))
    assert [each["role"] for each in turns] == ["system", "user"]
    assert words in turns[1]["content"]


def test_the_first_screen_says_what_for_whom_how_good_and_how_to_run_it(embedded):
    text = embedded.parts["README.md"].text()
    screen = text.split("---\n", 2)[2].splitlines()[:24]
    for word in (
        "A LoRA adapter for",
        "**For** ",
        "accuracy **0.300 [0.100, 0.500]**, n 20",
        "## How to run it",
        "load_adapter",
    ):
        assert any(word in line for line in screen), word
    assert len(text.split("---\n", 2)[2].splitlines()) < 190
    assert "†: Wilson's interval" in text


def test_what_is_not_published_yet_has_no_revision_and_the_card_says_how_it_gets_one(embedded, tmp_path):
    text = embedded.parts["README.md"].text()
    assert "0" * 40 not in text
    assert "`assay publish adapter` publishes it, and then writes its commit here" in text
    assert "not published yet" not in card_of(write_run(tmp_path))


def test_questions_that_are_a_data_set_of_the_hub_are_named_by_its_id_and_their_figures_go_to_its_leaderboard():
    parts = packed(EMBEDDED / "grpo", benchmarks={"kmp-test": "org/kmp-test"}).parts
    (result,) = yaml.safe_load(parts[".eval_results/kmp-test.yaml"].text())
    assert result["dataset"] == {"id": "org/kmp-test", "task_id": "kmp-test"}
    assert result["value"] == 0.3
    index = front_matter(parts["README.md"].text())["model-index"][0]["results"]
    assert {each["task"]["type"] for each in index} == {"text-generation"}
    assert sorted(each["dataset"]["type"] for each in index) == ["custom", "custom", "org/kmp-test"]


def test_the_embedded_chain_has_a_licence_and_its_text(embedded):
    assert front_matter(embedded.parts["README.md"].text())["license"] == "apache-2.0"
    assert "Apache License" in embedded.parts["LICENSE"].text()


@pytest.mark.parametrize("run", ["grpo", "review", "refiner/grpo", "refiner/sft"])
def test_every_run_that_comes_with_assay_can_be_packed_with_a_sound_card(run):
    upload = packed(EMBEDDED / run)
    text = upload.parts["README.md"].text()
    assert not [each for each in (*upload.findings, *lint_card(text, "model", upload.parts)) if each.is_error]
    assert not re.search(r"\bNone\b|/home/|/root|/tmp|More Information", text)
    for path, part in upload.parts.items():
        assert path == "README.md" or f"| {path} | {part.size} | `{part.sha256}` |" in text


def test_a_report_about_other_weights_supports_nothing_on_the_card(tmp_path):
    run = write_run(tmp_path)
    (run / "reports").mkdir()
    shutil.copy(EMBEDDED / "grpo/reports/kmp-test.json", run / "reports")
    text = card_of(run)
    assert "No report lies beside this adapter" in text
    assert "kmp-test" not in text


def test_a_base_with_terms_of_its_own_gives_its_licence_and_its_duties(tmp_path):
    run = write_run(tmp_path)
    change_manifest(run, base={"licence": "llama3.1"})
    text = card_of(run)
    assert front_matter(text)["license"] == "llama3.1"
    assert "Built with Llama" in text


def test_the_base_is_pinned_in_code_and_configuration_a_local_one_under_the_name_that_is_given(tmp_path):
    run = write_run(tmp_path)
    upload = packed(run)
    assert f'revision="{REVISION}"' in upload.parts["README.md"].text()
    assert REVISION in upload.parts["adapter_config.json"].text()
    change_manifest(run, base={"hub_id": None, "source": "my-model", "revision": None})
    change_record(run, config={"base": "my-model"})
    upload = packed(run, base="org/real", base_revision="34" * 20)
    assert front_matter(upload.parts["README.md"].text())["base_model"] == "org/real"
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
    score = report["score"]
    score["made_by"] = {
        **{"kind": "chain", "name": "review", "stage": "review", "settings": {}, "constraint": "array schema"},
        **{"prompt_version": "review-1", "checksums": {"review": stage.sha256}, "date": "2026-11-21"},
    }
    file.write_text(json.dumps(report))
    told = section(card_of(folder))
    assert "| review | 8 | -0.013 [-0.156, 0.130] | 0.265 [0.126, 0.404] | 0.371 [0.267, 0.475] |" in told
    assert "| without a model: permuted papers = generic objections with the title | 8 | – | – | 0.106 |" in told
    assert "| without a model: sentences copied from the paper = " in told
    report["stage_checksums"]["review"] = "0" * 64
    file.write_text(json.dumps(report))
    assert "held-out.json" not in read_run(folder).reports
    score["headline"] = {}
    file.write_text(json.dumps(report))
    with pytest.raises(LabError, match=r"held-out\.json is not a report .*field 'score\.headline\.f1"):
        read_run(folder)


def test_a_fault_of_any_card_is_named_with_its_line_and_what_to_do():
    wrong = []
    for text, word, line in CASES["cards"]:
        mine = [each for each in lint_card(text, "model", []) if word in f"{each.problem} {each.remedy}"]
        if not mine or mine[0].line != line or not mine[0].remedy:
            wrong.append((text, word, mine))
    assert wrong == []
