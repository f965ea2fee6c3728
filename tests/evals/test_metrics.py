"""The `evaluate` modules: loaded by path, offline, from a copy elsewhere, and equal to our own."""

import ast
import json
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from evaluate import EvaluationModule

from evals.compare import Pairing, compare
from evals.questions import pathway_heldout
from evals.report import instrument
from evals.stats.calibration import Settings, calibrate
from evals.verifiers import verify
from tests.evals.reports import judged, report_of
from tests.imports import imports_of

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "evals" / "metrics"
NAMES = sorted(path.name for path in FOLDER.iterdir() if path.is_dir() and path.name[0] != "_")
ALONE = ("stated_calibration", "paired_difference")
SHARED = (
    *("ece", "mce", "brier", "brier_reliability", "brier_resolution", "brier_uncertainty"),
    *("base_rate_brier", "log_loss", "auroc", "aurc", "overconfidence_rate"),
    *("underconfidence_rate", "mean_confidence", "mean_accuracy"),
)


@cache
def load(name: str) -> EvaluationModule:
    import evaluate

    return evaluate.load(str(FOLDER / name))


def sample(seed: int, n: int = 60) -> tuple[list[float | None], list[int], list[str]]:
    chance = np.random.default_rng(seed)
    c = chance.choice([0.1, 0.25, 0.3, 0.6, 0.6, 0.85, 0.9, 1.0], n)
    y = (chance.random(n) < 0.3 + 0.5 * c).astype(int)
    hidden = chance.random(n) < 0.1
    stated = [None if gone else float(value) for value, gone in zip(c, hidden, strict=True)]
    return stated, y.tolist(), [f"cluster {place}" for place in chance.integers(0, n // 2, n)]


@pytest.mark.parametrize("seed", range(3))
def test_calibration_is_the_same_as_in_our_reports(seed: int) -> None:
    c, y, clusters = sample(seed)
    ours = calibrate(c, [bool(each) for each in y], clusters, Settings(draws=4000))
    theirs = load("stated_calibration").compute(predictions=c, references=y, clusters=clusters, n_resamples=1000)
    for name in SHARED:
        assert theirs[name] == pytest.approx(getattr(ours, name), abs=1e-12), name
        if name in theirs["intervals"] and name in ours.intervals:
            assert theirs["intervals"][name] == pytest.approx(ours.intervals[name], rel=0.08, abs=0.06), name
    assert theirs["smece"] == pytest.approx(ours.smece, abs=2e-3)
    assert theirs["ece_if_calibrated"]["mean"] == pytest.approx(ours.ece_if_calibrated.mean, abs=4e-3)
    assert theirs["ece_if_calibrated"]["q95"] == pytest.approx(ours.ece_if_calibrated.q95, abs=0.012)
    counted = theirs["n"], theirs["n_missing_confidence"]
    assert counted == (ours.n, ours.n_missing_confidence)


@pytest.mark.parametrize(("n", "clusters"), [(9, None), (48, None), (48, 20)])
def test_a_paired_difference_is_the_same_as_in_our_comparisons(n: int, clusters: int | None) -> None:
    chance = np.random.default_rng(n)
    rights = [chance.random(n) < share for share in (0.4, 0.65)]
    names = None if clusters is None else [f"c{i}" for i in chance.integers(0, clusters, n)]
    rows = [
        judged(stage, [("correct" if y else "incorrect", 0.7) for y in right], names)
        for stage, right in zip(("before", "after"), rights, strict=True)
    ]
    report = report_of(*rows[0], *rows[1])
    pairing = Pairing(metrics=["accuracy"], group="all")
    pair = compare([((report, "before"), (report, "after"))], pairing).comparisons[0]
    (ours,) = pair.differences
    theirs = load("paired_difference").compute(
        predictions=rights[1].astype(float), references=rights[0].astype(float), clusters=names
    )
    assert theirs["difference"] == pytest.approx(ours.value)
    assert (theirs["n"], theirs["n_clusters"]) == (pair.n, pair.n_clusters)
    assert theirs["is_exact"] == ours.is_exact
    tolerance = 1e-12 if ours.is_exact else 0.02
    assert theirs["p_permutation"] == pytest.approx(ours.p_permutation, abs=tolerance)
    assert theirs["p_mcnemar"] == pytest.approx(ours.p_mcnemar)
    assert (theirs["low"], theirs["high"]) == pytest.approx((ours.low, ours.high), abs=0.03)
    assert theirs["p_bootstrap"] == pytest.approx(ours.p_bootstrap, abs=0.02)


def test_verdicts_are_those_of_our_verifiers_with_their_versions() -> None:
    examples = pathway_heldout()[::9]
    answers = [each.answer if place % 2 else "Answer: up" for place, each in enumerate(examples)]
    found = load("verifier_verdict").compute(
        predictions=answers,
        references=[{"prompt": each.prompt, "ground_truth": each.ground_truth.model_dump_json()} for each in examples],
    )
    expected = [verify(each, text) for each, text in zip(examples, answers, strict=True)]
    assert found["verdicts"] == [each.verdict for each in expected]
    assert found["rewards"] == [each.reward for each in expected]
    assert found["confidences"] == [each.confidence.value for each in expected]
    right = sum(each.verdict == "correct" for each in expected)
    assert found["accuracy"] == pytest.approx(right / len(expected))
    assert sum(found["shares"].values()) == pytest.approx(1)
    assert found["versions"] == instrument()
    assert set(found["read_by"]) == {"answer"}


def test_an_answer_is_read_in_the_way_that_is_asked_for_and_a_rubric_is_not_scored() -> None:
    asked = {"prompt": "Is it up?", "ground_truth": '{"kind": "abstain"}'}
    free = {"prompt": "Why?", "ground_truth": '{"kind": "rubric", "items": ["It says so."]}'}
    found = load("verifier_verdict").compute(
        predictions=["The data cannot tell.", "Who knows."], references=[asked, free], read="answer"
    )
    assert (found["n"], found["verdicts"][0], found["rewards"]) == (1, "no_claim", [0.0, None])
    assert found["read_by"] == [None, None]
    with pytest.raises(ValueError, match="only a judge"):
        load("verifier_verdict").compute(predictions=["Who knows."], references=[free])


@pytest.mark.parametrize(
    ("name", "inputs", "complaint"),
    [
        ("stated_calibration", {"predictions": [80.0], "references": [1]}, "share 0..1, found 80"),
        ("stated_calibration", {"predictions": [0.8], "references": [2]}, "found 2"),
        (
            "stated_calibration",
            {"predictions": [0.8], "references": [1], "clusters": ["a", "b"]},
            "2 clusters for 1 rows",
        ),
        ("stated_calibration", {"predictions": [0.8], "references": [1], "n_bins": 0}, "n_bins"),
        ("paired_difference", {"predictions": [], "references": []}, "no row"),
        ("paired_difference", {"predictions": [1.0, None], "references": [1, 0]}, "missing"),
        ("paired_difference", {"predictions": [1.0], "references": [0.0], "clusters": []}, "0 clusters for 1 rows"),
        ("stated_calibration", {"predictions": [0.8], "references": [0.5]}, "found 0.5"),
        ("stated_calibration", {"predictions": [0.8], "references": [1], "n_resamples": -1}, "n_resamples must be 0"),
        ("paired_difference", {"predictions": [1.0], "references": [float("inf")]}, "finite number, found inf"),
        ("paired_difference", {"predictions": [1.0], "references": [0.0], "n_resamples": 0}, "n_resamples must be 1"),
        ("verifier_verdict", {"predictions": [], "references": []}, "no answer"),
    ],
)
def test_what_makes_no_sense_is_refused_with_the_value(name: str, inputs: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        load(name).compute(**inputs)


def test_a_row_without_a_cluster_is_one_of_its_own() -> None:
    inputs = {"predictions": [0.9, 0.6, 0.8, 0.7], "references": [1, 0, 0, 1]}
    for name in ALONE:
        found = [
            load(name).compute(**inputs, clusters=clusters, n_resamples=300)
            for clusters in (["a", "a", None, None], ["a", "a", "b", "c"])
        ]
        assert found[0] == found[1]
    assert found[0]["n_clusters"] == 3


@pytest.mark.parametrize("name", NAMES)
def test_a_misspelt_option_is_an_error_and_not_ignored(name: str) -> None:
    asked = {"prompt": "Is it up?", "ground_truth": '{"kind": "abstain"}'}
    inputs = {"predictions": [1.0], "references": [1]}
    if name == "verifier_verdict":
        inputs = {"predictions": ["Yes."], "references": [asked]}
    with pytest.raises(TypeError, match="n_resample_s"):
        load(name).compute(**inputs, n_resample_s=3)


def test_nothing_stated_gives_no_calibration_and_no_warning() -> None:
    found = load("stated_calibration").compute(predictions=[None, None], references=[1, 0])
    assert (found["n"], found["n_missing_confidence"]) == (2, 2)
    assert {found[name] for name in SHARED} == {None}
    assert (found["smece"], found["ece_if_calibrated"], found["intervals"]) == (None, None, {})


ELSEWHERE = """
import json, sys
import evaluate
found = evaluate.load("./paired_difference").compute(predictions=[1, 1, 0], references=[0, 1, 0])
more = evaluate.load("./stated_calibration").compute(
    predictions=[0.9, 0.6], references=[1, 0], n_resamples=50
)
ours = sorted(name for name in sys.modules if name.split(".")[0] in ("evals", "lab", "training"))
print(json.dumps([found["difference"], more["brier"], ours]))
"""


@pytest.mark.slow
def test_a_copy_outside_the_repository_works_without_any_of_our_packages(tmp_path: Path) -> None:
    for name in ALONE:
        shutil.copytree(FOLDER / name, tmp_path / name)
    done = subprocess.run([sys.executable, "-c", ELSEWHERE], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    difference, brier, ours = json.loads(done.stdout.splitlines()[-1])
    assert difference == pytest.approx(1 / 3)
    assert brier == pytest.approx((0.01 + 0.36) / 2)
    assert ours == []


@pytest.mark.slow
def test_the_module_that_needs_assay_says_so_where_assay_is_not(tmp_path: Path) -> None:
    source = (
        "import sys, evaluate\n"
        "sys.meta_path.insert(0, type('No', (), {'find_spec': staticmethod(lambda n, *a:"
        " (_ for _ in ()).throw(ModuleNotFoundError(n)) if n == 'evals' else None)})())\n"
        f"evaluate.load({str(FOLDER / 'verifier_verdict')!r})\n"
    )
    done = subprocess.run([sys.executable, "-c", source], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "make setup" in done.stderr and "evals on PyPI is something else" in done.stderr


@pytest.mark.parametrize("name", NAMES)
def test_a_module_imports_only_what_its_requirements_name(name: str) -> None:
    folder = FOLDER / name
    lines = (folder / "requirements.txt").read_text(encoding="utf-8").splitlines()
    named = {line for line in lines if line and not line.startswith("#")}
    roots = {entry.root for entry in imports_of(folder / f"{name}.py", ROOT)}
    outside = roots - set(sys.stdlib_module_names)
    assert outside - {"evals"} == named
    assert ("evals" in outside) == (name not in ALONE)


@pytest.mark.parametrize("name", NAMES)
def test_a_module_has_one_import_per_line_as_evaluate_needs(name: str) -> None:
    tree = ast.parse((FOLDER / name / f"{name}.py").read_text(encoding="utf-8"))
    assert all(len(node.names) == 1 for node in ast.walk(tree) if isinstance(node, ast.Import))


@pytest.mark.parametrize("name", NAMES)
def test_a_card_has_the_front_matter_of_a_metric_space_and_an_example(name: str) -> None:
    text = (FOLDER / name / "README.md").read_text(encoding="utf-8")
    front = yaml.safe_load(text.split("---\n")[1])
    assert front["tags"] == ["evaluate", "metric"]
    assert front["license"] == "apache-2.0" and front["sdk"] and front["title"]
    assert len(front["short_description"]) <= 60
    assert f'evaluate.load("evals/metrics/{name}")' in text
    assert "**Limits.**" in text


PAGES = [ROOT / "docs" / "metrics.md", *(FOLDER / name / "README.md" for name in NAMES)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: f"{page.parent.name}/{page.name}")
def test_the_examples_on_the_page_run(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    examples = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    assert examples
    for example in examples:
        names: dict[str, Any] = {}
        exec(compile(example, str(page), "exec"), names)
        assert names["found"]["n"] >= 1


@pytest.mark.parametrize("name", NAMES)
def test_every_figure_a_module_returns_stands_in_its_card(name: str) -> None:
    asked = {"prompt": "Is it up?", "ground_truth": '{"kind": "abstain"}'}
    inputs = {"predictions": [1.0], "references": [1]}
    if name == "verifier_verdict":
        inputs = {"predictions": ["Yes."], "references": [asked]}
    card = (FOLDER / name / "README.md").read_text(encoding="utf-8")
    assert [key for key in load(name).compute(**inputs) if f"`{key}`" not in card] == []
