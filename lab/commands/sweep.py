"""`assay train sweep`: one stage under several settings, each in a run folder of its own, compared on dev questions.

stage: sft
config: training/configs/embedded/sft.yaml
output: runs/rates                       # rates/1, rates/2 …
dev: ["pathways-grpo-half[direct]"]      # asked of each run; never test rows
grid: {learning_rate: [1.0e-3, 2.0e-3], lora_r: [4, 8]}
"""

import subprocess
import sys
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from pydantic import Field

from evals.errors import BadConfig, LabError
from lab.commands.review import cell
from lab.commands.terminal import emit, notes, table_of
from lab.commands.train import run_line
from training.config import STAGES, Settings, read_settings
from training.models.manifest import read_chain

if TYPE_CHECKING:
    from training.launch.plan import Plan

METRICS = ("accuracy", "reward", "ece", "brier")
MAIN = "from lab.cli import main; main()"


class SweepSettings(Settings):
    """A sweep file."""

    stage: str = Field(description=f"one of {', '.join(STAGES)}")
    config: str = Field(description="the settings file that every run starts from")
    output: str = Field(description="the folder of the runs")
    dev: tuple[str, ...] = Field((), description="questions to compare the runs on, as data of a stage")
    grid: Mapping[str, list[Any]] = Field(description="settings with the values to try, every combination of them")

    def trials(self) -> list[tuple[Path, dict[str, str]]]:
        """Return folder and own settings of each run; the last setting changes fastest."""
        texts = {
            key: [",".join(map(str, v)) if isinstance(v, list) else str(v) for v in self.grid[key]] for key in self.grid
        }
        combinations = [dict(zip(texts, values, strict=True)) for values in product(*texts.values())]
        if not 1 <= len(combinations) <= 100 or {"output", "config"} & texts.keys():
            n = len(combinations)
            raise BadConfig(f"the grid asks for {n} runs; it may ask for 1 to 100, and set neither output nor config.")
        return [(Path(self.output) / str(number), each) for number, each in enumerate(combinations, start=1)]


def sweep(
    file: Annotated[Path, typer.Argument(help="The sweep, a YAML file.")],
    profile: Annotated[str | None, typer.Option(help="How to launch, as in assay train sft.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the runs; run nothing.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Train a stage under every combination of a grid and put what each does on the dev questions in one table.

    Given again it goes on where it was: finished runs are kept, the others go on from their last checkpoint; a
    finished run with other settings or data is refused. A run that fails stops no other, and the exit code is 1.
    It chooses nothing; look at the intervals. docs/launching.md shows a sweep file.

    Example: assay train sweep sweep.yaml --dry-run
    """
    from evals.questions import data_sha256, write_examples
    from training.data.questions import sft_data
    from training.data.tokens import TOO_LONG
    from training.launch.accelerate import Launch
    from training.launch.plan import plan_of
    from training.run.folder import STOPPED_BECAUSE, RunFolder, changes, config_changes, public_config

    wanted, launch = read_settings(SweepSettings, file), Launch(profile)
    if wanted.stage not in STAGES:
        raise BadConfig(f"{file} has stage {wanted.stage!r}; choose one of {', '.join(STAGES)}.")
    dev = sft_data(wanted.dev, seed=0).items if wanted.dev else ()
    rows: list[dict[str, object]] = []
    plans: list[tuple[Plan, dict[str, str]]] = []
    for folder, own in wanted.trials():
        words = [word for key, value in own.items() for word in (f"--{key}", value)]
        record = RunFolder(folder).record()
        is_done = record is not None and record.status == "finished"
        start = ("--config", wanted.config, *words, "--output", str(folder), *(["--overwrite"] if is_done else []))
        plan = plan_of(wanted.stage, start, launch)
        assert plan.data is not None
        if record and is_done:
            stages = read_chain(plan.settings.chain).manifest.stages if plan.settings.chain else ()
            data = {**plan.data.record(), **{f"stage {each.name}": each.sha256 for each in stages}}
            if any(TOO_LONG in key for key in record.data):  # only a tokenizer can tell which rows were left out
                del data["sha256"], data["rows"]
            changed = config_changes(record, public_config(plan.settings))
            if changed := [*changed, *changes({key: record.data.get(key) for key in data}, data)]:
                raise BadConfig(
                    f"{folder} holds a finished run with other settings or data ({'; '.join(changed)}); name another"
                    " output in the sweep file, or move that folder away to train it anew."
                )
        asked = plan.data.questions
        if both := [example.id for example in dev if example.prompt in asked]:
            raise BadConfig(
                f"{len(both)} of {len(dev)} dev questions (such as {both[0]}) are in the training data of {folder} as"
                " well, so it would be measured by what it has seen; name other rows as dev."
            )
        plans.append((plan, own))
    for plan, own in plans:
        record = RunFolder(plan.output).record()
        if record is None or record.status != "finished":
            if dry_run:
                notes.print(f"would run {plan.command}", soft_wrap=True)
            else:
                run_line(plan)
                record = RunFolder(plan.output).record()
                if record is not None and record.status == "stopped" and STOPPED_BECAUSE not in record.result:
                    raise KeyboardInterrupt
        status = record.status if record else "not run"
        if not dry_run and status in ("not run", "running"):
            status = "failed"  # killed, or ended before it had a folder
        row: dict[str, object] = {"run": plan.output.name, "status": status}
        row["settings"] = ", ".join(f"{key} {value}" for key, value in own.items())
        if dev and status == "finished" and not dry_run:
            questions = Path(wanted.output) / "dev.jsonl"
            write_examples(questions, dev)
            row |= _measured(plan.output, questions, data_sha256(dev))
        rows.append(row)
    columns = ["run", "settings", "status", *(["n", *METRICS] if dev else [])]
    cells = [[cell(row.get(name)) for name in columns] for row in rows]
    title = f"{file.name}: {wanted.stage}, {len(dev)} dev questions, 95 % intervals"
    document = [{name: row.get(name) for name in columns} for row in rows]
    emit(document, as_json=as_json, table=table_of(title, columns, cells))
    failed = [row["run"] for row in rows if not dry_run and (row["status"] != "finished" or (dev and "n" not in row))]
    if failed:
        raise LabError(
            f"{len(failed)} of {len(rows)} runs ({', '.join(map(str, failed))}) came to no result; their errors stand"
            " above. Mend the cause, then give the same command again: it does only what is missing."
        )


def _measured(run: Path, questions: Path, asked: str) -> dict[str, object]:
    """Return a run's figures on the dev questions, asked in a process of its own unless they were; {} if that failed."""
    from evals.report import load_report

    stage, out = read_chain(run).manifest.stages[-1], run / "reports" / "dev.json"
    for attempt in range(2):
        report = load_report(out) if out.is_file() else None
        if report and report.data_sha256 == asked and report.stage_checksums.get(stage.name) == stage.sha256:
            found = next(
                s for s in report.summaries if not s.is_baseline and s.group == "all" and s.stage == stage.name
            )
            return {"n": found.metrics["accuracy"].n, **{name: found.metrics.get(name) for name in METRICS}}
        if attempt == 0:
            out.parent.mkdir(exist_ok=True)
            words = ["--chain", str(run), "--stage", stage.name, "--data", str(questions), "--out", str(out)]
            line = [sys.executable, "-c", MAIN, "eval", "run", *words]
            subprocess.run(line, stdout=subprocess.DEVNULL, check=False)
    return {}
