"""Verdicts on answers that are on file, as `assay eval verify` gives them, by hash of question and answer."""

import hashlib
import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from tests.frozen.pages import endpoints, options
from tests.frozen.script import ROOT, assay, run_script, working_folder
from tests.frozen.table import Rows

CASES = ROOT / "tests" / "evals" / "cases"
EMBEDDED = ROOT / "training" / "embedded"


class Stored(NamedTuple):
    """An answer, and where it is on file."""

    where: str
    prompt: str
    completion: str
    truth: dict[str, Any]


def questions() -> Iterator[tuple[str, Any]]:
    """Yield every question of ours, with the name of its data set."""
    from evals.questions import DATASETS, load_questions

    for name, rows in DATASETS.items():
        yield from ((name, row) for row in rows())
    yield from (("codons-and-enzymes", row) for row in load_questions("codons-and-enzymes"))


def gold() -> Iterator[Stored]:
    """Yield our own answers to our own questions."""
    return (_about(f"{name} {row.id}", row, row.answer) for name, row in questions())


def stored() -> Iterator[Stored]:
    """Yield every answer in the reports beside the embedded chain, baselines too."""
    for file in sorted(EMBEDDED.glob("**/reports/*.json")):
        for row in json.loads(file.read_bytes()).get("rows", ()):
            if example := row.get("example"):
                where = f"{file.relative_to(EMBEDDED)} {row['stage']} {example['id']}"
                yield Stored(where, example["prompt"], row["completion"], example["ground_truth"])


def sampled() -> Iterator[Stored]:
    """Yield answers that were sampled in training, to questions that we still ask, and pairs made of them."""
    files = [ROOT / "tests/training/files/sampled.parquet"]
    files += sorted(EMBEDDED.glob("grpo/completions/*.parquet"))
    for file in files:
        for number, row in enumerate(_parquet(file)):
            yield from _asked(f"{file.name} {number}", row["prompt"], row["completion"][-1])
    pairs = (EMBEDDED / "pairs/train.jsonl").read_text(encoding="utf-8").splitlines()
    for number, row in enumerate(map(json.loads, pairs)):
        for side in ("chosen", "rejected"):
            yield from _asked(f"pairs {number} {side}", row["prompt"], row[side][-1])


def cases() -> Iterator[Stored]:
    """Yield the case tables of `tests/evals/cases` and the answers that were labelled to develop readers."""
    for group in _yaml("answer_lines"):
        for number, case in enumerate(group["cases"]):
            where = f"answer_lines {group['truth']['kind']} {number}"
            yield Stored(where, group["question"], case["text"], group["truth"])
    by_id = {row.id: row for _, row in questions()}
    for group in _yaml("explanations"):
        row = by_id[group["question"]]
        for kind in ("false", "true", "against"):
            for said in group.get(kind, ()):
                yield _about(f"explanations {kind}", row, "\n".join((said, *row.answer.split("\n")[-2:])))
    for number, case in enumerate(_jsonl(CASES / "text_answers.jsonl")):
        yield Stored(f"text_answers {number}", case["prompt"], case["answer"], case["truth"])
    for name in ("text_attacks", "text_fair"):
        yield from sayings(name)
    for case in _jsonl(ROOT / "evals/labels/dev.jsonl"):
        yield Stored(f"dev {case['id']}", case["prompt"], case["completion"], case["ground_truth"])


SOURCES: dict[str, Callable[[], Iterator[Stored]]] = {each.__name__: each for each in (gold, stored, sampled, cases)}


def verdicts(source: str, every: int = 1) -> dict[str, Any]:
    """Return verdict, reward, confidence, what was read, and where each distinct answer is; of `every` so many one."""
    answers: dict[str, Stored] = {}
    for each in SOURCES[source]():
        text = f"{each.prompt}\0{each.completion}"
        name = digest = hashlib.sha256(text.encode()).hexdigest()[:12]
        number = 1
        while name in answers and answers[name].truth != each.truth:  # the same answer, another truth
            number += 1
            name = f"{digest}-{number}"
        answers.setdefault(name, each)
    answers = dict(list(answers.items())[::every])
    lines = (
        {"id": name, "prompt": each.prompt, "completion": each.completion, "ground_truth": each.truth}
        for name, each in answers.items()
    )
    with working_folder():
        text = "".join(json.dumps(line) + "\n" for line in lines)
        Path("answers.jsonl").write_text(text, encoding="utf-8")
        found = {row["id"]: row for row in assay(["eval", "verify", "answers.jsonl", "--json"])}
    return {
        name: {
            "verdict": found[name]["verdict"],
            "reward": _rounded(found[name]["reward"]),
            "confidence": _rounded(found[name]["stated_confidence"]),
            "read_by": found[name]["read_by"],
            "where": each.where,
        }
        for name, each in answers.items()
    }


def _about(where: str, row: Any, answer: str) -> Stored:
    return Stored(where, row.prompt, answer, row.ground_truth.model_dump(mode="json"))


def _asked(where: str, prompt: list[dict[str, str]], answer: dict[str, str]) -> Iterator[Stored]:
    from evals.questions import find

    known = find(question := prompt[-1]["content"])
    if known is not None:
        yield _about(f"{where} {known.id}", known, answer["content"])._replace(prompt=question)


def sayings(name: str) -> Iterator[Stored]:
    """Yield a table of texts: "[id of a question]", then answers to it, one a line."""
    by_id, row = {row.id: row for _, row in questions()}, None
    for line in (CASES / f"{name}.txt").read_text(encoding="utf-8").splitlines():
        named = line[1:].partition("]")[0] if line.startswith("[") else ""
        if named in by_id:
            row = by_id[named]
        elif line and not line.startswith("#") and row is not None:
            yield _about(f"{name} {row.id}", row, f"{line.encode().decode('unicode_escape')}\nConfidence: 90%")


def _rounded(number: float | None) -> float | None:
    return None if number is None else round(number, 4)


def _yaml(name: str) -> list[dict[str, Any]]:
    return yaml.safe_load((CASES / f"{name}.yaml").read_text(encoding="utf-8"))


def _jsonl(file: Path) -> Iterator[dict[str, Any]]:
    return map(json.loads, file.read_text(encoding="utf-8").splitlines())


def _parquet(file: Path) -> list[dict[str, Any]]:
    import pyarrow.parquet as pq

    return pq.read_table(file, columns=["prompt", "completion"]).to_pylist()


TABLES: dict[str, Callable[[], Rows]] = {
    **{f"verdicts-{source}": partial(verdicts, source) for source in SOURCES},
    **{name: partial(run_script, name) for name in ("commands", "cards", "figures", "formats")},
    "options": options,
    "api": endpoints,
}
"""All frozen tables by name."""
