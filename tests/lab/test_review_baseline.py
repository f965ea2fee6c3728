"""A baseline by API from end to end: a real server on this machine, rows, clean, score, board, report."""

import json
from pathlib import Path

import pytest

from tests.evals.reviewed import concern, example, prose
from tests.lab.commands import printed_by
from tests.training.judge_server import Asked, JudgeServer, Reply

KEY = "sk-not-to-be-found"
DATED = "vendor-4o-2026-08-06"
TEXTS = ("There is no control arm.", "Six mice are too few.", "The antibody is not named.")


def answered(asked: Asked) -> Reply:
    """Answer as vendors do: under a dated name, one concern that is right and one that is not."""
    number = int(asked.text.split("Paper ")[1][0])
    said = [
        {"text": text, "category": "design_flaw", "severity": "major"}
        for text in (TEXTS[number], "The figures are too small to be read.")
    ]
    message = {"role": "assistant", "content": json.dumps(said)}
    body = {"model": DATED, "choices": [{"message": message, "finish_reason": "stop"}]}
    return 200, json.dumps(body).encode()


def corpus(folder: Path) -> Path:
    rows = [
        example([("Methods", prose(20))], [concern(text)], id=f"s:{n}", family=str(n), split="test", title=f"Paper {n}")
        for n, text in enumerate(TEXTS)
    ]
    file = folder / "test.jsonl"
    file.write_text("".join(row.model_dump_json() + "\n" for row in rows), encoding="utf-8")
    return file


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the score of a served model beside one of rows that nothing is known of."""
    folder = tmp_path_factory.mktemp("baseline")
    papers = corpus(folder)
    with pytest.MonkeyPatch.context() as patch, JudgeServer(answered) as server:
        patch.setenv("VENDOR_KEY", KEY)
        (folder / "vendor.yaml").write_text("key_env: VENDOR_KEY\ntemperature: 0.2\n", encoding="utf-8")
        told = ("--config", folder / "vendor.yaml", "--server", f"{server.url}#vendor-4o")
        printed_by("review", "infer", "--papers", papers, *told, "--out", folder / "api.jsonl")
        assert {each.headers["authorization"] for each in server.requests} == {f"Bearer {KEY}"}
    printed_by("review", "clean", folder / "api.jsonl", "--cap", "1", "--out", folder / "cut.jsonl")
    own = [{"article_id": f"s:{n}", "concerns": [TEXTS[0]]} for n in range(3)]
    (folder / "own.jsonl").write_text("\n".join(map(json.dumps, own)), encoding="utf-8")
    scores = folder / "scores"
    for file, name in (("cut", "Vendor 4o"), ("own", "own")):
        words = ("--reference", papers, "--predictions", folder / f"{file}.jsonl", "--name", name)
        matcher = ("--encoder", "lexical", "--threshold", "0.5")
        printed_by("review", "score", *words, *matcher, "--out", scores / f"{file}.json")
    return folder


def test_a_score_says_who_answered_where_how_and_when(place: Path):
    stages = json.loads((place / "scores" / "cut.json").read_text(encoding="utf-8"))["stages"]
    made = stages["Vendor 4o"]["made_by"]
    assert (made["kind"], made["host"]) == ("server", "127.0.0.1")
    assert (made["name"], made["served"]) == ("vendor-4o", [DATED])
    assert made["settings"]["temperature"] == 0.2
    assert made["constraint"] == "array schema"
    assert len(made["date"]) == len("2026-01-01")
    assert json.loads((place / "scores" / "own.json").read_text())["stages"]["own"]["made_by"] is None


def test_the_key_stands_in_no_file(place: Path):
    files = [path for path in place.rglob("*") if path.is_file()]
    assert len(files) > 8
    assert not [path for path in files if KEY in path.read_text(encoding="utf-8")]
