import io
import re
from pathlib import Path

import pytest
import yaml
from PIL import Image

from evals.schema.publishing import PublishedStage
from hub.adapters import Wishes, pack_adapter
from hub.cards.lint import lint_card
from hub.chains import runs_of
from hub.runs import base_of
from tests.hub.runs import BASE, REVISION, change_manifest, change_record, write_run
from tests.hub.snapshots import was

EMBEDDED = Path(__file__).parents[2] / "training/embedded/grpo"
PIN = "12" * 20


def packed(folder, **wishes):
    """Return what would be published of the last stage of the run in `folder`."""
    chosen = Wishes("org/mine", **wishes)
    *earlier, last = runs_of(folder)
    base = base_of(last.manifest, chosen.base, chosen.base_revision)
    places = tuple(
        PublishedStage(
            name=run.stage.name,
            repo=f"org/mine-{run.stage.name}",
            revision=PIN,
            sha256=run.stage.sha256,
            config_sha256=run.stage.config_sha256,
        )
        for run in earlier
    )
    return pack_adapter(last, base, chosen, places)


def card_of(folder, **wishes):
    return packed(folder, **wishes).parts["README.md"].read().decode()


def front_matter(text):
    return yaml.safe_load(text.split("---\n")[1])


@pytest.fixture(scope="module")
def embedded():
    return packed(EMBEDDED)


def test_the_card_of_a_chain_reads_as_it_did(tmp_path):
    text = card_of(write_run(tmp_path, stages=("sft", "grpo")))
    assert text == was("adapter-card", text)


def test_the_front_matter_tells_the_hub_what_it_is(tmp_path):
    data = front_matter(card_of(write_run(tmp_path)))
    assert data["license"] == "apache-2.0"
    assert (data["base_model"], data["base_model_relation"]) == (BASE, "adapter")
    assert (data["library_name"], data["pipeline_tag"]) == ("peft", "text-generation")
    assert "model-index" not in data, "nothing was measured"
    assert "co2_eq_emissions" not in data, "nothing was measured"


def test_measured_emissions_stand_on_the_card(tmp_path):
    run = write_run(tmp_path, result={"steps": 1, "co2_g": 12.5})
    assert front_matter(card_of(run))["co2_eq_emissions"]["emissions"] == 12.5


def test_energy_and_cost_stand_on_the_card_in_words_if_the_run_tells_them(tmp_path):
    used = {"steps": 1, "energy_kwh": 0.42, "measured_by": "processors by RAPL", "cost": 3.2}
    text = card_of(write_run(tmp_path, result=used))
    for line in ("energy, kWh | 0.42", "energy measured | processors by RAPL", "steps | 1"):
        assert f"| {line} |" in text
    assert "| cost, hours times the price of one | 3.2 |" in text
    assert "kWh" not in card_of(write_run(tmp_path / "unmeasured"))


def test_data_sets_of_the_hub_are_named_so_that_it_links_them_and_files_are_not(tmp_path):
    run = write_run(tmp_path, config={"data": ["org/pairs@main:500", "kmp-train", "rows/v.jsonl"]})
    assert front_matter(card_of(run))["datasets"] == ["org/pairs"]
    assert "datasets" not in front_matter(card_of(write_run(tmp_path / "own")))


def test_figures_come_with_n_and_interval_and_controls(embedded):
    text = embedded.parts["README.md"].read().decode()
    metrics = [metric for result in front_matter(text)["model-index"][0]["results"] for metric in result["metrics"]]
    assert metrics
    assert all({"n", "low", "high"} <= metric["args"].keys() for metric in metrics)
    assert re.search(r"\| grpo \| 59 \| 0\.\d{3} \[0\.\d{3}, 0\.\d{3}\]", text)
    assert "| tissue majority, 80% |" in text


def test_the_calibration_plot_is_an_image_that_lies_beside_the_card(embedded):
    text = embedded.parts["README.md"].read().decode()
    (name, *_) = re.findall(r"!\[[^]]*\]\(([^)]+)\)", text)
    image = Image.open(io.BytesIO(embedded.parts[name].read()))
    assert image.size == (720, 560)
    assert len(image.convert("RGB").getcolors(1_000_000)) > 10


def test_our_own_card_passes_our_own_check(embedded):
    text = embedded.parts["README.md"].read().decode()
    found = lint_card(text, "model", embedded.parts)
    assert [each for each in found if each.is_error] == []


def test_no_placeholder_no_none_and_no_local_path_is_on_a_card(embedded):
    text = embedded.parts["README.md"].read().decode()
    assert "More Information" not in text
    assert not re.search(r"\bNone\b|/home/|/root|/tmp", text)


def test_every_file_is_listed_with_its_checksum(embedded):
    text = embedded.parts["README.md"].read().decode()
    for path, part in embedded.parts.items():
        if path != "README.md":
            assert f"| {path} | {part.size} | `{part.sha256}` |" in text


def test_a_report_about_other_weights_supports_nothing_on_the_card(tmp_path):
    run = write_run(tmp_path)
    (run / "reports").mkdir()
    report = (EMBEDDED / "reports/kmp-test.json").read_text()
    (run / "reports/kmp-test.json").write_text(report)
    text = card_of(run)
    assert "No report lies beside this adapter" in text
    assert "kmp-test" not in text


def test_a_base_with_terms_of_its_own_gives_its_licence_and_its_duties(tmp_path):
    run = write_run(tmp_path)
    change_manifest(run, base={"licence": "llama3.1"})
    text = card_of(run)
    assert front_matter(text)["license"] == "llama3.1"
    assert "Built with Llama" in text


def test_the_base_is_pinned_in_code_and_configuration(tmp_path):
    parcel = packed(write_run(tmp_path))
    assert f'revision="{REVISION}"' in parcel.parts["README.md"].read().decode()
    assert REVISION in parcel.parts["adapter_config.json"].read().decode()


def test_a_local_base_is_published_under_the_name_that_is_given(tmp_path):
    run = write_run(tmp_path)
    change_manifest(run, base={"hub_id": None, "source": "my-model", "revision": None})
    change_record(run, config={"base": "my-model"})
    parcel = packed(run, base="org/real", base_revision="34" * 20)
    assert front_matter(parcel.parts["README.md"].read().decode())["base_model"] == "org/real"
    assert '"hub_id": "org/real"' in parcel.parts["chain.json"].read().decode()


BAD_CARDS = [
    ("---\nlicense: foo\n---\n", "license", 2),
    ("---\nlicence: mit\n---\n", "spelled", 2),
    ("---\na: b: c\n---\n", "not valid YAML", 1),
    ("# no front matter", "empty or missing yaml", 1),
    ("---\nbase_model: /home/me/x\n---\n", "a local path", 2),
    ("---\nlicense: mit\n---\n[More Information Needed]", "placeholder", 4),
    ("---\nlicense: mit\n---\n[None](https://huggingface.co/None)", "None", 4),
    ("---\nlicense: mit\n---\n{{ name }}", "template", 4),
    ("---\nlicense: mit\n---\n```python\nprint(\n```", "does not parse", 5),
    ("---\nlicense: mit\n---\n```python\nm = A.from_pretrained('a/b')\n```", "on that day", 5),
    ("---\nlicense: mit\n---\n[x](missing.md)", "leads nowhere", 4),
    ("---\nlicense: mit\n---\nTODO: say more", "note to yourself", 4),
    ("---\nlicense: mit\n---\nask bob@lab.org", "e-mail", 4),
]


@pytest.mark.parametrize(("text", "word", "line"), BAD_CARDS)
def test_a_fault_of_any_card_is_named_with_its_line_and_what_to_do(text, word, line):
    found = lint_card(text, "model", [])
    mine = [each for each in found if word in f"{each.problem} {each.remedy}".replace("spell it", "spelled")]
    assert mine, found
    assert mine[0].line == line
    assert mine[0].remedy


def test_the_card_that_trl_writes_is_found_wanting():
    text = (
        "---\nlibrary_name: peft\nlicence: license\ntags: [trl]\n---\n# Model Card for x\n"
        "This model is a fine-tuned version of [None](https://huggingface.co/None).\n"
        '```python\ngenerator = pipeline("text-generation", model="None")\n```\n'
    )
    problems = " ".join(each.problem for each in lint_card(text, "model"))
    for word in ('"licence" is no key', "“None”", "base_model is missing", "pipeline_tag"):
        assert word in problems


def test_a_base_without_a_revision_is_told_by_its_weights_and_the_reader_is_warned(embedded, tmp_path):
    warned = embedded.parts["README.md"].read().decode()
    assert "sha256 `b179c9523d0e6a0f" in warned
    assert "the copy of the base that comes with Assay" in warned
    assert "the figures on this card are not about what you have loaded" in warned
    pinned = card_of(write_run(tmp_path, stages=("sft", "grpo")))
    assert "not by a revision of the Hub" not in pinned
