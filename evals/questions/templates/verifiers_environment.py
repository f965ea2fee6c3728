"""A question set as an environment of verifiers, graded as Assay does. See README.md."""

from typing import Literal

import verifiers.v1 as vf
from question_set.grade import ABOUT, grade, measures, rows
from verifiers.v1.harnesses.null import NullHarness

__all__ = ["Chat", "QuestionTaskset"]


class Data(vf.TaskData):
    """A question; `row` is its line in the file of its split."""

    row: dict


class ReadConfig(vf.TaskConfig):
    """Where the answer stands: answer (the answer line alone), auto (else the text) or text."""

    read: Literal["answer", "auto", "text"] = "answer"


class Question(vf.Task[Data, vf.State, ReadConfig]):
    """A question, and what an answer to it is worth."""

    @vf.reward(weight=1.0)
    async def reward(self, trace: vf.Trace) -> float:
        return grade(self.data.row, trace.last_reply, self.config.read).reward

    @vf.metric
    async def measured(self, trace: vf.Trace) -> dict[str, float]:
        found = measures(self.data.row, grade(self.data.row, trace.last_reply, self.config.read))
        trace.info["measures"] = found
        return {
            name: found[name] for name in ABOUT["everywhere"]
        }  # what applies to every row; see summary.py for the others


class QuestionsConfig(vf.TasksetConfig):
    """Which rows to ask."""

    split: Literal["train", "dev", "test"] = ABOUT["split"]
    task: ReadConfig = ReadConfig()


class QuestionTaskset(vf.Taskset[Question, QuestionsConfig]):
    """The questions of one split."""

    def load(self) -> list[Question]:
        return [
            Question(
                Data(
                    id=row["id"], system_prompt=row["prompt"][0]["content"], prompt=row["prompt"][1]["content"], row=row
                ),
                self.config.task,
            )
            for row in rows(self.config.split)
        ]


class Chat(NullHarness):
    """One chat turn without tools, where no other harness is named."""
