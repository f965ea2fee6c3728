"""A stage of a chain as a plain folder: one merged model, or one LoRA adapter of all its adapters.

    export("embedded", Path("merged"), "merged", "bfloat16")

transformers, PEFT, vLLM, Ollama and llama.cpp's converter load what is written as it is. How far it computes what the stack
does in float32 is measured on the files themselves, along the stack's own answers, and stands in export.json.
"""

import gc
import json
import shlex
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from peft import PeftModel
from safetensors.torch import save_file
from torch import nn
from torch.nn import functional
from transformers import PreTrainedModel

from evals.errors import BadConfig
from evals.io import write_folder, write_whole
from evals.questions import conversation, kmp_test, system_prompt
from evals.schema import Example, Record
from evals.schema.questions import Progress, Sampling
from training.data.tokens import turn_end
from training.models.adapters import CONFIG_NAME, WEIGHTS_NAME, Adapter, read_adapter
from training.models.base import (
    Base,
    class_for,
    config_of,
    drop_names,
    load_model,
    load_tokenizer,
    no_progress,
    save_tokenizer,
    skeleton,
)
from training.models.chain import LoadedChain, chain_base, load_chain
from training.models.check import logprobs_along
from training.models.manifest import active_adapters, read_chain
from training.models.stack import join, merge_into, pairs_by_layer
from training.models.targets import lora_on

Kind = Literal["merged", "joined-lora"]
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
ANSWER_TOKENS = 64
FILE_NAME, GENERATION_NAME, MODELFILE_NAME = "export.json", "generation_config.json", "Modelfile"
VLLM_RANKS = (8, 16, 32, 64, 128, 256, 320, 512)
"""What vLLM's --max-lora-rank takes."""


class ExportDifference(Record):
    """How an export differs from the stack in float32, over `n_tokens` places of the stack's own answers.

    `top1` is the share of places with the same likeliest token, `kl` the mean divergence of the export's next token
    from the stack's (nats), `largest` the largest difference of a log-probability.
    """

    n_tokens: int
    top1: float
    kl: float
    largest: float


class Exported(Record):
    """export.json: what was exported, and how far it is the same; `serve` is told where it was written, not stored."""

    chain: str
    stage: str
    kind: Kind
    dtype: str
    base: str
    system_prompt: str
    adapters: Mapping[str, str]
    rank: int | None
    difference: ExportDifference
    serve: tuple[str, ...] = ()


@dataclass(frozen=True)
class StackAnswers:
    """The stack's answers as tokens, behind their questions, where each begins, and the log-probabilities of its places."""

    tokens: Sequence[tuple[int, ...]]
    starts: Sequence[int]
    logprobs: Sequence[torch.Tensor]


def export(
    name: str | Path,
    out: Path,
    kind: Kind,
    dtype: str = "bfloat16",
    stage: str | None = None,
    progress: Progress = no_progress,
    *,
    base: str | None = None,
    cache: Path | None = None,
    questions: int | None = None,
    answer_tokens: int = ANSWER_TOKENS,
) -> Exported:
    """Write a stage (the last one unless named) to the folder `out`, measure it, and return what export.json says.

    It is measured on answers of at most `answer_tokens` tokens to the first `questions` (all unless told) of the
    held-out questions. `dtype` is how the weights are held: float32, bfloat16 or float16.

    Raises BadConfig where `out` is there already or a setting is unknown, and what `load_chain` raises.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise BadConfig(f"{out} is there already; name a folder that is new or empty.")
    if dtype not in DTYPES:
        raise BadConfig(f"dtype {dtype!r} is not known; choose one of {', '.join(DTYPES)}.")
    asked = kmp_test()
    if questions is not None and not 1 <= questions <= len(asked):
        raise BadConfig(f"questions is {questions}; there are {len(asked)} held-out questions, ask 1 or more of them.")
    asked = asked[:questions]
    chain = load_chain(name, "float32", lambda share, text: progress(share / 2, text), base=base, cache=cache)
    manifest, found, stage = chain.manifest, chain.base, stage or chain.stages[-1]
    if kind == "joined-lora" and not manifest.stages:
        raise BadConfig(f"the chain {manifest.name!r} has no adapters to join; export it --merged, or take its base.")
    if stage not in (chain.stages[1:] or chain.stages):
        raise BadConfig(f"no stage {stage!r} with adapters in this chain; it has {', '.join(chain.stages[1:])}.")
    progress(0.5, "the stack answers questions to compare with")
    answers = _answers(chain, stage, asked, answer_tokens)
    del chain  # a large base is not held twice
    gc.collect()
    source, at_work = read_chain(name), active_adapters(manifest.stages)[stage]
    adapters = {
        each.name: read_adapter(source.adapter_folder(each)) for each in manifest.stages if each.name in at_work
    }
    with write_folder(out) as folder:
        progress(0.7, "writing")
        rank = _write(found, adapters, folder, kind, dtype)
        progress(0.85, "comparing what was written with the stack")
        told = Exported(
            chain=manifest.name,
            stage=stage,
            kind=kind,
            dtype=dtype,
            base=f"{found.public_name}{f'@{found.revision}' if found.revision else ''}",
            system_prompt=system_prompt(manifest.system_prompt, ""),
            adapters={each: adapter.sha256 for each, adapter in adapters.items()},
            rank=rank,
            difference=_difference(_load_export(found, folder, kind, dtype), answers),
        )
        write_whole(folder / FILE_NAME, told.model_dump_json(indent=1, exclude={"serve"}) + "\n")
        if kind == "merged":
            lines = ("FROM .", *([f'SYSTEM """{told.system_prompt}"""'] if told.system_prompt else ()))
            (folder / MODELFILE_NAME).write_text("\n".join((*lines, "")), encoding="utf-8")
    return told.model_copy(update={"serve": serving_lines(told, found, out)})


def serving_lines(told: Exported, base: Base, out: Path) -> tuple[str, ...]:
    """Return the command lines that serve an export elsewhere; none where vLLM takes no adapter of so high a rank."""
    folder = str(out.resolve())
    if told.kind == "merged":
        modelfile, converted = str(out.resolve() / MODELFILE_NAME), f"{folder}.gguf"
        lines = (
            ("vllm", "serve", folder, "--served-model-name", told.stage),
            ("ollama", "create", told.stage, "-f", modelfile),
            ("python", "convert_hf_to_gguf.py", folder, "--outfile", converted),
        )
        return tuple(map(shlex.join, lines))
    rank = next((each for each in VLLM_RANKS if each >= (told.rank or 0)), None)
    if rank is None:
        return ()
    of_hub = base.hub_id if base.revision else None  # the embedded base has another name's weights
    words = ("vllm", "serve", of_hub or str(base.folder), "--enable-lora", "--max-lora-rank", str(rank))
    words += ("--lora-modules", f"{told.stage}={folder}", "--tokenizer", folder)  # its template is the one trained with
    return (shlex.join((*words, *(("--revision", str(base.revision)) if of_hub else ()))),)


def write_for_hub(
    name: str | Path, place: Path, *, merged: bool = False, progress: Progress = no_progress, cache: Path | None = None
) -> dict[str, Path]:
    """Write below `place`, for each stage, what its repository holds so that `from_pretrained` is right; return where.

    The base's tokenizer and generation settings, and where several adapters are at work, one of all in float32; of the
    last stage with `merged` the merged model in the base's own type. Needs no weights of the base else.
    """
    chain = read_chain(name)
    base = chain_base(chain, None, progress, cache, needs_weights=merged)
    at_work, places = active_adapters(chain.manifest.stages), dict[str, Path]()
    for stage in chain.manifest.stages:
        progress(0.5, f"joining the adapters of {stage.name}")
        of_stage = [each for each in chain.manifest.stages if each.name in at_work[stage.name]]
        adapters = {each.name: read_adapter(chain.adapter_folder(each)) for each in of_stage}
        places[stage.name] = folder = place / stage.name
        if merged and stage is chain.manifest.stages[-1]:
            held = str(config_of(base.folder).dtype or torch.float32)
            _write(base, adapters, folder, "merged", held.removeprefix("torch."))
        elif len(adapters) > 1:
            _write(base, adapters, folder, "joined-lora", "float32")
        else:
            folder.mkdir()
            _write_beside(base, folder)
    return places


def _answers(chain: LoadedChain, stage: str, questions: Sequence[Example], length: int) -> StackAnswers:
    """Return the stack's greedy answers of at most `length` tokens and the log-probabilities along them."""
    prompts = [conversation(each, chain.manifest.system_prompt) for each in questions]
    sampling = Sampling(max_new_tokens=length)
    written = chain.generate(prompts, (stage,), sampling)
    rows = [chain.rows(prompt, (stage,), sampling)[0].prompt for prompt in prompts]
    ends = [tuple(chain.tokenizer.encode(text.text, add_special_tokens=False)) + chain.ends[:1] for (text,) in written]
    tokens, starts = [row + end for row, end in zip(rows, ends, strict=True)], [len(row) for row in rows]
    with chain.stack.lock, chain.stack.rows([chain.adapters_of_stage[stage]]):
        return StackAnswers(tokens, starts, _logprobs(chain.stack.model, tokens, starts))


def _logprobs(model: nn.Module, tokens: Sequence[tuple[int, ...]], starts: Sequence[int]) -> list[torch.Tensor]:
    """Return, for each text, the log-probabilities (places of its answer, vocabulary) in float32."""
    device = next(model.parameters()).device
    texts = zip((torch.tensor([ids], device=device) for ids in tokens), starts, strict=True)
    return [logprobs_along(model, ids)[start - 1 : -1] for ids, start in texts]


def _write(base: Base, adapters: Mapping[str, Adapter], folder: Path, kind: Kind, dtype: str) -> int | None:
    """Write the export; return the joined adapter's rank."""
    folder.mkdir(exist_ok=True)
    if kind == "joined-lora":
        _write_beside(base, folder)
        bare = skeleton(base.folder)  # its layers are needed, not its weights
        bare.name_or_path = base.public_name
        return _write_joined(bare, adapters, folder, DTYPES[dtype])
    model = load_model(base, "float32")
    merge_into(model, adapters)
    model.to(DTYPES[dtype]).save_pretrained(folder)
    _write_beside(base, folder)
    drop_names(folder / "config.json", "_model_name_or_path")
    return None


def _write_beside(base: Base, folder: Path) -> None:
    """Write the base's tokenizer and generation settings; answers end where the chat template ends a turn."""
    tokenizer = load_tokenizer(base)
    save_tokenizer(tokenizer, folder)
    if (file := base.folder / GENERATION_NAME).is_file():
        shutil.copyfile(file, folder / GENERATION_NAME)
    file = folder / GENERATION_NAME
    settings = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    named = settings.get("eos_token_id", tokenizer.eos_token_id)
    ends = [*named] if isinstance(named, list) else [named]
    if (end := turn_end(tokenizer)) not in (None, *ends):
        settings["eos_token_id"] = [each for each in (*ends, end) if each is not None]
        write_whole(file, json.dumps(settings, indent=2) + "\n")


def _write_joined(model: PreTrainedModel, adapters: Mapping[str, Adapter], folder: Path, dtype: torch.dtype) -> int:
    """Write one adapter, A = [A1; A2; …] and B = [B1, B2, …] with each scale in its B; return its rank.

    Every layer is given the same rank, where needed with rows of zeros, because vLLM knows no rank per layer.
    """
    targets = {name: join(pairs.values()) for name, pairs in pairs_by_layer(model, adapters).items()}
    rank = max(pair.down.shape[0] for pair in targets.values())
    tensors = {}
    for name, pair in targets.items():
        rows = rank - pair.down.shape[0]
        tensors[f"base_model.model.{name}.lora_A.weight"] = functional.pad(pair.down, (0, 0, 0, rows)).to(dtype)
        tensors[f"base_model.model.{name}.lora_B.weight"] = functional.pad(pair.up, (0, rows)).to(dtype)
    save_file(tensors, folder / WEIGHTS_NAME, metadata={"format": "pt"})
    config = lora_on(model, targets, rank, rank)
    config.inference_mode = True
    config.save_pretrained(str(folder))
    written = json.loads((folder / CONFIG_NAME).read_text(encoding="utf-8"))
    written["target_modules"].sort()  # PEFT writes them in a set's order
    write_whole(folder / CONFIG_NAME, json.dumps(written, indent=2))
    return rank


def _load_export(base: Base, folder: Path, kind: Kind, dtype: str) -> nn.Module:
    """Load an export as anybody would."""
    options: dict[str, Any] = {"dtype": DTYPES[dtype], "local_files_only": True}
    if kind == "joined-lora":
        bare = class_for(config_of(base.folder)).from_pretrained(base.folder, **options)
        return PeftModel.from_pretrained(bare, str(folder)).eval()
    loaded: nn.Module = class_for(config_of(base.folder)).from_pretrained(folder, **options)
    return loaded.eval()


def _difference(model: nn.Module, answers: StackAnswers) -> ExportDifference:
    theirs = torch.cat(_logprobs(model, answers.tokens, answers.starts))
    ours = torch.cat(list(answers.logprobs))
    return ExportDifference(
        n_tokens=len(ours),
        top1=float((ours.argmax(-1) == theirs.argmax(-1)).float().mean()),
        kl=max(0.0, float(nn.functional.kl_div(theirs, ours, log_target=True, reduction="batchmean"))),
        largest=float((ours - theirs).abs().max()),
    )
