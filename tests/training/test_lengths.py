import pytest
from datasets import Dataset
from trl import DPOConfig, DPOTrainer, SFTConfig

from evals.errors import BadConfig
from evals.questions import DATASETS
from tests.models import tiny_base, tiny_tokenizer
from tests.training.runs import one_thread
from training.config import GrpoSettings, SftSettings
from training.data.questions import grpo_row, sft_data, sft_row
from training.data.tokens import length_of, sequences_of, within
from training.models.base import find_base, load_model
from training.sft import SupervisedTrainer

__all__ = ["one_thread"]

EXAMPLES = DATASETS["kmp-train"]()[:8]
PLAIN = {"prompt": "Up or down?", "chosen": " It goes up.", "rejected": " It goes down."}


def sft(**values: object) -> SftSettings:
    return SftSettings(data=("kmp-train",), output="x", **values)


def test_what_is_learned_of_an_sft_row_is_what_trl_learns_of_it(tmp_path):
    model = load_model(find_base(str(tiny_base(tmp_path))), "float32")
    rows = [sft_row(example) for example in EXAMPLES]
    trainer = SupervisedTrainer(
        model=model,
        args=SFTConfig(
            output_dir=str(tmp_path / "run"),
            max_length=2048,
            report_to="none",
            use_cpu=True,
            bf16=False,
        ),
        train_dataset=Dataset.from_list(rows),
        processing_class=tiny_tokenizer(),
    )
    for row, theirs in zip(rows, trainer.train_dataset, strict=True):
        ours = sequences_of(row, tiny_tokenizer())["completion"]
        assert list(ours.ids) == theirs["input_ids"]
        assert [label == -100 for label in theirs["labels"]] == [at < ours.given for at in range(len(ours.ids))]


@pytest.mark.parametrize("is_plain", [True, False])
def test_both_answers_of_a_preference_are_read_as_trl_reads_them(tmp_path, is_plain: bool):
    row = PLAIN
    if not is_plain:
        roles = {"prompt": "user", "chosen": "assistant", "rejected": "assistant"}
        row = {key: [{"role": roles[key], "content": text}] for key, text in PLAIN.items()}
    trainer = DPOTrainer(
        model=load_model(find_base(str(tiny_base(tmp_path))), "float32"),
        args=DPOConfig(
            output_dir=str(tmp_path / "run"),
            max_length=2048,
            report_to="none",
            use_cpu=True,
            bf16=False,
        ),
        train_dataset=Dataset.from_list([row]),
        processing_class=tiny_tokenizer(),
    )
    theirs = trainer.train_dataset[0]
    for column, ours in sequences_of(row, tiny_tokenizer()).items():
        assert list(ours.ids[: ours.given]) == theirs["prompt_ids"]
        assert list(ours.ids[ours.given :]) == theirs[f"{column}_ids"]


def test_of_a_question_alone_nothing_is_learned():
    row = grpo_row(EXAMPLES[0])
    found = sequences_of(row, tiny_tokenizer())
    assert list(found) == ["prompt"]
    assert found["prompt"].given == len(found["prompt"].ids) == length_of(row, tiny_tokenizer())


def sizes() -> dict[str, int]:
    return {example.id: 100 + place for place, example in enumerate(EXAMPLES)}


def test_rows_that_are_too_long_are_refused_by_name_and_never_cut():
    data = sft_data(["kmp-train"], 0)
    with pytest.raises(BadConfig) as raised:
        within(data, sizes(), sft(max_length=101))
    message = str(raised.value)
    assert message.startswith("6 of 8 rows have more than max_length 101 tokens")
    assert f"{EXAMPLES[2].id} (102)" in message
    assert "and 1 more" in message
    assert "Set max_length to 107" in message


def test_rows_that_are_too_long_are_left_out_and_counted_where_the_settings_say_so():
    data = sft_data(["kmp-train"], 0)
    kept = within(data, sizes(), sft(max_length=101, too_long="drop"))
    assert len(kept.examples) == len(data.examples) - 6
    assert kept.record()["left out, more than max_length 101 tokens"] == 6


def test_dropping_every_row_is_refused():
    with pytest.raises(BadConfig, match="8 of 8 rows"):
        within(sft_data(["kmp-train"], 0), sizes(), sft(max_length=50, too_long="drop"))


def test_questions_of_grpo_have_a_limit_of_their_own():
    settings = GrpoSettings(data=("kmp-train",), output="x", chain="y", batch=8, max_prompt_length=101)
    with pytest.raises(BadConfig, match="max_prompt_length 101"):
        within(sft_data(["kmp-train"], 0), sizes(), settings)


def test_rows_that_fit_are_all_kept():
    data = sft_data(["kmp-train"], 0)
    assert within(data, sizes(), sft(max_length=107)) is data
