"""The task `refine`: a short answer whose claims cite evidence, graded by citations and a rubric."""

from collections.abc import Callable, Mapping, Sequence

from evals.refine.bank import BASELINES, refiner_bank
from evals.refine.grammar import HARD
from evals.refine.judge import HeuristicJudge, Inquiry, Verdicts, compare_words
from evals.refine.prompt import SYSTEM_PROMPT, messages
from evals.refine.score import explain, prepare
from evals.schema import Grade, Message
from evals.schema.refiner import RefinerRecord, RewardConfig, ScoredAnswer
from evals.task import Measure, Task, mean

AskJudge = Callable[[Sequence[Inquiry]], Sequence[Verdicts]]
"""A judge as grading needs it: inquiries in, their verdicts out."""


def by_words(inquiries: Sequence[Inquiry]) -> list[Verdicts]:
    """Return verdicts by word overlap, without a model."""
    return [compare_words(inquiry) for inquiry in inquiries]


def grade_of(scored: ScoredAnswer) -> Grade:
    """Return a scored answer as every task's grader gives it; its reward is the quality in 0..1."""
    return Grade(
        reward=scored.quality,
        parts={
            "rubric": scored.rubric,
            "citation_f1": scored.citation_f1,
            "citation_precision": scored.citation_precision,
            "citation_recall": scored.citation_recall,
            "wellformed": float(all(scored.format_checks[name] for name in HARD)),
            "format_bonus": scored.format_bonus,
        },
        read_by="judge" if scored.is_judged else None,
        reason=scored.reason,
        detail=scored,
    )


class Refine(Task[RefinerRecord]):
    """Records with evidence. `judge` gives the verdicts on all well-formed answers at once; `label` names it."""

    name = "refine"
    metrics: Mapping[str, Measure] = {
        "reward": mean(lambda row: row.scored.reward),
        "rubric": mean(lambda row: row.scored.rubric),
        "citation_f1": mean(lambda row: row.scored.citation_f1),
        "citation_precision": mean(lambda row: row.scored.citation_precision),
        "citation_recall": mean(lambda row: row.scored.citation_recall),
        "wellformed": mean(lambda row: float(all(row.scored.format_checks[name] for name in HARD))),
        "format_bonus": mean(lambda row: row.scored.format_bonus),
        # no claim where there is no answer, a claim where there is one
        "right_to_abstain": mean(lambda row: float(bool(row.scored.claims) == row.answerable)),
        "words": mean(lambda row: row.words, better=None),
        "copied": mean(lambda row: row.copied, better=None),
    }

    def __init__(
        self,
        records: Mapping[str, Sequence[RefinerRecord]] | None = None,
        judge: AskJudge = by_words,
        label: str = HeuristicJudge.label,
        reward: RewardConfig | None = None,
        system_prompt: str = SYSTEM_PROMPT,
    ) -> None:
        self.records, self.judge, self.label = records, judge, label
        self.reward, self.system_prompt = reward or RewardConfig(), system_prompt

    def examples(self, split: str) -> Sequence[RefinerRecord]:
        """Return the records of a split: "train" or "test" of ours where none were given."""
        records = {"train": refiner_bank().train, "test": refiner_bank().test} if self.records is None else self.records
        return records.get(split, ())

    def prompt(self, example: RefinerRecord) -> tuple[Message, ...]:
        """Return a record as the policy reads it."""
        return messages(example, self.system_prompt)

    def grade(self, examples: Sequence[RefinerRecord], completions: Sequence[str]) -> list[Grade]:
        """Return one grade each, with the `ScoredAnswer` as its detail; whatever is well formed is judged."""
        prepared = [prepare(row, text, self.reward) for row, text in zip(examples, completions, strict=True)]
        asked = [place for place, each in enumerate(prepared) if each.is_judgeable]
        verdicts = dict(zip(asked, self.judge([prepared[at].inquiry() for at in asked]), strict=True))
        return [grade_of(explain(each, verdicts.get(at), self.label)) for at, each in enumerate(prepared)]

    def baselines(self, train: Sequence[RefinerRecord], asked: Sequence[RefinerRecord]) -> dict[str, list[str]]:
        """Return what takes no model: silence, abstaining always, the first passage, the reference."""
        return {name: [policy(record) for record in asked] for name, policy in BASELINES.items()}
