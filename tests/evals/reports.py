"""A small report made by the real pipeline from scripted answers, for tests that need one."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml

from evals.questions import pathway_heldout
from evals.questions.task import Questions
from evals.report import build_report
from evals.run import RunSettings, baseline_rows, run_task
from evals.schema import Completion, EvalReport, EvalRow, Example, Message, StatedConfidence, Verdict
from evals.schema.questions import Sampling

TABLES = yaml.safe_load((Path(__file__).parent / "cases/tables.yaml").read_text(encoding="utf-8"))
"""Small tables of cases by what they are about."""
ORIGIN = TABLES["reports: where one comes from"]


class ScriptedModel:
    """A model whose answers are written down beforehand: (stage, last user text) -> text; KeyError for any other."""

    def __init__(self, script: Mapping[tuple[str, str], str]) -> None:
        self.script = script
        self.stages = tuple(dict.fromkeys(stage for stage, _ in script))

    def generate(
        self, prompts: Sequence[Sequence[Message]], stages: Sequence[str], sampling: Sampling
    ) -> list[list[Completion]]:
        def answer(stage: str, question: str) -> Completion:
            text = self.script[stage, question]
            return Completion(stage=stage, text=text, n_tokens=len(text.split()), finish_reason="stop")

        return [[answer(stage, prompt[-1].content) for stage in stages] for prompt in prompts]


def few(n: int = 12) -> tuple[Example, ...]:
    """Return some held-out questions of every kind."""
    held_out = pathway_heldout()
    return held_out[:: max(1, len(held_out) // n)][:n]


def scripted(examples: Sequence[Example]) -> ScriptedModel:
    """Return a model whose base always says "down", not how sure, and whose sft gives every third gold answer."""
    script = {}
    for place, example in enumerate(examples):
        script["base", example.prompt] = "Answer: down"
        gold = place % 3 == 0
        script["sft", example.prompt] = example.answer if gold else "Answer: up\nConfidence: 70%"
    return ScriptedModel(script)


def small_report(n: int = 12, *names: str) -> EvalReport:
    """Return the report of that model on some held-out questions, with the baselines of these names, all if none."""
    examples = few(n)
    rows = run_task(Questions(), scripted(examples), examples, ("base", "sft"), RunSettings())
    baselines = [row for row in baseline_rows(Questions(), examples) if not names or row.stage in names]
    return build_report(examples, (*rows, *baselines), **ORIGIN)


def judged(
    stage: str,
    outcomes: Sequence[tuple[str, float | None]],
    clusters: Sequence[str] | None = None,
    read_by: str | None = "answer",
) -> tuple[EvalRow, ...]:
    """Return one row per (verdict, stated confidence), each in its own cluster if none are named."""
    names = clusters or [f"cluster {place}" for place in range(len(outcomes))]
    examples = [each for each in pathway_heldout() if each.kind == "direct"]
    return tuple(
        EvalRow(
            example=example.model_copy(update={"cluster": name}),
            stage=stage,
            prompt=(),
            completion="",
            finish_reason="stop",
            verdict=Verdict.model_validate(
                {
                    "verdict": verdict,
                    "reason": "",
                    "confidence": StatedConfidence(value=stated, status="missing" if stated is None else "stated"),
                    "scores": {"V1": float(verdict == "correct")},
                    "reward": (verdict == "correct") * 0.6 + (stated or 0.0) * 0.4,
                    "read_by": read_by,
                }
            ),
        )
        for example, (verdict, stated), name in zip(examples, outcomes, names, strict=False)
    )


def report_of(*rows: EvalRow, chain: str = "made up") -> EvalReport:
    """Return the report of rows that were made by hand."""
    examples = list({row.example.id: row.example for row in rows}.values())
    return build_report(examples, rows, **ORIGIN | {"chain_name": chain})
