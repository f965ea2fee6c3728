"""Rows to train on, run folders such as a trainer leaves, and the settings of a page that watches them."""

import re
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.parquet as pq

from evals.questions import DATASETS
from evals.schema import RunRecord
from lab.settings import TrainingSettings
from tests.evals.reviewed import concern, example, prose
from tests.examples import write_examples
from training.run.folder import RunFolder

QUESTIONS = DATASETS["kmp-train"]()
SPLITS = ("train", "dev", "dev", "dev", "dev", "test")


def training_rows(folder):
    """Write four questions and a corpus of six papers; return the folder."""
    write_examples(folder / "rows.jsonl", QUESTIONS[:4])
    (folder / "corpus").mkdir()
    for split in ("train", "dev", "test"):
        rows = [
            example(
                [("Methods", prose(20, f"M{n}x"))],
                [concern(f"No control arm in {n}."), concern("No drug and no mice.", 2)],
                id=f"s:{n}",
                family=str(n),
                split=split,
            ).model_dump_json()
            for n, each in enumerate(SPLITS)
            if each == split
        ]
        (folder / "corpus" / f"{split}.jsonl").write_text("\n".join(rows) + "\n", encoding="utf-8")
    return folder


def now():
    return datetime.now(UTC)


def plain(html):
    return " ".join(re.sub(r"<[^>]+>", " ", html).split())


def record(name="mine", **changes):
    fields = {
        "name": name,
        "stage": "grpo",
        "command": "accelerate launch -m training.grpo --config mine.yaml",
        "config": {"max_steps": 10, "epochs": 1.0, "data": ["kmp-train"], "learning_rate": 2e-4},
        "seed": 0,
        "data": {"rows": 8},
        "versions": {},
        "code_revision": None,
        "host": {},
        "started_at": now(),
    }
    return RunRecord.model_validate(fields | changes)


def run_in(folder, steps=0, **changes):
    """Write a run folder with so many steps in its metrics and return it."""
    run = RunFolder(folder)
    run.write(record(folder.name, **changes))
    for step in range(1, steps + 1):
        run.append_metrics({"step": step, "loss": 1 / step, "reward": 0.5, "epoch": step / 10})
    return run


def table(folder, step, *rows, reward="verifier"):
    """Write a completion table as TRL does; a row is (answer, reward, advantage, verdict, stated)."""
    columns = {
        "step": [step] * len(rows),
        "prompt": [[{"role": "user", "content": f"question {n}"}] for n in range(len(rows))],
        "completion": [[{"role": "assistant", "content": row[0]}] for row in rows],
        reward: [row[1] for row in rows],
        "verdict": [row[3] for row in rows],
        "stated_confidence": [row[4] for row in rows],
        "advantage": [row[2] for row in rows],
    }
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"completions_{step:05d}.parquet"
    pq.write_table(pa.table(columns), file)
    return file


ROWS = (("up", 0.2, -1.0, "incorrect", 0.9), ("down", 0.9, 1.0, "correct", 0.8), ("well", None, 0.0, "no_claim", None))


def allowed_in(folder, **changes):
    return TrainingSettings(runs=(folder / "runs",), configs=folder / "configs", **changes)
