"""The task `refine`: a short answer whose claims cite evidence, graded by citations and a rubric."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import ClassVar

from evals.refine.bank import BASELINES, refiner_bank
from evals.refine.grammar import HARD, WORD, evidence_of, parse
from evals.refine.judge import AskJudge, HeuristicJudge, Inquiry, Verdicts, compare_words, judge_citations
from evals.refine.prompt import SYSTEM_PROMPT, messages
from evals.refine.records import records_sha256
from evals.refine.score import copied, explain, prepare
from evals.schema import Grade, Message
from evals.schema.refiner import RefinerRecord, RewardConfig
from evals.schema.reports import RefinerReport, RefinerRow
from evals.task import Measure, StageAnswer, Task, mean, shown


def by_words(inquiries: Sequence[Inquiry]) -> list[Verdicts]:
    """Return verdicts by word overlap, without a model."""
    return [compare_words(inquiry) for inquiry in inquiries]


_mean = partial(mean, undefined="no answer", lacking="answers without a verdict")


class Refine(Task[RefinerRecord]):
    """Records with evidence. `judge` gives the verdicts on all well-formed answers at once; `label` names it."""

    name = "refine"
    asked = "records"
    metrics: ClassVar[Mapping[str, Measure]] = {
        "reward": shown(_mean(lambda row: row.scored.reward)),
        "rubric": shown(_mean(lambda row: row.scored.rubric)),
        "citation_f1": shown(_mean(lambda row: row.scored.citation_f1)),
        "citation_precision": _mean(lambda row: row.scored.citation_precision),
        "citation_recall": _mean(lambda row: row.scored.citation_recall),
        "alce_precision": _mean(lambda row: row.scored.alce_precision),
        "alce_recall": _mean(lambda row: row.scored.alce_recall),
        "wellformed": shown(_mean(lambda row: float(all(row.scored.format_checks[name] for name in HARD)))),
        "format_bonus": _mean(lambda row: row.scored.format_bonus),
        # no claim where there is no answer, a claim where there is one
        "right_to_abstain": _mean(lambda row: float(bool(row.scored.claims) == row.answerable)),
        "words": _mean(lambda row: float(row.words), better=None),
        "copied": _mean(lambda row: row.copied, better=None),
    }
    policies = tuple(BASELINES)
    report = RefinerReport

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
        verdicts = dict(zip(asked, judge_citations([prepared[at].inquiry() for at in asked], self.judge), strict=True))
        return [explain(each, verdicts.get(at), self.label).grade for at, each in enumerate(prepared)]

    def baselines(self, train: Sequence[RefinerRecord], asked: Sequence[RefinerRecord]) -> dict[str, list[str]]:
        """Return what takes no model: silence, abstaining always, the first passage, the reference."""
        return {name: [policy(record) for record in asked] for name, policy in BASELINES.items()}

    def row(self, example: RefinerRecord, prompt: tuple[Message, ...], answer: StageAnswer, grade: Grade) -> RefinerRow:
        """Return the row of a report."""
        reading = parse(answer.text, self.reward.reasoning_tags)
        texts = [part.text for part in (*reading.claims, *reading.uncited)]
        return RefinerRow.model_validate(
            {
                "stage": answer.stage,
                "cluster": example.group,
                "answerable": example.answerable,
                "finish_reason": answer.finish_reason,
                "copied": copied(texts, evidence_of(example.tool_output)),
                "words": sum(len(WORD.findall(text)) for text in texts),
                "scored": grade.detail,
            }
        )

    @staticmethod
    def sha256(examples: Sequence[RefinerRecord]) -> str:
        """Return a checksum of what the records say, whatever their order."""
        return records_sha256(examples)
