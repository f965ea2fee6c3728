r"""Read the letter of an option in text without an answer line: "C", "(c)", "The answer is **C. spleen**", \boxed{C}."""

import re
from typing import NamedTuple

from evals.verifiers.line import BOXED, MARKS, blank_around, without_thought

STATED = re.compile(
    r"(?:\b(?i:it(?: is|['’]s)(?: option| choice)?)|\b(?i:answer|option|choice)(?i: is| would be| should be|:)+(?i: option| choice| letter)?"
    r"|\b(?i:choose|select|pick|go with)(?i: option| answer| choice)?|\b(?i:option|choice)(?=[ (*]{1,3}[A-Z][)*]{0,3} is\b(?! (?i:not|wrong|incorrect))))"
    r"[\s:*_(\[{$\"'`\\]{0,8}(?P<letter>[B-HJ-Z]|[AI](?=[)*.,:\]}$\"'`]|\s*$|\s*\n))(?![\w'’+-])",
    re.MULTILINE,
)
LINE = re.compile(r"[^\n]+")
BARE = re.compile(
    r"[ \t]*(?:(?i:option|answer|choice)[: ]+)?[(\[*_$`\"']{0,4}(?P<letter>[A-Za-z])(?!(?<=A):)"
    r"(?:[)\]*_$`\"'.:]{1,4}(?:\s.*)?|[ \t]*)"
)
""""A:" opens an answer to "Q:"."""


class Lettered(NamedTuple):
    """The options, 0 and up, that a text names by letter, what stands behind the last, and where the letters stand."""

    options: list[int]
    rest: str
    start: int
    end: int


def letters_in_text(text: str, n_options: int) -> Lettered | None:
    """Return what a text without an answer line names by letter; None where it names none of `n_options`.

    A line that is a letter, alone or before its option, counts where no other line is; else "the answer is (C)".
    """
    text = without_thought(text)
    if "\\boxed" in text:
        text = BOXED.sub(r"answer:\1\n", blank_around(text))
    found = list(STATED.finditer(text))
    if not found:
        lines = [line for line in LINE.finditer(text) if line[0].strip(MARKS + ".") and "onfidence" not in line[0][:16]]
        bare = [hit for line in lines if (hit := BARE.fullmatch(text, *line.span()))]
        if len(bare) != 1 or bare[0].start() not in (lines[0].start(), lines[-1].start()):
            return None
        found = bare
    options = [ord(hit["letter"].lower()) - ord("a") for hit in found]
    if max(options) >= n_options:
        return None
    behind = text[found[-1].end("letter") :].partition("\n")[0].strip(MARKS + ".:;,-–—")
    return Lettered(options, re.split(r"[.;]\s", behind)[0], found[0].start("letter"), found[-1].end("letter"))
