"""Supervised fine-tuning: the base learns to answer as the examples do, through a new adapter.

    accelerate launch -m training.sft --config training/configs/embedded/sft.yaml

The loss is on the answers alone. Every row is used whole, never cut; of the refiner's records, from
which it learns to cite, passages that nothing rests on may go. On a chain it goes on as `training.models.start`
says.
"""

from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from evals.errors import BadConfig
from training.config import StageSettings

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from training.data.tokens import Rows
    from training.run.session import Prepared
    from training.upstream import SafeTrainer


class SftSettings(StageSettings):
    """Settings of supervised fine-tuning."""

    about = "Fine-tune on questions and answers."
    scores_twice = False
    example = "--config training/configs/embedded/sft.yaml --epochs 2 --dry-run"

    max_length: int = Field(256, ge=16, description="longest question plus answer, tokens")
    train_on: Literal["all", "last"] = Field("all", description="the answers of a conversation that are learned")
    bad_rows: Literal["refuse", "drop"] = Field(
        "refuse", description="what becomes of rows that cannot be used, such as one without an answer"
    )
    hold_out: float = Field(
        0.0,
        ge=0.0,
        le=0.5,
        description="share of the rows that are not learned: their loss is measured every eval_steps (eval_loss)",
    )
    packing: bool = Field(False, description="several rows in one sequence of max_length, each blind to the others")
    padding_free: bool = Field(
        False, description="the rows of a batch behind one another instead of padded; pays with flash attention"
    )
    liger: bool = Field(False, description="Liger's kernels for norms, rotary positions and inner layers; GPUs only")

    @property
    def has_dev(self) -> bool:
        """Whether a part of the rows is held out, or a dev set named."""
        return bool(self.hold_out) or super().has_dev

    @property
    def is_packed(self) -> bool:
        """Packed to a length, or one behind the other."""
        return self.packing or self.padding_free

    @property
    def wanted_packages(self) -> tuple[str, ...]:
        """Liger's kernels too."""
        return (*super().wanted_packages, *(["liger"] if self.liger else []))

    def read_rows(self, chain_prompt: str | None) -> "Rows[Any]":
        """Return questions with their answers, conversations, or records of the refiner with their references."""
        from training.data.conversations import are_conversations
        from training.data.dev import dev_questions, with_dev, with_held_out
        from training.data.questions import read_answers

        form: dict[str, Any] = {"train_on": self.train_on, "drops": self.bad_rows == "drop"}
        data = self.mix_sources(lambda sources: read_answers(sources, self.seed, chain_prompt, **form))
        if not self.eval_steps:
            return data
        named = [each for each in self.eval_data if are_conversations(each)]
        data = with_held_out(data, self.hold_out, self.seed, named, **form)
        others = [each for each in self.eval_data if each not in named]
        return with_dev(data, self, dev_questions(data, others, self) if others or not data.held else None)


def options(settings: SftSettings) -> dict[str, Any]:
    """Return the stage's own training arguments; tests/training/cases/trl_arguments.yaml has what TRL makes of them."""
    return {
        "max_length": settings.max_length if settings.packing or not settings.padding_free else None,
        "packing": settings.packing,
        "padding_free": settings.is_packed,
        "pad_to_multiple_of": None,
        "use_liger_kernel": settings.liger,
    }


def train(ready: "Prepared[SftSettings]") -> None:
    """Train an adapter and leave it, with its chain and its records, in the run folder."""
    with ready.session() as current:
        current.train(build_trainer(ready))


def build_trainer(ready: "Prepared[SftSettings]") -> "SafeTrainer":
    """Return the trainer of an adapter on the start."""
    from trl import SFTConfig, SFTTrainer

    from training.upstream import SafeTrainer

    settings = ready.settings
    measured: dict[str, Any] = {"per_device_eval_batch_size": settings.batch, "prediction_loss_only": True}
    told = SFTConfig(**ready.arguments | options(settings) | measured)
    model = ready.model()
    if settings.is_packed:
        check_packing(model, ready.attention)
    rows, held = (tokenize_rows(data, ready.tokenizer) for data in (ready.data, ready.data.held))
    return ready.trainer(SafeTrainer.before(SFTTrainer), told, rows, held, model)


def tokenize_rows(data: "Rows[Any] | None", tokenizer: "PreTrainedTokenizerBase") -> list[dict[str, Any]]:
    """Return the rows as tokens with their labels, which TRL takes as they are: what a dry run shows is what is learned."""
    from training.data.tokens import sequences_of

    rows = data.trl_rows().values() if data else ()
    found = (each for row in rows for each in sequences_of(row, tokenizer).values())
    return [{"input_ids": [*each.ids], "labels": each.labels} for each in found]


LENGTHS = (7, 9)
LEAK = 0.1
"""Share of the effect of a full leak from which on rows count as seeing each other."""


def check_packing(model: "PreTrainedModel", attention: str) -> None:
    """Raise BadConfig if a packed row is not answered as it is alone, rounding apart.

    The model is called as TRL calls it. Attention tells packed rows apart by their positions, which start again at
    0 with each row; kernels of linear attention need the rows' lengths. A model that does not look at either lets
    every row see those before it, and nothing but the answers would tell.
    """
    import torch
    from trl.trainer.sft_trainer import DataCollatorForLanguageModeling

    from training.models.trial import not_packed

    def logits(ids: torch.Tensor, **told: Any) -> torch.Tensor:
        return model(input_ids=ids, use_cache=False, **told).logits[0].float()

    first, second = LENGTHS
    ids = torch.arange(1, first + second + 1) % model.config.get_text_config().vocab_size
    rows = [{"input_ids": each, "labels": each} for each in (ids[:first].tolist(), ids[first:].tolist())]
    batch = DataCollatorForLanguageModeling(pad_token_id=0, padding_free=True)(rows)
    told = {name: each.to(model.device) if isinstance(each, torch.Tensor) else each for name, each in batch.items()}
    ids = told.pop("input_ids")
    del told["labels"]
    with torch.no_grad():
        alone, leaking = logits(ids[:, first:]), logits(ids)[first:]
        try:
            packed = logits(ids, **told)[first:]
        except (TypeError, ValueError) as error:
            raise BadConfig(not_packed(model, f"packed rows cannot be computed here: {error}")) from error
    effect = float((leaking - alone).abs().max())
    apart = float((packed - alone).abs().max())
    if apart > LEAK * effect:
        seen = f"packed rows see each other (logits move by {apart:.2g} of {effect:.2g} with attention {attention})"
        raise BadConfig(not_packed(model, seen))


if __name__ == "__main__":
    from training.run.session import run_command

    run_command("sft", SftSettings, train)
