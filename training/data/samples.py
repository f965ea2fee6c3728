"""Sampled answers to our own questions, as `evals.questions.pairs` takes them: from a GRPO run, or drawn anew."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import pyarrow
import pyarrow.parquet

from evals.errors import BadConfig, LabError
from evals.model import Model, Sampling
from evals.questions import conversation, find
from evals.questions.pairs import Sample, SampleOrigin
from evals.schema import Example, Message
from training.run.folder import RunFolder


class RunSamples(NamedTuple):
    """The answers that a run has sampled, and how many were to questions that nobody knows."""

    samples: tuple[Sample, ...]
    unknown_questions: int


def run_samples(run: RunFolder) -> RunSamples:
    """Return the answers in a run's completions/, oldest first.

    LabError if it is no run that samples answers, or a file cannot be read. Which answers were cut at
    the length limit is not in these files; an answer without an end says so by its verdict alone.
    """
    record = run.record()
    files = sorted(run.completions.glob("*.parquet"))
    if record is None or not files:
        raise LabError(
            f"{run.path} holds no sampled answers; name the run folder of a GRPO stage, with run.json and"
            " completions/, or sample answers with --chain."
        )
    found: list[Sample] = []
    unknown = 0
    for file in files:
        try:
            rows = pyarrow.parquet.read_table(file, columns=["step", "prompt", "completion"]).to_pylist()
        except (OSError, pyarrow.ArrowInvalid) as error:
            raise LabError(
                f"{file} is no table of completions ({str(error).splitlines()[0]}); delete it, or name another run."
            ) from None
        for row in rows:
            prompt = tuple(Message.model_validate(turn) for turn in row["prompt"])
            example = find(prompt[-1].content)
            if example is None:
                unknown += 1
                continue
            origin = SampleOrigin(source=record.name, stage=record.stage, step=int(row["step"]))
            found.append(Sample(example, prompt, row["completion"][-1]["content"], origin))
    return RunSamples(tuple(found), unknown)


class Draws(NamedTuple):
    """How answers are drawn: `count` of each question by one stage; the seed grows by 1 each time."""

    stage: str
    count: int
    sampling: Sampling


def chain_samples(
    model: Model, origin: SampleOrigin, examples: Sequence[Example], system_prompt: str, draws: Draws
) -> list[Sample]:
    """Return answers of one stage, one seed after the other; BadConfig for fewer than two each, or greedy."""
    if draws.count < 2 or draws.sampling.temperature <= 0:
        raise BadConfig(
            f"{draws.count} answers per question at temperature {draws.sampling.temperature:g} give no two"
            " different ones; draw 2 or more, at a temperature above 0."
        )
    prompts = [conversation(example, system_prompt) for example in examples]
    found: list[Sample] = []
    for number in range(draws.count):
        sampling = replace(draws.sampling, seed=draws.sampling.seed + number)
        drawn = origin.model_copy(update={"seed": sampling.seed, "temperature": sampling.temperature})
        answers = model.generate(prompts, (draws.stage,), sampling)
        found += [
            Sample(example, prompt, answer.text, drawn, answer.finish_reason != "stop")
            for example, prompt, (answer,) in zip(examples, prompts, answers, strict=True)
        ]
    return found
