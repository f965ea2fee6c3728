"""Pairs of a better and a worse answer, and answers called good or bad: from files, data sets of the Hub, sampled answers."""

import json
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow
import pyarrow.parquet
from pydantic import BaseModel, ConfigDict, ValidationError

from evals.errors import BadConfig, LabError
from evals.io import sha256_of_text
from evals.questions import SYSTEM_PROMPT, conversation, find, is_held_out, system_prompt_for
from evals.questions.pairs import Sample, SampleOrigin
from evals.schema import Example, Message
from evals.schema.questions import Model, Progress, Sampling
from training.data.conversations import ANSWERED, is_headed, question_turns, questions_in, turns_in, with_system
from training.data.tables import SOURCE, SUFFIXES, SourceRows, Unusable, is_table, read_table, usable
from training.data.tokens import Rows, shared_length
from training.models.base import HUB_ID
from training.run.folder import RunFolder

ROWS = "train.jsonl"
SHARED_WORDS = re.compile(r".*\S(?=\s)", re.DOTALL)
"""Of what two texts share, up to the last word that is whole."""

Turns = tuple[Message, ...]
Text = Turns | str
STRENGTHS: Mapping[object, float] = {"slight": 1 / 3, "clear": 1.0}
"""Margins of what raters of the lab say of a vote, on the small scale of Llama 2 (arXiv:2307.09288, table 27)."""
PAIR, ALONE = ("chosen", "rejected"), ("completion",)
"""The columns of answers: a better and a worse one, or one with a `label`."""


class Preference(BaseModel):
    """Answers to one prompt by column, all plain text or all turns; `label` says of one alone whether it is good.

    Columns of a data set beside these are provenance and are not read.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    name: str = ""
    prompt: Text | None = None
    """None where it is what both answers begin with, until that is found."""
    answers: dict[str, Text]
    label: bool | None = None
    margin: float | None = None
    """How much better the chosen of two is, where people said so."""
    example_id: str | None = None

    def row(self) -> dict[str, Any]:
        """Return the columns that TRL reads."""
        columns = {"prompt": self.prompt or (), **self.answers}
        row = {
            name: text if isinstance(text, str) else [turn.model_dump() for turn in text]
            for name, text in columns.items()
        }
        return row if self.label is None else row | {"label": self.label}


def read_preferences(
    sources: Sequence[str], chain_prompt: str | None = None, columns: Sequence[str] = PAIR
) -> Rows[Preference]:
    """Return the pairs of all sources; conversations without a system message are given the chain's, or that of questions.

    With `columns` ALONE they are answers called good or bad, two of each pair. Left out and counted: pairs of identical answers and rows
    that were there before. BadRow names a bad line; BadConfig for a source that is not here, for rows of the standard
    hold-out, for plain and conversational rows together, and for answers that are all good or all bad.
    """
    is_pair = tuple(columns) == PAIR
    one, many = ("pair", "pairs") if is_pair else ("answer", "answers")
    pairs: dict[tuple[object, ...], Preference] = {}
    counts: dict[str, int] = {}
    left_out: Counter[str] = Counter()
    notes: Counter[str] = Counter()
    system_prompt = SYSTEM_PROMPT if chain_prompt is None else chain_prompt
    for source in sources:
        table = _table(source, many)
        made_of = _preference if is_pair else _judged
        name, read = table.name.removeprefix("hub:"), usable(table, made_of, left_out, drops=None)
        rows = {at: row for at, row in read.items() if row is not None}
        left_out += Counter({"neither answer is better": len(read) - len(rows)})
        counts[name] = len(rows)
        held_out = [
            at for at, row in rows.items() if any(is_held_out(text, row.example_id) for text in _questions_of(row))
        ]
        if held_out:
            raise BadConfig(
                f"{name} holds {len(held_out)} {many} about questions that are kept for testing (such as row"
                f" {held_out[0]}); training on them would make every later figure worthless. Take them out:"
                " `assay prefs export` and `assay data pairs` leave them out by themselves."
            )
        for number, row in rows.items():
            found = _with_prompt(f"{name}:{number}", row, system_prompt, notes)
            if "chosen" in found.answers and found.answers["chosen"] == found.answers["rejected"]:
                left_out["both answers are the same"] += 1
                continue
            for pair in [found] if is_pair else _parted(found):
                if pairs.setdefault((pair.prompt, *pair.answers.values(), pair.label), pair) is not pair:
                    left_out[f"the same {one} again"] += 1
    if not pairs:
        raise BadConfig(f"no pair of {', '.join(sources)} says anything: all answers are the same.")
    plain = sum(isinstance(pair.prompt, str) for pair in pairs.values())
    if plain not in (0, len(pairs)):
        raise BadConfig(
            f"{plain} of {len(pairs)} {many} are plain text and the others conversations; a run is trained on"
            " one kind. Give the plain ones as messages, or train on them alone."
        )
    if not is_pair:
        notes.update(_labels_of(pairs.values(), sources))

    def asked(pair: Preference) -> list[str]:
        text = pair.prompt if isinstance(pair.prompt, str) else pair.prompt[-1].content if pair.prompt else ""
        return [text, *text.splitlines()]

    def checksum(found: Sequence[Preference]) -> str:
        return sha256_of_text("".join(json.dumps(pair.row(), sort_keys=True) + "\n" for pair in found))

    named = {pair.name: pair for pair in pairs.values()}
    return Rows(named, Preference.row, asked, checksum, system_prompt, counts, dict(left_out), dict(notes))


def _parted(found: Preference) -> list[Preference]:
    """Return the two answers of a pair as one that is good and one that is bad; an answer with a label as it is."""
    if found.label is not None:
        return [found]
    alone = [{"answers": {ALONE[0]: found.answers[name]}, "label": name == PAIR[0]} for name in PAIR]
    return [
        found.model_copy(update={"name": f"{found.name} {name}", **each})
        for name, each in zip(PAIR, alone, strict=True)
    ]


def _labels_of(found: Collection[Preference], sources: Sequence[str]) -> dict[str, int]:
    """Return how many answers are called good, bad and both; BadConfig where all are one of them."""
    texts = {
        label: {(each.prompt, *each.answers.values()) for each in found if each.label is label}
        for label in (True, False)
    }
    counts = {"answers called good": len(texts[True]), "answers called bad": len(texts[False])}
    if not all(counts.values()):
        word = "good" if texts[True] else "bad"
        raise BadConfig(
            f"all {len(found)} answers of {', '.join(sources)} are called {word}, so there is nothing to tell apart; add"
            " some of the other kind. Good answers alone are learned by `assay train sft`."
        )
    both = len(texts[True] & texts[False])
    return counts | ({"answers called good by some and bad by others": both} if both else {})


def _table(source: str, many: str) -> SourceRows:
    """Return the rows of a source; BadConfig if it is none."""
    form, columns = (
        ("dpo", "prompt, chosen and rejected") if many == "pairs" else ("kto", "prompt, completion and label")
    )
    match = SOURCE.fullmatch(source.strip())
    name, count = (match["name"], match["count"] or "") if match else ("", "")
    if name and Path(name).expanduser().is_dir():
        name = str(Path(name) / ROWS)
    elif HUB_ID.fullmatch(name) and Path(name).suffix not in SUFFIXES:
        name = f"hub:{name}"
    if not is_table(name):
        raise BadConfig(
            f"{source!r} is no preference data set: name a folder that `assay prefs export --format {form}`"
            f"{' or `assay data pairs`' if form == 'dpo' else ''} wrote, a file ({', '.join(SUFFIXES)}) with {columns}, or a data"
            " set of the Hub (org/name), each with [:COUNT] behind it if only the first rows are wanted."
        )
    return read_table(f"{name}[:{count}]" if count else name)


QUESTIONS = ("prompt", "conversations", "messages", "instruction", "question", "query", "input", "context")
"""Columns of what both answers answer, the first of them that a row has. All but a text in `prompt` become turns."""
SIDE = re.compile(rf"((?:{'|'.join(ANSWERED)}|conversation)s?[ _-]?)([ab012])", re.IGNORECASE)
"""A column of one of two answers: output_1, response_a."""
VERDICTS = ("winner", "preference", "label", "better_response_id", "choice")
"""Columns that name the better of two: 1, a, model_a, A>B."""
STRENGTH = ("overall_preference", "preference_strength")
"""Below 0 where the first of two is better, as in HelpSteer."""
BETTER = re.compile(r"(?:[a-z]+[ _-])?([ab012])(?:\.0|>+[ab])?|tie\b.*|both|neither|a=b")


def _preference(row: Mapping[str, Any]) -> Preference | None:
    """Return a pair in any of the forms as its record, None for a tie; Unusable if it is none."""
    columns = _better_first(row)
    return _record(row, columns) if columns else None


def _better_first(row: Mapping[str, Any]) -> dict[str, str]:
    """Return the columns of the better and of the worse answer, none for a tie; Unusable if it is no pair."""
    lacking = next((name for name in PAIR if row.get(name) is None), None)
    if lacking is None:
        return {name: name for name in PAIR}
    sides = {match[2].lower(): name for name in sorted(row) if (match := SIDE.fullmatch(name))}
    column = next((name for name in (*STRENGTH, *VERDICTS) if row.get(name) is not None), None)
    if column is None or len(sides) != len(PAIR):
        told = "call the better answer chosen, the other rejected, or name it in a column winner; rows with one answer"
        stage = "kto" if "label" in row or "kto_tag" in row else "sft"
        raise Unusable(lacking, f"is missing among {', '.join(row)}; {told} are for `assay train {stage}`")
    said = str(row[column]).casefold()
    if column in STRENGTH and re.fullmatch(r"-?\d(?:\.\d+)?", said):
        said = [*sides][float(said) > 0] if float(said) else "tie"
    match = BETTER.fullmatch(said)
    if match is None or match[1] not in (None, *sides):
        told = f"says not which of {' and '.join(sides.values())} is better: write {' or '.join(sides)}, or tie"
        raise Unusable(column, told, row[column])
    better = sides.get(match[1] or "")
    ordered = sorted(sides.values(), key=lambda name: name != better)
    return dict(zip(PAIR, ordered, strict=True)) if better else {}


def _judged(row: Mapping[str, Any]) -> Preference | None:
    """Return an answer with its label in any of the forms as its record, or a pair; Unusable if it is neither."""
    if row.get("chosen") is not None or any(map(SIDE.fullmatch, row)):
        return _preference(row)
    label = row.get("label", row.get("kto_tag"))
    if label is None:
        raise Unusable("label", "is missing; it says whether the answer is good (true) or bad (false)")
    row = {**row, "label": label}
    asked = next((name for name in ("conversations", "messages") if row.get(name)), None)
    column = next((name for name in ANSWERED if row.get(name) is not None), None)
    if column is None and asked:
        turns = turns_in(asked, row[asked])
        row |= {asked: turns[:-1], "completion": turns[-1:]}
    elif column is None:
        raise Unusable("completion", "is missing; it is the answer that the label is about")
    return _record(row, {"completion": column or "completion"})


def _record(row: Mapping[str, Any], columns: Mapping[str, str]) -> Preference:
    """Return a row as its record, its answers by name from these columns of it."""
    asked = next((name for name in QUESTIONS if row.get(name)), "prompt")
    answers = {name: turns_in(column, row.get(column)) for name, column in {asked: asked, **columns}.items()}
    for turn in (turn for turns in answers.values() if isinstance(turns, list) for turn in turns):
        turn.pop("weight", None)  # what is learned is the difference of the answers
    question = answers.pop(asked)
    are_texts = isinstance(question, str) and all(isinstance(text, str) for text in answers.values())
    if are_texts and (asked != "prompt" or row.get("system") or is_headed(question)):
        found = {name: question_turns(row, (asked, columns[name])) for name in answers}
        question = next(iter(found.values()))[:-1]
        answers = {name: turns[-1:] for name, turns in found.items()}
    if isinstance(question, str) and all(
        isinstance(turns, list) and turns[0]["role"] == "user" for turns in answers.values()
    ):
        question = None  # it stands in both answers, too, as in UltraFeedback
    if isinstance(question, list):
        question = with_system(row, question)
        answers = {
            name: [{"role": "assistant", "content": text}] if isinstance(text, str) and asked != "prompt" else text
            for name, text in answers.items()
        }
    told = {name: row.get(name) for name in ("margin", "example_id", *["label"][: len(columns) == 1])}
    told["margin"] = STRENGTHS.get(row.get("strength")) if told["margin"] is None else told["margin"]
    try:
        return Preference.model_validate({"prompt": question, "answers": answers, **told})
    except ValidationError as error:
        first = error.errors()[0]
        raise Unusable(".".join(str(part) for part in first["loc"] if part != "answers"), first["msg"]) from None


def _with_prompt(name: str, row: Preference, system_prompt: str, notes: Counter[str]) -> Preference:
    prompt, answers = row.prompt, row.answers
    if prompt is None:
        if len(answers) == 1:
            raise BadConfig(f"row {name} has no prompt: the question that was answered.")
        what = "words" if isinstance(answers["chosen"], str) else "turns"
        prompt, chosen, rejected = _common_start(name, answers["chosen"], answers["rejected"])
        answers = {"chosen": chosen, "rejected": rejected}
        notes[f"prompts taken from the {what} that both answers share"] += 1
    are_texts = {isinstance(text, str) for text in (prompt, *answers.values())}
    if len(are_texts) == 2:
        raise BadConfig(_mixed_text(name))
    found = row.model_copy(update={"name": name, "prompt": prompt, "answers": answers})
    if isinstance(prompt, str):
        return found
    if not (prompt and all(answers.values())) or prompt[-1].role != "user":
        raise BadConfig(
            f"row {name} has no question, or an empty answer; a prompt ends with a message of the role user,"
            f" and {' and '.join(answers)} are one message of the role assistant or more."
        )
    told = system_prompt_for(system_prompt, prompt[-1].content)
    if prompt[0].role != "system" and told:
        notes["prompts given the system message of the chain"] += 1
        return found.model_copy(update={"prompt": (Message(role="system", content=told), *prompt)})
    if prompt[0].role == "system" and prompt[0].content != told:
        notes["prompts with a system message of their own"] += 1
    return found


def _common_start(name: str, chosen: Text, rejected: Text) -> tuple[Text, Text, Text]:
    """Return what two conversations or texts (by whole words) begin with, and what follows in each."""
    if isinstance(chosen, str) != isinstance(rejected, str):
        raise BadConfig(_mixed_text(name))
    length = shared_length(chosen, rejected)
    if not isinstance(chosen, str):
        length = min(length, len(chosen) - 1, len(rejected) - 1)
    elif words := SHARED_WORDS.match(chosen[:length]):
        length = words.end()
    else:
        raise BadConfig(
            f"row {name} is plain text without a column `prompt`, and its two texts do not begin with the same"
            " words, so there is no question in it; give it a prompt, or take it out."
        )
    return chosen[:length], chosen[length:], rejected[length:]


def _mixed_text(name: str) -> str:
    return (
        f"row {name} mixes plain text and messages; the prompt and its answers are all text or all lists of"
        ' {"role", "content"}.'
    )


def _questions_of(row: Preference) -> list[str]:
    """Return what a row may be asking: the user's turns, or the lines of a plain text, after a name too."""
    source = row.prompt if row.prompt is not None else next(iter(row.answers.values()))
    if isinstance(source, str):
        return questions_in(source)
    return [turn.content for turn in source if turn.role == "user"]


# ---- sampled answers, of which pairs are made ----------------------------------------------------


class RunSamples(NamedTuple):
    """The answers that a run has sampled, and how many were to questions that nobody knows."""

    samples: tuple[Sample, ...]
    unknown_questions: int


def run_samples(run: RunFolder) -> RunSamples:
    """Return the answers in a run's completions/, oldest first.

    LabError if it is no run that samples answers, or a file cannot be read. Which answers were cut at
    the length limit is not in these files; an answer without an end says so by its verdict alone.
    """
    record = run.record()
    files = sorted(run.completions.glob("*.parquet"))
    if record is None or not files:
        raise LabError(
            f"{run.path} holds no sampled answers; name the run folder of a GRPO stage, with run.json and"
            " completions/, or sample answers with --chain."
        )
    found: list[Sample] = []
    unknown = 0
    for file in files:
        try:
            rows = pyarrow.parquet.read_table(file, columns=["step", "prompt", "completion"]).to_pylist()
        except (OSError, pyarrow.ArrowInvalid) as error:
            raise LabError(
                f"{file} is no table of completions ({str(error).splitlines()[0]}); delete it, or name another run."
            ) from None
        for row in rows:
            prompt = tuple(Message.model_validate(turn) for turn in row["prompt"])
            example = find(prompt[-1].content)
            if example is None:
                unknown += 1
                continue
            origin = SampleOrigin(source=record.name, stage=record.stage, step=int(row["step"]))
            found.append(Sample(example, prompt, row["completion"][-1]["content"], origin))
    return RunSamples(tuple(found), unknown)


class Draws(NamedTuple):
    """How answers are drawn: `count` of each question by one stage; the seed grows by 1 each time."""

    stage: str
    count: int
    sampling: Sampling


def chain_samples(
    model: Model,
    origin: SampleOrigin,
    examples: Sequence[Example],
    system_prompt: str,
    draws: Draws,
    progress: Progress | None = None,
) -> list[Sample]:
    """Return answers of one stage, one seed after the other; BadConfig for fewer than two each, or greedy."""
    if draws.count < 2 or draws.sampling.temperature <= 0:
        raise BadConfig(
            f"{draws.count} answers per question at temperature {draws.sampling.temperature:g} give no two"
            " different ones; draw 2 or more, at a temperature above 0."
        )
    prompts = [conversation(example, system_prompt) for example in examples]
    found: list[Sample] = []
    for number in range(draws.count):
        sampling = replace(draws.sampling, seed=draws.sampling.seed + number)
        drawn = origin.model_copy(update={"seed": sampling.seed, "temperature": sampling.temperature})
        if progress:
            progress(number / draws.count, "answers to each question")
        answers = model.generate(prompts, (draws.stage,), sampling)
        found += [
            Sample(example, prompt, answer.text, drawn, answer.finish_reason != "stop")
            for example, prompt, (answer,) in zip(examples, prompts, answers, strict=True)
        ]
    return found
