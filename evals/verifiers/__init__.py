"""Verifiers: from an answer to a verdict, and from the verdict to scores.

    answer line (or free text)  ->  verdict  ->  V1 V2 V3 V4  ->  reward

`expected` puts every kind of truth in one shape, `line` reads the last lines, `text` answers without them, `faults`
looks for what is false in an explanation, `score` adds it up (docs/verifiers.md). A reader that breaks raises: a
broken grader must never look like a wrong answer. A rubric gets no verdict, score or reward without a judge.
"""

from collections.abc import Mapping
from typing import Literal, get_args

from evals.confidence import VERSION as CONFIDENCE_VERSION
from evals.confidence import settle, statements
from evals.errors import BadConfig
from evals.schema import Example, GroundTruth, StatedConfidence, Verdict
from evals.verifiers.expected import Expected, Finding, expected
from evals.verifiers.faults import false_figures
from evals.verifiers.line import read_answer_line, read_lines
from evals.verifiers.score import DEFAULT_MODE, DEFAULT_SCORING, NO_FAULTS, Faults, Scoring, check_mode, score
from evals.verifiers.score import weights as weights_of
from evals.verifiers.text.amounts import read_number, read_text
from evals.verifiers.text.names import without_others
from evals.verifiers.text.sentences import plain_text

VERSION = "verifiers-9"
Weights = str | Mapping[str, float] | None
"""A preset's name, a list such as "V1=.3,V4=.45", shares per verifier, or None for the usual ones."""
Read = Literal["auto", "answer", "text"]
"""auto = the answer line where there is one, else the text; answer = the line alone; text = the text alone."""
READINGS: tuple[Read, ...] = get_args(Read)


def verify(
    example: Example, completion: str, weights: Weights = None, v4: str = DEFAULT_MODE, read: Read = "auto"
) -> Verdict:
    """Return what the verifiers think of `completion` as an answer to `example`."""
    return verify_answer(example.ground_truth, example.prompt, completion, weights, v4, read)


def verify_answer(
    truth: GroundTruth,
    question: str,
    completion: str,
    weights: Weights = None,
    v4: str = DEFAULT_MODE,
    read: Read = "auto",
) -> Verdict:
    """Return the verdict on an answer to a question whose truth is known.

    `weights` are a preset's name or shares per verifier, renormalised over those that apply; None =
    DEFAULT_WEIGHTS. `v4` is one of MODES, `read` one of READINGS. BadConfig for what none of them knows.
    """
    check_read(read)
    if weights is None and v4 == DEFAULT_MODE:
        return judge(truth, question, completion, read=read)
    return judge(truth, question, completion, Scoring(weights_of(weights), v4), read)


def judge(
    truth: GroundTruth, question: str, completion: str, scoring: Scoring = DEFAULT_SCORING, read: Read = "auto"
) -> Verdict:
    """Return the verdict as `verify_answer` does, under weights and a mode that were checked once."""
    asked = expected(truth)
    if read != "text":
        lines = read_lines(completion)
        if lines.answer is not None:
            kept = without_others(asked, question, lines.answer)
            finding = read_answer_line(asked, question, lines._replace(answer=kept), read_number)
            faults = NO_FAULTS
            if finding.verdict == "correct" and lines.explanation:
                faults = _faults(truth, asked, question, lines.explanation, finding)
            return score(truth, finding, lines.confidence, "letter" if finding.is_letter else "answer", faults, scoring)
        if read == "answer":
            return score(truth, Finding("no_claim", "there is no answer line"), lines.confidence, None, scoring=scoring)
    finding = read_text(asked, question, completion)
    figures = false_figures(truth, completion) if finding.verdict == "correct" else ()
    faults = Faults(figures) if figures else NO_FAULTS
    return score(truth, finding, _confidence_in(completion), "letter" if finding.is_letter else "text", faults, scoring)


def stated_confidence(completion: str) -> StatedConfidence:
    """Return the confidence that an answer to any question states: its last lines', else its text's."""
    lines = read_lines(completion)
    return _confidence_in(completion) if lines.answer is None else lines.confidence


def _confidence_in(text: str) -> StatedConfidence:
    page = plain_text(text)
    return settle(text, page, statements(page.text))


def check_read(read: str) -> Read:
    """Return a way of reading; BadConfig if there is none of that name."""
    if read not in READINGS:
        raise BadConfig(f"answers cannot be read by {read!r}; choose one of {', '.join(READINGS)}")
    return read


def instrument(v4: str = DEFAULT_MODE) -> dict[str, str]:
    """Return the versions of what judges, and the mode of V4 where it is not the usual one.

    Scores that were made with different instruments are not comparable.
    """
    versions = {"verifiers": VERSION, "confidence": CONFIDENCE_VERSION}
    return versions if v4 == DEFAULT_MODE else {**versions, "v4": check_mode(v4)}


def _faults(truth: GroundTruth, asked: Expected, question: str, explanation: str, finding: Finding) -> Faults:
    """Return what is wrong in the explanation beside a correct answer line.

    Numbers are compared for counts alone: how another number comes about names numbers on the way.
    """
    figures, contradictions = false_figures(truth, explanation), ()
    if asked.kind == "choice" or truth.kind == "count":
        said = read_text(asked, question, explanation, is_shown=False)
        if said.verdict == "incorrect":
            contradictions = (f"its explanation says {said.answer}, its answer line {finding.answer}",)
    return Faults(figures, contradictions) if figures or contradictions else NO_FAULTS
