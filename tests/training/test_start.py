"""Where a stage starts, for each way of building on a chain."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from evals.errors import BadConfig, ChainMismatch
from tests.models import SYSTEM_PROMPT, tiny_adapter, tiny_base, tiny_chain
from training.config import SftSettings
from training.models.base import find_base
from training.models.chain import NewStage, append_stage, read_chain
from training.models.manifest import active_adapters
from training.models.start import Start, start_of


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A chain of two stacked stages, sft and grpo, and a dpo run that continued the second."""
    folder = tmp_path_factory.mktemp("start")
    chain = read_chain(tiny_chain(folder))
    adapter = tiny_adapter(folder / "model", folder / "dpo" / "adapter", seed=7, rank=2)
    stage = NewStage("dpo", "dpo", adapter, "continue")
    append_stage(folder / "dpo", stage, find_base(str(folder / "model")), chain)
    return folder


def start(folder: Path, chain: str, mode: str = "stack") -> Start:
    base = str(folder / "model")
    name = str(folder / chain) if chain else ""
    settings = SftSettings(data=("kmp-train",), output="run", base=base, chain=name, mode=mode)
    return start_of(settings, find_base(base))


def adapter_of(folder: Path, stage: str) -> Path:
    return (folder / stage / "adapter").resolve()


PLANS = [
    ("sft", "stack", ["sft"], [], None),
    ("sft", "continue", [], [], "sft"),
    ("sft", "merge_then_new", [], ["sft"], None),
    ("grpo", "stack", ["sft", "grpo"], [], None),
    ("grpo", "continue", ["sft"], [], "grpo"),
    ("grpo", "merge_then_new", [], ["sft", "grpo"], None),
    ("dpo", "stack", ["sft", "dpo"], [], None),
    ("dpo", "continue", ["sft"], [], "dpo"),
]


@pytest.mark.parametrize(("chain", "mode", "frozen", "merged", "continued"), PLANS)
def test_what_stays_what_is_merged_and_what_goes_on_follows_from_chain_and_mode(
    folder: Path, chain: str, mode: str, frozen: list[str], merged: list[str], continued: str | None
):
    found = start(folder, chain, mode)
    assert dict(found.frozen) == {name: adapter_of(folder, name) for name in frozen}
    assert dict(found.merged) == {name: adapter_of(folder, name) for name in merged}
    assert found.continued == (adapter_of(folder, continued) if continued else None)
    assert list(found.frozen) == frozen
    assert found.system_prompt == SYSTEM_PROMPT


def test_a_continued_stage_takes_the_place_of_the_one_it_went_on_from(folder: Path):
    chain = read_chain(folder / "dpo").manifest
    assert [(stage.name, stage.mode) for stage in chain.stages] == [
        ("sft", "stack"),
        ("grpo", "stack"),
        ("dpo", "continue"),
    ]
    active = active_adapters(chain.stages)
    assert active["grpo"] == {"sft", "grpo"}
    assert active["dpo"] == {"sft", "dpo"}


def test_without_a_chain_a_stage_starts_from_the_bare_base(folder: Path):
    found = start(folder, "")
    assert (found, found.system_prompt, found.record()) == (Start(), None, {})
    assert found.stage("sft", Path("adapter")) == NewStage("sft", "sft", Path("adapter"), "stack")


def test_a_second_stage_of_a_kind_is_numbered_and_says_how_it_builds(folder: Path):
    found = start(folder, "dpo", "continue")
    assert found.stage("grpo", Path("a")) == NewStage("grpo-2", "grpo", Path("a"), "continue")
    assert list(found.record()) == ["stage sft", "stage grpo", "stage dpo"]


def test_a_chain_without_adapters_has_nothing_to_continue_or_to_merge(folder: Path, tmp_path: Path):
    chain = read_chain(folder / "sft")
    bare = chain.manifest.model_copy(update={"stages": ()})
    (tmp_path / "chain.json").write_text(bare.model_dump_json(), encoding="utf-8")
    for mode in ("continue", "merge_then_new"):
        with pytest.raises(BadConfig, match="has no adapter yet"):
            start(folder, str(tmp_path), mode)
    assert start(folder, str(tmp_path)).frozen == {}


def test_a_chain_of_another_base_is_no_start(folder: Path, tmp_path: Path):
    other = str(tiny_base(tmp_path / "other", seed=3))
    settings = SftSettings(data=("kmp-train",), output="run", base=other, chain=str(folder / "sft"))
    with pytest.raises(ChainMismatch, match="weights"):
        start_of(settings, find_base(other))


def test_a_chain_whose_first_stage_claims_to_go_on_from_another_is_refused(folder: Path, tmp_path: Path):
    text = (folder / "sft" / "chain.json").read_text(encoding="utf-8")
    (tmp_path / "chain.json").write_text(text.replace('"mode": "stack"', '"mode": "continue"'), encoding="utf-8")
    with pytest.raises(ChainMismatch, match="no stage before it"):
        read_chain(tmp_path)


@pytest.mark.parametrize("mode", ["continue", "merge_then_new"])
def test_a_first_stage_has_nothing_to_build_on(mode: str):
    with pytest.raises(ValidationError, match="no chain to build on"):
        SftSettings(data=("kmp-train",), output="run", mode=mode)
