"""Small runs of the refiner: four records, and a tiny random model whose words are whole answers.

A random model never hits upon the grammar, so its tokenizer has some hundred answers as one word each:
right ones, wrong ones, empty ones, and some that are not well formed.
"""

import json
from collections.abc import Mapping
from itertools import product
from pathlib import Path

import torch
import yaml
from tokenizers import AddedToken

from evals.refine.task import SYSTEM_PROMPT
from tests.models import tiny_adapter, tiny_llama, tiny_tokenizer
from tests.training.runs import COMMON
from training.models.base import find_base
from training.models.start import NewStage, append_stage

GRPO: Mapping[str, object] = {
    **COMMON,
    "batch": 8,
    "num_generations": 4,
    "beta": 0.001,
    "max_prompt_length": 1024,
    "max_completion_length": 1,
    "judge": "heuristic",
}
NAMES = {"A": ("up", "down"), "B": ("down", "up"), "C": ("up", "down"), "D": ("down", "up")}
RECORDS = tuple(
    {
        "id": name,
        "prompt": f"Which way is {name}?",
        "tool_output": f"<snippet id=S1>In flight {name} is {way}</snippet>"
        "<snippet id=S2>In study 7 nothing changed</snippet>",
        "positive_rubrics": [{"title": "way", "description": f'Says "{way}".'}],
        "negative_rubrics": [{"title": "wrong", "description": f'Says "{other}".'}],
        "reference": f"<answer><snippet id=S1>In flight {name} is {way}</snippet></answer>",
    }
    for name, (way, other) in NAMES.items()
)
STARTS = ("In flight", "It seems", *(f"In study {number}" for number in range(10)))
WELL, BARE, CUT = (
    "<answer><snippet id={id}>{claim}</snippet></answer>",
    "<answer>{claim}.</answer>",
    "<answer>{claim}",
)
ANSWERS = tuple(
    frame.format(id=key, claim=f"{start} {name} is {way}")
    for frame, starts in ((WELL, STARTS), (BARE, STARTS[:1]), (CUT, STARTS[:1]))
    for key, start, name, way in product(("S1", "S1,S2"), starts, NAMES, ("up", "down"))
)


def answering_base(folder: Path) -> Path:
    """Write the tiny model to `folder` and return it."""
    tokenizer = tiny_tokenizer()
    words = [AddedToken(text, normalized=False) for text in dict.fromkeys(ANSWERS)]
    tokenizer.add_tokens(words)
    model = tiny_llama(tokenizer, max_position_embeddings=2048, tie_word_embeddings=False)
    with torch.no_grad():
        model.lm_head.weight[: len(tokenizer) - len(words)] *= 0.1
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def written(folder: Path, values: Mapping[str, object], name: str = "run") -> list[str]:
    """Write a settings file for the tiny model in `folder` and return the words that name it."""
    base, rows = folder / "model", folder / "records.jsonl"
    if not base.is_dir():
        answering_base(base)
    if not rows.is_file():
        rows.write_text("".join(json.dumps(row) + "\n" for row in RECORDS), encoding="utf-8")
    document = {"base": str(base), "data": [str(rows)], "output": str(folder / name), **values}
    file = folder / f"{name}.yaml"
    file.write_text(yaml.safe_dump(document), encoding="utf-8")
    return ["--config", str(file)]


def with_chain(folder: Path) -> Path:
    """Return `folder` with the tiny base and an SFT stage on it that was given the refiner's prompt."""
    base = answering_base(folder / "model")
    stage = NewStage("sft", "sft", tiny_adapter(base, folder / "sft" / "adapter"))
    append_stage(folder / "sft", stage, find_base(str(base)), None, SYSTEM_PROMPT)
    return folder


def command(folder: Path, name: str = "run", **values: object) -> list[str]:
    """Return the words of a run on top of the SFT stage in `folder`."""
    return written(folder, {**GRPO, "chain": str(folder / "sft"), **values}, name)
