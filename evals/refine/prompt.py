"""What the policy reads of a record, and how a record is made to fit a prompt budget.

The trainer cuts no prompt, so a record over the budget loses whole passages from the end, never one
that its rubric or its reference needs; what still does not fit is left out and counted.
"""

import re
from collections.abc import Callable

from evals.refine.grammar import EvidenceBlock, blocks
from evals.refine.judge import QUOTED
from evals.schema import Message
from evals.schema.refiner import RefinerRecord

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


def shortened(
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
