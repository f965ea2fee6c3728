"""Rows in the columns of RAGAS, as records and answers of the refiner.

    question, contexts, answer, ground_truth  (user_input, retrieved_contexts, response, reference since RAGAS 0.2)

Each context becomes a passage S1, S2, …; what the truth says becomes a wanted behaviour. A sentence of an answer becomes a claim
that cites the passages it names as [1] or [1, 2]; where an answer names none, each sentence is held against all of them.
"""

import ast
import io
import json
import re
import tokenize
from collections.abc import Iterator, Mapping
from typing import Any

from evals.refine.grammar import SENTENCE_END, TAG, WORD

NAMES = {
    "question": ("question", "user_input"),
    "contexts": ("contexts", "retrieved_contexts"),
    "answer": ("answer", "response"),
    "truth": ("ground_truth", "ground_truths", "reference"),
}
"""What a column holds, and what RAGAS calls it."""
ORIGIN = "ragas"
ROLES = {"human": "user", "ai": "assistant"}
MARK = r"\[\d{1,3}(?:\s*[,;]\s*\d{1,3})*\]"
MARKS = re.compile(rf"\s*((?:{MARK}\s*)+)")
MARKED_END = re.compile(rf"([.!?])\s*((?:{MARK}\s*)+)")
MARKUP = re.compile(r"<(?=/?(?:snippet|webpage|answer|tool)\w*[\s/>=])", re.IGNORECASE)


def is_ragas(row: Mapping[str, Any]) -> bool:
    """Return whether a row has a question and its contexts in columns of RAGAS, and is no record or case of ours."""
    return (
        "tool_output" not in row
        and "record" not in row
        and all(_column(row, name) for name in ("question", "contexts"))
    )


def ragas_record(row: Mapping[str, Any], number: int) -> dict[str, Any]:
    """Return a row as a record; `number` names one without an id. ValueError for a cell that cannot be read."""
    contexts, truths = _texts(row, "contexts"), _texts(row, "truth")
    passages = (f"<snippet id=S{n}>{MARKUP.sub('‹', text)}</snippet>" for n, text in enumerate(contexts, 1))
    wanted = [{"title": f"truth {n}", "description": f"Says what is true: {text}"} for n, text in enumerate(truths, 1)]
    return {
        "id": str(row.get("id") or f"row {number}"),
        "prompt": _turns(row[_column(row, "question")]),
        "tool_output": "\n".join(passages),
        "positive_rubrics": wanted,
        "answerable": bool(contexts),
        "origin": ORIGIN,
    }


def ragas_case(row: Mapping[str, Any], number: int) -> dict[str, Any]:
    """Return a row as a case of `assay refiner score`, with no limit on the ids or the words of a claim."""
    record, (answer, *others) = ragas_record(row, number), _texts(row, "answer") or [""]
    if not _column(row, "answer") or others:
        raise ValueError(
            f"has {len(others) + 1 if others else 'no'} answer; it stands in {' or '.join(NAMES['answer'])}"
        )
    completion = answer if any(tag[2].lower() == "answer" for tag in TAG.finditer(answer)) else _cited(answer, row)
    return {
        "id": record["id"],
        "record": record,
        "completion": completion,
        "config": {"max_ids_per_claim": 0, "max_words_per_claim": 0},
    }


def _column(row: Mapping[str, Any], name: str) -> str:
    """Return what the column is called in this row; "" where there is none, or nothing in it."""
    return next((each for each in NAMES[name] if row.get(each) is not None), "")


def _cited(answer: str, row: Mapping[str, Any]) -> str:
    """Return an answer in the grammar, its sentences as claims."""
    text = MARKED_END.sub(r" \2\1 ", MARKUP.sub("‹", answer)).strip()
    everything = "" if MARKS.search(text) else ",".join(f"S{n}" for n, _ in enumerate(_texts(row, "contexts"), 1))
    pieces = []
    for sentence in filter(WORD.search, SENTENCE_END.split(text)):
        named = [f"S{n}" for marks in MARKS.findall(sentence) for n in re.findall(r"\d+", marks)]
        ids = ",".join(dict.fromkeys(named)) or everything
        said = MARKS.sub("", sentence)
        pieces.append(f"<snippet id={ids}>{said}</snippet>" if ids else said)
    return f"<answer>{' '.join(pieces)}</answer>"


def _texts(row: Mapping[str, Any], name: str) -> list[str]:
    """Return the texts of a cell: a list, or a list written as text by JSON, Python or NumPy; else the one text."""
    column = _column(row, name)
    value = row[column] if column else []
    if isinstance(value, str):
        value = _listed(value) if name != "answer" and value.strip().startswith("[") else [value]
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise ValueError(f"{column} holds neither a text nor a list of texts: {str(value)[:60]!r}")
    return [each.strip() for each in value if each.strip()]


def _listed(text: str) -> Any:
    """Return the list that a text writes; the text alone if it is none. NumPy writes no commas between its items."""
    try:
        return json.loads(text)
    except ValueError:
        pass
    try:
        found = list(_strings(text.strip()))
    except (tokenize.TokenError, SyntaxError, ValueError):
        return [text]
    return found or [text]


def _strings(text: str) -> Iterator[str]:
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.STRING:
            yield str(ast.literal_eval(token.string))
        elif token.string not in ("[", "]", ",", "") and token.string.strip():
            raise ValueError(token.string)


def _turns(value: Any) -> Any:
    """Return a question as it is, the messages of RAGAS as turns of a conversation."""
    if not isinstance(value, list):
        return value
    turns = [(ROLES.get(str(each.get("type"))), each.get("content")) for each in value if isinstance(each, Mapping)]
    kept = [{"role": role, "content": content} for role, content in turns if role and content]
    if len(kept) < len(value) or not kept:
        raise ValueError("user_input holds a message that is not of type human or ai with content")
    return kept
