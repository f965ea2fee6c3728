"""Supervised fine-tuning: the base learns to answer as the examples do, through a new adapter.

    accelerate launch -m training.sft --config training/configs/embedded/sft.yaml

The loss is on the answers alone. Every row is used whole, never cut; of the refiner's records, from
which it learns to cite, passages that nothing rests on may go. On a chain it goes on as `training.start`
says. Left out on purpose: evaluation while training (`assay eval run`).
"""

from collections.abc import Sequence
from pathlib import Path

from transformers import PreTrainedTokenizerBase

from evals.questions import SYSTEM_PROMPT
from evals.refiner.prompt import SYSTEM_PROMPT as REFINER_PROMPT
from training.base import Base, find_base, load_tokenizer
from training.config import SftSettings
from training.data import Row, TrainingData, sft_data, sft_row
from training.lengths import length_of, within
from training.record import record_of
from training.refining.data import RefinerData, are_records, check_refiner_chain, refiner_data
from training.request import Request
from training.session import load_base_for, run_command, session
from training.start import Start, start_of
from training.supervised import Lessons, Loaded, SupervisedTrainer, options, supervised_trainer
from training.terminal import announce, say

Taught = TrainingData | RefinerData


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    run_command("sft", SftSettings, train, arguments)


def train(request: Request) -> None:
    """Train an adapter and leave it, with its chain and its records, in the run folder."""
    settings = request.settings
    assert isinstance(settings, SftSettings)
    data = lessons_of(settings)
    base = find_base(settings.base, announce)
    start = start_of(settings, base)
    if isinstance(data, RefinerData):
        check_refiner_chain(start.system_prompt)
    data = _fitting(data, start, settings, load_tokenizer(base))
    record = record_of("sft", request, base, {**data.record(), **start.record()})
    with session(record, Path(settings.output), overwrite=request.overwrite) as current:
        trainer = build_trainer(settings, data, start, base)
        if current.train(trainer):
            of_records = isinstance(data, RefinerData)
            current.leave(trainer, start, base, REFINER_PROMPT if of_records else SYSTEM_PROMPT)


def lessons_of(settings: SftSettings) -> Taught:
    """Return what is learned from: questions with their answers, or records with their references."""
    if are_records(settings.data):
        return refiner_data(settings.data, is_for_sft=True)
    return sft_data(settings.data, settings.seed)


def build_trainer(
    settings: SftSettings, data: Taught, start: Start, base: Base
) -> SupervisedTrainer:
    """Return the trainer of an adapter on the start."""
    say(f"loading {base.public_name}")
    loaded = Loaded(*load_base_for(settings, base))
    lessons = Lessons(data, _rows(data, start))
    return supervised_trainer(settings, lessons, start, loaded, options(settings))


def _rows(data: Taught, start: Start) -> dict[str, Row]:
    """Return what TRL is given of each row, by the name of the row."""
    if isinstance(data, RefinerData):
        return data.trl_rows()
    prompt = start.system_prompt or SYSTEM_PROMPT
    return {example.id: sft_row(example, prompt) for example in data.examples}


def _fitting(
    data: Taught, start: Start, settings: SftSettings, tokenizer: PreTrainedTokenizerBase
) -> Taught:
    """Return the rows that are short enough; BadConfig if one is not and may not be dropped."""
    if isinstance(data, RefinerData):
        data = data.shortened(settings.max_length, lambda row: length_of(row, tokenizer))
    lengths = {name: length_of(row, tokenizer) for name, row in _rows(data, start).items()}
    return within(data, lengths, settings)


if __name__ == "__main__":
    main()
