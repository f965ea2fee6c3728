"""What a training command would do: settings, rows, the exact line, what it needs. Knows nothing of torch."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from transformers import AutoTokenizer, PreTrainedTokenizerBase
from transformers.utils import cached_file

from evals.errors import BadConfig, MissingModel
from evals.questions import SYSTEM_PROMPT
from training.config import (
    HEURISTIC,
    STAGES,
    DpoSettings,
    GrpoSettings,
    RefinerSettings,
    ReviewSettings,
    StageSettings,
    as_document,
    read_request,
)
from training.data.conversations import Conversations, check_chain_prompt, read_conversations
from training.data.preferences import Preferences, read_preferences
from training.data.questions import TrainingData, grpo_data, grpo_row, sft_data, sft_row, watched_questions
from training.data.refiner import RefinerData, are_records, check_refiner_chain, refiner_data
from training.data.tokens import length_of, limit_of, notes_of, sequences_of, with_template, within
from training.judge.client import checked_address, key_of
from training.launch.accelerate import Launch
from training.launch.estimate import Estimate, check_batches, estimate, shape_of
from training.models.base import EMBEDDED, EMBEDDED_HUB_ID, FOLDER_NAME, HUB_ID, default_cache
from training.models.manifest import read_chain
from training.run.folder import RunFolder


@dataclass(frozen=True)
class Plan:
    """A command that can be run. `problems` are sentences about what it could not run without, on a dry run."""

    stage: str
    settings: StageSettings
    launch: Launch
    words: tuple[str, ...]
    data: TrainingData | Preferences | Conversations | RefinerData
    system_prompt: str
    problems: tuple[str, ...] = ()

    @property
    def line(self) -> tuple[str, ...]:
        """The command, word by word."""
        return self.launch.line(self.stage, self.words)

    @property
    def command(self) -> str:
        """The line as it is typed."""
        return shlex.join(self.line)

    @property
    def output(self) -> Path:
        """The run folder."""
        return Path(self.settings.output)

    def document(self) -> Mapping[str, Any]:
        """Return the settings as plain values."""
        return as_document(self.settings)

    @property
    def questions(self) -> frozenset[str]:
        """What the training data ask."""
        if not isinstance(self.data, TrainingData):
            return self.data.questions
        return frozenset(example.prompt for example in self.data.examples)

    def rows(self) -> dict[str, Mapping[str, Any]]:
        """Return what TRL is given of each row, by the name of the row."""
        if isinstance(self.data, Preferences):
            return {pair.name: pair.row() for pair in self.data.pairs}
        if isinstance(self.data, Conversations | RefinerData):
            return {**self.data.trl_rows()}
        make = grpo_row if isinstance(self.settings, GrpoSettings) else sft_row
        return {each.id: make(each, self.system_prompt) for each in self.data.examples}

    def built_on(self) -> dict[str, str]:
        """Return the checksum of each stage that the new one builds on, as run.json keeps it."""
        if not self.settings.chain.strip():
            return {}
        stages = read_chain(self.settings.chain).manifest.stages
        return {f"stage {stage.name}": stage.sha256 for stage in stages}

    def needs(self, rows: int, *, has_gpu: bool = False) -> Estimate | None:
        """Return what the run would need with so many rows; None for a base of unknown shape."""
        shape = shape_of(self.settings.base)
        if shape is None:
            return None
        on_gpu = has_gpu or self.launch.wants_gpus
        return estimate(self.settings, shape, rows, self.launch.processes, has_gpu=on_gpu)


def plan_of(stage: str, words: Sequence[str], launch: Launch | None = None, *, is_dry: bool = False) -> Plan:
    """Return the plan of `--config F [--key value …]`.

    Raises LabError for settings, data, a chain, a judge or a run folder that cannot be used; a chain
    that is not here yet, or a judge's key that is not set here, is only a problem to be named if the
    plan is to be looked at and not to be run.
    """
    chosen = launch or Launch()
    request = read_request(STAGES[stage], words)
    settings = request.settings
    chosen.check(settings)
    RunFolder(Path(settings.output)).refuse_unless_open(overwrite=request.overwrite)
    problems: tuple[str, ...] = ()
    of_chain: str | None = None
    if settings.chain.strip():
        try:
            of_chain = read_chain(settings.chain).manifest.system_prompt
        except MissingModel as error:
            if not is_dry:
                raise
            problems = (str(error),)
    prompt = of_chain or SYSTEM_PROMPT
    if isinstance(settings, RefinerSettings):
        problems += _judge_problems(settings)
    data = _data(settings, prompt, of_chain)
    check_batches(settings, data.count, chosen.processes)
    return Plan(stage, settings, chosen, tuple(words), data, prompt, problems)


def _judge_problems(settings: RefinerSettings) -> tuple[str, ...]:
    """Return why the judge could not be asked from here; BadConfig for an address that never may be.

    A run makes sure of its key itself: where a plan is made for another machine, it need not be here.
    """
    if settings.judge == HEURISTIC:
        return ()
    address = checked_address(settings.judge, allow_remote=settings.judge_allow_remote)
    try:
        key_of(settings.judge_key_env, address)
    except BadConfig as error:
        return (str(error),)
    return ()


def _data(
    settings: StageSettings, system_prompt: str, of_chain: str | None
) -> TrainingData | Preferences | Conversations | RefinerData:
    if isinstance(settings, DpoSettings):
        pairs = read_preferences(settings.data, system_prompt)
        if settings.monitor_steps:  # refused now, not once the base has been loaded
            watched_questions(settings.monitor_data, 1, settings.seed, pairs.questions)
        return pairs
    if isinstance(settings, GrpoSettings):
        return grpo_data(settings.data, settings.seed)
    if isinstance(settings, ReviewSettings):
        data = read_conversations(settings.data)
        check_chain_prompt(data, of_chain)
        return data
    if isinstance(settings, RefinerSettings) or are_records(settings.data):
        records = refiner_data(settings.data, is_for_sft=not isinstance(settings, RefinerSettings))
        check_refiner_chain(of_chain)
        if isinstance(settings, RefinerSettings) and settings.held_out_steps:
            records, _ = records.parted(settings.held_out_share, settings.seed)
        return records
    return sft_data(settings.data, settings.seed)


SHOWN = 2


@dataclass(frozen=True)
class TokenRow:
    """One sequence of a row: the tokens as text, and how many at its start are not learned from."""

    name: str
    column: str
    tokens: tuple[str, ...]
    given: int


@dataclass(frozen=True)
class Preview:
    """What a run would read. `kept` rows of `rows`; `lengths` in tokens: shortest, median, longest."""

    rows: int
    kept: int
    left_out: Mapping[str, int]
    lengths: tuple[int, int, int] | None
    examples: tuple[TokenRow, ...]
    problems: tuple[str, ...] = ()
    is_refused: bool = False
    """Whether the run would be refused for its rows."""


def preview(plan: Plan) -> Preview:
    """Return what the run of a plan would read, as far as it can be told on this machine."""
    rows = plan.rows()
    tokenizer = tokenizer_here(plan.settings.base)
    if tokenizer is None:
        problem = (
            f"the tokenizer of {plan.settings.base} is not on this machine, so tokens and lengths cannot"
            " be shown; the first run fetches it."
        )
        return Preview(len(rows), len(rows), {}, None, (), (problem,))
    data = plan.data
    if isinstance(data, RefinerData):
        budget = limit_of(plan.settings)[1]
        data = data.shortened(budget, lambda row: length_of(row, tokenizer))
        rows = data.trl_rows()
    lengths = {name: length_of(row, tokenizer) for name, row in rows.items()}
    refusals: tuple[str, ...] = ()
    kept = set(rows)
    try:
        fitting = within(data, lengths, plan.settings)
        kept -= {name for name, size in lengths.items() if size > limit_of(plan.settings)[1]}
        check_batches(plan.settings, len(kept), plan.launch.processes)
        left_out = fitting.record()
    except BadConfig as error:
        refusals, left_out = (str(error),), data.record()
    shown = [name for name in rows if name in kept][:SHOWN]
    sizes = sorted(lengths.values())
    return Preview(
        rows=len(rows),
        kept=len(kept),
        left_out={key: int(n) for key, n in left_out.items() if key.startswith("left out")},
        lengths=(sizes[0], round(median(sizes)), sizes[-1]),
        examples=tuple(each for name in shown for each in _tokens(name, rows[name], tokenizer)),
        problems=refusals or notes_of(tokenizer),
        is_refused=bool(refusals),
    )


def tokenizer_here(source: str) -> PreTrainedTokenizerBase | None:
    """Return the tokenizer of a base if it lies on this machine, without asking the network."""
    folder = _folder_here(source)
    if folder is None or not (folder / "tokenizer_config.json").is_file():
        return None
    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    return with_template(tokenizer) if isinstance(tokenizer, PreTrainedTokenizerBase) else None


def _folder_here(source: str) -> Path | None:
    if source == EMBEDDED:
        unpacked = default_cache() / FOLDER_NAME
        return unpacked if unpacked.is_dir() else _folder_here(EMBEDDED_HUB_ID)
    folder = Path(source).expanduser()
    if folder.is_dir():
        return folder
    match = HUB_ID.fullmatch(source)
    if match is None:
        return None
    found = cached_file(
        match["name"],
        "tokenizer_config.json",
        revision=match["revision"],
        local_files_only=True,
        _raise_exceptions_for_missing_entries=False,
        _raise_exceptions_for_connection_errors=False,
    )
    return Path(found).parent if found else None


def _tokens(name: str, row: Mapping[str, object], tokenizer: PreTrainedTokenizerBase) -> list[TokenRow]:
    return [
        TokenRow(name, column, tuple(str(tokenizer.decode([each])) for each in found.ids), found.given)
        for column, found in sequences_of(row, tokenizer).items()
    ]
