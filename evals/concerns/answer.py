"""The part of a model's output that is its answer: without reasoning, and unquoted where it was quoted."""

import re
from dataclasses import dataclass

_TAG = r"(?:think|thinking|thought|thoughts|reasoning|reflection|scratchpad|analysis)"
_CLOSE = re.compile(rf"<\s*/\s*{_TAG}\s*>", re.IGNORECASE)
_OPEN = re.compile(rf"<\s*{_TAG}\s*>", re.IGNORECASE)
_CHANNEL = re.compile(r"<\|channel\|>\s*final\s*<\|message\|>", re.IGNORECASE)
_SPECIAL = re.compile(r"<\|[a-z_]{1,30}\|>|<(?:end_of_turn|eos|/s)>", re.IGNORECASE)
_QUOTED_KEY = re.compile(r'\\"\s?(?:text|concern_text|concern|category|severity)\s?\\"\s*:')
_PLAIN_KEY = re.compile(r'(?<!\\)"\s?(?:text|concern_text|concern|category|severity)\s?"\s*:')


@dataclass(frozen=True)
class Answer:
    """The answer, and the reasoning that stood before it or never ended."""

    text: str
    reasoning: str
    is_unfinished: bool


def answer_of(raw: str) -> Answer:
    """Return what a model answers, apart from what it wrote while thinking.

    answer_of("<think>[1] looks weak</think>[]")  ->  Answer("[]", "[1] looks weak", False)
    """
    text = raw.lstrip("\ufeff")
    channels = list(_CHANNEL.finditer(text))
    if channels:
        return Answer(_plain(text[channels[-1].end() :]), text[: channels[-1].start()], False)
    text, thought = _apart(text)
    closes = list(_CLOSE.finditer(text))
    if closes:  # the template opened the block, so the output only closes it
        return Answer(_plain(text[closes[-1].end() :]), text[: closes[-1].start()], False)
    opened = _OPEN.search(text)
    if opened:
        return Answer(_plain(text[: opened.start()]), text[opened.end() :], True)
    return Answer(_plain(text), thought, False)


def _apart(text: str) -> tuple[str, str]:
    """Return a text without its closed blocks of reasoning, and what stands in them."""
    kept, thought, at = [], [], 0
    while (opened := _OPEN.search(text, at)) is not None:
        closed = _CLOSE.search(text, opened.end())
        if closed is None:
            break
        kept.append(text[at : opened.start()])
        thought.append(text[opened.end() : closed.start()])
        at = closed.end()
    return "\n".join([*kept, text[at:]]), "\n".join(thought)


def _plain(text: str) -> str:
    """Return a text without marks of a chat template; JSON that was written as a string is opened."""
    text = _SPECIAL.sub("\n", text)
    if len(_QUOTED_KEY.findall(text)) > len(_PLAIN_KEY.findall(text)):
        text = re.sub(r'\\([\\"n])', lambda mark: "\n" if mark[1] == "n" else mark[1], text)
    return text.strip()
