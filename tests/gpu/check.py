"""The check for one GPU, run by `check.sh`: parts with a time limit each, and one line of JSON after each.

    python -m tests.gpu.check FOLDER [PART …]

Bases are made from configurations, nothing is fetched. Without a GPU the same code runs with tiny shapes, and what can
only be seen on a GPU says so.
"""

import copy
import gc
import json
import multiprocessing
import signal
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import redirect_stdout
from importlib import import_module, metadata
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM, LlamaConfig, MistralConfig, PreTrainedTokenizerFast, TrainerCallback
from transformers.models.qwen3_5.modeling_qwen3_5 import torch_chunk_gated_delta_rule

from evals.schema.questions import Sampling
from tests.bench._measure import resident
from tests.models import tiny_chain, tiny_tokenizer
from tests.training import killing
from tests.training.families.bases import tokenizer_of
from tests.training.families.sequence import taken_through, variety
from tests.training.runs import SFT, record, settings_file, train
from training.config import read_request
from training.grpo import policy_trainer
from training.launch.plan import Shape, model_shape, plan_of
from training.models.base import find_base, load_model
from training.models.chain import load_chain
from training.run.session import prepare
from training.stages import STAGES

HAS_GPU = torch.cuda.is_available()
DEVICE = "cuda" if HAS_GPU else "cpu"
TINY = Shape(layers=2, hidden=64, intermediate=96, heads=4, kv_heads=2, head_dim=16, vocab=1024)
LARGE = model_shape("mistralai/Mistral-7B-v0.3") if HAS_GPU else TINY
MIDDLE = Shape(layers=24, hidden=2048, intermediate=5632, heads=16, kv_heads=4, head_dim=128, vocab=1024)
"""Of the chain whose stages are compared with merged models: all four models fit side by side."""
LARGE_PARTS = ("base", "sft", "grpo", "long_rows")
"""They share one folder, where the large base lies."""
NO_GPU = {"skipped": "no GPU"}
CONFIGS = Path("training/configs")
PACKAGES = ("torch", "transformers", "trl", "peft", "accelerate", "bitsandbytes")
Figures = Mapping[str, object]


def machine(_: Path) -> Figures:
    """Return what the figures below were seen on."""
    return {
        "card": torch.cuda.get_device_name() if HAS_GPU else None,
        "memory_gb": round(torch.cuda.get_device_properties(0).total_memory / 1e9, 1) if HAS_GPU else None,
        "cuda": torch.version.cuda,
        "date": time.strftime("%Y-%m-%d"),
        "versions": {name: metadata.version(name) for name in PACKAGES},
    }


def kernels(_: Path) -> Figures:
    """Return how far bitsandbytes' nf4 on the card is from nf4 on the processor, and a product from that of the unpacked weights."""
    from bitsandbytes import functional, matmul_4bit

    size = 4096 if HAS_GPU else 128
    weights = torch.randn(size, size, generator=torch.Generator().manual_seed(0))

    def unpacked(device: str) -> tuple[torch.Tensor, Any]:
        return functional.quantize_4bit(weights.to(device), quant_type="nf4", compress_statistics=True)

    packed, state = unpacked(DEVICE)
    found = functional.dequantize_4bit(packed, state)
    rows = torch.randn(16, size, device=DEVICE)
    product = rows @ found.T
    gap = (matmul_4bit(rows, packed.t(), quant_state=state) - product).abs().max() / product.abs().max()
    reference = functional.dequantize_4bit(*unpacked("cpu"))
    return {
        "nf4_gap_to_cpu": float((found.cpu() - reference).abs().max()) if HAS_GPU else NO_GPU["skipped"],
        "nf4_product_gap": float(gap),
        "nf4_error": float((found.cpu() - weights).abs().mean()),
    }


def families(folder: Path) -> Figures:
    """Return what came of SFT, check, KTO, reward model, GRPO (KL 0 at step 1), answers and exports."""
    names = ["Mistral", "Llama, without pad token", "Qwen3.5, with picture tower"][: 3 if HAS_GPU else 1]
    return {name: taken_through(name, folder / str(number)).cells for number, name in enumerate(names)}


def resume(folder: Path) -> Figures:
    """Return how many tensors of a run that was killed and gone on with differ from those of one that was not."""
    values = {
        **SFT,
        "max_steps": 8,
        "save_steps": 3,
        "lora_dropout": 0.2,
        "autocast": "bfloat16" if HAS_GPU else "none",
    }
    train("sft", settings_file(folder, {**values, "output": str(folder / "whole")}))
    cut = settings_file(folder, {**values, "output": str(folder / "cut")})
    if HAS_GPU:  # CUDA stands no fork
        killing.CONTEXT = multiprocessing.get_context("spawn")  # ty: ignore[invalid-assignment]
    killing.kill_after(5, "sft", cut, folder / "cut")
    train("sft", cut)
    return {"killed_at_step": 5, "tensors_that_differ": len(killing.differing(folder / "whole", folder / "cut"))}


def padding_free(folder: Path) -> Figures:
    """Return the loss of rows with padding, and of the same rows behind one another."""
    values = {**SFT, "max_steps": 1, "learning_rate": 1e-9, "batch": 8}
    losses = {}
    for name, is_free in (("padded", False), ("padding_free", True)):
        file = settings_file(folder, {**values, "padding_free": is_free, "output": str(folder / name)})
        losses[f"loss_{name}"] = record(train("sft", file).path)["result"]["train_loss"]  # ty: ignore
    return losses


def base(folder: Path) -> Figures:
    """Write a random base of Mistral-7B's shape in bfloat16; return how long that took and how long loading it in 4 bits takes."""
    begun = time.monotonic()
    write_shape(MistralConfig, LARGE, tokenizer_of("mistral"), folder / "base")
    written = time.monotonic()
    load_model(find_base(str(folder / "base")), "nf4", DEVICE)
    return {
        "weights": LARGE.linear_weights + LARGE.other_weights,
        "seconds_to_write": written - begun,
        "seconds_to_load_nf4": time.monotonic() - written,
    }


def write_shape(kind: type, shape: Shape, tokenizer: PreTrainedTokenizerFast, folder: Path) -> None:
    """Write a random model of a shape, made on the card where there is one, and a tokenizer of few words."""
    config = kind(
        vocab_size=max(shape.vocab, len(tokenizer)),
        hidden_size=shape.hidden,
        intermediate_size=shape.intermediate,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads,
        head_dim=shape.head_dim,
        max_position_embeddings=32_768,
        sliding_window=None,
        **{f"{each}_token_id": getattr(tokenizer, f"{each}_token_id") for each in ("bos", "eos", "pad")},
    )
    torch.manual_seed(0)
    with torch.device(DEVICE):
        AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def sft(folder: Path) -> Figures:
    """Return speed and memory of SFT as on BioRLHF's card: four rows at a time, 16 a step, 4 bits."""
    length = 1536 if HAS_GPU else 64
    words = ("--max_steps", "4", "--max_length", str(length), "--accumulation", "4" if HAS_GPU else "1")
    return measured("sft", folder, "biorlhf/sft.yaml", length, *words)


def grpo(folder: Path) -> Figures:
    """Return speed, memory and first KL of GRPO as on BioRLHF's card, on the SFT stage above, with short answers."""
    words = ["--chain", str(folder / "sft"), "--data", "pathways-train", "--max_steps", "3" if HAS_GPU else "2"]
    if not HAS_GPU:
        words += ["--num_generations", "4", "--generation_batch", "4", "--accumulation", "2"]
    words += ["--max_prompt_length", "1024", "--max_completion_length", "128" if HAS_GPU else "4"]
    return measured("grpo", folder, "biorlhf/grpo-phase4-legacy.yaml", 0, *words)


def long_rows(folder: Path) -> Figures:
    """Return speed and memory of the reviewer's training: a row of 16,384 tokens, 4 bits, AdamW in 8 bits."""
    if not HAS_GPU:
        return NO_GPU
    words = ("--max_steps", "3", "--accumulation", "1")
    return measured("review", folder, "review/qwen3-8b-all.yaml", 16_384, *words)


def measured(stage: str, folder: Path, config: str, length: int, *words: str) -> Figures:
    """Train some steps on the random base by a recipe's file and return their time, the peak and what was estimated."""
    data = ("--data", str(write_rows(folder, length))) if length else ()
    output = ("--output", str(folder / stage), "--save_steps", "1000", "--log_steps", "1")
    told = ("--config", str(CONFIGS / config), "--base", str(folder / "base"), *data, *output, *words)
    ready, times = prepare(stage, read_request(STAGES[stage], told)), list[float]()

    class Clock(TrainerCallback):
        def on_step_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:
            times.append(time.monotonic())

    needs = plan_of(stage, told, is_dry=True).needs(ready.data.count, trained=ready.targets.weights)
    assert needs
    if HAS_GPU:
        torch.cuda.reset_peak_memory_stats()
    begun = time.monotonic()
    with ready.session() as current:
        module = import_module(f"training.{stage}")
        trainer = policy_trainer(ready, [variety]) if stage == "grpo" else module.build_trainer(ready)
        trainer.add_callback(Clock())
        loaded = time.monotonic()
        current.train(trainer)
        ended = time.monotonic()
    seconds = median(later - earlier for earlier, later in pairwise(times))
    first = next(row for row in trainer.state.log_history if "loss" in row)
    estimated = needs.total - (needs.memory["libraries"] if HAS_GPU else 0)
    return {
        "seconds_to_load": loaded - begun,
        "seconds_at_the_end": ended - times[-1],
        "seconds_per_step": seconds,
        "steps_per_second": 1 / seconds,
        "peak_gb": torch.cuda.max_memory_allocated() / 1e9 if HAS_GPU else resident("VmHWM") / 1e3,
        "estimated_gb": estimated / 1e9,
        **({"kl_at_step_1": first["kl"]} if stage == "grpo" else {}),
    }


def write_rows(folder: Path, length: int) -> Path:
    """Write 64 rows of nearly `length` tokens, as the tokenizer of the random base counts them."""
    tokenizer, file = tokenizer_of("mistral"), folder / f"rows-{length}.jsonl"
    each = (len(tokenizer("mice " * 100)["input_ids"]) - 2) / 100
    text = "mice " * int(0.9 * length / each / 2)
    turns = [{"role": "user", "content": text}, {"role": "assistant", "content": text}]
    file.write_text("".join(json.dumps({"id": str(n), "messages": turns}) + "\n" for n in range(64)))
    return file


def stages(folder: Path) -> Figures:
    """Return tokens a second of three stages in one batch, and of three merged models one after another."""
    shape, tokens = (MIDDLE, 128) if HAS_GPU else (TINY, 8)
    source = folder / "model"
    write_shape(LlamaConfig, shape, tiny_tokenizer(), source)
    run = tiny_chain(folder, base=source, ranks=dict.fromkeys(("sft", "dpo", "grpo"), 16))
    chain = load_chain(run, "bfloat16")
    chain.stack.model.generation_config.eos_token_id = None  # each writes all its tokens
    prompt, sampling = chain.messages("Is it up?"), Sampling(max_new_tokens=tokens)
    tuned = chain.stages[1:]
    stacked = seconds_of(lambda: chain.generate([prompt], tuned, sampling))
    inputs = torch.tensor([chain.rows(prompt, tuned[:1], sampling)[0].prompt], device=DEVICE)
    models, plain = [], load_model(find_base(str(source)), "bfloat16", DEVICE)
    for name in tuned:
        plain = PeftModel.from_pretrained(plain, str(folder / name / "adapter")).merge_and_unload()
        models.append(copy.deepcopy(plain))
    lengths = {"max_new_tokens": tokens, "min_new_tokens": tokens, "do_sample": False, "pad_token_id": 0}
    merged = seconds_of(lambda: [model.generate(inputs, **lengths) for model in models])
    return {
        "tokens_per_second_stacked": len(tuned) * tokens / stacked,
        "tokens_per_second_merged": len(tuned) * tokens / merged,
        "times_as_fast": merged / stacked,
    }


def linear_attention(_: Path) -> Figures:
    """Return how far the kernel of Qwen3.5's linear attention is from plain PyTorch, and how many times as fast, a step's gradients with it."""
    plain = torch_chunk_gated_delta_rule.__wrapped__
    length, heads = (4096, 32) if HAS_GPU else (64, 2)
    torch.manual_seed(0)
    given = [torch.randn(1, length, heads, 128, device=DEVICE, dtype=torch.bfloat16, requires_grad=True) for _ in "qkv"]
    kept, learned = (torch.rand(1, length, heads, device=DEVICE) for _ in range(2))

    def done(rule: Callable[..., Any]) -> torch.Tensor:
        found, _ = rule(*given, g=kept.log(), beta=learned.to(torch.bfloat16), use_qk_l2norm_in_kernel=True)
        found.float().sum().backward()
        return found.detach().float()

    gap = (done(torch_chunk_gated_delta_rule) - done(plain)).abs().max() / done(plain).abs().max()
    seconds = {rule: seconds_of(lambda rule=rule: done(rule)) for rule in (torch_chunk_gated_delta_rule, plain)}
    return {
        "kernel": find_spec("fla") is not None,
        "gap": float(gap),
        "times_as_fast": seconds[plain] / seconds[torch_chunk_gated_delta_rule],
    }


def seconds_of(work: Callable[[], object]) -> float:
    """Return the least time of three, after a first that warms up."""
    times = []
    for _ in range(4):
        begun = time.monotonic()
        work()
        if HAS_GPU:
            torch.cuda.synchronize()
        times.append(time.monotonic() - begun)
    return min(times[1:])


PARTS: Mapping[str, tuple[Callable[[Path], Figures], int]] = {
    "machine": (machine, 5),
    "kernels": (kernels, 10),
    "base": (base, 60),
    "sft": (sft, 75),
    "grpo": (grpo, 60),
    "long_rows": (long_rows, 60),
    "stages": (stages, 45),
    "linear_attention": (linear_attention, 30),
    "resume": (resume, 40),
    "padding_free": (padding_free, 20),
    "families": (families, 60),
}
"""What is looked at, and the seconds that it may take on a GPU; four times as many on a CPU."""


def line_of(part: str, folder: Path) -> str:
    """Return the line of a part: its figures, why it was skipped, or how it failed."""
    work, limit = PARTS[part]
    limit *= 1 if HAS_GPU else 4

    def over(*_: object) -> None:
        raise TimeoutError(f"more than {limit} s")

    folder.mkdir(parents=True, exist_ok=True)
    begun = time.monotonic()
    signal.signal(signal.SIGALRM, over)
    signal.alarm(limit)
    try:
        with redirect_stdout(sys.stderr):  # where trainers say their losses
            found = work(folder)
    except Exception as error:  # the next part may still tell something
        traceback.print_exc()
        found = {"failed": f"{type(error).__name__}: {error}"[:500]}
    finally:
        signal.alarm(0)
        gc.collect()
        torch.cuda.empty_cache()
    rounded = json.loads(json.dumps(found), parse_float=lambda text: float(f"{float(text):.4g}"))
    return json.dumps({"part": part, **rounded, "seconds": round(time.monotonic() - begun, 1)})


def main(folder: str, *parts: str) -> int:
    """Print a line for each part, all of them where none is named; return 1 if one failed."""
    out = Path(folder)
    lines = list[str]()
    with (out / "check.jsonl").open("a", encoding="utf-8") as kept:
        for part in parts or PARTS:
            lines.append(line_of(part, out / ("large" if part in LARGE_PARTS else part)))
            for file in (kept, sys.stdout):
                print(lines[-1], file=file, flush=True)
    return int(any('"failed"' in line for line in lines))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
