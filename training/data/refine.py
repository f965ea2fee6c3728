"""Records of the refiner as the rows of a trainer: what is read, what is learned from, what the reward needs.

A source is `refiner-train` or a JSONL file of records (`assay data refiner`). Records of the standard
hold-out, and those of the test split by name, are refused. Knows nothing of torch.
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from evals.errors import BadConfig, ChainMismatch
from evals.refine.bank import ids_for_testing, refiner_bank
from evals.refine.cases import SUFFIXES, has_contexts, is_ragas, read_records, records_sha256, split_by_group
from evals.refine.task import SYSTEM_PROMPT, messages, shorten
from evals.schema.refiner import RefinerRecord
from training.data.tables import first_row
from training.data.tokens import DataRow, Rows

TRAIN, TEST = "refiner-train", "refiner-test"


@dataclass(frozen=True)
class RefinerData(Rows[RefinerRecord]):
    """Records to train on; `trimmed` are passages taken from a record that was over the budget, by its id."""

    trimmed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def record(self) -> dict[str, str | int]:
        """Return what run.json keeps about the data."""
        taken = sum(map(len, self.trimmed.values()))
        return {**super().record(), "records trimmed": len(self.trimmed), "passages taken away": taken}

    def split_groups(self, share: float, seed: int) -> "tuple[RefinerData, RefinerData]":
        """Return the data without about `share` of its groups, and these alone; BadConfig for too few groups."""
        _, held = split_by_group(self.items, share, seed)
        names = [record.id for record in held]
        alone = replace(self, named={name: self.named[name] for name in names}, counts={}, left_out={})
        return self.without(names, "held out to see when to stop"), alone

    def shortened(self, budget: int, tokens_of: Callable[[DataRow], int]) -> "RefinerData":
        """Return the data with passages taken from records over `budget` tokens, as far as nothing rests on them."""
        found = {each.id: shorten(each, budget, lambda record: tokens_of(self.row_of(record))) for each in self.items}
        named = {name: record for name, (record, _) in found.items()}
        return replace(self, named=named, trimmed={name: taken for name, (_, taken) in found.items() if taken})


def refiner_data(sources: Sequence[str], *, is_for_sft: bool = False) -> RefinerData:
    """Return the records of all sources, each once; BadConfig for test records, unlike twins, or no reference."""
    records: dict[str, RefinerRecord] = {}
    counts: dict[str, int] = {}
    repeated = 0
    for source in sources:
        found = records_in(source.strip())
        name = Path(source.strip()).name
        counts[name] = len(found)
        if held := ids_for_testing(found):
            raise BadConfig(
                f"{name} holds {len(held)} records that are kept for testing (such as {held[0]}); training on"
                " them would make every later figure worthless. Take them out."
            )
        for record in found:
            known = records.setdefault(record.id, record)
            repeated += known is not record
            if known != record:
                raise BadConfig(f"two different records have the id {record.id!r}, the second in {name}; rename one.")
    left_out = {"the same record again": repeated} if repeated else {}
    data = RefinerData(
        records,
        refiner_sft_row if is_for_sft else refiner_grpo_row,
        lambda record: (record.asked,),
        records_sha256,
        SYSTEM_PROMPT,
        counts,
        left_out,
        {"prompt_sha256": hashlib.sha256(SYSTEM_PROMPT.encode()).hexdigest()},
    )
    lacking = [record.id for record in data.items if not record.reference] if is_for_sft else []
    if lacking and len(lacking) == data.count:
        raise BadConfig(
            "no record has a reference, so there is no answer to learn; add `reference`, an answer in the"
            " output grammar, or use `assay data refiner`, which writes one for each."
        )
    return data.without(lacking, "no reference") if lacking else data


def records_in(source: str) -> Sequence[RefinerRecord]:
    """Return the records of `refiner-train` or of a file; BadConfig for the test split by name."""
    if source == TRAIN:
        return refiner_bank().train
    if source == TEST:
        raise BadConfig(f"{TEST} is kept for testing; train on {TRAIN} or a JSONL file of records.")
    if not source.endswith(SUFFIXES):
        raise BadConfig(
            f"{source!r} holds no records of the refiner; use {TRAIN}, a JSONL file, as `assay data refiner --out DIR`"
            f" writes it, or a file in the columns of RAGAS ({', '.join(SUFFIXES)})."
        )
    return read_records(Path(source))


def are_records(sources: Sequence[str]) -> bool:
    """Return whether the sources of an SFT stage are records of the refiner: by name, or by first row."""

    def holds_records(name: str) -> bool:
        row = first_row(name) if name.endswith(SUFFIXES) and Path(name).is_file() else {}
        return name in (TRAIN, TEST) or "tool_output" in row or (is_ragas(row) and has_contexts(row))

    return bool(sources) and all(holds_records(source.strip()) for source in sources)


def check_refiner_chain(chain_prompt: str | None) -> None:
    """Raise ChainMismatch if a chain was given other instructions than the refiner's."""
    if chain_prompt is not None and chain_prompt != SYSTEM_PROMPT:
        raise ChainMismatch(
            "the chain was trained with another system prompt than the refiner's, and a chain has one;"
            " train its SFT stage on records first: assay train sft --config"
            " training/configs/embedded/refiner-sft.yaml."
        )


def refiner_sft_row(record: RefinerRecord) -> DataRow:
    """Return a record and its reference answer as prompt and completion."""
    answer = {"role": "assistant", "content": record.reference or ""}
    return {"prompt": [turn.model_dump() for turn in messages(record)], "completion": [answer]}


def refiner_grpo_row(record: RefinerRecord) -> DataRow:
    """Return a record as a prompt, the whole of it beside as JSON for the reward."""
    document = record.model_dump(mode="json", exclude_defaults=True)
    text = json.dumps(document, ensure_ascii=False, sort_keys=True)
    return {"prompt": [turn.model_dump() for turn in messages(record)], "record": text}
