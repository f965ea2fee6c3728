"""From data set names to the rows that a trainer takes.

SFT also takes conversations and texts in the forms that others publish (`training.data.conversations`).
A data set of questions is a name that `evals.questions` knows, a part of one that keeps SFT and GRPO apart (below), or
a question set of one's own (`evals.questions.sets`: a file, a set that comes with Assay, or one of the Hub),
optionally narrowed to one kind of ground truth and to so many rows of it:

    kmp-train    pathways-sft-half    kmp-train[abstain]    kmp-train[count:40]    rows/mine.jsonl
    mine.yaml    mine.csv[choice]     codons-and-enzymes    hub:owner/name@v1.0

Of a question set the training rows are taken; mine.yaml[dev] names its dev rows, for `eval_data`.

The pathway questions are parted in halves that share no gene set of one tissue. The KMP questions are parted
by facts: four in five are for SFT (`kmp-sft-part`), the others for GRPO (`kmp-grpo-part`).

Rows that are marked for testing are refused, and so are rows of the standard hold-out however they
are marked: what a model was trained on measures nothing.
"""

import hashlib
import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from evals.errors import BadConfig
from evals.questions import (
    DATASETS,
    SYSTEM_PROMPT,
    conversation,
    data_sha256,
    is_held_out,
    pathway_halves,
    pathway_training,
)
from evals.questions.sets import SPLITS, SUFFIXES, is_question_set, load_questions
from evals.schema import Example
from evals.verifiers.score import SCORED
from training.data.conversations import are_conversations, read_conversations
from training.data.refine import are_records, check_refiner_chain, refiner_data
from training.data.tables import from_hub, public_name
from training.data.tokens import DataRow, Rows, some_of

SFT_HALF, GRPO_HALF = "pathways-sft-half", "pathways-grpo-half"
KMP_SFT, KMP_GRPO = "kmp-sft-part", "kmp-grpo-part"
KMP_DEV = "kmp-dev"
SHARES = 5
"""One fact in so many is watched by `kmp-dev`, another one in so many is kept from SFT for GRPO."""
DEV_SHARE, GRPO_SHARE = 0, 1
SOURCE = re.compile(r"(?P<name>[^\[\]]+)(?:\[(?P<kind>[a-z]+)(?::(?P<count>\d+))?\])?")


def read_answers(sources: Sequence[str], seed: int, chain_prompt: str | None, **form: Any) -> Rows[Any]:
    """Return questions with their answers, conversations (`form` is of `read_conversations`), or the refiner's records."""
    if are_records(sources):
        check_refiner_chain(chain_prompt)
        return refiner_data(sources, is_for_sft=True)
    of_questions = SYSTEM_PROMPT if chain_prompt is None else chain_prompt
    others = [are_conversations(source) for source in sources]
    if not any(others):
        return sft_data(sources, seed, of_questions)

    def turns_of(source: str) -> dict[str, tuple[Mapping[str, str], ...]]:
        rows = sft_data([source], seed, of_questions).trl_rows()
        return {name: (*row["prompt"], *row["completion"]) for name, row in rows.items()}

    told = chain_prompt if all(others) else of_questions
    return read_conversations(sources, system_prompt=told, questions=turns_of, **form)


def sft_data(sources: Sequence[str], seed: int, system_prompt: str = SYSTEM_PROMPT) -> Rows[Example]:
    """Return the examples of all sources that have an answer, each once; the others are counted."""
    data = _gather(sources, seed, system_prompt, sft_row)
    untaught = [each.id for each in data.items if not each.answer]
    if len(untaught) == data.count:
        raise BadConfig(
            f"no row of {', '.join(sources)} has an answer to teach; a rubric needs an explanation, and every"
            " other kind of truth is its own answer."
        )
    return data.without(untaught, "no answer to teach") if untaught else data


def grpo_data(sources: Sequence[str], seed: int, chain_prompt: str | None = None) -> Rows[Example]:
    """Return the examples of all sources that a verifier can score; the others are counted."""
    data = _gather(sources, seed, SYSTEM_PROMPT if chain_prompt is None else chain_prompt, grpo_row)
    unscored = [each.id for each in data.items if each.ground_truth.kind not in SCORED]
    if len(unscored) == data.count:
        raise BadConfig(
            f"no row of {', '.join(sources)} can be scored, so there is no reward to learn from; use"
            f" kinds that a verifier judges: {', '.join(sorted(SCORED))}."
        )
    return data.without(unscored, "no verifier scores them") if unscored else data


def watched_questions(
    sources: Sequence[str], count: int, seed: int, asked: Collection[str] = ()
) -> tuple[Example, ...]:
    """Return up to `count` questions (0 = all) to ask while a model is trained, none of those in `asked`.

    Sources are those of training, and `kmp-dev`: one question for one in five of the facts that KMP training asks
    for, so an SFT stage knows them and can be seen to forget them. BadConfig if no question is left.
    """
    named, found = [source.strip() for source in sources], list[Example]()
    for source in named:
        if source == KMP_DEV:
            by_fact = {row.cluster: row for row in reversed(DATASETS["kmp-train"]())}
            found += [row for fact, row in sorted(by_fact.items()) if _share(fact) == DEV_SHARE]
        else:
            found += _examples(source, seed)
    left = [row for row in found if row.prompt not in asked and row.ground_truth.kind in SCORED]
    if not left:
        raise BadConfig(
            f"nothing is left to ask of eval_data {', '.join(named)}: every question is trained on or has no verifier. Add"
            f" another set, such as {KMP_DEV}, or set eval_steps to 0."
        )
    return some_of(left, count, seed)


def sft_row(example: Example, system_prompt: str = SYSTEM_PROMPT) -> DataRow:
    """Return a question and its own answer as prompt and completion."""
    return {
        "prompt": prompt_of(example, system_prompt),
        "completion": [{"role": "assistant", "content": example.answer}],
    }


def grpo_row(example: Example, system_prompt: str = SYSTEM_PROMPT) -> DataRow:
    """Return a question as a prompt, the whole example beside it as JSON for the reward."""
    document = json.dumps(example.model_dump(mode="json"), ensure_ascii=False, sort_keys=True)
    return {"prompt": prompt_of(example, system_prompt), "example": document}


def prompt_of(example: Example, system_prompt: str = SYSTEM_PROMPT) -> list[dict[str, str]]:
    """Return the question as every stage reads it: after the system prompt with the question's options."""
    return [message.model_dump() for message in conversation(example, system_prompt)]


def _gather(
    sources: Sequence[str], seed: int, system_prompt: str, row_of: Callable[[Example, str], DataRow]
) -> Rows[Example]:
    unique: dict[str, Example] = {}
    counts: dict[str, int] = {}
    repeated = 0
    for source in sources:
        found = _examples(source, seed)
        counts[public_name(source)] = len(found)
        for example in found:
            known = unique.setdefault(example.id, example)
            repeated += known is not example
            if known != example:
                raise BadConfig(
                    f"two different rows have the id {example.id!r}, the second in {source}; ids are"
                    " unique. Rename one of them."
                )
    left_out = {"the same row again": repeated} if repeated else {}
    return Rows(
        unique,
        lambda each: row_of(each, system_prompt),
        lambda each: (each.prompt,),
        data_sha256,
        system_prompt,
        counts,
        left_out,
    )


def _share(fact: str) -> int:
    return hashlib.sha256(fact.encode()).digest()[0] % SHARES


def _examples(source: str, seed: int) -> tuple[Example, ...]:
    """Return the rows of one source; BadConfig if it is unknown, holds test rows or no rows."""
    match = SOURCE.fullmatch(source.strip())
    if match is None:
        raise BadConfig(f"{source!r} is not a data set; {_accepted_names()}")
    name, kind = match["name"], match["kind"]
    if kind in SPLITS:
        name, kind = f"{name}[{kind}]", None
    found = _examples_named(name)
    tests = [example.id for example in found if example.split == "test"]
    if tests:
        raise BadConfig(
            f"{match['name']} holds {len(tests)} rows that are kept for testing (such as {tests[0]});"
            f" training on them, or choosing by them, would make every later figure worthless. {_accepted_names()}"
        )
    held_out = [row.id for row in found if is_held_out(row.prompt, row.id)]
    if held_out:
        raise BadConfig(
            f"{public_name(match['name'])} holds {len(held_out)} rows that are marked for training but belong to the"
            f" standard hold-out (such as {held_out[0]}): eye and thymus, or the KMP test set, by which every chain"
            " is measured. Take them out; `assay data pathways` writes rows without them."
        )
    if kind is None:
        return found
    chosen = [example for example in found if example.ground_truth.kind == kind]
    if not chosen:
        kinds = ", ".join(sorted({example.ground_truth.kind for example in found}))
        raise BadConfig(f"{match['name']} has no rows of kind {kind!r}; its kinds are {kinds}.")
    count = int(match["count"] or len(chosen))
    if not 0 < count <= len(chosen):
        raise BadConfig(f"{source} asks for {count} rows; there are {len(chosen)} of that kind.")
    return some_of(chosen, count, seed)


def _examples_named(name: str) -> tuple[Example, ...]:
    if name in (SFT_HALF, GRPO_HALF):
        halves = pathway_halves(pathway_training())
        return halves[0] if name == SFT_HALF else halves[1]
    if name in (KMP_SFT, KMP_GRPO):
        rows = DATASETS["kmp-train"]()
        return tuple(row for row in rows if (_share(row.cluster) == GRPO_SHARE) == (name == KMP_GRPO))
    if name in DATASETS:
        return DATASETS[name]()
    if is_question_set(name):
        return load_questions(name, from_hub, part="train")
    raise BadConfig(f"{name!r} is not a data set; {_accepted_names()}")


def _accepted_names() -> str:
    parts = (SFT_HALF, GRPO_HALF, KMP_SFT, KMP_GRPO)
    names = ", ".join((*parts, *(each for each in DATASETS if "train" in each)))
    return (
        f"use {names}, a question set (a file that ends in {', '.join(SUFFIXES)}, or hub:owner/name), or one"
        " of these narrowed to a kind and a count, such as kmp-train[count:40]."
    )
