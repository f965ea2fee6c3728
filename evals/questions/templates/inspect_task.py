"""A question set as a task of Inspect, graded as Assay does. See README.md."""

import sys
from math import nan
from pathlib import Path

from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import ChatMessageSystem, ChatMessageUser
from inspect_ai.scorer import Score, Scorer, Target, mean, scorer, stderr
from inspect_ai.solver import TaskState, generate

sys.path.insert(0, str(Path(__file__).resolve().parent))

from question_set.grade import METRICS, grade, measures, rows


@task
def question_set(split: str = "test", read: str = "auto") -> Task:
    """`split` is train, dev or test; `read` is auto, answer (the answer line alone) or text."""
    samples = [
        Sample(
            id=row["id"],
            input=[
                ChatMessageSystem(content=row["prompt"][0]["content"]),
                ChatMessageUser(content=row["prompt"][1]["content"]),
            ],
            target=row["answer"],
            metadata=row,
        )
        for row in rows(split)
    ]
    return Task(dataset=MemoryDataset(samples, name="question_set"), solver=generate(), scorer=verdict(read))


@scorer(metrics={name: [mean(), stderr(cluster="cluster")] for name in METRICS})
def verdict(read: str = "auto") -> Scorer:
    """Every metric of an answer; nan, which Inspect leaves out, where one does not apply."""

    async def score(state: TaskState, target: Target) -> Score:
        found = grade(state.metadata, state.output.completion, read)
        values = measures(state.metadata, found)
        return Score(
            value={name: values.get(name, nan) for name in METRICS},
            answer=found.answer,
            explanation=f"{found.verdict}: {found.reason}",
        )

    return score
