"""What GPUs are for, without one: DeepSpeed and FSDP2 on two processors, GRPO that samples from a stand-in for vLLM."""

import json
import multiprocessing
import os
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
from accelerate import PartialState
from accelerate.commands.launch import _validate_launch_command, launch_command_parser
from accelerate.utils import DistributedType
from accelerate.utils.launch import prepare_deepspeed_cmd_env, prepare_multi_gpu_env
from peft import PeftModel
from transformers import AutoModelForCausalLM, modeling_utils

from tests.models import tiny_llama, tiny_tokenizer
from tests.training import killing
from tests.training.runs import SFT, environment, figures, on_taught, record, settings_file, train
from training.config import StageSettings
from training.launch.accelerate import profile_file
from training.models.chain import check_chain
from training.models.start import Start
from training.run.folder import RunFolder
from training.upstream import StackedPeftModel

STAND_IN = Path(__file__).with_name("stand_in")
INSTALLED = find_spec("deepspeed")
ENGINES = Path(str(INSTALLED.origin)).parents[1] if INSTALLED else Path(sys.prefix) / "engines"
"""Where DeepSpeed is: `make setup-tests` puts it there (requirements-engines.txt)."""
COMMAND = [sys.executable, "-m", "tests.training.test_divided"]
COMPARED = "ASSAY_TEST_COMPARED"
"""Set: before each answer the policy is compared with an ordinary PEFT model that its adapter is loaded into."""
pytestmark = pytest.mark.slow


def environment_of(profile: str) -> dict[str, str]:
    """Return what `accelerate launch` would start the processes of a profile with, on processors."""
    words = ["--config_file", str(profile_file(profile)), "--num_processes", "2", "-m", "training.sft"]
    told, *_ = _validate_launch_command(launch_command_parser().parse_args(words))
    if told.use_deepspeed:
        told.deepspeed_fields_from_accelerate_config = ""
        given = prepare_deepspeed_cmd_env(told)[1]
    else:
        given = prepare_multi_gpu_env(told)
    return {name: value for name, value in given.items() if name.startswith(("ACCELERATE_", "FSDP_"))}


@pytest.fixture(scope="module")
def two() -> Iterator[Callable[..., str]]:
    """Train a stage in two processes to its end and return what they said; they are forked where all is imported."""
    places = os.pathsep.join([environment()["PYTHONPATH"], str(ENGINES)])
    told = {**environment(), "PYTHONPATH": places, "ACCELERATE_TORCH_DEVICE": "cpu", "DS_ACCELERATOR": "cpu"}
    with subprocess.Popen(COMMAND, env=told, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:

        def trained(stage: str, file: Path, profile: str, **more: str) -> str:
            log = file.with_name("said.txt")
            told = killing.surroundings_of_two(ASSAY_PROCESSES="2", **environment_of(profile), **more)
            server.stdin.write(json.dumps([stage, str(file), str(log), told]) + "\n")
            server.stdin.flush()
            codes, said = json.loads(server.stdout.readline()), log.read_text(encoding="utf-8")
            errors = [line for line in said.splitlines() if "rror" in line] or said.splitlines()
            assert codes == [0, 0], "\n".join(errors[:20])
            return said

        yield trained
        server.stdin.close()


def read_by_each(told: str) -> list[tuple[int, int]]:
    """Return how many weights of the base each process read, and in how many bytes of room."""
    return [(int(a), int(b)) for a, b in re.findall(r"read (\d+) weights with (\d+) bytes", told)]


def needs_deepspeed() -> None:
    if not (ENGINES / "deepspeed").is_dir():
        (pytest.fail if os.environ.get("CI") else pytest.skip)("DeepSpeed is not here: make setup-tests")


CASES = [
    ("zero3", "sft", {}),
    ("zero3", "dpo", {"eval_steps": 0}),
    ("zero3", "grpo", {}),
    ("zero3", "grpo", {"gather_to_sample": False}),
    ("zero2", "dpo", {"eval_steps": 0}),
    ("fsdp2", "sft", {}),
    ("fsdp2", "dpo", {"eval_steps": 0}),
]
"""SFT and GRPO under ZeRO-2: below, where they look and sample."""


@pytest.mark.parametrize(("profile", "stage", "values"), CASES)
def test_two_processes_that_divide_a_model_end_with_a_chain_that_computes_what_was_trained(
    two: Callable[..., str], taught: Path, tmp_path: Path, profile: str, stage: str, values: Mapping[str, object]
):
    if profile != "fsdp2":
        needs_deepspeed()
    if stage == "sft":
        file, base = settings_file(tmp_path, {**SFT, **values}), tmp_path / "model"
    else:
        file, base = on_taught(taught, stage, tmp_path / "run", **values), taught / "model"
    read = read_by_each(two(stage, file, profile))
    if profile in ("fsdp2", "zero3") and read:  # of two processes on one machine one reads the base
        assert sorted(weights > 0 for weights, _ in read) == [False, True]
    kept = record(tmp_path / "run")
    assert (kept["status"], kept["host"]["processes"], kept["result"]["steps"]) == ("finished", 2, 2)
    assert all(finding.is_ok for finding in check_chain(tmp_path / "run", base=str(base)))
    if stage == "sft":  # what one process learns from the same rows
        alone = train("sft", settings_file(tmp_path, {**SFT, "batch": 4, "output": str(tmp_path / "alone")}))
        found = figures(RunFolder(tmp_path / "run"), "loss")
        assert found == pytest.approx(figures(alone, "loss"), rel=1e-3)


WATCHED: Mapping[str, object] = {"eval_data": ["kmp-dev"], "eval_steps": 1, "eval_examples": 2, "eval_tokens": 4}


@pytest.mark.parametrize(("stage", "values"), [("sft", {**SFT, **WATCHED}), ("grpo", {"beta": 0.0})])
def test_a_look_and_a_sampled_answer_use_the_adapter_of_that_step_where_zero2_writes_the_weights(
    two: Callable[..., str], taught: Path, tmp_path: Path, stage: str, values: Mapping[str, object]
):
    """DeepSpeed writes all weights through one buffer, which no version counter of a weight sees."""
    needs_deepspeed()
    told = {**values, "max_steps": 3, "learning_rate": 2e-2}
    given = on_taught(taught, stage, tmp_path / "run", **told) if stage == "grpo" else settings_file(tmp_path, told)
    said = two(stage, given, "zero2", **{COMPARED: "1"})
    found = [(float(off), float(moved)) for off, moved in re.findall(r"off by (\S+), moved by (\S+)", said)]
    assert len(found) == 2 * (4 if stage == "sft" else 3)  # two processes; a look before the first step, too
    assert max(off for off, _ in found) < 1e-4
    assert sum(moved > 1e-2 for _, moved in found) == len(found) - 2, "each step changes what is computed"
    base = str((taught if stage == "grpo" else tmp_path) / "model")
    assert all(finding.is_ok for finding in check_chain(tmp_path / "run", base=base))


SEEN = ("eval/accuracy", "eval/length", "eval/kl")


@pytest.mark.parametrize("skipped", ["0", "1"])
def test_two_processes_share_a_dev_set_find_in_it_what_one_does_and_look_for_unused_weights_only_where_some_are(
    two: Callable[..., str], taught: Path, tmp_path: Path, skipped: str
):
    values: dict[str, object] = {"eval_data": [str(taught / "rows.jsonl")], "eval_steps": 1, "eval_tokens": 20}
    file = on_taught(taught, "dpo", tmp_path / "run", **values, batch=1, eval_batch=1)
    said = two("dpo", file, "multi-cpu", SKIPPED=skipped)
    answered = [int(rows) for rows in re.findall(r"answered (\d+)", said)]
    assert sorted(answered) == [3, 6]  # three questions at each of three looks
    assert re.findall(r"looks for unused weights: (\w+)", said) == ["True" if skipped == "1" else "False"] * 2
    if skipped == "0":
        alone = train("dpo", on_taught(taught, "dpo", tmp_path / "alone" / "run", **values))
        for name in SEEN:
            found = figures(RunFolder(tmp_path / "run"), name)
            assert (len(found), found) == (3, pytest.approx(figures(alone, name), rel=1e-3, abs=1e-6)), name


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc tells what is held")
@pytest.mark.parametrize(("profile", "most"), [("fsdp2", 1.2)])  # zero3: docs/performance.md
def test_two_processes_of_one_machine_load_a_base_in_less_than_two_of_it(
    two: Callable[..., str], tmp_path: Path, profile: str, most: float
):
    tokenizer = tiny_tokenizer()
    base = tiny_llama(tokenizer, num_hidden_layers=16, hidden_size=512, intermediate_size=1536).bfloat16()
    base.save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    file = settings_file(tmp_path, {**SFT, "max_steps": 1, "weights": "float32"})
    read = read_by_each(two("sft", file, profile))
    whole = 4 * sum(each.numel() for each in base.parameters())
    sys.stdout.write(f"{profile}: {[f'{room / whole:.2f}' for _, room in read]} of a base of {whole / 1e6:.0f} MB\n")
    assert len(read) == 2
    assert sum(room for _, room in read) < most * whole


def test_answers_from_vllm_are_those_of_the_whole_chain_as_it_is_trained(taught: Path, tmp_path: Path):
    """What TRL finds between the sampled and the scored probabilities of a token would show weights of another step."""
    file = on_taught(taught, "grpo", tmp_path / "run", vllm="colocate", learning_rate=1e-2)
    seen = os.pathsep.join([str(STAND_IN), environment()["PYTHONPATH"]])
    done = subprocess.run(
        [*COMMAND, "grpo", str(file)], env={**environment(), "PYTHONPATH": seen}, stderr=subprocess.PIPE, text=True
    )
    assert done.returncode == 0, done.stderr[-3000:]
    run = RunFolder(tmp_path / "run")
    assert max(figures(run, "sampling/sampling_logp_difference/max")) < 1e-3
    assert figures(run, "kl")[0] == 0.0 < figures(run, "kl")[-1]
    assert all(finding.is_ok for finding in check_chain(run.path, base=str(taught / "model")))


def held() -> int:
    """Return the bytes of main memory that this process alone holds, mapped files apart."""
    rows = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines())
    return int(rows["RssAnon"].split()[0]) * 1024


def telling(load: Callable[..., Any]) -> Callable[..., Any]:
    """Let `load` print how many weights of the base are there afterwards, and by how many bytes it grew at most."""

    files, taken = modeling_utils.load_state_dict, [0]

    def counted(*told: Any, **options: Any) -> Any:
        found = files(*told, **options)
        taken[0] += sum(not each.is_meta for each in found.values())
        return found

    def loaded(*told: Any, **options: Any) -> Any:
        modeling_utils.load_state_dict = counted
        before, most, over = held(), [0], threading.Event()

        def watch() -> None:
            while not over.wait(0.003):
                most[0] = max(most[0], held() - before)

        watcher = threading.Thread(target=watch)
        watcher.start()
        model = load(*told, **options)
        over.set()
        watcher.join()
        is_divided = any(hasattr(each, "ds_id") for each in model.parameters())  # ZeRO-3: none of them is on meta
        there = taken[0] if is_divided else sum(not each.is_meta for each in model.parameters())
        sys.stdout.write(f"\nread {there} weights with {most[0]} bytes\n")
        return model

    return loaded


def compared(build: Callable[..., StackedPeftModel]) -> Callable[..., StackedPeftModel]:
    """Let a policy print, before it answers, how far its logits are from those of PEFT with its adapter as it is now.

    And how far those are from what the same model computed with the adapter of the answer before.
    """

    def built(model: Any, start: Start, settings: StageSettings) -> StackedPeftModel:
        policy, generate = build(model, start, settings), StackedPeftModel.generate
        earlier: list[PeftModel] = []

        def fresh(folder: str) -> PeftModel:
            base = AutoModelForCausalLM.from_pretrained(settings.base, dtype=torch.float32)
            for frozen in start.frozen.values():
                base = PeftModel.from_pretrained(base, str(frozen)).merge_and_unload()
            policy.save_pretrained(folder)
            return PeftModel.from_pretrained(base, folder).eval()

        def answers(**asked: Any) -> Any:
            shown = {"input_ids": asked["input_ids"], "attention_mask": asked["attention_mask"], "logits_to_keep": 1}
            with tempfile.TemporaryDirectory() as folder, torch.no_grad():
                earlier.append(fresh(folder))
                *before, now = (each(**shown).logits for each in earlier[-2:])
                off = float((policy(**shown).logits - now).abs().max())
                moved = max((float((each - now).abs().max()) for each in before), default=0.0)
            sys.stdout.write(f"\noff by {off}, moved by {moved}\n")
            return generate(policy, **asked)

        policy.generate = answers
        return policy

    return built


def without_last_layer(load: Callable[..., Any]) -> Callable[..., Any]:
    """Let `load` return a base whose last layer is never called."""

    def loaded(*told: Any, **options: Any) -> Any:
        model = load(*told, **options)
        model.model.layers[-1].forward = lambda hidden, *_, **__: hidden
        return model

    return loaded


def telling_at_the_end() -> Callable[[], object]:
    """Return what prints how many rows this process answered, and whether it looked for unused weights in each step."""
    from torch.nn.parallel import DistributedDataParallel

    from training.run import watch

    rows, wrapped, wrap, answer = [], [], DistributedDataParallel.__init__, watch.greedy_answers

    def told(layer: Any, *inputs: Any, **options: Any) -> None:
        wrap(layer, *inputs, **options)
        wrapped.append(layer.find_unused_parameters)

    def counted(policy: Any, tokenizer: Any, prompts: Any, most: int) -> Any:
        rows.append(len(prompts))
        return answer(policy, tokenizer, prompts, most)

    DistributedDataParallel.__init__, watch.greedy_answers = told, counted
    looks = "looks for unused weights"
    return lambda: sys.stdout.write(f"\nanswered {sum(rows)}, {looks}: {', '.join(map(str, wrapped))}\n")


def train_past(stage: str, file: str) -> None:
    """Train a stage as a command, past what accelerate, DeepSpeed and TRL refuse where there is no accelerator."""
    from training import grpo
    from training.run import session
    from training.stages import STAGES

    tell = telling_at_the_end() if "SKIPPED" in os.environ else None
    if "ASSAY_PROCESSES" in os.environ and not session.is_cpu():
        PartialState._prepare_backend = lambda *_, **__: ("gloo", DistributedType.MULTI_GPU)
    if os.environ.get("ACCELERATE_USE_DEEPSPEED") == "true":
        import_module("deepspeed.comm.torch").build_shm_op = lambda: None  # needs a compiler
    session.check_equipment = lambda *_, **__: None
    if sys.platform.startswith("linux"):
        session.load_model = telling(session.load_model)
    if COMPARED in os.environ:
        session.policy_of = compared(session.policy_of)
    if os.environ.get("SKIPPED") == "1":
        session.load_model = without_last_layer(session.load_model)
    if stage == "grpo":
        grpo.VerifierReward = lambda *_: killing.length_of_answer
    session.run_command(stage, STAGES[stage], import_module(f"training.{stage}").train, ["--config", file])
    if tell:
        tell()


def forked(stage: str, file: str, log: str, surroundings: Mapping[str, str]) -> None:
    """Train a stage in a process that was forked for it; what it says goes to `log`."""
    os.environ.update(surroundings)
    heard = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for stream in (sys.stdout, sys.stderr):
        os.dup2(heard, stream.fileno())
    train_past(stage, file)


def main() -> None:
    """Train the stage that is told, or what each line of standard input says, and print how its processes ended."""
    if sys.argv[1:]:
        train_past(*sys.argv[1:])
        return
    for name in ("sft", "dpo", "grpo"):
        import_module(f"trl.trainer.{name}_trainer")
    for line in sys.stdin:
        *told, both = json.loads(line)
        processes = [multiprocessing.get_context("fork").Process(target=forked, args=(*told, each)) for each in both]
        for process in processes:
            process.start()
        for process in processes:
            process.join()
        sys.stdout.write(json.dumps([process.exitcode for process in processes]) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
