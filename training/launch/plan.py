"""What a training command would do: settings, rows, the exact line, what it needs.

What a run needs is a formula; docs/performance.md says how far it was compared with measurements. Nothing here knows
torch, so a 7B run can be planned where the model is not.
"""

import json
import math
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from submitit import JobEnvironment, SlurmExecutor
from submitit.core.utils import DelayedSubmission
from submitit.slurm.slurm import _get_default_parameters

from evals.errors import BadConfig, LabError
from training.config import StageSettings, read_request
from training.data.tokens import Rows
from training.launch.accelerate import Launch, environment
from training.models.manifest import Chain, read_chain
from training.run.folder import RunFolder, changes, public_config
from training.stages import STAGES

SHAPES = Path(__file__).parent / "shapes.yaml"
NF4_BITS = 4.127
"""A 4-bit weight with its double-quantised scale: 4 + 8/64 + 32/(64 · 256) bits (QLoRA, section 3)."""
RUNTIME = 1_500_000_000
"""Bytes of Python, the libraries and their buffers, measured on a CPU."""
TILE = 5 * 2**25
"""Bytes that scoring takes: five tables of 8 million numbers, whatever the vocabulary."""
STATE = {"adamw_bnb_8bit": 2, "paged_adamw_8bit": 2, "lion_8bit": 1, "lion_32bit": 4, "adafactor": 0}
"""Bytes of an optimizer's state for each trained weight; the others hold two moments in float32."""
SAMPLED_ROWS, CHARACTERS = 64, 4.0
"""Rows whose length is looked at, and characters of a token."""
LOADING_SECONDS = 25.0
"""What a run takes for libraries, base and the check of the new stage."""
ALL_LINEAR = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


@dataclass(frozen=True)
class Shape:
    """Sizes of a decoder-only model in the manner of Llama: all that memory depends on."""

    layers: int
    hidden: int
    intermediate: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab: int
    tied: bool = False

    def linear(self) -> dict[str, tuple[int, int]]:
        """Return inputs and outputs of the linear layers of one block."""
        query, keys = self.heads * self.head_dim, self.kv_heads * self.head_dim
        return {
            "q_proj": (self.hidden, query),
            "k_proj": (self.hidden, keys),
            "v_proj": (self.hidden, keys),
            "o_proj": (query, self.hidden),
            "gate_proj": (self.hidden, self.intermediate),
            "up_proj": (self.hidden, self.intermediate),
            "down_proj": (self.intermediate, self.hidden),
        }

    @property
    def linear_weights(self) -> int:
        """Weights in the linear layers of all blocks: those that 4-bit loading shrinks."""
        return self.layers * sum(inputs * outputs for inputs, outputs in self.linear().values())

    @property
    def other_weights(self) -> int:
        """Embeddings, output layer where it is its own, and norms."""
        return self.vocab * self.hidden * (1 if self.tied else 2) + self.hidden * (2 * self.layers + 1)

    def adapter_weights(self, rank: int, targets: tuple[str, ...]) -> int:
        """Return the weights of a LoRA adapter: rank x (inputs + outputs) for each adapted layer."""
        chosen = ALL_LINEAR if targets == ("all-linear",) else targets
        sizes = [sum(self.linear()[name]) for name in chosen if name in self.linear()]
        return self.layers * rank * sum(sizes)


@dataclass(frozen=True)
class Estimate:
    """What a run needs on each process, in bytes by what needs them, and how long it is."""

    trained_weights: int
    steps: int
    memory: dict[str, int]
    ending: int
    """Bytes of main memory at the end of the stage, where the probe is computed in float32, a weight at a time."""

    @property
    def total(self) -> int:
        """Bytes at the peak."""
        return sum(self.memory.values())


@cache
def _known_shapes() -> dict[str, Shape]:
    document = yaml.safe_load(SHAPES.read_text(encoding="utf-8"))
    return {name: Shape(**sizes) for name, sizes in document.items()}


def model_shape(source: str) -> Shape | None:
    """Return the shape of a base by name or from its folder; None for a model whose sizes are not told there."""
    file = Path(source).expanduser() / "config.json"
    if not file.is_file():
        return _known_shapes().get(source.split("@")[0])
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
        config |= config.get("text_config") or {}  # of a model that also looks at pictures
        heads = config["num_attention_heads"]
        return Shape(
            layers=config["num_hidden_layers"],
            hidden=config["hidden_size"],
            intermediate=config["intermediate_size"],
            heads=heads,
            kv_heads=config.get("num_key_value_heads") or heads,
            head_dim=config.get("head_dim") or config["hidden_size"] // heads,
            vocab=config["vocab_size"],
            tied=config.get("tie_word_embeddings", False),
        )
    except KeyError:  # a model of another kind, such as GPT-2 or Mamba
        return None
    except (ValueError, TypeError) as error:
        raise BadConfig(f"{file} is no configuration of a model ({error}); copy the base again.") from None


def operations_a_second() -> float:
    """Return how many float32 operations a second the cores here do together while nothing else uses them, by some 50 ms."""
    square = np.ones((1024, 1024), dtype=np.float32)
    square @ square  # the threads start
    begun = time.process_time()
    square @ square
    return 2 * 1024**3 * (os.cpu_count() or 1) / (time.process_time() - begun)


def weights_in(folder: Path) -> int | None:
    """Return how many weights a folder's safetensors hold, read from their headers; None where there are none."""
    found = 0
    for file in folder.glob("model*.safetensors"):
        with file.open("rb") as content:
            tensors = json.loads(content.read(int.from_bytes(content.read(8), "little")))
        found += sum(math.prod(each["shape"]) for name, each in tensors.items() if name != "__metadata__")
    return found or None


def estimate(
    settings: StageSettings, shape: Shape, rows: int, processes: int = 1, *, trained: int | None = None
) -> Estimate:
    """Return what a run needs on each of so many processes that hold a whole copy of the base each.

    `trained` weights are counted from the shape where the base itself was not asked.
    """
    trained = trained or shape.adapter_weights(settings.lora_r, settings.lora_targets)
    memory = {
        "base": _base_bytes(settings, shape),
        "adapter, its gradients and the optimizer's state": trained * (8 + STATE.get(settings.optimizer, 8)),
        "activations": _activation_bytes(settings, shape),
        "output layer": 2 * shape.vocab * shape.hidden + TILE,
        "libraries": RUNTIME,
    }
    if settings.vllm_mode == "off" and (sampled := settings.answers_at_once(processes)):  # vLLM's are in its own share
        size = 4 if settings.weights == "float32" and settings.autocast == "none" else 2
        tokens = math.ceil(sampled / processes) * settings.tokens_per_row
        memory["keys and values while sampling"] = tokens * 2 * shape.layers * shape.kv_heads * shape.head_dim * size
    ending = RUNTIME + 3 * 4 * shape.vocab * shape.hidden + 4 * trained
    return Estimate(trained, settings.steps(rows, processes), memory, ending)


def _base_bytes(settings: StageSettings, shape: Shape) -> int:
    """Weights as they are held; under autocast float32 ones are kept in bfloat16 for the way back too."""
    if settings.weights == "nf4":
        return int(shape.linear_weights * NF4_BITS / 8) + 2 * shape.other_weights
    size = 4 if settings.weights == "float32" else 2
    copied = 2 if settings.weights == "float32" and settings.autocast == "bfloat16" else 0
    return (shape.linear_weights + shape.other_weights) * size + shape.linear_weights * copied


def _activation_bytes(settings: StageSettings, shape: Shape) -> int:
    """What the way back needs of each token: with checkpointing one vector a layer, else all of them.

    Per layer and token PEFT keeps 12 vectors of the hidden size, 4 of the keys and 5 of the inner size,
    among them LoRA's copies of what goes into a layer, and 4 of the hidden size in float32 for the norms.
    """
    size = 4 if settings.weights == "float32" and settings.autocast == "none" else 2
    keys = shape.kv_heads * shape.head_dim
    layer = size * (12 * shape.hidden + 4 * keys + 5 * shape.intermediate) + 16 * shape.hidden
    tokens = settings.batch * settings.tokens_per_row
    if settings.activation_checkpointing:
        return tokens * (shape.layers * size * shape.hidden + layer)
    return tokens * shape.layers * layer


@dataclass(frozen=True)
class Plan:
    """A command that can be run. On a dry run `problems` say what it could not run with; `data` and `chain` may be None then."""

    stage: str
    settings: StageSettings
    launch: Launch
    words: tuple[str, ...]
    data: Rows[Any] | None
    problems: tuple[str, ...] = ()
    chain: Chain | None = None

    @property
    def line(self) -> tuple[str, ...]:
        """The command, word by word."""
        return self.launch.line(self.stage, self.words)

    @property
    def command(self) -> str:
        """The line as it is typed."""
        return shlex.join(self.line)

    @property
    def output(self) -> Path:
        """The run folder."""
        return Path(self.settings.output)

    def needs(self, rows: int, *, trained: int | None = None) -> Estimate | None:
        """Return what the run would need with so many rows and `trained` weights; None for a base of unknown shape."""
        shape = model_shape(self.settings.base)
        if shape is None:
            return None
        return estimate(self.settings, shape, rows, self.launch.processes, trained=trained)

    def seconds(self, speed: float) -> float | None:
        """Return about how long the run takes at `speed` operations a second, looks included; None where sizes are not known.

        A weight takes two operations for a token that is read, and four for one that is learned from; the reference
        reads once more. An answer is taken to be half as long as it may be.
        """
        settings, shape = self.settings, model_shape(self.settings.base)
        if shape is None or self.data is None or not self.data.count:
            return None
        some = list(self.data.trl_rows().values())[:SAMPLED_ROWS]
        characters = sum(len(json.dumps(row)) * (2 if "rejected" in row else 1) for row in some) / len(some)
        read, written = characters / CHARACTERS, getattr(settings, "max_completion_length", 0) / 2
        steps = settings.steps(self.data.count, self.launch.processes)
        rows = steps * settings.batch * settings.accumulation
        tokens = rows * (min(read, settings.tokens_per_row) + written) * (4 + 2 * settings.keeps_to_reference)
        tokens += 2 * rows * written
        if self.data.dev and settings.eval_steps:
            looks = 1 + math.ceil(steps / settings.eval_steps)
            answers = looks * self.data.dev.rows.count
            tokens += answers * (read + settings.longest_answer / 2) * (2 + 4 * settings.keeps_to_reference)
        weights = shape.linear_weights + shape.vocab * shape.hidden
        return LOADING_SECONDS + weights * tokens / speed


def plan_of(stage: str, words: Sequence[str], launch: Launch | None = None, *, is_dry: bool = False) -> Plan:
    """Return the plan of `--config F [--key value …]`.

    Raises LabError for settings, data, a chain, a judge or a run folder that cannot be used. A chain or rows
    that are not here, or a judge's key that is not set here, are only problems to be named if the plan is to be
    looked at and not to be run: it may be made for another machine.
    """
    chosen = launch or Launch()
    request = read_request(STAGES[stage], words)
    settings = request.settings
    chosen.check(settings)
    run = RunFolder(Path(settings.output))
    run.refuse_unless_open(overwrite=request.overwrite)
    if (known := run.record()) and not request.overwrite:
        there = {key: known.config.get(key) for key in ("weights", "autocast")}  # a processor may allow others
        run.refuse_changes(changes(known.config, public_config(settings) | there))
    problems: list[str] = []

    @contextmanager
    def needed() -> Generator[None]:
        try:
            yield
        except LabError as error:
            if not is_dry:
                raise
            problems.append(str(error))

    chain: Chain | None = None
    data: Rows[Any] | None = None
    if settings.chain:
        with needed():
            chain = read_chain(settings.chain)
    settings.check_judge()
    with needed():  # else asked for when the run starts
        settings.check_key()
    with needed():
        data = settings.read_rows(chain.manifest.system_prompt if chain else None)
        settings.check_batches(data.count, chosen.processes)
    return Plan(stage, settings, chosen, tuple(words), data, tuple(problems), chain)


# ---- as a job of Slurm ---------------------------------------------------------------------------


MAX_REQUEUES = 1000
SECONDS_TO_SAVE = 120
MASTER_PORT = "29500"
TIME = re.compile(r"(?:(?P<days>\d+)-)?(?P<clock>\d+(?::\d+){0,2})")
DEFAULTS: Mapping[str, Any] = {
    "time": 24 * 60,
    "cpus_per_task": 8,
    "mem": "64GB",  # or more: `memory_of`
    "signal_delay_s": SECONDS_TO_SAVE + 60,
    "stderr_to_stdout": True,
}
"""What a job asks for unless told otherwise: minutes, cores, memory and seconds of warning."""
GB = 2**30
"""SLURM's."""
FLOOR, EACH = 64 * GB, 8 * GB
"""Bytes of main memory: of a job at least, and of each process for Python, the libraries and what drives a GPU."""


@dataclass(frozen=True)
class ClusterJob:
    """A command that trains, as submitit runs it on each machine of a job."""

    line: tuple[str, ...]
    folder: str
    processes: int
    machines: int = 1

    def __call__(self) -> int:
        """Train to the end; RuntimeError if training fails."""
        process = subprocess.Popen(
            self._line_here(), cwd=self.folder, env=environment(self.line, self.processes), start_new_session=True
        )
        _RUNNING.append(process)
        code = process.wait()
        if code:
            raise RuntimeError(f"training ended with exit code {code}; its messages stand above")
        return code

    def checkpoint(self) -> DelayedSubmission:
        """Let training save and stop, and return what the next turn runs: the same again."""
        for process in _RUNNING:
            stop_in_order(process.pid)
        return DelayedSubmission(self)

    def _line_here(self) -> list[str]:
        words = [sys.executable, "-m", "accelerate.commands.launch", *self.line[2:]]
        if self.machines == 1:
            return words
        here = JobEnvironment()
        rank = ["--machine_rank", str(here.node), "--main_process_ip", here.hostnames[0]]
        at = words.index("-m", 3)
        return [*words[:at], *rank, "--main_process_port", MASTER_PORT, *words[at:]]


_RUNNING: list[subprocess.Popen[bytes]] = []
"""The training of this process; a job may be asked to stop while it waits for it."""


def stop_in_order(group: int, seconds: float = SECONDS_TO_SAVE) -> None:
    """Ask the processes of a group to save and stop, and wait for them so long at most."""
    deadline = time.monotonic() + seconds
    try:
        os.killpg(group, signal.SIGTERM)
        while time.monotonic() < deadline:
            os.waitpid(group, os.WNOHANG)
            os.killpg(group, 0)
            time.sleep(0.1)
    except (ProcessLookupError, ChildProcessError):
        return


def memory_of(plan: Plan, folder: Path | None = None) -> tuple[str, str]:
    """Return the main memory that a machine of a job needs, as SLURM is asked for it, and why.

    `folder` is where the base lies, if it is here. A base whose size nobody knows gets the default.
    """
    settings, launch = plan.settings, plan.launch
    here, copies = max(1, launch.processes // launch.machines), launch.copies_in_main_memory
    shape, needs = model_shape(settings.base), plan.needs(plan.data.count if plan.data else 0)
    weights = weights_in(folder) if folder else None
    if weights is None and shape:
        weights = shape.linear_weights + shape.other_weights
    if weights is None:
        return str(DEFAULTS["mem"]), f"the size of {settings.base} is not known here; --slurm-option mem= asks for more"
    base = weights * (4 if settings.weights == "float32" else 2)
    if not launch.gpus_per_machine and needs:  # each trains in main memory
        wanted = here * needs.total
        why = f"{here} x {needs.total / GB:.1f} GB to train on the CPU"
    else:
        wanted = copies * base + here * EACH + (needs.ending if needs else 0)
        why = f"{copies} x {base / GB:.1f} GB of the base" if copies else "each GPU reads the base itself"
        why += f", {here} x {EACH / GB:.0f} GB for the processes"
    if launch.offloads_optimizer and needs:
        wanted += 16 * needs.trained_weights
        why += f", {16 * needs.trained_weights / GB:.1f} GB for the optimizer"
    return f"{math.ceil(max(FLOOR, 1.1 * wanted) / GB)}GB", f"{why}; {FLOOR / GB:.0f} GB at least"


def parameters_of(launch: Launch, name: str, options: Sequence[str], memory: str = DEFAULTS["mem"]) -> dict[str, Any]:
    """Return what SLURM is asked for; `options` are `key=value` in submitit's names, and go over `memory`.

    BadConfig for a key that submitit does not know, a value that is none, or another shape of the job
    than the launch has: every task of it would start the whole run.
    """
    wanted: dict[str, Any] = {**DEFAULTS, "mem": memory, "job_name": name, "nodes": launch.machines}
    wanted |= {"ntasks_per_node": 1, "gpus_per_node": launch.gpus_per_machine or None}
    shape = {key: wanted[key] for key in ("nodes", "ntasks_per_node", "gpus_per_node")}
    known = _get_default_parameters()
    for option in options:
        key, equals, value = option.partition("=")
        if not equals or key not in known:
            raise BadConfig(
                f"--slurm-option {option!r} is not understood; write key=value with one of"
                f" {', '.join(sorted(known))}, such as partition=gpu or time=1440 (minutes)."
            )
        if key in shape and value != str(shape[key] or 0):
            raise BadConfig(
                f"--slurm-option {option} is not what is launched ({key}={shape[key] or 0}); say it to the"
                " launcher: --profile multi-node -- --num_machines 2, or --profile multi-gpu --"
                " --num_processes 2."
            )
        wanted[key] = int(value) if value.isdigit() else value
    wanted["time"] = minutes(str(wanted["time"]))
    return {key: value for key, value in wanted.items() if value is not None}


def minutes(text: str) -> int:
    """Return a time limit in SLURM's forms in minutes, rounded up: 90, 90:00, 1:30:00, 1-12, 1-12:00:00."""
    match = TIME.fullmatch(text)
    if match is None:
        raise BadConfig(
            f"--slurm-option time={text} is no time limit; write minutes, such as time=1440, or a form of"
            " SLURM's, such as time=1-00:00:00."
        )
    parts = [int(each) for each in match["clock"].split(":")]
    if match["days"] is not None:
        hours, rest, seconds = (*parts, 0, 0)[:3]
    else:
        hours, rest, seconds = parts if len(parts) == 3 else (0, *parts, 0)[:3]
    return math.ceil((int(match["days"] or 0) * 24 + hours) * 60 + rest + seconds / 60)


def has_cluster() -> bool:
    """Whether jobs can be submitted from this machine."""
    return shutil.which("sbatch") is not None and shutil.which("srun") is not None


def submit(job: ClusterJob, folder: Path, parameters: Mapping[str, Any]) -> str:
    """Submit a job and return its number; submitit keeps script, log and state in `folder`."""
    executor = SlurmExecutor(folder=folder, max_num_timeout=MAX_REQUEUES)
    executor.update_parameters(**parameters)
    return executor.submit(job).job_id
