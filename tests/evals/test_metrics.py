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

from evals.compare import Pairing, compare
from evals.questions import pathway_heldout
from evals.report import instrument
from evals.stats.calibration import CalibrationSettings, calibrate
from evals.verifiers import verify
from tests.evals.reports import TABLES, judged, report_of
from tests.imports import imports_of

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "evals" / "metrics"
NAMES = sorted(path.name for path in FOLDER.iterdir() if path.is_dir() and path.name[0] != "_")
ALONE = ("stated_calibration", "paired_difference")
SHARED = TABLES["metrics: figures of confidences that the report has too"]


ASKED = {"prompt": "Is it up?", "ground_truth": '{"kind": "abstain"}'}
FREE = {"prompt": "Why?", "ground_truth": '{"kind": "rubric", "items": ["It says so."]}'}
SMALL = {name: {"predictions": [1.0], "references": [1]} for name in ALONE}
SMALL["verifier_verdict"] = {"predictions": ["Yes."], "references": [ASKED]}
"""Inputs of one row for each module."""


@cache
def load(name: str) -> Any:
    import evaluate  # slow, and only this file needs it

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
    ours = calibrate(c, [bool(each) for each in y], clusters, CalibrationSettings(draws=4000))
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
    before, after = ([("correct" if y else "incorrect", 0.7) for y in right] for right in rights)
    rows = [judged("before", before, names), judged("after", after, names)]
    report = report_of(*rows[0], *rows[1])
    pairing = Pairing(metrics=["accuracy"], group="all")
    pair = compare([((report, "before"), (report, "after"))], pairing).comparisons[0]
    (ours,) = pair.differences
    before, after = (right.astype(float) for right in rights)
    theirs = load("paired_difference").compute(predictions=after, references=before, clusters=names)
    told = [theirs[name] for name in ("n", "n_clusters", "is_exact", "difference", "p_mcnemar")]
    assert told == pytest.approx([pair.n, pair.n_clusters, ours.is_exact, ours.value, ours.p_mcnemar])
    tolerance = 1e-12 if ours.is_exact else 0.02
    assert theirs["p_permutation"] == pytest.approx(ours.p_permutation, abs=tolerance)
    assert (theirs["low"], theirs["high"]) == pytest.approx((ours.low, ours.high), abs=0.03)


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
    answers = ["The data cannot tell.", "Who knows."]
    found = load("verifier_verdict").compute(predictions=answers, references=[ASKED, FREE], read="answer")
    assert (found["n"], found["verdicts"][0], found["rewards"]) == (1, "no_claim", [0.0, None])
    assert found["read_by"] == [None, None]


def test_what_makes_no_sense_is_refused_with_the_value_and_a_misspelt_option_with_its_name() -> None:
    for name, inputs, complaint in TABLES["metrics: what makes no sense"]:
        with pytest.raises(ValueError, match=complaint):
            load(name).compute(**inputs)
    for name, inputs in SMALL.items():
        with pytest.raises(TypeError, match="n_resample_s"):
            load(name).compute(**inputs, n_resample_s=3)


def test_a_row_without_a_cluster_is_one_of_its_own() -> None:
    inputs = {"predictions": [0.9, 0.6, 0.8, 0.7], "references": [1, 0, 0, 1]}
    for name in ALONE:
        found = [
            load(name).compute(**inputs, clusters=clusters, n_resamples=300)
            for clusters in (["a", "a", None, None], ["a", "a", "b", "c"])
        ]
        assert found[0] == found[1]
    assert found[0]["n_clusters"] == 3


def test_nothing_stated_gives_no_calibration_and_no_warning() -> None:
    found = load("stated_calibration").compute(predictions=[None, None], references=[1, 0])
    assert (found["n"], found["n_missing_confidence"]) == (2, 2)
    assert {found[name] for name in SHARED} == {None}
    assert (found["smece"], found["ece_if_calibrated"], found["intervals"]) == (None, None, {})


ELSEWHERE = """
import json, sys
import evaluate
found = evaluate.load("./paired_difference").compute(predictions=[1, 1, 0], references=[0, 1, 0])
more = evaluate.load("./stated_calibration").compute(predictions=[0.9, 0.6], references=[1, 0], n_resamples=50)
ours = sorted(name for name in sys.modules if name.split(".")[0] in ("evals", "lab", "training"))
print(json.dumps([found["difference"], more["brier"], ours]))
class No:
    def find_spec(self, name, *rest):
        if name == "evals":
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, No())
evaluate.load(sys.argv[1])
"""


@pytest.mark.slow
def test_copies_work_without_our_packages_and_the_one_that_needs_them_says_so(tmp_path: Path) -> None:
    for name in ALONE:
        shutil.copytree(FOLDER / name, tmp_path / name)
    command = [sys.executable, "-c", ELSEWHERE, str(FOLDER / "verifier_verdict")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    difference, brier, ours = json.loads(done.stdout.splitlines()[-1])
    assert (difference, brier, ours) == (pytest.approx(1 / 3), pytest.approx((0.01 + 0.36) / 2), [])
    assert done.returncode == 1
    assert "make setup" in done.stderr and "evals on PyPI is something else" in done.stderr


@pytest.mark.parametrize("name", NAMES)
def test_a_module_names_what_it_imports_one_a_line_and_its_card_is_a_metrics_and_tells_every_figure(name: str) -> None:
    folder = FOLDER / name
    lines = (folder / "requirements.txt").read_text(encoding="utf-8").splitlines()
    outside = {entry.root for entry in imports_of(folder / f"{name}.py", ROOT)} - set(sys.stdlib_module_names)
    assert outside - {"evals"} == {line for line in lines if line and not line.startswith("#")}
    assert ("evals" in outside) == (name not in ALONE)
    tree = ast.parse((folder / f"{name}.py").read_text(encoding="utf-8"))  # `evaluate` reads one import a line
    assert all(len(node.names) == 1 for node in ast.walk(tree) if isinstance(node, ast.Import))
    card = (folder / "README.md").read_text(encoding="utf-8")
    front = yaml.safe_load(card.split("---\n")[1])
    assert (front["tags"], front["license"]) == (["evaluate", "metric"], "apache-2.0")
    assert front["sdk"] and front["title"] and len(front["short_description"]) <= 60
    assert f'evaluate.load("evals/metrics/{name}")' in card and "**Limits.**" in card
    assert [key for key in load(name).compute(**SMALL[name]) if f"`{key}`" not in card] == []


def test_the_examples_on_the_pages_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    for page in (ROOT / "docs" / "metrics.md", *(FOLDER / name / "README.md" for name in NAMES)):
        examples = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
        assert examples, page
        for example in examples:
            names: dict[str, Any] = {}
            exec(compile(example, str(page), "exec"), names)
            assert names["found"]["n"] >= 1
