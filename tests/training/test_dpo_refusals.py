"""Settings of DPO that contradict each other, refused before anything is loaded."""

import json
from pathlib import Path

import pytest

from evals.errors import BadConfig
from training.config import DpoSettings, read_request

REFUSED = [
    ({"chain": ""}, "DPO starts from"),
    ({"mode": "merge_then_new", "weights": "nf4"}, "4-bit weights would round"),
    ({"monitor_stop": True, "monitor_data": ["kmp-test"]}, "stop by kmp-dev"),
    ({"beta": 0}, "beta"),
    ({"mode": "merge"}, "one of stack, continue, merge_then_new"),
]


@pytest.mark.parametrize(("values", "said"), REFUSED)
def test_settings_that_contradict_each_other_are_refused(values: dict[str, object], said: str, tmp_path: Path):
    file = tmp_path / "settings.yaml"
    document = {"data": ["pairs.jsonl"], "output": "run", "chain": "sft", **values}
    file.write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(BadConfig, match=said):
        read_request(DpoSettings, ["--config", str(file)])
