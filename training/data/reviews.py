"""Chat rows of papers to what a trainer takes: a system prompt, a paper, the concerns to be found in it.

Rows are those of `assay data review --corpus`, or conversations of others with the same three turns and one system
prompt in all of them.
"""

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from evals.errors import BadConfig, ChainMismatch
from evals.io import WHOLE, sha256_of_text
from evals.review.prompt import PROMPT_VERSION, prompt_sha256
from training.data.conversations import TURNS, conversation_of, form_of
from training.data.tables import Unusable, read_table, usable
from training.data.tokens import NO_THOUGHT, TEMPLATE_TOLD, DataRow, Rows, sequences_of

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

CLOSED_THOUGHT = re.compile(r"</think\s*>", re.IGNORECASE)
OPEN_THOUGHT = re.compile(r"\s*<think\s*>", re.IGNORECASE)

WITHOUT_REASONING = "replies without their reasoning"
"""In run.json: replies that had reasoning before their answer, which is not learned from."""
OTHERWISE = "write some with `assay data review --corpus a --out DIR`"


@dataclass(frozen=True)
class ReviewedPaper:
    """One row under its name: what is asked, what is to be answered, and about which article."""

    name: str
    question: str
    reply: str
    article: str = ""


def read_reviews(sources: Sequence[str], *, drops: bool = False) -> Rows[ReviewedPaper]:
    """Return the rows of files, each once; BadConfig if their system prompts differ.

    BadRow names a row without the three turns, unless such rows are to be dropped and counted.
    """
    rows: dict[str, ReviewedPaper] = {}
    counts: dict[str, int] = {}
    prompts: dict[str, str] = {}
    left: Counter[str] = Counter()
    thoughts = 0
    for source in sources:
        table = read_table(source, OTHERWISE)
        counts[table.name] = len(table.rows)
        for line, (system, paper, is_shortened) in usable(table, _paper, left, drops=drops).items():
            thoughts += is_shortened
            name = paper.name or f"{table.name}:{line}"
            prompts.setdefault(system, name)
            new = replace(paper, name=name, article=paper.article or name.partition("#")[0])
            if rows.setdefault(name, new) != new:
                raise BadConfig(f"two different rows are called {name!r}, the second in {table.name}; rename one.")
            left["the same row again"] += rows[name] is not new
    if len(prompts) > 1:
        first, second = list(prompts.values())[:2]
        raise BadConfig(
            f"rows {first} and {second} have different system prompts, and an adapter is stored with one;"
            " make all files by the same `assay data review`."
        )
    system_prompt = next(iter(prompts))
    facts: dict[str, str | int] = {
        "prompt_version": PROMPT_VERSION if prompt_sha256() == prompt_sha256(system_prompt) else "not one of Assay's",
        "prompt_sha256": prompt_sha256(system_prompt),
        **({WITHOUT_REASONING: thoughts} if thoughts else {}),
    }

    def row_of(row: ReviewedPaper) -> DataRow:
        system, user = {"role": "system", "content": system_prompt}, {"role": "user", "content": row.question}
        reply = {"role": "assistant", "content": row.reply}
        return {"prompt": [system, user], "completion": [reply], TEMPLATE_TOLD: dict(NO_THOUGHT)}

    def checksum(found: Sequence[ReviewedPaper]) -> str:
        return sha256_of_text("\n".join(json.dumps([row.question, row.reply]) for row in found))

    return Rows(rows, row_of, lambda row: (row.question,), checksum, system_prompt, counts, +left, facts)


def _paper(row: DataRow) -> tuple[str, ReviewedPaper, bool]:
    """Return a row's instructions, its paper, and whether the reply lost its reasoning; Unusable for other turns."""
    form = form_of(row)
    if not {*form} & {*TURNS}:
        raise Unusable(WHOLE, "has no column messages or conversations", ", ".join(row))
    turns = conversation_of(row, form, Counter()).turns
    roles = [turn["role"] for turn in turns]
    if roles != ["system", "user", "assistant"]:
        raise Unusable(form[0], f"its turns are {roles}; they have to be system, user, assistant")
    system, question, written = (turn["content"] for turn in turns)
    reply = without_reasoning(written)
    if not reply:
        raise Unusable("reply", "is reasoning alone, with no answer after it")
    name, article = (str(row.get(key) or "") for key in ("id", "article_id"))
    return system, ReviewedPaper(name, question, reply, article), reply != written


def without_reasoning(reply: str) -> str:
    """Return a reply without the reasoning before it: a reviewer is taught and asked to answer at once.

    without_reasoning("<think>Weak.</think>[]")  ->  "[]"
    """
    if OPEN_THOUGHT.match(reply) is None and reply.lstrip()[:1] in ("[", "{"):
        return reply
    *thought, answer = CLOSED_THOUGHT.split(reply)
    if not thought:
        return "" if OPEN_THOUGHT.match(reply) else reply
    return answer.strip()


def check_chain_prompt(data: Rows[ReviewedPaper], chain_prompt: str | None) -> None:
    """Raise ChainMismatch if a chain is to go on with other instructions than its stages were given."""
    if chain_prompt is not None and chain_prompt != data.system_prompt:
        raise ChainMismatch(
            f"the chain was trained with another system prompt ({prompt_sha256(chain_prompt)[:12]}) than these"
            f" rows have ({prompt_sha256(data.system_prompt)[:12]}), and a chain has one; train the reviewer on"
            " the bare base, or on a chain of reviewers."
        )


def check_replies(data: Rows[ReviewedPaper], tokenizer: "PreTrainedTokenizerBase", base: str) -> None:
    """Raise BadConfig unless exactly the reply is learned from: a template may hide where it begins."""
    for name, row in data.trl_rows().items():
        found = sequences_of(row, tokenizer)["completion"]
        learned = tokenizer.decode(list(found.ids[found.given :]))
        reply = row["completion"][0]["content"].strip()
        if not found.given or reply not in learned or data.system_prompt[:80] in learned:
            raise BadConfig(
                f"in row {name} the chat template of {base} does not let the reply be told from the question:"
                f" what would be learned begins with {learned[:60]!r}. Training on the whole text is refused;"
                " use a base whose template writes the reply after all that is asked, unchanged."
            )
