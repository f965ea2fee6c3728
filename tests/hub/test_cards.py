"""Cards: of adapters and of data sets, and what the check of anybody's card finds."""

import gzip
import json
import re
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from evals.confidence import fit_calibrator
from evals.errors import LabError
from evals.questions import load_questions
from evals.questions.pairs import PairRow, PairStatistics
from evals.questions.sets import EXAMPLES
from evals.report import load_report
from evals.schema import Metric
from evals.schema.articles import Conversation, ReviewExample
from evals.schema.reviews import Concern, HumanConcern
from evals.schema.votes import ArenaRow, DpoRow, ExportStatistics, KtoRow, SftRow
from evals.stats.calibration import CalibrationSettings
from hub.adapters import Publication, read_run
from hub.cards import read_front_matter, read_own, write_card
from hub.cards.dataset import KINDS, dataset_card, flat, pairs_card, write_rows_card
from hub.chains import pack_last
from hub.checks import MARK, Refused, check_upload, lint_card
from hub.client import write_receipt
from hub.datasets import pack_dataset, published_rows
from hub.publish import publish
from hub.spaces import bundle_folder, pack_space
from tests.hub.cases import CASES, was
from tests.hub.rows import concerns, put, put_report, report
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


# ---- data sets ------------------------------------------------------------------------------------


RATER = "0f" * 16
STATISTICS = ExportStatistics.model_validate(CASES["votes"])
PAIRS = PairStatistics.model_validate(CASES["pairs"])


def votes_card(row_type=DpoRow, **changes):
    return dataset_card(STATISTICS.model_copy(update=changes), row_type, guidelines="GUIDELINES.md")


def packed_data(folder, licence="cc-by-4.0", repo="org/x"):
    return pack_dataset(folder, repo, licence)


def problems(folder, **options):
    return [each.problem for each in packed_data(folder, **options).findings]


def test_the_cards_of_votes_and_of_pairs_read_as_they_did():
    told = {"krippendorff_alpha": Metric(value=0.4213, n=31, low=0.2, high=0.61)}
    text = str(votes_card(agreement=told))
    assert text == was("votes-card", text)
    unknown = {"cohen_kappa": Metric(value=None, n=31, note="defined for exactly two raters")}
    assert "| Cohen's kappa | defined for exactly two raters |  | 31 |" in str(votes_card(agreement=unknown))
    card = pairs_card(PAIRS)
    assert str(card) == was("pairs-card", str(card))
    assert card.text.strip().splitlines()[2].startswith("**Synthetic labels (`label_source: synthetic-verifier`)")
    assert "\n| right answers among those that claim something, kind direct | 11 of 30 |\n" in str(card)
    assert not re.search(r"\{\{|\}\}|\{%|\n\n\n", str(card))


def test_the_card_of_votes_is_written_on_a_space_where_assay_is_no_installed_package(monkeypatch):
    monkeypatch.delenv("ASSAY_URL", raising=False)
    monkeypatch.setattr(sys, "path", [each for each in sys.path if not list(Path(each).glob("assay-*.dist-info"))])
    assert "Made with Assay, installed from a copy" in str(votes_card())


def test_a_licence_nobody_chose_is_not_invented_and_a_chosen_one_stands_in_both_places():
    assert "license" not in votes_card().data.to_dict()
    card = votes_card(licence="cc-by-4.0")
    assert card.data.license == "cc-by-4.0"
    assert "released it under `cc-by-4.0`" in card.text


def test_every_column_of_every_format_is_explained_and_no_placeholder_is_left():
    formats = {"dpo": DpoRow, "kto": KtoRow, "sft": SftRow, "arena": ArenaRow}
    cards = [(row_type, votes_card(row_type, format=form)) for form, row_type in formats.items()]
    for row_type, card in [*cards, (PairRow, pairs_card(PAIRS))]:
        for name, field in row_type.model_fields.items():
            assert field.description and f"| `{name}` | {field.description} |" in card.text
        assert not re.search(r"\{\{|\}\}|\{%|More Information Needed|\bNone\b|Unknown|TODO", str(card))


def test_the_size_category_follows_the_rows_and_a_stage_name_cannot_break_the_table():
    sizes = {rows: votes_card(rows=rows).data.size_categories for rows in (999, 1_000, 2_000_000)}
    assert sizes == {999: ["n<1K"], 1_000: ["1K<n<10K"], 2_000_000: ["n>1M"]}
    pair = STATISTICS.by_stages[0].model_copy(update={"first": "a|b\n# heading"})
    assert "| a\\|b # heading, sft | 3 |" in votes_card(by_stages=(pair,)).text


@pytest.fixture
def folder(tmp_path):
    rows = [{"prompt": "?", "chosen": f"up {n}", "rater": RATER} for n in range(3)]
    place = put(tmp_path / "votes", "train.jsonl", rows)
    (place / "README.md").write_text(CASES["own_card"])
    (place / "GUIDELINES.md").write_text("# What raters were told\n")
    return place


def test_a_data_set_is_published_with_its_card_and_the_licence_chosen_not_twice_and_not_without_one(stand, folder):
    receipts = [publish(stand.api(), packed_data(folder, repo="org/votes")) for _ in range(2)]
    assert set(receipts[0].files) == {MARK, "README.md", "GUIDELINES.md", "train.jsonl"}
    assert [each.outcome for each in receipts] == ["published", "already there"]
    assert stand.hub.find("dataset", "org/votes").private
    text = stand.read("org/votes", "README.md", "dataset").decode()
    assert "license: cc-by-4.0" in text
    assert "No licence has been chosen" not in text
    stand.hub.log.clear()
    assert "--license" in stand.attempt(lambda: publish(stand.api(), packed_data(folder, None)))
    assert stand.only_read(), "without a licence nothing is uploaded"


def test_a_rater_by_name_is_refused_and_not_repeated(folder):
    for row in ({"rater": "ann.smith"}, {"id": "p", "concerns": [{"text": "x", "annotator": "ann.smith"}]}):
        put(folder, "train.jsonl", [row])
        (found,) = problems(folder)
        assert re.search(r"the column (rater|annotator) names a rater", found)
        assert "ann" not in found.replace("annotator", "")
    (folder / "train.jsonl").unlink()
    pq.write_table(pa.table({"annotator": ["ann"], "text": ["x"]}), folder / "train.parquet")
    assert "annotator names a rater" in problems(folder)[0]


def test_an_address_in_the_rows_is_a_warning_with_its_line(folder):
    (folder / "train.jsonl").write_text('{}\n{"text": "ann@lab.org, +41 44 123 45 67"}\n')
    warnings = check_upload(packed_data(folder, "mit"))
    personal = {(each.problem, each.line) for each in warnings if each.check == "personal data"}
    assert personal == {("an e-mail address stands there", 2), ("a telephone number stands there", 2)}


def test_what_does_not_fit_is_named(folder, tmp_path):
    for number, (file, content, word) in enumerate(CASES["unfit_files"]):
        place = shutil.copytree(folder, tmp_path / str(number))
        (place / file).write_text(content)
        assert any(word in each for each in problems(place)), file
    (tmp_path / "private.jsonl").write_text("{}\n")
    (folder / "linked.jsonl").symlink_to(tmp_path / "private.jsonl")
    assert any("leads out of the folder" in each for each in problems(folder))


CSV = b'id,text\n1,"up\nand down"\n2,x\n'
PACKED_ROWS = {
    "mine.csv": CSV,
    "mine.tsv": CSV.replace(b",", b"\t"),
    "mine.csv.gz": gzip.compress(CSV),
    "mine.jsonl.gz": gzip.compress(b'{"id": 1, "text": "up\\nand down"}\n{"id": 2, "text": "x"}\n'),
}


def test_rows_in_tables_and_in_gzip_files_are_published_and_load_as_they_were(tmp_path):
    for name, content in PACKED_ROWS.items():
        (place := tmp_path / name.replace(".", "-")).mkdir()
        (place / name).write_bytes(content)
        upload = packed_data(place)
        check_upload(upload)
        assert {name, "README.md"} < set(upload.parts)
        for path, part in upload.parts.items():
            (place / path).write_bytes(part.read())
        loaded = datasets.load_dataset(str(place), split="train", cache_dir=str(tmp_path / "cache"))
        assert loaded.to_list() == [{"id": 1, "text": "up\nand down"}, {"id": 2, "text": "x"}], name


UNFIT_ROWS = [
    ("a.csv.gz", gzip.compress(CSV)[:-8], "ended before the end-of-stream"),
    ("a.csv.gz", CSV, "Not a gzipped file"),
    ("a.jsonl.gz", gzip.compress(b'{"a": "' + b"x" * 50_000_001 + b'"}'), "too large to be searched"),
    ("more.jsonl", b'{"id": 1}\n', "rows of several formats"),
]
for file, text, told in CASES["unfit_rows"]:
    content = text.replace("TOKEN", CASES["secrets"][0][0]).encode("latin-1")
    UNFIT_ROWS.append((file, gzip.compress(content) if file.endswith(".gz") else content, told))


def test_tables_and_gzip_files_that_hide_secrets_or_raters_or_cannot_be_loaded_are_refused(tmp_path):
    for number, (name, content, words) in enumerate(UNFIT_ROWS):
        (place := tmp_path / str(number)).mkdir()
        (place / name).write_bytes(content)
        if name == "more.jsonl":
            (place / "train.csv").write_bytes(CSV)
        with pytest.raises(Refused, match=re.escape(words)):
            check_upload(packed_data(place))


def test_published_sets_that_hold_rows_of_a_rater_are_found_by_their_receipts(stand, folder):
    write_receipt(publish(stand.api(), packed_data(folder, repo="org/held")), folder)
    held = {"repo": "org/held", "tag": None, "folder": str(folder), "rows": 3}
    assert published_rows(folder.parent, [RATER]) == [held]
    assert published_rows(folder.parent, ["1" * 32]) == []
    put(folder, "train.jsonl", [{"rater": "2" * 32}])
    (unsure,) = published_rows(folder.parent, [RATER])
    assert unsure["rows"] is None, "the folder was written again, so it cannot tell what is there"


def test_a_question_set_is_published_by_split_with_a_card_of_its_figures(tmp_path):
    mine = tmp_path / "mine.yaml"
    mine.write_bytes((EXAMPLES / "codons-and-enzymes.yaml").read_bytes())
    parts = packed_data(mine, "cc0-1.0").parts
    tables = [f"data/{split}.jsonl" for split in ("train", "validation", "test")]
    assert set(parts) == {MARK, "README.md", "mine.yaml", "eval.yaml", *tables}
    card = parts["README.md"].text()
    assert "| rows | 60 |" in card
    assert "2 right of 16 test rows (“longest option”), " in card and ", 2 (“always abstain, 60%”) |" in card
    rows = [json.loads(line) for path in tables for line in parts[path].text().splitlines()]
    assert {row["id"] for row in rows} == {row.id for row in load_questions(mine)}


def test_held_out_questions_that_come_with_assay_are_published_as_a_benchmark_by_their_name():
    upload = packed_data(Path("kmp-test"), "apache-2.0", repo="org/kmp-test")
    parts, card = upload.parts, upload.parts["README.md"].text()
    (task,) = yaml.safe_load(parts["eval.yaml"].text())["tasks"]
    assert (task["id"], task["split"]) == ("kmp-test", "test")
    assert task["field_spec"] == {"input": "messages", "target": "target"}
    rows = [json.loads(line) for line in parts["data/test.jsonl"].text().splitlines()]
    right = re.compile(task["scorers"][0]["args"]["pattern"])
    for row, example in zip(rows, load_questions("kmp-test"), strict=True):
        assert right.search(example.answer)[1] == row["target"], "the scorer finds a right answer right"
        assert row["messages"][-1]["content"] == example.prompt
    assert read_front_matter(card)["configs"][0]["data_files"] == [{"split": "test", "path": "data/test.jsonl"}]
    assert 'load_dataset("org/kmp-test", split="test", revision="v1.0")' in card
    assert "Apache License" in parts["LICENSE"].text()
    assert check_upload(upload) == ()


def test_held_out_answers_are_never_a_training_split_and_the_code_loads_from_the_repository(tmp_path):
    card = packed_data(put_report(tmp_path / "reports")).parts["README.md"].text()
    assert read_front_matter(card)["configs"][0]["data_files"][0]["split"] == "test"
    assert 'load_dataset("org/x", split="test", revision="v1.0")' in card
    put(tmp_path / "rows", "mine.jsonl", [{"text": "x", "split": "test"}])
    rows = packed_data(tmp_path / "rows").parts["README.md"].text()
    assert read_front_matter(rows)["configs"][0]["data_files"][0]["split"] == "test"


def test_a_question_set_with_a_bad_row_is_not_published_and_the_row_is_named(tmp_path):
    good = {"id": "a", "prompt": "Which way?", "group": "g", "split": "test"}
    good |= {"truth": {"kind": "choice", "value": "up", "options": ["up", "down"]}}
    put(tmp_path, "set.jsonl", [good, {**good, "id": "b", "split": "exam"}])
    errors = [each for each in packed_data(tmp_path).findings if each.is_error]
    assert [(each.path, each.line, each.problem[:13]) for each in errors] == [("set.jsonl", 2, "field 'split'")]


FOLDERS = {"reports": put_report, "plain rows": lambda place: put(place, "mine.jsonl", [{"text": "x", "n": 1}])}


def test_a_folder_without_a_card_passes_every_check_with_the_card_it_gets(tmp_path):
    for name in FOLDERS:
        upload = packed_data(FOLDERS[name](tmp_path / name))
        told = [each.problem[:44] for each in check_upload(upload)]
        assert told == (["nothing says how these rows were made, for w"] if name == "plain rows" else [])
        front = read_front_matter(upload.parts["README.md"].text())
        (config,) = front["configs"]
        assert front["license"] == "cc-by-4.0"
        assert all(each["path"] in upload.parts for each in config["data_files"])


def test_the_card_of_a_report_has_its_figures_beside_the_baselines_and_its_rows_as_a_table(tmp_path):
    parts = packed_data(put_report(tmp_path)).parts
    text = parts["README.md"].text()
    assert text == was("eval-rows-card", text)
    table = [json.loads(line) for line in parts["kmp-rows.jsonl"].text().splitlines()]
    assert table == [flat(row) for row in report().rows]
    assert set(flat(report().rows[0])) == set(KINDS["eval"]["columns"])


def test_plain_rows_get_a_card_of_columns_and_splits_and_of_nothing_guessed(tmp_path):
    for name in ("train", "dev", "test"):
        put(tmp_path, f"{name}.jsonl", [{"text": "x"}])
    text = packed_data(tmp_path).parts["README.md"].text()
    (config,) = read_front_matter(text)["configs"]
    files = {"train": "train.jsonl", "validation": "dev.jsonl", "test": "test.jsonl"}
    assert {each["split"]: each["path"] for each in config["data_files"]} == files
    assert "| `text` |  |" in text


def test_the_command_that_writes_reviewed_papers_writes_their_card_and_guidelines_beside_them(tmp_path):
    put(tmp_path, "train.jsonl", concerns())
    write_rows_card(tmp_path, "reviews", ["train.jsonl"])
    text = (tmp_path / "README.md").read_text()
    assert text == was("concerns-card", text)
    assert "How to label a concern" in (tmp_path / "GUIDELINES.md").read_text()
    told = KINDS["reviews"]
    assert {name for each in (ReviewExample, Conversation) for name in each.model_fields} <= set(told["columns"])
    assert {name for each in (Concern, HumanConcern) for name in each.model_fields} <= set(told["inner"]["concerns"])
    assert problems(tmp_path) == []


def test_a_card_that_a_person_wrote_is_published_whole_with_the_licence_that_is_chosen_and_another_is_refused(tmp_path):
    put(tmp_path, "train.jsonl", [{"text": "x"}])
    (tmp_path / "README.md").write_text("# Mine\n\n## License\n\nAsk Ann first.\n")
    text = packed_data(tmp_path, "mit").parts["README.md"].text()
    assert read_front_matter(text) == {"license": "mit"}
    assert "Ask Ann first." in text
    configs = 'configs:\n- data_files: ["*.jsonl"]\n- data_files: [{path: [train.jsonl]}]'
    (tmp_path / "README.md").write_text(f"---\nlicense: cc0-1.0\n{configs}\n---\n# Mine\n")
    assert problems(tmp_path, licence="mit") == ["the card says license: cc0-1.0, and --license says mit"]
    assert problems(tmp_path, licence=None) == []
    (tmp_path / "card.md").write_text("---\nauthors: Ann\n---\n## Uses\n\nTeaching.\n")
    upload = packed_data(tmp_path, None)
    assert "**By** Ann" in upload.parts["README.md"].text()
    assert "## Uses\n\nTeaching." in upload.parts["README.md"].text()
    assert "card.md" not in upload.parts


def test_an_edited_card_is_not_written_over_by_the_next_export(tmp_path):
    put(tmp_path, "train.jsonl", concerns())
    for _ in range(2):
        write_rows_card(tmp_path, "reviews", ["train.jsonl"])
    card = tmp_path / "README.md"
    card.write_text(card.read_text().replace("## Licence", "## Licence\n\nAsk Ann."))
    with pytest.raises(LabError, match=r"README\.md, line \d+: somebody edited this card"):
        write_rows_card(tmp_path, "reviews", ["train.jsonl"])
