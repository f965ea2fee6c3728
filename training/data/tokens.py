"""Rows and conversations as tokens: chat templates, their marks and quirks, lengths, and what is left out as too long.

Training, answering, serving, evaluation and probes all write their prompts here, so they are the same tokens.
A text that holds a mark of the base's own would be read as the end of a turn or the start of another one; it is
refused by name. Marks are every special token, and whatever the chat template writes around turns: tokens that are
not flagged special, which fast tokenizers find in any text, too, and plain words such as `[INST]`.
"""

import random
import re
import tomllib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.resources import files
from typing import Any, Generic, Self, TypeVar
from weakref import WeakKeyDictionary

from jinja2 import TemplateError
from transformers import PreTrainedTokenizerBase

from evals.errors import BadConfig, LabError
from evals.task import Task
from training.config import StageSettings
from training.data.tables import DataRow, public_name

Messages = Sequence[Mapping[str, Any]]
TEMPLATE_ERRORS = (TemplateError, ArithmeticError, LookupError, TypeError, ValueError, RecursionError)
"""What a chat template, or the lack of one, raises for a conversation."""

PLACEHOLDERS = ("zqazq", "zqbzq", "zqczq", "zqdzq")
"""Contents that no template and no vocabulary has."""
WORD = re.compile(r"<<?/?[^\s<>]+>>?|\[/?[A-Z_]+\]|^#{2,} ?[^\n:]+:$", re.MULTILINE)
"""What marks look like that are plain words of a template."""
THOUGHT = re.compile(r"[<\[]/?think(?:ing)?[>\]]", re.IGNORECASE)
"""Not flagged special, they part reasoning from an answer and no turns; instructions may speak of them."""
BRACKETS = frozenset("<>[]{}|｜#")


@dataclass(frozen=True)
class Marks:
    """The marks of a base: tokens by their number, and words of its template that are no tokens."""

    tokens: Mapping[int, str]
    words: tuple[str, ...]

    @property
    def texts(self) -> tuple[str, ...]:
        """All of them as they are written."""
        return (*self.tokens.values(), *self.words)

    def find_in(self, text: str, tokenizer: PreTrainedTokenizerBase) -> str | None:
        """Return the first mark that the base would read in `text`, None where there is none."""
        if word := next((word for word in self.words if word in text), None):
            return word
        ids = tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]
        return next((self.tokens[token] for token in ids if token in self.tokens), None)


_KNOWN: WeakKeyDictionary[PreTrainedTokenizerBase, tuple[object, Marks]] = WeakKeyDictionary()


def marks_of(tokenizer: PreTrainedTokenizerBase) -> Marks:
    """Return the marks of a tokenizer and its chat template."""
    template = tokenizer.chat_template
    known = _KNOWN.get(tokenizer)
    if known is None or known[0] != template:
        known = (template, _marks(tokenizer))
        _KNOWN[tokenizer] = known
    return known[1]


def _marks(tokenizer: PreTrainedTokenizerBase) -> Marks:
    added = {int(number): token for number, token in tokenizer.added_tokens_decoder.items()}
    around = _around_turns(tokenizer)
    written = set(tokenizer(around, add_special_tokens=False, verbose=False)["input_ids"])
    tokens, words = dict[int, str](), list[str]()
    ends = (tokenizer.bos_token_id, tokenizer.eos_token_id)
    for number, token in added.items():
        text = str(token)
        if not text.strip("▁ \t\r\n"):
            continue  # runs of blanks are tokens of their own in some vocabularies
        if token.special and number == tokenizer.unk_token_id and number not in ends:
            words.append(text)  # also what characters become that the vocabulary lacks
        elif token.special or (number in written and BRACKETS & set(text) and not THOUGHT.fullmatch(text)):
            tokens[number] = text
    known = set(tokens.values())
    words += [word for word in dict.fromkeys(WORD.findall(around)) if not THOUGHT.fullmatch(word) and word not in known]
    return Marks(tokens, tuple(words))


def _around_turns(tokenizer: PreTrainedTokenizerBase) -> str:
    """Return what the template writes around the texts of a conversation; nothing where there is none."""
    turns = list(zip(("system", "user", "assistant", "user"), PLACEHOLDERS, strict=True))
    text = _written(tokenizer, *turns, is_asked=True) or _written(tokenizer, *turns[1:], is_asked=True)
    for placeholder in PLACEHOLDERS:
        text = text.replace(placeholder, "\n")
    return text


def _written(tokenizer: PreTrainedTokenizerBase, *turns: tuple[str, str], is_asked: bool = False) -> str:
    """Return turns of role and text as the template writes them; nothing where it takes none such, or there is none."""
    messages = [{"role": role, "content": text} for role, text in turns]
    try:
        return str(tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=is_asked))
    except TEMPLATE_ERRORS:
        return ""


def mark_in(messages: Messages, tokenizer: PreTrainedTokenizerBase) -> str | None:
    """Return the first mark of this base in a message, None where there is none."""
    marks = marks_of(tokenizer)
    found = (marks.find_in(str(message.get("content") or ""), tokenizer) for message in messages)
    return next((mark for mark in found if mark), None)


def refuse_marks(messages: Messages, tokenizer: PreTrainedTokenizerBase) -> None:
    """Raise LabError, naming it, if a message holds a mark of this base."""
    if mark := mark_in(messages, tokenizer):
        raise LabError(
            f"the text contains {mark!r}, a control mark of this model that would be read as the end of the turn or the"
            " start of another; take it out and ask again."
        )


def question_text(messages: Messages, tokenizer: PreTrainedTokenizerBase, **told: Any) -> str:
    """Return a conversation as the template writes it before an answer; LabError for a mark in one of its texts."""
    refuse_marks(messages, tokenizer)
    turns = [dict(message) for message in messages]
    return str(tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True, **told))


def turn_end(tokenizer: PreTrainedTokenizerBase) -> int | None:
    """Return the token that the template writes after an answer; None where it writes none there.

    It is often another one than `eos_token`: `<end_of_turn>`, `<|eot_id|>`, `<|end|>`.
    """
    _, question, answer, _ = PLACEHOLDERS
    after = _written(tokenizer, ("user", question), ("assistant", answer)).rpartition(answer)[2]
    marks = marks_of(tokenizer).tokens
    ids = tokenizer(after, add_special_tokens=False, verbose=False)["input_ids"]
    return next((token for token in ids if token in marks), None)


class ChatCounter:
    """Counts tokens of texts and conversations for the base called `name`, whose tokenizer `with_template` gave."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, name: str) -> None:
        if not tokenizer.is_fast:
            raise BadConfig(
                f"{name} has a slow tokenizer, which cannot tell where tokens end; use a base that comes with a"
                " tokenizer.json."
            )
        self.tokenizer = tokenizer
        self.name = name

    def ends(self, text: str) -> Sequence[int]:
        """Return where each token ends, in characters from the start of the text."""
        if not text:
            return ()
        read = self.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
        return [end for _, end in read["offset_mapping"]]

    def chat(self, messages: Messages) -> int:
        """Return the tokens of a conversation as the template writes it."""
        text = self.tokenizer.apply_chat_template([dict(each) for each in messages], tokenize=False)
        return len(self.tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"])


def takes_system(tokenizer: PreTrainedTokenizerBase) -> bool:
    """Whether a chat template has a turn for a system prompt, tried on it."""
    mark, question, _, _ = PLACEHOLDERS
    return mark in _written(tokenizer, ("system", mark), ("user", question))


ANSWERS = ("completion", "chosen", "rejected")
CONVERSATIONS = ("prompt", "messages", *ANSWERS)
TEMPLATE_TOLD = "chat_template_kwargs"
"""Key of what a row tells the chat template, as TRL calls it."""
NO_THOUGHT: Mapping[str, Any] = {"enable_thinking": False}
"""What templates that know reasoning are told where there is to be none."""
SHOWN = 5
TOO_LONG = "more than"
"""How the reason starts for which rows are left out."""


Item = TypeVar("Item")
Tokenizer = Any
"""A Hugging Face tokenizer, or what has its `apply_chat_template`, `__call__` and `eos_token_id`."""


@dataclass(frozen=True)
class Rows(Generic[Item]):
    """Training data: what is learned from, by name, and what is said of it.

    `row_of` makes the row that TRL is given, `asks` what a row asks, `checksum` identifies all of them;
    `counts` are rows by source, `left_out` by the reason, `facts` what else run.json keeps. A chain that
    begins with these rows is told the `system_prompt`. While they are learned from, `dev` is asked, and the loss on
    `held` is measured.
    """

    named: Mapping[str, Item]
    row_of: Callable[[Item], DataRow]
    asks: Callable[[Item], Iterable[str]]
    checksum: Callable[[Sequence[Item]], str]
    system_prompt: str
    counts: Mapping[str, int]
    left_out: Mapping[str, int] = field(default_factory=dict)
    facts: Mapping[str, str | int] = field(default_factory=dict)
    dev: "DevSet | None" = None
    held: "Rows[Any] | None" = None

    @property
    def items(self) -> tuple[Item, ...]:
        """What is learned from."""
        return tuple(self.named.values())

    @property
    def count(self) -> int:
        """How many rows there are."""
        return len(self.named)

    @property
    def questions(self) -> frozenset[str]:
        """What the rows ask."""
        return frozenset(text for item in self.items for text in self.asks(item))

    def record(self) -> dict[str, str | int]:
        """Return what run.json keeps about the data."""
        return {
            "sha256": self.checksum(self.items),
            "rows": self.count,
            **self.facts,
            **{f"rows of {name}": count for name, count in self.counts.items()},
            **{f"left out, {why}": count for why, count in self.left_out.items()},
            **({f"dev {name}": value for name, value in self.dev.rows.record().items()} if self.dev else {}),
            **({f"held out {name}": value for name, value in self.held.record().items()} if self.held else {}),
        }

    def as_sequences(self, tokenizer: "Tokenizer") -> Self:
        """Return the data with a row for each sequence of tokens that it makes on a base; here each row is one."""
        return replace(self, held=self.held.as_sequences(tokenizer)) if self.held else self

    def trl_rows(self) -> dict[str, DataRow]:
        """Return what TRL is given of each row, by the name of the row."""
        return {name: self.row_of(item) for name, item in self.named.items()}

    def without(self, names: Collection[str], why: str) -> Self:
        """Return the data without these rows, which are counted under `why`."""
        gone = set(names)
        kept = {name: item for name, item in self.named.items() if name not in gone}
        return replace(self, named=kept, left_out={**self.left_out, why: len(gone)})

    def mix(self, parts: Mapping[str, Collection[str]], weights: Sequence[float], seed: int) -> Self:
        """Return as many rows as can be with the sources in these proportions, drawn by the seed, none twice.

        `parts` has the names of each source's rows; one that several have counts for the first.
        """
        left, of_source = set(self.named), dict[str, list[str]]()
        for source, names in parts.items():
            of_source[source] = [name for name in names if name in left]
            left -= set(names)
        whole = min(len(names) / weight for names, weight in zip(of_source.values(), weights, strict=True))
        counts = {source: int(whole * weight + 1e-9) for source, weight in zip(of_source, weights, strict=True)}
        if not all(counts.values()):
            raise BadConfig(
                f"a mix of {', '.join(f'{source} ({len(names)} rows)' for source, names in of_source.items())} by these"
                " weights leaves no row of one of them; give it more rows, or a larger weight."
            )
        chosen = {name for source, names in of_source.items() for name in some_of(names, counts[source], seed)}
        told = {
            f"{public_name(source)} ({weight:.0%})": counts[source]
            for source, weight in zip(counts, weights, strict=True)
        }
        over = [name for name in self.named if name not in chosen]
        return replace(self.without(over, "more than their share of the mix") if over else self, counts=told)


def some_of(items: Sequence[Item], count: int, seed: int) -> tuple[Item, ...]:
    """Return `count` of the items in their order, drawn by the seed; all where there are no more, or `count` is 0."""
    if not 0 < count < len(items):
        return tuple(items)
    return tuple(items[place] for place in sorted(random.Random(seed).sample(range(len(items)), count)))


@dataclass(frozen=True)
class DevSet:
    """What is asked while a model is trained, and the task that grades the answers."""

    task: Task[Any]
    rows: Rows[Any]


Data = TypeVar("Data", bound=Rows[Any])


@dataclass(frozen=True)
class Tokens:
    """One sequence of tokens as a model reads it, and which of them are learned."""

    ids: tuple[int, ...]
    learned: tuple[bool, ...]

    @property
    def given(self) -> int:
        """How many tokens stand before the first that is learned."""
        return self.learned.index(True) if any(self.learned) else len(self.learned)

    @classmethod
    def after(cls, given: int, ids: Sequence[int]) -> Self:
        """Return a sequence of which all but the first tokens are learned."""
        return cls(tuple(ids), tuple(at >= given for at in range(len(ids))))

    @property
    def labels(self) -> list[int]:
        """The tokens as trainers take them: -100 where one is not learned."""
        return [each if is_learned else NOT_LEARNED for each, is_learned in zip(self.ids, self.learned, strict=True)]


NOT_LEARNED = -100


def sequences_of(row: DataRow, tokenizer: Tokenizer) -> dict[str, Tokens]:
    """Return what a model reads of a row, by column: of a pair two sequences, each an answer behind its question.

    Of `messages` every answer at `learned` is learned, its end too. They are one sequence where the template writes
    each of them there as it writes it last; where it does not, each answer has a sequence of its own, as in use.
    """
    if "messages" in row:
        return tokens_of_turns(turns_written(row, tokenizer), tokenizer)
    if "text" in row:
        return {"text": Tokens.after(0, _plain(row["text"], tokenizer))}
    prompt, told = row["prompt"], row.get(TEMPLATE_TOLD) or {}
    asked = _ids(prompt, tokenizer, told)
    found = {}
    for column in ANSWERS:
        if column in row and isinstance(prompt, str):
            ids = _plain(prompt + row[column], tokenizer)
            found[column] = Tokens.after(shared_length(asked, ids), ids)
        elif column in row:
            found[column] = behind_question(
                *_prompt_and_whole(prompt, prompt + row[column], tokenizer, told), tokenizer
            )
    return found or {"prompt": Tokens.after(len(asked), asked)}


def turns_written(row: DataRow, tokenizer: Tokenizer) -> dict[int, tuple[str, str]]:
    """Return the texts of a conversation up to each learned turn: as it is asked for, and with it.

    Raises TemplateError or TypeError where the chat template takes no such conversation.
    """
    messages, told = row["messages"], row.get(TEMPLATE_TOLD) or {}
    return {at: _prompt_and_whole(messages[:at], messages[: at + 1], tokenizer, told) for at in row["learned"]}


def _prompt_and_whole(
    question: Messages, whole: Messages, tokenizer: Tokenizer, told: Mapping[str, Any]
) -> tuple[str, str]:
    """Return a conversation as its last answer is asked for, and with that answer and its end."""
    asked = tokenizer.apply_chat_template(question, tokenize=False, add_generation_prompt=True, **told)
    text = tokenizer.apply_chat_template(whole, tokenize=False, **told)
    return asked, _with_end(text, whole[-1]["content"], tokenizer)


def _with_end(text: str, answer: str, tokenizer: Tokenizer) -> str:
    """Return a text with an end token where its template (GLM's) writes none after an answer: it has to be learned."""
    is_open = text.rstrip().endswith(answer.strip()) and not answer.endswith(tokenizer.eos_token)
    return text + tokenizer.eos_token if is_open else text


def behind_question(asked: str, whole: str, tokenizer: Tokenizer) -> Tokens:
    """Return the tokens of an answer behind those of its question, just as a model meets them in use.

    Read together, the end of the question may merge with the answer; and a template may open a thought in a question
    that it leaves out where it has the answer (DeepSeek-R1's). Then the question is read alone, and the open thought
    closed at once. Where that cannot be, the answer starts at the first other token, as TRL has it.
    """

    def read(text: str) -> tuple[int, ...]:
        return tuple(tokenizer(text, add_special_tokens=False)["input_ids"])

    question, ids = read(asked), read(whole)
    given, thought = shared_length(question, ids), OPEN_THOUGHT.search(asked)
    rest = None
    if given < len(question) and whole.startswith(asked):
        rest = whole[len(asked) :]
    elif given < len(question) and thought and whole.startswith(asked[: thought.start()]):
        rest = ("\n" if asked.endswith("\n") else "\n\n") + NOT_THOUGHT + whole[thought.start() :]
    if rest is not None:
        apart = (*question, *read(rest))
        if tokenizer.decode(apart) == tokenizer.decode(read(asked + rest)):  # a blank may be put before the rest
            return Tokens.after(len(question), apart)
    return Tokens.after(given, ids)


def tokens_of_turns(texts: Mapping[int, tuple[str, str]], tokenizer: Tokenizer) -> dict[str, Tokens]:
    """Return what `turns_written` wrote as one sequence, or as one for each learned turn; see `sequences_of`."""
    turns = {at: behind_question(*pair, tokenizer) for at, pair in texts.items()}
    whole = turns[max(turns)].ids
    if any(whole[: len(turn.ids)] != turn.ids for turn in turns.values()):
        return {f"turn {at + 1}": turn for at, turn in turns.items()}
    learned = {place for turn in turns.values() for place in range(turn.given, len(turn.ids))}
    return {"messages": Tokens(whole, tuple(place in learned for place in range(len(whole))))}


def length_of(row: DataRow, tokenizer: Tokenizer) -> int:
    """Return the tokens of a row's longest sequence."""
    return max(len(sequence.ids) for sequence in sequences_of(row, tokenizer).values())


def fitting(data: Data, settings: StageSettings, tokenizer: Tokenizer) -> Data:
    """Return the rows and the dev set that are not too long, shortened first where that is possible; see `within`."""
    data = without_marks(data, settings, tokenizer)
    shorten = getattr(data, "shortened", None)  # records of the refiner, whose passages may go
    data = shorten(settings.longest, lambda row: length_of(row, tokenizer)) if shorten else data
    data = within(data, {name: length_of(row, tokenizer) for name, row in data.trl_rows().items()}, settings)
    if data.dev:
        is_default = bool(settings.eval_data) and "eval_data" not in settings.model_fields_set
        asked = settings.model_copy(update={"too_long": "drop"}) if is_default else settings
        data = replace(data, dev=replace(data.dev, rows=fitting(data.dev.rows, asked, tokenizer)))
    if data.held:
        data = replace(data, held=fitting(data.held, settings, tokenizer))
    return data


def without_marks(data: Data, settings: StageSettings, tokenizer: Tokenizer) -> Data:
    """Return the rows without a control mark of the base in a message.

    BadConfig, naming rows and marks, if there are others and `bad_rows` does not drop them.
    """
    found = dict[str, str]()
    for name, row in data.trl_rows().items():
        turns = [turn for key in CONVERSATIONS if isinstance(row.get(key), list) for turn in row[key]]
        if mark := mark_in(turns, tokenizer):
            found[name] = mark
    if found and len(found) < data.count and getattr(settings, "bad_rows", "refuse") == "drop":
        return data.without(found, "a control mark of the base in the text")
    if found:
        shown = ", ".join(f"{name} ({mark})" for name, mark in list(found.items())[:SHOWN])
        more = f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
        raise BadConfig(
            f"{len(found)} of {data.count} rows contain a control mark of the base: {shown}{more}. The base would read"
            " it as the end of a turn or the start of another. Take it out of the text; the chat template writes the"
            " marks that belong there."
        )
    return data


def within(data: Data, lengths: Mapping[str, int], settings: StageSettings) -> Data:
    """Return `data` without rows that are too long; BadConfig, naming them, if they may not be dropped."""
    key, longest = settings.limit, settings.longest
    over = {name: size for name, size in lengths.items() if size > longest}
    if not over:
        return data
    if settings.too_long == "drop" and len(over) < len(lengths):
        return data.without(tuple(over), f"{TOO_LONG} {key} {longest} tokens")
    shown = ", ".join(f"{name} ({size})" for name, size in list(over.items())[:SHOWN])
    more = f" and {len(over) - SHOWN} more" if len(over) > SHOWN else ""
    raise BadConfig(
        f"{len(over)} of {len(lengths)} rows have more than {key} {longest} tokens: {shown}{more}. Set"
        f" {key} to {max(over.values())} or more, shorten the rows, or set too_long to drop to leave out"
        " such rows where others remain; none is ever cut."
    )


def shared_length(one: Sequence[Any], other: Sequence[Any]) -> int:
    """Return how many elements two sequences begin with alike."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))


def _ids(text: Any, tokenizer: Tokenizer, told: Mapping[str, Any]) -> tuple[int, ...]:
    """Return the tokens of a question, a conversation or a plain text."""
    if isinstance(text, str):
        return tuple(tokenizer(text)["input_ids"])
    written = tokenizer.apply_chat_template(text, tokenize=False, add_generation_prompt=True, **told)
    return tuple(tokenizer(written, add_special_tokens=False)["input_ids"])


def _plain(text: str, tokenizer: Tokenizer) -> tuple[int, ...]:
    """Return the tokens of plain text with one start token, where the base has one, and one end token."""
    start, end = getattr(tokenizer, "bos_token", None), getattr(tokenizer, "eos_token", None)
    ids = tuple(tokenizer(text.removesuffix(end) if end else text)["input_ids"])
    if start and text.startswith(start) and ids[:2] == (ids[0],) * 2:
        ids = ids[1:]
    return ids if ids[-1:] == (tokenizer.eos_token_id,) else (*ids, tokenizer.eos_token_id)


TEMPLATES = tomllib.loads(files("training.data").joinpath("templates.toml").read_text(encoding="utf-8"))
INSTRUCTION, BEFORE_QUESTION = TEMPLATES["instruction"], TEMPLATES["before_question"]
AS_WRITTEN, UNLESS_OPEN = TEMPLATES["as_written"], TEMPLATES["unless_open"]
OPEN_THOUGHT = re.compile(r"<think>\s*\Z")
"""How a question ends after which a model goes on thinking."""
NOT_THOUGHT = "</think>\n\n"
"""How an answer begins that closes such a thought."""


def with_template(tokenizer: PreTrainedTokenizerBase) -> PreTrainedTokenizerBase:
    """Return the tokenizer with a template that takes a system prompt and can leave reasoning out."""
    if not tokenizer.chat_template:
        tokenizer.chat_template = INSTRUCTION
    if not takes_system(tokenizer):
        _change_template(tokenizer, BEFORE_QUESTION + tokenizer.get_chat_template())
    question = [{"role": "system", "content": "?"}, {"role": "user", "content": "?"}]
    text = tokenizer.apply_chat_template(question, tokenize=False, add_generation_prompt=True, **NO_THOUGHT)
    if thought := OPEN_THOUGHT.search(str(text)):  # a question that opens one against its orders
        own = tokenizer.get_chat_template().removesuffix("\n")
        _change_template(tokenizer, AS_WRITTEN + own + UNLESS_OPEN.replace("THOUGHT", repr(thought[0])))
    return tokenizer


def _change_template(tokenizer: PreTrainedTokenizerBase, template: str) -> None:
    """Set the template that conversations are written by; one for tools beside it stays."""
    known = tokenizer.chat_template
    tokenizer.chat_template = {**known, "default": template} if isinstance(known, dict) else template


def notes_of(tokenizer: PreTrainedTokenizerBase) -> tuple[str, ...]:
    """Return what a record says of the template: a sentence where it is not the model's own."""
    template = tokenizer.get_chat_template()
    if template.startswith(AS_WRITTEN):
        return (
            "the base's chat template opens a thought before every answer; where answers are to come without"
            " reasoning, as from reviewers, in training as in use, it is left out",
        )
    if template.startswith(BEFORE_QUESTION):
        return ("the base's chat template has no turn for a system prompt, so it stands before the first question",)
    if template != INSTRUCTION:
        return ()
    return (
        "the base's tokenizer has no chat template, so questions are put as ### Instruction: and ###"
        " Response:, as in the published runs",
    )
