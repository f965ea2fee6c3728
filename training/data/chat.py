"""Conversations as a base reads them: the marks of its turns, the token that ends an answer, a question as tokens.

Training, answering, serving, evaluation and probes all write their prompts here, so they are the same tokens.
A text that holds a mark of the base's own would be read as the end of a turn or the start of another one; it is
refused by name. Marks are every special token, and whatever the chat template writes around turns: tokens that are
not flagged special, which fast tokenizers find in any text, too, and plain words such as `[INST]`.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from jinja2 import TemplateError
from transformers import PreTrainedTokenizerBase

from evals.errors import LabError

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
    system, first, answer, second = PLACEHOLDERS
    roles = ("system", "user", "assistant", "user")
    turns = [{"role": role, "content": text} for role, text in zip(roles, (system, first, answer, second), strict=True)]
    for messages in (turns, turns[1:]):
        try:
            text = str(tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True))
        except TEMPLATE_ERRORS:  # no system prompt here, or no template at all
            continue
        for placeholder in PLACEHOLDERS:
            text = text.replace(placeholder, "\n")
        return text
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
    turns = [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
    try:
        text = str(tokenizer.apply_chat_template(turns, tokenize=False))
    except TEMPLATE_ERRORS:
        return None
    after = text.rpartition(answer)[2]
    marks = marks_of(tokenizer).tokens
    ids = tokenizer(after, add_special_tokens=False, verbose=False)["input_ids"]
    return next((token for token in ids if token in marks), None)
