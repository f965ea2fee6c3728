"""One family through the whole sequence, by the functions that the commands call, and what came of it as a row."""

import json
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM

from evals.errors import LabError
from evals.questions import DATASETS
from evals.schema.questions import Sampling
from evals.verifiers.score import SCORED
from tests.examples import write_examples
from tests.training.families.bases import described, write_base
from tests.training.runs import COMMON, ready, settings_file, train
from training.grpo import policy_trainer
from training.models.adapters import read_adapter
from training.models.chain import check_chain, load_chain
from training.models.export import export
from training.run.folder import RunFolder

STEPS = ("SFT", "check", "KTO", "reward", "GRPO", "ask", "merged", "joined", "plain PEFT")
"""The columns of the table between the family and the remark."""
CLOSE = 1e-4
"""Largest difference of a logit from our stack's, in float32."""
EFFECT = 1e-2
"""Least difference of a logit that each adapter makes: without one nothing is shown."""
TOKENS = 6
ROLES = {"prompt": "user", "chosen": "assistant", "rejected": "assistant"}


@dataclass
class Outcome:
    """What came of each step, `ok` or `refused`, our sentences where it was, and the layers that were adapted."""

    cells: dict[str, str] = field(default_factory=lambda: dict.fromkeys(STEPS, "–"))
    refusals: list[str] = field(default_factory=list)
    layers: tuple[str, ...] = ()

    def take(self, step: str, work: Callable[[], str | None]) -> bool:
        """Do a step and note how it went; False where one of our errors ended it."""
        try:
            self.cells[step] = work() or "ok"
        except LabError as error:
            self.cells[step] = "refused"
            self.refusals.append(f"{step}: {error}")
        return self.cells[step] == "ok"


def taken_through(name: str, folder: Path) -> Outcome:
    """Build the base of a family below `folder` and take it through every step; errors other than ours are raised."""
    told, found = described()["families"][name], Outcome()
    base = write_base(name, folder / "model")
    scored = [row for row in DATASETS["kmp-train"]() if row.ground_truth.kind in SCORED]
    write_examples(folder / "rows.jsonl", sorted(scored, key=lambda row: len(row.prompt))[:8])
    values = {
        **COMMON,
        "base": str(base),
        "data": [str(folder / "rows.jsonl")],
        "lora_targets": told["targets"],
        "learning_rate": 0.02,
        "weights": told.get("weights", "float32"),
    }

    def sft() -> None:
        more = {"batch": 2, "max_length": 512, "output": str(folder / "sft")}
        train("sft", settings_file(folder, values | more))

    def grpo() -> None:
        more = {"batch": 4, "num_generations": 4, "max_prompt_length": 512, "max_completion_length": TOKENS}
        begun = ready("grpo", settings_file(folder, values | more | {"chain": str(sft_run), "output": str(grpo_run)}))
        with begun.session() as current:
            current.train(policy_trainer(begun, [variety]))
        assert not RunFolder(grpo_run).metric_rows()[0].get("kl")  # before the first step it is its own reference

    def preferred(stage: str) -> None:
        texts = {"prompt": "Is it Type A?", "chosen": "Yes.", "rejected": "No."}
        pairs = [
            {name: [{"role": ROLES[name], "content": f"{text} {n}"}] for name, text in texts.items()} for n in "12"
        ]
        (folder / "pairs.jsonl").write_text("".join(json.dumps(pair) + "\n" for pair in pairs))
        own = {"kto": {"eval_steps": 0}, "reward": {"eval_steps": 0, "hold_out": 0.0}}[stage]
        more = {"data": [str(folder / "pairs.jsonl")], "chain": str(sft_run), "output": str(folder / stage), "batch": 2}
        run = train(stage, settings_file(folder, values | own | more))
        right(run.path)
        assert run.metric_rows()[0].get("kl", 0.0) == 0.0  # before the first step KTO is its own reference

    sft_run, grpo_run = folder / "sft", folder / "grpo"
    if not found.take("SFT", sft):
        return found
    found.layers = tuple(read_adapter(sft_run / "adapter").pairs)
    if not found.take("check", lambda: right(sft_run)):
        return found
    found.take("KTO", lambda: preferred("kto"))
    found.take("reward", lambda: preferred("reward"))
    if not found.take("GRPO", grpo):
        return found
    found.take("check", lambda: right(grpo_run))
    ours: list[torch.Tensor] = []
    found.take("ask", lambda: asked(grpo_run, ours))
    if not ours:
        return found
    for kind, step in (("merged", "merged"), ("joined-lora", "joined")):
        found.take(step, lambda kind=kind: exported(grpo_run, folder, kind, ours[-1]))
    found.take("plain PEFT", lambda: merged_in_order(base, (sft_run, grpo_run), ours[1:]))
    return found


def variety(completions: list[list[dict[str, str]]], **_: object) -> list[float]:
    """A reward that differs between answers that mean nothing: the share of different letters."""
    texts = [turns[-1]["content"] for turns in completions]
    return [len(set(text)) / max(len(text), 1) for text in texts]


def right(run: Path) -> None:
    """Check a chain as `assay chain check` does; LabError with what is wrong."""
    wrong = [finding.detail for finding in check_chain(run) if not finding.is_ok]
    if wrong:
        raise LabError(" ".join(wrong))


def asked(run: Path, logits: list[torch.Tensor]) -> None:
    """Ask all stages, whole and as a stream, and add the logits of each stage along one text to `logits`."""
    chain = load_chain(run, "float32")
    prompt, sampling = chain.messages("Is liver Type A, Type B or Type C?"), Sampling(max_new_tokens=TOKENS)
    (whole,) = chain.generate([prompt], chain.stages, sampling)
    streamed = dict.fromkeys(chain.stages, "")
    for piece in chain.stream(prompt, chain.stages, sampling, threading.Event()):
        streamed[piece.stage] += piece.text
    assert streamed == {answer.stage: answer.text for answer in whole}
    with torch.inference_mode(), chain.stack.lock:
        for stage in chain.stages:
            with chain.stack.rows([chain.adapters_of_stage[stage]]):
                logits.append(chain.stack.model(input_ids=text_of(chain.stack.model)).logits)
    for before, after in pairwise(logits):
        assert float((after - before).abs().max()) > EFFECT


def exported(run: Path, folder: Path, kind: str, expected: torch.Tensor) -> str:
    """Export the last stage and return how far the folder is from our stack, as others load it."""
    out = folder / kind
    export(run, out, kind, "float32", questions=2, answer_tokens=TOKENS)
    if kind == "merged":
        return gap(AutoModelForCausalLM.from_pretrained(out, dtype=torch.float32).eval(), expected)
    plain = AutoModelForCausalLM.from_pretrained(folder / "model", dtype=torch.float32).eval()
    return gap(PeftModel.from_pretrained(plain, str(out)).eval(), expected)


def merged_in_order(base: Path, runs: Sequence[Path], expected: Sequence[torch.Tensor]) -> str:
    """Merge the adapters of the runs with PEFT alone and return how far each stage then is from our stack."""
    plain, gaps = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32).eval(), list[str]()
    for run, logits in zip(runs, expected, strict=True):
        plain = PeftModel.from_pretrained(plain, str(run / "adapter")).merge_and_unload()
        gaps.append(gap(plain, logits))
    return ", ".join(dict.fromkeys(gaps))


def gap(model: torch.nn.Module, expected: torch.Tensor) -> str:
    """Return the largest difference of a logit, or that it is small enough."""
    with torch.inference_mode():
        found = float((model(input_ids=text_of(model)).logits - expected).abs().max())
    return "≤ 1e-4" if found <= CLOSE else f"{found:.1e}"


def text_of(model: torch.nn.Module) -> torch.Tensor:
    """Return tokens to compare logits along: forty, none of them a mark, on the model's device."""
    return torch.arange(300, 340, device=next(model.parameters()).device)[None]
