"""Conversations and texts in the forms that people publish, to what a trainer takes; docs/training.md shows a row of each.

    messages       several turns of role and content, as TRL and the makers of chat models write them
    conversations  ShareGPT's turns of from and value
    prompt, completion     two texts, or two lists of turns
    instruction, output    Alpaca's columns, with input and system where they are there
    text           `### Instruction:` … `### Response:` becomes question and answer; any other is learned whole

The first row of a file tells its form. A row that cannot be used is named by line and field.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from evals.errors import BadConfig, BadRow
from evals.io import HOLDS_TURNS, WHOLE, sha256_of_text
from evals.questions import is_held_out, system_prompt_for
from training.data.tables import SourceRows, Unusable, first_row, is_table, public_name, read_table, refuse_rows, usable
from training.data.tokens import (
    TEMPLATE_ERRORS,
    DataRow,
    Rows,
    Tokenizer,
    mark_in,
    shared_length,
    tokens_of_turns,
    turns_written,
)

TURNS = ("messages", "conversations", "conversation")
"""Columns that hold turns, the first of them that a row has."""
ASKED = ("prompt", "instruction", "question", "query", "input")
ANSWERED = ("completion", "output", "response", "answer")
"""Columns of a question and of its answer, the first of each that a row has."""
SYSTEM = ("system", "system_prompt")
CONTEXT = ("input", "context")
"""What stands below an instruction."""
REASONING = ("reasoning_content", "reasoning", "thinking")
"""Fields of an assistant's turn that templates know; each is handed on under its own name."""
ROLES = {
    **dict.fromkeys(("system", "developer"), "system"),
    **dict.fromkeys(("user", "human"), "user"),
    **dict.fromkeys(("assistant", "gpt", "model", "bot", "chatgpt"), "assistant"),
}
TOOLS = ("tool", "tools", "tool_calls", "function", "function_call", "observation", "ipython")
"""Roles and fields of conversations with tools."""
PICTURES = ("image", "images", "audio", "audios", "video", "videos")
OPTIONS = ("options", "choices", "A", "B", "C", "D", "opa", "incorrect_answers", "distractor1")
"""Columns of multiple choice, whose answers are an index or a letter."""
NOT_LEARNED = {"weight": 0}
OF_PAIRS = {"chosen", "rejected"}
PAIRS = "pairs of a better and a worse answer are for `assay train dpo`"
OF_QUESTION_SETS = frozenset({"truth", "ground_truth", "kind", "group"})

HEADING = re.compile(r"^###[ \t]*(Instruction|Input|Response)[ \t]*:[ \t]*\r?\n?", re.MULTILINE | re.IGNORECASE)
HEADINGS = re.compile(r"instruction( input)? response( instruction( input)? response)*")
END_MARK = re.compile(r"\s*(?:</s>|<\|(?:endoftext|end_of_text|eot_id|im_end)\|>|<eos>)\s*\Z")
"""How a text may end that was written for one base: the base in use has its own end."""
THOUGHT = re.compile(r"</?think\s*>", re.IGNORECASE)

ACCEPTED = (
    "messages or conversations (turns), prompt and completion, instruction and output, question and answer, or text;"
    " prompt with truth is a question set"
)


@dataclass(frozen=True)
class ChatRow:
    """One row: turns, of which those at `learned` are learned; or a text without a template."""

    turns: tuple[Mapping[str, str], ...] = ()
    learned: tuple[int, ...] = ()
    text: str = ""
    place: tuple[str, int] = ("", 0)
    """The source and line that the row comes from."""

    def row(self) -> DataRow:
        """Return the row as `sequences_of` takes it."""
        if self.turns:
            return {"messages": [dict(turn) for turn in self.turns], "learned": self.learned}
        return {"text": self.text}

    @property
    def system(self) -> str:
        """The system message, "" without one."""
        return self.turns[0]["content"] if self.turns and self.turns[0]["role"] == "system" else ""

    @property
    def asked(self) -> list[str]:
        """What the row asks: the user's turns, or the lines of a text."""
        if self.turns:
            return [turn["content"] for turn in self.turns if turn["role"] == "user"]
        return questions_in(self.text)


def questions_in(text: str) -> list[str]:
    """Return what a plain text may ask: itself, each of its lines, and those after a name and a colon."""
    lines = text.splitlines()
    return [text, *lines, *(line.partition(": ")[2] for line in lines)]


@dataclass(frozen=True)
class Conversations(Rows[ChatRow]):
    """Conversations to learn from. `drops` says whether a row that a chat template refuses is left out."""

    drops: bool = False

    def record(self) -> dict[str, str | int]:
        """Return what run.json keeps about the data."""
        return {**super().record(), "answers learned": sum(len(item.learned) or 1 for item in self.items)}

    def as_sequences(self, tokenizer: Tokenizer) -> "Conversations":
        """Return the rows as sequences of this base: a conversation that one cannot hold becomes a row for each answer.

        Templates such as Qwen3's write an earlier answer in another way than the last one. BadRow for rows that the
        template refuses, or in which it hides what is to be learned.
        """
        named: dict[str, ChatRow] = {}
        left: Counter[str] = Counter()
        bad: list[BadRow] = []
        parted = silent = 0
        for name, item in self.named.items():
            if not item.turns:
                named[name] = item
                continue
            try:
                written = _turn_texts(item, tokenizer)
                silent += _silent(item, written)
            except Unusable as error:
                bad.append(error.as_bad_row(*item.place))
                left[error.reason] += 1
                continue
            if len(item.learned) == 1 or len(tokens_of_turns(written, tokenizer)) == 1:
                named[name] = item
                continue
            parted += 1
            for at in item.learned:
                named[f"{name}, turn {at + 1}"] = replace(item, turns=item.turns[: at + 1], learned=(at,))
        refuse_rows(bad, drops=self.drops and bool(named))
        facts: dict[str, str | int] = {**self.facts}
        if parted:
            facts["conversations with a row for each answer (the template changes earlier turns)"] = parted
        if silent:
            facts["answers whose reasoning the chat template leaves out"] = silent
        left_out = {**self.left_out, **left}
        return replace(
            self, named=named, facts=facts, left_out=left_out, held=self.held and self.held.as_sequences(tokenizer)
        )


def _turn_texts(item: ChatRow, tokenizer: Tokenizer) -> dict[int, tuple[str, str]]:
    """Return the texts up to each learned turn; Unusable where the chat template refuses or hides one."""
    try:
        found = turns_written(item.row(), tokenizer)
    except TEMPLATE_ERRORS as error:
        raise Unusable(
            "turns", f"are refused by the base's chat template ({str(error).partition(chr(10))[0]})"
        ) from None
    if mark := mark_in(item.turns, tokenizer):
        raise Unusable("turns", "hold a control mark of the base, which would end a turn or start one", mark)
    for at, (asked, whole) in found.items():
        answer = THOUGHT.split(item.turns[at]["content"])[-1].strip()
        start = whole.rfind(answer)
        if start < 0 or start + len(answer) <= shared_length(asked, whole):
            raise Unusable(f"turns.{at}.content", "is changed by the base's chat template", answer)
    return found


def _silent(item: ChatRow, written: Mapping[int, tuple[str, str]]) -> int:
    """Return how many answers have reasoning that the chat template does not write."""
    lost = 0
    for at, (_, whole) in written.items():
        turn = item.turns[at]
        thoughts = [*THOUGHT.split(turn["content"])[:-1], *(turn[name] for name in REASONING if name in turn)]
        lost += not all(thought.strip() in whole for thought in thoughts)
    return lost


def are_conversations(source: str) -> bool:
    """Return whether a source holds rows of the forms above, and neither a question set nor the refiner's records."""
    if not is_table(source):
        return False
    row = first_row(source)
    if "tool_output" in row or OF_QUESTION_SETS & row.keys():
        return False
    return bool(row) or Path(source).suffix.partition("[")[0] in (".json", ".parquet")


def read_conversations(
    sources: Sequence[str],
    *,
    system_prompt: str | None = None,
    train_on: str = "all",
    drops: bool = False,
    questions: Callable[[str], Mapping[str, tuple[Mapping[str, str], ...]]] | None = None,
) -> Conversations:
    """Return the rows of all sources, rows that repeat included; what is left out is counted.

    `system_prompt` is that of the chain: rows without a system message are given it, others keep theirs. Without one
    (None) rows stay as they are, and the chain is told the system message that all of them have, or none. `train_on`
    says which answers of a conversation are learned, `all` or the `last`. `questions` reads a source that is a question set, as turns by name.
    BadRow names a row that cannot be used, unless `drops`; BadConfig for rows that are kept for testing.
    """
    found: dict[str, ChatRow] = {}
    counts: dict[str, int] = {}
    left: Counter[str] = Counter()
    facts: dict[str, str | int] = {}
    notes: Counter[str] = Counter()
    for source in sources:
        before = len(found)
        if questions and not are_conversations(source):
            turns = questions(source)
            found |= {name: ChatRow(each, (len(each) - 1,)) for name, each in turns.items()}
            counts[public_name(source)] = len(found) - before
            continue
        table = read_table(source)
        if table.name in counts:
            raise BadConfig(
                f"two sources are called {table.name}; name each once, and rename one of two files of one name."
            )
        form = form_of_table(table, facts)
        items = usable(
            table, lambda row, form=form: conversation_of(row, form, notes, train_on=train_on), left, drops=drops
        )
        counts[table.name] = len(table.rows)
        found |= {f"{table.name}:{line}": replace(item, place=(table.name, line)) for line, item in items.items()}
        held_out = [line for line, item in items.items() if any(is_held_out(text) for text in item.asked)]
        if held_out:
            raise BadConfig(
                f"{table.name} holds {len(held_out)} rows about questions of the standard hold-out (such as line"
                f" {held_out[0]}), by which every chain is measured; training on them would make every later figure"
                " worthless. Take them out."
            )
    if not found:
        raise BadConfig(f"{', '.join(sources)} hold no rows to learn from.")
    prompt = system_prompt
    if prompt is None:
        systems = Counter(item.system for item in found.values())
        prompt = next(iter(systems)) if len(systems) == 1 else ""
        if len(systems) > 1:
            notes["different system messages in the rows; the chain is asked without one"] = len(systems)
    elif prompt:
        found = {name: _with_chain_prompt(item, prompt, notes) for name, item in found.items()}
    notes["rows that repeat another one, used as often as they are there"] = len(found) - len(
        {_line(item) for item in found.values()}
    )
    return Conversations(
        found,
        ChatRow.row,
        lambda item: item.asked,
        lambda items: sha256_of_text("".join(map(_line, items))),
        prompt,
        counts,
        +left,
        {**facts, **+notes},
        drops=drops,
    )


def _line(item: ChatRow) -> str:
    return json.dumps(item.row(), sort_keys=True) + "\n"


def _with_chain_prompt(item: ChatRow, template: str, notes: Counter[str]) -> ChatRow:
    """Return a conversation with the chain's system message before it, where it has none of its own."""
    if not item.turns:
        return item
    told = system_prompt_for(template, next(iter(item.asked), ""))
    if item.system:
        notes["rows with a system message of their own"] += item.system != told
        return item
    notes["rows given the system message of the chain"] += 1
    turns = ({"role": "system", "content": told}, *item.turns)
    return replace(item, turns=turns, learned=tuple(at + 1 for at in item.learned)) if told else item


# ---- forms -------------------------------------------------------------------------------------


Form = tuple[str, ...]
"""How the rows of a file are laid out: the columns that hold what is learned, one or two."""
Turn = dict[str, Any]
"""A turn as chat templates take it; with `weight` 0 where it is not learned."""


def form_of(columns: Iterable[str]) -> Form:
    """Return the form of a row with these columns, () for one that is not known."""
    has = {*columns}
    if turns := next((name for name in TURNS if name in has), None):
        return (turns,)
    asked = next((name for name in ASKED if name in has), None)
    answered = next((name for name in ANSWERED if name in has), None)
    if asked == "prompt" and "instruction" in has and "completion" not in has:
        asked = "instruction"  # Alpaca rows that were written out as a prompt as well
    if asked and answered and not has & {*OPTIONS}:
        return (asked, answered)
    return ("text",) if "text" in has else ()


def form_of_table(table: SourceRows, facts: dict[str, str | int]) -> Form:
    """Return the form of a table by its first row; BadConfig for an unknown one. `facts` are for run.json."""
    if not table.rows:
        return ()
    columns = [*table.rows[0][1]]
    form = form_of(columns)
    if not form:
        where = f"{table.name} has the columns {', '.join(columns)}, which are no rows to learn answers from"
        if {*columns} >= OF_PAIRS:
            raise BadConfig(f"{where}; {PAIRS}.")
        if {*OPTIONS} & {*columns}:
            raise BadConfig(f"{where}; `assay data import` turns multiple choice into a question set.")
        if "input_ids" in columns:
            raise BadConfig(f"{where}; tokens belong to one base. Give the texts that they were made of.")
        raise BadConfig(f"{where}. Call the columns {ACCEPTED}.")
    facts[f"form of {table.name}"] = ", ".join(form)
    read = {*form, *SYSTEM, *TOOLS, *PICTURES, "split", *(CONTEXT if form[0] == "instruction" else ())}
    if unread := [name for name in columns if name not in read]:
        facts[f"columns of {table.name} that are not read"] = ", ".join(unread)
    return form


def conversation_of(row: DataRow, form: Form, notes: Counter[str], *, train_on: str = "all") -> ChatRow:
    """Return a row as a conversation; Unusable, with the field, if nothing can be learned from it.

    What stands after the last answer that is learned is left out.
    """
    if form_of(row) != form:
        raise Unusable(WHOLE, f"has not the columns {', '.join(form)}, as the rows before it", ", ".join(row))
    if row.get("label") is False:  # KTO
        raise Unusable(
            "label",
            "marks an answer that is not wanted (KTO), which no stage trains; with bad_rows drop the wanted ones are learned",
            False,
        )
    for column in (*TOOLS, *PICTURES):
        if row.get(column):
            what = "tools, and calls of tools are not trained" if column in TOOLS else "pictures, sound or films"
            raise Unusable(column, f"holds {what}; only text is", row[column])
    if form == ("text",):
        text = _text("text", row["text"])
        turns = turns_under_headings(text)
        if not turns:
            notes["texts without a question, learned whole and without a chat template"] += 1
            return ChatRow(text=text)
        notes["texts with ### Instruction:, read as question and answer"] += 1
    elif form[0] in TURNS:
        turns = _turns(form[0], row[form[0]])
    else:
        turns = question_turns(row, form)
    turns = with_system(row, turns)
    weights = [turn.pop("weight", 1) for turn in turns]
    answers = [at for at, turn in enumerate(turns) if turn["role"] == "assistant" and weights[at]]
    where = form[-1]
    if not answers:
        pairs = f"; {PAIRS}" if row.keys() >= OF_PAIRS else ""
        raise Unusable(where, f"has no turn of an assistant to learn{pairs}")
    if not any(turn["role"] == "user" for turn in turns[: answers[0]]):
        raise Unusable(where, "begins with an answer; a question has to stand before it")
    learned = answers[-1:] if train_on == "last" else answers
    notes["turns after the last answer, not read"] += len(turns) - 1 - learned[-1]
    return ChatRow(tuple(turns[: learned[-1] + 1]), tuple(learned))


def _turns(name: str, value: object) -> list[Turn]:
    """Return the turns of a column; a system turn without words is none."""
    value = _decode_turns(value)
    if isinstance(value, str):
        raise Unusable(name, "is a text; write a list of turns, in a table as JSON", value)
    if not isinstance(value, list) or not value:
        raise Unusable(name, "holds no turns", value)
    turns = [_turn(f"{name}.{at}", turn) for at, turn in enumerate(value)]
    return [turn for turn in turns if turn["content"].strip() or turn["role"] != "system"]


def _turn(where: str, value: object) -> Turn:
    value = _decode_turns(value)
    if not isinstance(value, Mapping):
        raise Unusable(where, 'is no turn such as {"role": "user", "content": "…"}', value)
    turn = {key: each for key, each in value.items() if each is not None}
    role_key = "role" if "role" in turn else "from"
    said = str(turn.get(role_key, "")).strip().lower()
    for key in TOOLS:
        if turn.get(key) or said == key:
            problem = "is a call of a tool or its result, which is not trained"
            raise Unusable(f"{where}.{key if turn.get(key) else role_key}", problem, turn.get(key) or said)
    role = ROLES.get(said)
    if role is None:
        raise Unusable(f"{where}.{role_key}", f"is no role; use one of {', '.join(ROLES)}", turn.get(role_key))
    content_key = "value" if "value" in turn and "content" not in turn else "content"
    content = turn.get(content_key)
    content = _text(f"{where}.{content_key}", content, may_be_empty=role == "system")
    weight = turn.get("weight", turn.get("loss_weight", 1))
    if weight not in (0, 1):
        raise Unusable(f"{where}.weight", "is a weight other than 0 (not learned) and 1", weight)
    thoughts = {key: _text(f"{where}.{key}", turn[key]) for key in REASONING if role == "assistant" and turn.get(key)}
    return {"role": role, "content": content, **thoughts, **({} if weight else NOT_LEARNED)}


def _decode_turns(value: object) -> Any:
    """Return what stands as JSON, in tables and where keys differ: an object or a list of them with keys of turns.

    Any other text, such as an answer in JSON, stays one.
    """
    if not isinstance(value, str) or not value.lstrip().startswith(("[{", "{")):
        return value
    try:
        found = json.loads(value)
    except ValueError:
        return value
    objects = found if isinstance(found, list) else [found]
    is_meant = all(isinstance(each, Mapping) and not each.keys().isdisjoint(HOLDS_TURNS) for each in objects)
    return found if is_meant else value


def _text(where: str, value: object, *, may_be_empty: bool = False) -> str:
    """Return a text, or the texts of a list of parts in one; Unusable for anything else."""
    if isinstance(value, list):
        texts = []
        for part in value:
            is_part = isinstance(part, Mapping) and part.get("type", "text") == "text"
            text = part.get("text", part.get("value")) if is_part else None
            if not isinstance(text, str):
                raise Unusable(where, "holds a part that is no text", part)
            texts.append(text)
        value = "".join(texts)
    if value is None or (isinstance(value, str) and not value.strip()):
        if may_be_empty:
            return ""
        raise Unusable(where, "is empty")
    if not isinstance(value, str):
        raise Unusable(where, "is no text", value)
    try:
        value.encode()
    except UnicodeEncodeError:
        raise Unusable(where, "holds half of a surrogate pair, which is no character", value) from None
    return value


def question_turns(row: DataRow, form: Form) -> list[Turn]:
    """Return a question and its answer, with what stands beside them."""
    asked, answered = form
    question, answer = (turns_in(name, row[name]) for name in form)
    if isinstance(question, list) and isinstance(answer, list):
        return [*({**turn, **NOT_LEARNED} for turn in question), *answer]
    if isinstance(question, list) != isinstance(answer, list) and None not in (question, answer):
        raise Unusable(answered, f"and {asked} are not of one kind: both are texts, or both lists of turns")
    question, answer = _text(asked, question), _text(answered, answer)
    if is_headed(question):
        return turns_under_headings(f"{question.rstrip()}\n{answer}")
    question = question.strip()
    if asked == "instruction":
        context = next((name for name in CONTEXT if row.get(name)), "")
        below = _text(context, row.get(context), may_be_empty=True).strip()
        question = f"{question}\n\n{below}" if below else question
    return [{"role": "user", "content": question}, {"role": "assistant", "content": answer.strip()}]


def turns_in(name: str, value: object) -> Any:
    """Return a column's turns as a list, be they JSON or a single one without a list; its text where it holds none."""
    value = _decode_turns(value)
    value = [value] if isinstance(value, Mapping) else value
    return _turns(name, value) if isinstance(value, list) and value else value


def with_system(row: DataRow, turns: list[Turn]) -> list[Turn]:
    """Return the turns after the system message that a column of its own holds; Unusable if they have another."""
    name = next((name for name in SYSTEM if row.get(name)), "")
    system = _text(name, row.get(name), may_be_empty=True)
    if not system.strip():
        return turns
    if turns[0]["role"] != "system":
        return [{"role": "system", "content": system}, *turns]
    if turns[0]["content"].strip() != system.strip():
        raise Unusable(name, "is another system message than that of the turns", system)
    return turns


def is_headed(prompt: str) -> bool:
    """Return whether a prompt is an instruction under its heading, up to `### Response:`."""
    return HEADING.search(prompt) is not None and prompt.rstrip().lower().endswith("response:")


def turns_under_headings(text: str) -> list[Turn]:
    """Return the questions and answers of a text with headings as turns; none if it has no such headings.

    What stands before the first heading is the system message. `### Input:` stays below its instruction, as it is.
    """
    before, *parts = HEADING.split(text)
    names, bodies = [name.lower() for name in parts[::2]], [body.strip() for body in parts[1::2]]
    if names[:1] != ["instruction"]:
        return []
    if not HEADINGS.fullmatch(" ".join(names)):
        raise Unusable("text", "has ### Instruction: without ### Response: below it, so there is no answer to learn")
    turns = [{"role": "system", "content": before.strip()}] if before.strip() else []
    for name, body in zip(names, bodies, strict=True):
        if name == "input":
            turns[-1]["content"] += f"\n\n### Input:\n{body}" if body else ""
        else:
            content = END_MARK.sub("", body) if name == "response" else body
            turns.append({"role": "user" if name == "instruction" else "assistant", "content": _text("text", content)})
    return turns
