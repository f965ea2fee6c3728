"""Chat rows from files to what a trainer takes: a system prompt, a paper, the concerns to be found in it.

Rows are those of `assay data review --corpus`, ShareGPT's `conversations` (from, value) or `messages`
(role, content), one system prompt in all of them.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ConfigDict, Field, model_validator

from evals.errors import BadConfig, BadRow, ChainMismatch
from evals.io import read_rows, sha256_of_text
from evals.review.prompt import PROMPT_VERSION, prompt_sha256
from evals.schema import Message, Record
from training.data.tokens import NO_THOUGHT, TEMPLATE_TOLD, Row, Rows, sequences_of
from training.review import ReviewSettings

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

ROLES = {"system": "system", "human": "user", "user": "user", "gpt": "assistant", "assistant": "assistant"}
"""Who speaks, in ShareGPT's words and in those of chat templates."""

CLOSED_THOUGHT = re.compile(r"</think\s*>", re.IGNORECASE)
OPEN_THOUGHT = re.compile(r"\s*<think\s*>", re.IGNORECASE)

WITHOUT_REASONING = "replies without their reasoning"
"""In run.json: replies that had reasoning before their answer, which is not learned from."""
OTHERWISE = "write some with `assay data review --corpus a --out DIR`"


class SaidBy(Record):
    """One turn in ShareGPT's words."""

    model_config = ConfigDict(frozen=True, extra="ignore", populate_by_name=True)

    who: str = Field(alias="from")
    value: str


class ChatRow(Record):
    """A row of a file; what else it says is kept by the file alone."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    id: str = ""
    article_id: str = ""
    conversations: tuple[SaidBy, ...] = ()
    messages: tuple[Message, ...] = ()

    @model_validator(mode="after")
    def _has_three_turns(self) -> "ChatRow":
        roles = [message.role for message in self.turns()]
        if roles != ["system", "user", "assistant"]:
            raise ValueError(f"its turns are {roles}; they have to be system, user, assistant")
        if not all(message.content.strip() for message in self.turns()):
            raise ValueError("one of its turns is empty")
        return self

    def turns(self) -> tuple[Message, ...]:
        """Return the turns in the words of chat templates."""
        if self.messages:
            return self.messages
        return tuple(
            Message.model_validate({"role": ROLES.get(turn.who, turn.who), "content": turn.value})
            for turn in self.conversations
        )


@dataclass(frozen=True)
class ReviewedPaper:
    """One row under its name: what is asked, what is to be answered, and about which article."""

    name: str
    question: str
    reply: str
    article: str = ""


def review_rows(settings: ReviewSettings, chain_prompt: str | None) -> Rows[ReviewedPaper]:
    """Return papers with what people objected to."""
    data = read_conversations(settings.data)
    check_chain_prompt(data, chain_prompt)
    return data


def read_conversations(sources: Sequence[str]) -> Rows[ReviewedPaper]:
    """Return the rows of JSONL files, each once; BadConfig if their system prompts differ."""
    rows: dict[str, ReviewedPaper] = {}
    counts: dict[str, int] = {}
    prompts: dict[str, str] = {}
    repeated = thought = 0
    for source in sources:
        path = Path(source.strip())
        found = read_rows(path, ChatRow, otherwise=OTHERWISE)
        counts[path.name] = len(found)
        for number, row in enumerate(found, start=1):
            name = row.id or f"{path.name}:{number}"
            system, question, written = (message.content for message in row.turns())
            reply = without_reasoning(written)
            thought += reply != written
            if not reply:
                raise BadRow(path, number, "reply", "is reasoning alone, with no answer after it")
            prompts.setdefault(system, name)
            article = row.article_id or name.partition("#")[0]
            new = ReviewedPaper(name, question, reply, article)
            if rows.setdefault(name, new) != new:
                raise BadConfig(f"two different rows are called {name!r}, the second in {path}; rename one.")
            repeated += rows[name] is not new
    if len(prompts) > 1:
        first, second = list(prompts.values())[:2]
        raise BadConfig(
            f"rows {first} and {second} have different system prompts, and an adapter is stored with one;"
            " make all files by the same `assay data review`."
        )
    left_out = {"the same row again": repeated} if repeated else {}
    system_prompt = next(iter(prompts))
    facts: dict[str, str | int] = {
        "prompt_version": PROMPT_VERSION if prompt_sha256() == prompt_sha256(system_prompt) else "not one of Assay's",
        "prompt_sha256": prompt_sha256(system_prompt),
        **({WITHOUT_REASONING: thought} if thought else {}),
    }

    def row_of(row: ReviewedPaper) -> Row:
        system, user = {"role": "system", "content": system_prompt}, {"role": "user", "content": row.question}
        reply = {"role": "assistant", "content": row.reply}
        return {"prompt": [system, user], "completion": [reply], TEMPLATE_TOLD: dict(NO_THOUGHT)}

    def checksum(found: Sequence[ReviewedPaper]) -> str:
        return sha256_of_text("\n".join(json.dumps([row.question, row.reply]) for row in found))

    return Rows(rows, row_of, lambda row: (row.question,), checksum, system_prompt, counts, left_out, facts)


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
