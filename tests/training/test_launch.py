"""How a stage is launched, what this machine lacks for it, what it will need, and what a dry run shows."""

import json
import os
import pickle
import shlex
import shutil
import signal
import stat
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
import torch
from accelerate.commands.config.config_args import load_config_from_file
from datasets import Dataset
from submitit import LocalExecutor
from submitit.core.utils import DelayedSubmission
from transformers import AutoModelForCausalLM
from trl import DPOConfig, DPOTrainer, SFTConfig

from evals.errors import BadConfig
from evals.questions import DATASETS
from tests.examples import write_examples
from tests.models import tiny_base, tiny_chain, tiny_tokenizer
from tests.training.cases import cases, not_refused
from tests.training.runs import COMMON, SFT, ready, record, settings_file, train
from training.config import StageSettings, read_settings
from training.data.tokens import sequences_of
from training.dpo import DpoSettings
from training.grpo import GrpoSettings
from training.launch.accelerate import (
    FOLDER,
    Launch,
    command_of,
    environment,
    gpus_here,
    missing,
    profile_file,
    profiles,
    unused_gpus,
    usable_cores,
)
from training.launch.plan import (
    ClusterJob,
    Plan,
    estimate,
    has_cluster,
    memory_of,
    model_shape,
    parameters_of,
    plan_of,
    submit,
    weights_in,
)
from training.launch.preview import preview
from training.models.base import find_base, load_model
from training.models.start import stacked_policy
from training.models.targets import lora_config
from training.run import session
from training.run.folder import RunFolder
from training.sft import SftSettings
from training.stages import STAGES
from training.upstream import on_one_device

MULTI_NODE = str(profile_file("multi-node"))


CASES = cases("launch")
KINDS = {"sft": SftSettings, "dpo": DpoSettings, "grpo": GrpoSettings}


def settings_of(stage: str, values: dict[str, object]) -> StageSettings:
    usual = {"sft": {}, "dpo": {"chain": "y"}, "grpo": {"chain": "y", "num_generations": 4}}[stage]
    return KINDS[stage](data=("a",), output="x", **{**usual, **values})


def sft(**values: object) -> StageSettings:
    return settings_of("sft", values)


def launch_of(row: list[Any] | None) -> Launch | None:
    return row and Launch(row[0], tuple(each.replace("<multi-node>", MULTI_NODE) for each in row[1]))


# ---- the launcher ------------------------------------------------------------------------------


def test_a_profile_is_a_configuration_that_accelerate_reads():
    for name in profiles():
        read = load_config_from_file(str(profile_file(name)))
        launch = Launch(name)
        assert (read.num_processes, read.num_machines) == (launch.processes, launch.machines), name
        assert read.mixed_precision == "no", name


def test_options_of_the_launcher_go_over_the_profile_and_one_process_is_started_unless_told_otherwise():
    found = [(row[0], launch_of(row[0])) for row in CASES["shapes"]]
    assert [[row, each.processes, each.machines, each.gpus_per_machine] for row, each in found] == CASES["shapes"]
    for launch, options in CASES["lines"]:
        assert " ".join(launch_of(launch).line("sft", ())) == f"accelerate launch {options} -m training.sft"


def test_a_launch_that_would_not_be_what_was_asked_for_is_refused():
    def checked(row: list[Any], settings: list[Any]) -> None:
        launch = launch_of(row)
        launch.check(settings_of(*settings))
        launch.line("sft", ())

    assert not_refused(CASES["refused"], checked) == []
    for launch in (Launch("zero2"), Launch("multi-gpu"), Launch()):
        launch.check(settings_of("dpo", {}))
    Launch("zero3").check(settings_of("dpo", {"eval_steps": 0}))


@pytest.mark.parametrize(("visible", "count"), [(None, 4), ("2,3", 2), ("", 0), ("1,-1,2", 1), ("GPU-8c,GPU-9d", 2)])
def test_the_gpus_that_a_run_would_see_are_counted_and_what_one_process_leaves_alone_is_said(
    monkeypatch, tmp_path: Path, visible: str | None, count: int
):
    for name in ("nvidia0", "nvidia1", "nvidia2", "nvidia3", "nvidiactl", "nvidia-uvm"):
        (tmp_path / name).touch()
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert gpus_here(tmp_path) == count
    said = f"--num_processes {count} uses all" if count > 1 else ""
    assert said in "".join(unused_gpus(count, 1)) and bool(unused_gpus(count, 1)) == (count > 1)
    assert unused_gpus(count, 2) == ()


def test_a_process_that_sees_several_gpus_trains_on_one(tmp_path: Path):
    seen = SFTConfig(output_dir=str(tmp_path), use_cpu=True)
    assert seen.device.type == "cpu"
    seen._n_gpu = 2  # what Trainer would spread a model over
    told = on_one_device(seen)
    again = pickle.loads(pickle.dumps(told))
    assert (seen.n_gpu, told.n_gpu, again.n_gpu, type(again)) == (2, 1, 1, SFTConfig)


@pytest.mark.parametrize(("divided", "device"), [("false", "meta"), ("true", "cpu")])
def test_a_base_is_read_straight_onto_the_device_of_its_process_unless_it_is_divided(
    tmp_path: Path, monkeypatch, divided: str, device: str
):
    prepared = ready("sft", settings_file(tmp_path, SFT))
    monkeypatch.setattr(session, "processes", lambda: SimpleNamespace(device=torch.device("meta")))
    monkeypatch.setenv("ACCELERATE_USE_FSDP", divided)
    assert {each.device.type for each in prepared.model().parameters()} == {device}


def test_more_processes_than_gpus_can_be_seen_are_refused():
    for row, gpus, said in CASES["few"]:
        found = missing(settings_of("sft", {}), has_gpu=True, launch=launch_of(row), gpus=gpus)
        assert (said in found[0]) if said else found == (), (row, found)


def test_one_process_where_two_were_asked_for_is_refused(monkeypatch, tmp_path: Path):
    monkeypatch.setenv("ASSAY_PROCESSES", "2")
    with pytest.raises(BadConfig, match="2 processes were asked for, but 1 came together"):
        train("sft", settings_file(tmp_path, SFT))
    assert not (tmp_path / "run").exists()


STUBBORN = """
import signal, sys, time
def stop(number, frame):
    print("asked", flush=True)
    if frame.f_globals.setdefault("asked", []):
        sys.exit(130)
    asked.append(number)
signal.signal(signal.SIGINT, stop)
print("ready", flush=True)
while True:
    time.sleep(0.05)
"""


LOADING = """
import time
print("ready", flush=True)
try:
    time.sleep(60)
except KeyboardInterrupt:
    print("ended", flush=True)
    raise SystemExit(130)
"""


@pytest.mark.slow
@pytest.mark.parametrize(("stage", "told"), [(STUBBORN, ["ready", "asked", "asked"]), (LOADING, ["ready", "ended"])])
def test_a_ctrl_c_ends_the_stage_and_not_the_launcher_that_waits_for_it_and_none_prints_a_traceback(
    stage, told, tmp_path: Path
):
    """A terminal sends it to both; accelerate would die of the first and leave the stage behind, which may still load."""
    (tmp_path / "stage.py").write_text(stage, encoding="utf-8")
    line = ("accelerate", "launch", "--num_processes", "1", str(tmp_path / "stage.py"))
    seen = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "start_new_session": True}
    with subprocess.Popen(command_of(line), env=environment(line, 1), **seen) as process:
        said = []
        for row in process.stdout:
            said.append(row.strip())
            if said[-1] in ("ready", "asked") and process.poll() is None and said.count("asked") < 2:
                os.killpg(process.pid, signal.SIGINT)
    assert (said, process.returncode) == (told, 1)


def test_one_process_gets_every_core_that_may_be_used_and_a_number_that_somebody_set_stands(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert environment(Launch().line("sft", ()), 1)["OMP_NUM_THREADS"] == str(usable_cores())
    assert "OMP_NUM_THREADS" not in environment(Launch().line("sft", ()), 2)
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    assert environment(Launch().line("sft", ()), 1)["OMP_NUM_THREADS"] == "7"


@pytest.mark.parametrize(
    ("text", "cores"), [("100000 100000", 1), ("50000 100000", 1), ("max 100000", None), ("", None)]
)
def test_a_container_uses_no_more_cores_than_it_was_granted(text, cores, tmp_path: Path):
    (tmp_path / "cpu.max").write_text(text)
    assert usable_cores(tmp_path / "cpu.max") == (cores or usable_cores(tmp_path / "nowhere"))


# ---- what this machine lacks -------------------------------------------------------------------


def test_what_is_missing_is_named_with_what_to_do():
    for settings, has_gpu, packages, launch, said in CASES["lacks"]:
        told = {"has_gpu": has_gpu, "has": packages.__contains__, "launch": launch_of(launch)}
        found = missing(settings_of(*settings), **told)
        assert len(found) == len(said), found
        assert all(part in sentence for part, sentence in zip(said, found, strict=True)), found


# ---- what a run will need ----------------------------------------------------------------------


@pytest.mark.parametrize("targets", [("all-linear",), ("q_proj", "v_proj")])
def test_the_weights_of_a_base_and_its_adapter_are_counted_as_they_are(tmp_path: Path, targets):
    shape = model_shape(str(tiny_base(tmp_path)))
    model = AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float32)
    weights = shape.linear_weights + shape.other_weights
    assert weights == sum(each.numel() for each in model.parameters())
    settings = sft(lora_r=4, lora_targets=targets, autocast="none")
    policy = stacked_policy(model, {}, lora_config(settings, model))
    needs = estimate(settings, shape, rows=8)
    assert needs.trained_weights == sum(each.numel() for each in policy.parameters() if each.requires_grad)
    assert needs.memory["base"] == 4 * weights


def test_the_memory_of_runs_that_were_measured_is_estimated_within_an_eighth():
    for stage, values, peak in CASES["measured"]:
        found = estimate(settings_of(stage, values), model_shape("embedded"), 600).total / 1e9
        assert found == pytest.approx(peak, rel=1 / 8), stage


def test_the_steps_of_a_run_follow_from_its_rows():
    for settings, rows, processes, steps in CASES["steps"]:
        assert settings_of(*settings).steps(rows, processes) == steps, settings


def test_answers_that_do_not_divide_among_groups_and_processes_or_lack_questions_are_refused():
    def checked(values: dict[str, object], rows: int, processes: int) -> None:
        settings_of("grpo", values).check_batches(rows, processes)

    assert not_refused((row for row in CASES["uneven"] if row[-1]), checked) == []
    for *even, _ in (row for row in CASES["uneven"] if not row[-1]):
        checked(*even)


# ---- jobs that resume themselves, by the real protocol of submitit on its local executor -------------


ROOT = Path(__file__).parents[2]


def job_of(folder: Path, **values: object) -> ClusterJob:
    file = settings_file(folder, {**SFT, **values})
    plan = plan_of("sft", ["--config", str(file)], Launch("cpu"))
    return ClusterJob(plan.line, str(ROOT), plan.launch.processes)


def task(number: str) -> psutil.Process:
    """Return the process that runs the job of this number."""
    found = psutil.Process(int(number)).children(recursive=True)
    return next(each for each in found if "submitit.core._submit" in each.cmdline())


@pytest.mark.slow
def test_a_job_that_is_pre_empted_saves_queues_itself_again_and_finishes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    run = RunFolder(tmp_path / "run")
    job = job_of(tmp_path, max_steps=60, save_steps=1000)
    executor = LocalExecutor(tmp_path / "jobs", max_num_timeout=3)
    executor.update_parameters(timeout_min=30)
    submitted = executor.submit(job)
    deadline = time.monotonic() + 120
    while len(run.metric_rows()) < 3 and time.monotonic() < deadline:
        time.sleep(0.05)
    task(submitted.job_id).send_signal(signal.SIGUSR2)  # SLURM does, before it takes the machine
    assert submitted.result() == 0
    assert record(run.path)["status"] == "finished"
    assert [row["step"] for row in run.metric_rows() if "loss" in row] == list(range(1, 61))
    said = f"{submitted.stdout()}{submitted.stderr()}"
    for expected in ("this job is preempted", "stopping after this step", "Requeued job"):
        assert expected in said
    assert "going on from checkpoint-" in said


@pytest.mark.slow
def test_a_job_whose_training_fails_fails_with_its_exit_code(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    line = ("accelerate", "launch", "--no-such-option")
    with pytest.raises(RuntimeError, match="training ended with exit code 2"):
        ClusterJob(line, str(tmp_path), 1)()


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A login node whose sbatch takes any script and gives it number 4711."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, text in (("sbatch", 'cp "$1" "$0.taken"; echo Submitted batch job 4711'), ("srun", "")):
        program = folder / name
        program.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return folder


def test_on_a_cluster_the_job_is_submitted_and_its_number_returned(tmp_path: Path, cluster: Path):
    assert has_cluster()
    folder = tmp_path / "mine.slurm"
    job = job_of(tmp_path)
    assert submit(job, folder, parameters_of(Launch("single-gpu"), "mine", ["qos=low"])) == "4711"
    text = (cluster / "sbatch.taken").read_text(encoding="utf-8")
    assert "#SBATCH --qos=low" in text
    assert sys.executable in text
    assert DelayedSubmission.load(folder / "4711_submitted.pkl").function == job


def test_several_machines_are_told_their_rank_and_the_first_ones_address(monkeypatch):
    for name, value in {
        "SUBMITIT_EXECUTOR": "slurm",
        "SLURM_JOB_ID": "12",
        "SLURM_NODEID": "1",
        "SLURM_JOB_NUM_NODES": "2",
        "SLURM_NTASKS": "2",
        "SLURM_PROCID": "1",
        "SLURM_LOCALID": "0",
        "SLURM_JOB_NODELIST": "gpu[07-08]",
    }.items():
        monkeypatch.setenv(name, value)
    line = Launch("multi-node").line("sft", ("--config", "a.yaml"))
    words = ClusterJob(line, ".", 8, machines=2)._line_here()
    assert words[-4:] == ["-m", "training.sft", "--config", "a.yaml"]
    for key, value in (("--machine_rank", "1"), ("--main_process_ip", "gpu07")):
        assert words[words.index(key) + 1] == value


def test_a_job_asks_for_the_memory_that_loading_needs_unless_told_otherwise(tmp_path: Path):
    words = ["--config", str(settings_file(tmp_path, {**SFT, "base": "mistralai/Mistral-7B-v0.3", "max_length": 256}))]
    for profile, options, values, gigabytes, why in cases("slurm")["memory"]:
        told = [word for name, value in values.items() for word in (f"--{name}", value)]
        plan = plan_of("sft", [*words, *told], Launch(profile, tuple(options)), is_dry=True)
        memory, reason = memory_of(plan)
        assert (memory, why in reason) == (f"{gigabytes}GB", True), (profile, options, memory, reason)
    assert parameters_of(plan.launch, "mine", [], memory)["mem"] == memory
    assert parameters_of(plan.launch, "mine", ["mem=10GB"], memory)["mem"] == "10GB"
    unknown = plan_of("sft", [*words, "--base", "somebody/unknown-7B"], Launch("multi-cpu"), is_dry=True)
    assert memory_of(unknown) == (
        "64GB",
        "the size of somebody/unknown-7B is not known here; --slurm-option mem= asks for more",
    )
    base = tiny_base(tmp_path / "here")
    weights = sum(each.numel() for each in AutoModelForCausalLM.from_pretrained(base).parameters())
    assert weights_in(base) == weights
    assert (
        "4 x 0.0 GB of the base"
        in memory_of(replace(unknown, launch=Launch("multi-cpu", ("--num_processes", "4"))), base)[1]
    )


def test_options_of_the_job_are_read_as_slurm_does_and_refused_where_they_are_none_or_another_shape():
    table = cases("slurm")
    refused = not_refused(table["refused"], lambda profile, option: parameters_of(Launch(profile), "mine", [option]))
    assert refused == []
    assert parameters_of(Launch("multi-node"), "mine", ["nodes=2"])["nodes"] == 2
    found = {text: parameters_of(Launch("cpu"), "mine", [f"time={text}"])["time"] for text in table["times"]}
    assert found == table["times"]


# ---- the settings files that come with Assay ---------------------------------------------------------


CONFIGS = ROOT / "training" / "configs"
RECIPES = sorted(file for file in CONFIGS.rglob("*.yaml") if file.parent != FOLDER)
CHAT = (
    '{"id": "NAME", "conversations": [{"from": "system", "value": "Review."},'
    ' {"from": "human", "value": "A paper."}, {"from": "gpt", "value": "[]"}]}\n'
)
PAIR = '{"prompt": "Up or down?", "chosen": "Up.", "rejected": "Down."}\n'


def words_of(file: Path) -> list[str]:
    """Return the words of the command that a file starts with."""
    return shlex.split(file.read_text(encoding="utf-8").splitlines()[0].removeprefix("# "))


def stage_of(file: Path) -> str:
    return next(word for word in words_of(file) if word.startswith("training.")).split(".")[1]


def test_every_recipe_starts_with_the_command_that_runs_it_and_can_be_planned_without_its_model(tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    pairs, rows = tmp_path / "pairs.jsonl", tmp_path / "rows.jsonl"
    pairs.write_text(PAIR, encoding="utf-8")
    rows.write_text("".join(CHAT.replace("NAME", str(n)) for n in range(64)), encoding="utf-8")
    own = {"dpo": ["--data", str(pairs)], "review": ["--data", str(rows)]}
    for file in RECIPES:
        line, stage = words_of(file), stage_of(file)
        assert (line[:2], line[-2:]) == (["accelerate", "launch"], ["--config", file.relative_to(ROOT).as_posix()])
        if "--config_file" in line:
            assert (ROOT / line[line.index("--config_file") + 1]).parent == FOLDER, file
        words = ["--config", str(file), "--output", str(tmp_path / "new"), *own.get(stage, [])]
        plan = plan_of(stage, words, Launch("single-gpu"), is_dry=True)
        bare = plan_of(stage, words[:4], Launch("single-gpu"), is_dry=True)  # without rows of one's own
        assert plan.command.startswith(bare.command) and (bare.data is not None or bare.problems), file
        assert bare.needs(0) is None or bare.needs(0).total > 0, file
        needs = plan.needs(plan.data.count)
        assert needs.steps >= 1 and needs.total > needs.memory["base"] > 0, file
        start = "accelerate launch --config_file training/configs/accelerate/single-gpu.yaml -m training."
        assert plan.command.startswith(start)


def test_a_published_recipe_has_the_published_settings_and_a_folder_of_its_own():
    for folder, published in cases("recipes").items():
        found = {file.stem: read_settings(STAGES[stage_of(file)], file) for file in (CONFIGS / folder).glob("*.yaml")}
        shared = published.pop("all")
        assert folder != "review" or found.keys() == published.keys()
        for name, own in published.items():
            wanted = {**shared, **own}
            assert {key: getattr(found[name], key) for key in wanted} == wanted, name
            assert len(found[name].lora_targets) == 7, name
        assert len({each.output for each in found.values()}) == len(found)


# ---- a dry run: the tokens that TRL learns from, lengths, and what becomes of long rows --------------


PLAIN = {"prompt": "Up or down?", "chosen": " It goes up.", "rejected": " It goes down."}
ROLES = {"prompt": "user", "chosen": "assistant", "rejected": "assistant"}
TOLD = {"max_length": 2048, "report_to": "none", "use_cpu": True, "bf16": False}


@pytest.mark.parametrize("is_plain", [True, False])
def test_both_answers_of_a_preference_are_read_as_trl_reads_them(tmp_path, is_plain: bool):
    turns = {key: [{"role": ROLES[key], "content": text}] for key, text in PLAIN.items()}
    row = PLAIN if is_plain else turns
    trainer = DPOTrainer(
        model=load_model(find_base(str(tiny_base(tmp_path))), "float32"),
        args=DPOConfig(output_dir=str(tmp_path / "run"), **TOLD),
        train_dataset=Dataset.from_list([row]),
        processing_class=tiny_tokenizer(),
    )
    theirs = trainer.train_dataset[0]
    for column, ours in sequences_of(row, tiny_tokenizer()).items():
        assert list(ours.ids[: ours.given]) == theirs["prompt_ids"]
        assert list(ours.ids[ours.given :]) == theirs[f"{column}_ids"]


# ---- a dry run ---------------------------------------------------------------------------------

LIMITS = {"sft": "max_length", "dpo": "max_length", "kto": "max_length", "grpo": "max_prompt_length"}
COLUMNS = {
    "sft": {("completion", True)},
    "dpo": {("chosen", True), ("rejected", True)},
    "kto": {("completion", True)},
    "grpo": {("prompt", False)},
}


def pair(question: str, rejected: str = "It goes down.") -> str:
    texts = {"prompt": question, "chosen": "It goes up.", "rejected": rejected}
    return json.dumps({key: [{"role": ROLES[key], "content": text}] for key, text in texts.items()}) + "\n"


@pytest.fixture(scope="module")
def planned_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a tiny base, a chain on it, questions and pairs."""
    planned_folder = tmp_path_factory.mktemp("preview")
    tiny_chain(planned_folder)
    scored = [row for row in DATASETS["kmp-train"]() if row.ground_truth.kind == "label"]
    write_examples(planned_folder / "rows.jsonl", scored[:8])
    lines = "".join(pair(f"What of tissue {number}?" * (1 + number)) for number in range(8))
    (planned_folder / "pairs.jsonl").write_text(lines, encoding="utf-8")
    return planned_folder


def planned(planned_folder: Path, stage: str, *words: str, **values: object) -> Plan:
    document: dict[str, object] = {**COMMON, "batch": 4, "output": str(planned_folder / "new")}
    document |= {} if stage == "sft" else {"chain": str(planned_folder / "sft")}
    pairs = str(planned_folder / "pairs.jsonl")
    own = {"dpo": {"data": [pairs]}, "kto": {"data": [f"{pairs}[:4]"]}, "grpo": {"num_generations": 4}}
    document |= own.get(stage, {})
    return plan_of(stage, ["--config", str(settings_file(planned_folder, document | values)), *words], is_dry=True)


@pytest.mark.parametrize("stage", LIMITS)
def test_long_rows_are_named_and_refused_or_dropped_and_counted_in_every_stage(planned_folder: Path, stage: str):
    limit = LIMITS[stage]
    seen = preview(planned(planned_folder, stage, **{limit: 1900}))
    assert (seen.rows, seen.kept, seen.left_out, seen.is_refused) == (8, 8, {}, False)
    assert {(row.column, any(row.learned)) for row in seen.examples} == COLUMNS[stage]
    shortest, _, longest = seen.lengths
    assert shortest < longest
    refused = preview(planned(planned_folder, stage, **{limit: longest - 1}))
    assert refused.is_refused
    assert f"rows have more than {limit} {longest - 1} tokens: " in refused.problems[0]
    assert f"({longest})" in refused.problems[0]
    dropped = preview(planned(planned_folder, stage, **{limit: longest - 1, "too_long": "drop"}))
    assert not dropped.is_refused and dropped.kept < 8
    assert dropped.left_out == {f"left out, more than {limit} {longest - 1} tokens": 8 - dropped.kept}


def test_a_dry_run_names_weights_and_an_end_token_that_are_missing(planned_folder: Path, tmp_path: Path):
    base = tmp_path / "model"
    shutil.copytree(planned_folder / "model", base)
    named = {"weight_map": {"a": "model.safetensors", "b": "model-00002-of-00002.safetensors"}}
    (base / "model.safetensors.index.json").write_text(json.dumps(named), encoding="utf-8")
    assert (
        "names 1 more, such as model-00002-of-00002"
        in preview(planned(planned_folder, "sft", base=str(base))).problems[0]
    )
    for file in base.glob("model*.safetensors*"):
        file.unlink()
    seen = preview(planned(planned_folder, "sft", base=str(base)))
    assert seen.is_refused and "holds no model*.safetensors file" in seen.problems[0]
    told = json.loads((base / "tokenizer_config.json").read_text(encoding="utf-8"))
    del told["eos_token"]
    (base / "tokenizer_config.json").write_text(json.dumps(told), encoding="utf-8")
    assert "has no end token" in preview(planned(planned_folder, "sft", base=str(base))).problems[-1]
