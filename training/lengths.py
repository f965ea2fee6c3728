"""Rows as tokens: what of them is learned from, and what becomes of those that are too long.

TRL 1.16 cuts an SFT or DPO row that is too long without a word, and lets a question of GRPO pass at
any length. Here no row is ever cut: `too_long` says whether such rows are refused or dropped, and
both tell how many there are. Knows nothing of torch; a tokenizer comes in as an argument.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self, TypeVar

from evals.errors import BadConfig
from training.config import DpoSettings, SampledSettings, SftSettings, StageSettings

Row = Mapping[str, Any]
ANSWERS = ("completion", "chosen", "rejected")
TEMPLATE_TOLD = "chat_template_kwargs"
"""Key of what a row tells the chat template, as TRL calls it."""
NO_THOUGHT: Mapping[str, Any] = {"enable_thinking": False}
"""What templates that know reasoning are told where there is to be none."""
SHOWN = 5
TOO_LONG = "more than"
"""How the reason starts for which rows are left out."""


class Tokenizer(Protocol):
    """What is used of a Hugging Face tokenizer."""

    eos_token_id: Any

    def apply_chat_template(self, conversation: Any, **options: Any) -> Any:
        """Return messages as one text."""

    def __call__(self, text: str, **options: Any) -> Any:
        """Return a text's tokens under "input_ids"."""


class Rows(Protocol):
    """Training data whose rows have names."""

    def without(self, names: Sequence[str], why: str) -> Self:
        """Return the data without these rows, which are counted under `why`."""


Data = TypeVar("Data", bound=Rows)


@dataclass(frozen=True)
class Tokens:
    """One sequence of tokens as a model reads it; the first `given` of them are not learned from."""

    ids: tuple[int, ...]
    given: int


def sequences_of(row: Row, tokenizer: Tokenizer) -> dict[str, Tokens]:
    """Return what a model reads of a row, by column: question and answer, or the question alone.

    The split is TRL's: an answer starts where the question alone and both together become different.
    """
    prompt, told = row["prompt"], row.get(TEMPLATE_TOLD) or {}
    asked = _ids(prompt, tokenizer, told, is_question=True)
    found = {}
    for column in ANSWERS:
        if column in row:
            ids = _ids(prompt + row[column], tokenizer, told)
            found[column] = Tokens(ids, _shared(asked, ids))
    return found or {"prompt": Tokens(asked, len(asked))}


def length_of(row: Row, tokenizer: Tokenizer) -> int:
    """Return the tokens of a row's longest sequence."""
    return max(len(sequence.ids) for sequence in sequences_of(row, tokenizer).values())


def limit_of(settings: StageSettings) -> tuple[str, int]:
    """Return the setting that bounds a row's length, and its value in tokens."""
    if isinstance(settings, SampledSettings):
        return "max_prompt_length", settings.max_prompt_length
    assert isinstance(settings, SftSettings | DpoSettings)
    return "max_length", settings.max_length


def within(data: Data, lengths: Mapping[str, int], settings: StageSettings) -> Data:
    """Return `data` without the rows that are too long; `lengths` are tokens by the name of the row.

    BadConfig, naming rows, if there are any and the settings do not let them be dropped, or if no row
    would be left.
    """
    key, longest = limit_of(settings)
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


def _shared(one: Sequence[int], other: Sequence[int]) -> int:
    """Return how many tokens two sequences have in common at their start."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))


def _ids(
    text: Any, tokenizer: Tokenizer, told: Mapping[str, Any], *, is_question: bool = False
) -> tuple[int, ...]:
    """Return the tokens of a conversation, or of plain text with TRL's end token after an answer."""
    if isinstance(text, str):
        ids = tokenizer(text)["input_ids"]
        return tuple(ids) if is_question else (*ids, tokenizer.eos_token_id)
    written = tokenizer.apply_chat_template(
        text, tokenize=False, add_generation_prompt=is_question, **told
    )
    return tuple(tokenizer(written, add_special_tokens=False)["input_ids"])
