"""The task `refine`: a short answer whose claims cite evidence, graded by citations and a rubric."""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import ClassVar

from evals.refine.bank import BASELINES
from evals.refine.cases import records_sha256
from evals.refine.grammar import HARD, WORD, EvidenceBlock, blocks, evidence_of, parse_answer
from evals.refine.judge import QUOTED, AskJudge, HeuristicJudge, Inquiry, Verdicts, compare_words, judge_citations
from evals.refine.score import copied_share, explain, prepare
from evals.schema import Grade, Message
from evals.schema.refiner import RefinerRecord, RewardConfig
from evals.schema.reports import RefinerReport, RefinerRow
from evals.task import MetricRule, StageAnswer, Task, mean

SYSTEM_PROMPT = (
    "Answer the question from the passages alone, in one to three sentences. Put each claim between"
    " <snippet id=ID> and </snippet>, with the ids of the passages that say it, and the whole between"
    " <answer> and </answer>. If the passages do not hold the answer, say so."
)


def messages(record: RefinerRecord, system_prompt: str = SYSTEM_PROMPT) -> tuple[Message, ...]:
    """Return a record as the policy reads it: instruction, earlier turns if any, three fenced parts."""
    turns = () if isinstance(record.prompt, str) else record.prompt[:-1]
    earlier = tuple(turn for turn in turns if turn.role != "system")
    parts = (
        f"<question>\n{record.asked}\n</question>",
        f"<reasoning>\n{record.agent_reasoning}\n</reasoning>",
        f"<tool_output>\n{record.tool_output}\n</tool_output>",
    )
    return (Message(role="system", content=system_prompt), *earlier, Message(role="user", content="\n".join(parts)))


def shorten(
    record: RefinerRecord, budget: int, tokens_of: Callable[[RefinerRecord], int]
) -> tuple[RefinerRecord, tuple[str, ...]]:
    """Return a record without passages that its prompt of at most `budget` tokens has no room for, and their ids.

    One that is over the budget even without them comes back as it was.
    """
    shorter, taken, spare = record, [], _spare(record)
    while spare and tokens_of(shorter) > budget:
        name = spare.pop().id
        text = shorter.tool_output  # without the last passage of this id
        last = [each for each in blocks(text) if each.id == name][-1]
        kept = f"{text[: last.start].rstrip()}{text[last.end :]}".strip()
        sources = {each: of for each, of in shorter.sources.items() if each != name}
        shorter = shorter.model_copy(update={"tool_output": kept, "sources": sources})
        taken.append(name)
    return (shorter, tuple(taken)) if tokens_of(shorter) <= budget else (record, ())


def _spare(record: RefinerRecord) -> list[EvidenceBlock]:
    """Return the passages that can go, in order: nothing that is graded rests on them.

    Needed are those that the reference or an item names, and those with a phrase that a wanted behaviour
    is told by, where no passage that is needed already has it.
    """
    found = list(blocks(record.tool_output))
    items = (*record.positive_rubrics, *record.negative_rubrics)
    told = " ".join((record.reference or "", *(item.description for item in items)))
    named = set(re.findall(r"[A-Za-z0-9_.:-]+", told))
    kept = " ".join(block.text for block in found if block.id in named).casefold()
    phrases = {
        way.casefold()
        for item in record.positive_rubrics
        for each in QUOTED.findall(item.description)
        for way in each.split("|")
        if way.casefold() not in kept
    }
    others = (block for block in found if block.id not in named)
    spare = [block for block in others if not any(phrase in block.text.casefold() for phrase in phrases)]
    return spare[1:] if record.answerable and len(spare) == len(found) else spare


def by_words(inquiries: Sequence[Inquiry]) -> list[Verdicts]:
    """Return verdicts by word overlap, without a model."""
    return [compare_words(inquiry) for inquiry in inquiries]


_mean = partial(mean, undefined="no answer", lacking="answers without a verdict")


class Refine(Task[RefinerRecord]):
    """Records with evidence. `judge` gives the verdicts on all well-formed answers at once; `label` names it."""

    name = "refine"
    noun = "records"
    metrics: ClassVar[Mapping[str, MetricRule]] = {
        "reward": _mean(lambda row: row.scored.reward, is_shown=True),
        "rubric": _mean(lambda row: row.scored.rubric, is_shown=True),
        "citation_f1": _mean(lambda row: row.scored.citation_f1, is_shown=True),
        "citation_precision": _mean(lambda row: row.scored.citation_precision),
        "citation_recall": _mean(lambda row: row.scored.citation_recall),
        "alce_precision": _mean(lambda row: row.scored.alce_precision),
        "alce_recall": _mean(lambda row: row.scored.alce_recall),
        "wellformed": _mean(lambda row: float(all(row.scored.format_checks[name] for name in HARD)), is_shown=True),
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
        judge: AskJudge = by_words,
        label: str = HeuristicJudge.label,
        reward: RewardConfig | None = None,
        system_prompt: str = SYSTEM_PROMPT,
    ) -> None:
        self.judge, self.label = judge, label
        self.reward, self.system_prompt = reward or RewardConfig(), system_prompt

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
        reading = parse_answer(answer.text, self.reward.reasoning_tags)
        texts = [part.text for part in (*reading.claims, *reading.uncited)]
        return RefinerRow.model_validate(
            {
                "stage": answer.stage,
                "cluster": example.group,
                "answerable": example.answerable,
                "finish_reason": answer.finish_reason,
                "copied": copied_share(texts, evidence_of(example.tool_output)),
                "words": sum(len(WORD.findall(text)) for text in texts),
                "scored": grade.detail,
            }
        )

    @staticmethod
    def sha256(examples: Sequence[RefinerRecord]) -> str:
        """Return a checksum of what the records say, whatever their order."""
        return records_sha256(examples)
