"""Direct preference optimisation: of two answers to a prompt the preferred one becomes likelier.

    accelerate launch -m training.dpo --config training/configs/embedded/dpo.yaml

The chain that the run starts from is also the reference, exactly (`training.models.start`), so the first loss
is ln 2. Training on preferences can destroy what a model knew: a dev set is asked again and again, and alarms
tell where accuracy falls or the distance to the reference grows. Rows are used whole, never cut; TRL's changed defaults are set outright.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from pydantic import Field

from training.config import StageSettings

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from training.data.tokens import Rows
    from training.run.session import Prepared
    from training.run.watch import Alarm
    from training.upstream import SafeTrainer


class PreferenceSettings(StageSettings):
    """Settings of every stage that learns from what people prefer; what `eval_data` asks must not be forgotten."""

    keeps_to_reference = True
    answers: ClassVar[tuple[str, ...]] = ("chosen", "rejected")
    """The columns of answers that its rows have."""

    beta: float = Field(
        0.1, ge=1e-4, le=10.0, description="pull towards the chain it starts from; below 0.1 knowledge is lost easily"
    )
    max_length: int = Field(256, ge=16, description="longest question plus answer, tokens")
    eval_data: tuple[str, ...] = Field(
        ("kmp-dev",), description="questions asked again and again, as data, whose answers must not be forgotten"
    )
    eval_steps: int = Field(25, ge=0, description="optimizer steps between evaluations on them; 0 = none")
    eval_examples: int = Field(24, ge=0, description="how many are asked at most; 0 = all")
    monitor_max_drop: float = Field(0.15, ge=0.0, le=1.0, description="fall of eval/accuracy that is too much")
    monitor_max_kl: float = Field(
        0.5, ge=0.0, description="distance to the reference (eval/kl) that is too much, nats per token"
    )
    monitor_stop: bool = Field(False, description="stop the run when either is too much")

    @property
    def tokens_per_row(self) -> int:
        """Two answers with their question, or an answer with its own question and with another one."""
        return 2 * self.max_length

    def read_rows(self, chain_prompt: str | None) -> "Rows[Any]":
        """Return what people prefer, and the questions that must not be forgotten."""
        from training.data.dev import dev_questions, with_dev
        from training.data.preferences import read_preferences

        data = self.mix_sources(lambda sources: read_preferences(sources, chain_prompt, self.answers))
        return with_dev(data, self, dev_questions(data, self.eval_data, self)) if self.eval_steps else data


class DpoSettings(PreferenceSettings):
    """Settings of direct preference optimisation."""

    about = "Learn from pairs of a better and a worse answer."
    example = "--config training/configs/biorlhf/dpo.yaml --profile single-gpu --data votes.jsonl"
    starts_from = "that DPO starts from, such as runs/embedded/sft."

    loss_type: str = Field("sigmoid", description="one of TRL's losses: sigmoid, ipo, hinge, robust, apo_zero, ...")
    sft_weight: float = Field(
        0.0,
        ge=0.0,
        le=10.0,
        description="weight of the SFT loss on the preferred answers (RPO, arXiv:2404.19733): keeps the form of answers",
    )
    label_smoothing: float = Field(0.0, ge=0.0, le=0.49, description="share of labels taken to be wrong")


Preferring = TypeVar("Preferring", bound=PreferenceSettings)
CAREFUL_BETA = 0.1
"""Below it models of this study lost what they had been taught."""


def options(settings: DpoSettings) -> dict[str, Any]:
    """Return the stage's own training arguments; tests/training/cases/trl_arguments.yaml has what TRL makes of them."""
    return {
        "beta": settings.beta,
        "loss_type": [settings.loss_type, "sft"] if settings.sft_weight else [settings.loss_type],
        "loss_weights": [1.0, settings.sft_weight] if settings.sft_weight else None,
        "label_smoothing": settings.label_smoothing,
        "max_length": settings.max_length,
        "pad_to_multiple_of": None,
    }


def train(ready: "Prepared[DpoSettings]") -> None:
    """Train an adapter on top of a chain and leave it, with the longer chain, in the run folder."""
    train_preferences(ready, build_trainer)


def train_preferences(ready: "Prepared[Preferring]", build: "Callable[[Prepared[Preferring]], SafeTrainer]") -> None:
    """Train an adapter by a stage's trainer, with the alarms of preferences and of what is forgotten."""
    from training.run.watch import AlarmCallback, StoppingAlarmCallback, alarms_of

    settings = ready.settings
    with ready.session() as current:
        trainer = build(ready)
        trainer.add_callback(AlarmCallback(current.run, alarms_of("preferences")))
        stop = current.stop.ask if settings.monitor_stop else None
        trainer.add_callback(StoppingAlarmCallback(current.run, forgetting_alarms(settings), stop, window=1))
        current.train(trainer)


def forgetting_alarms(settings: PreferenceSettings) -> "tuple[Alarm, Alarm]":
    """Return the alarms over the dev set: right answers lost, and distance to the reference."""
    from training.run.watch import Alarm

    return (
        Alarm(
            "eval/accuracy",
            "of the watched questions {now:.0%} are answered right, {before:.0%} before training: knowledge is being lost;"
            " raise beta or lower learning_rate",
            way="down",
            slack=settings.monitor_max_drop,
        ),
        Alarm(
            "eval/kl",
            "answers are {now:.2g} nats per token away from the reference (allowed"
            f" {settings.monitor_max_kl:g}): raise beta or lower learning_rate",
            above=settings.monitor_max_kl,
        ),
    )


def build_trainer(ready: "Prepared[DpoSettings]") -> "SafeTrainer":
    """Return the trainer of an adapter on the chain, which is also the reference."""
    from trl import DPOConfig, DPOTrainer

    from training.upstream import PairTrainer

    told = DPOConfig(**ready.arguments, **options(ready.settings))
    say_preferences(ready)
    return ready.trainer(PairTrainer.before(DPOTrainer), told, tokenize_answers(ready.data, ready.tokenizer))


def say_preferences(ready: "Prepared[PreferenceSettings]") -> None:
    """Say what the rows are, and which settings should be thought over."""
    from training.run.folder import say

    settings = ready.settings
    if isinstance(ready.data.items[0].prompt, str):
        say("the rows are plain texts: no chat template is used")
    if settings.beta < CAREFUL_BETA:
        say(
            f"warning: beta {settings.beta:g} is aggressive; at 0.05 preference training destroyed what a model"
            f" of this study had learned. Use {CAREFUL_BETA} or more, or keep an eye on eval/accuracy."
        )
    if settings.lora_dropout:
        say(f"lora_dropout has no effect here: {ready.stage.upper()} compares probabilities, which dropout would blur")


def tokenize_answers(data: "Rows[Any]", tokenizer: "PreTrainedTokenizerBase") -> list[dict[str, Any]]:
    """Return the rows as tokens: what a dry run shows, with the question as it is asked in use, is what is learned."""
    from training.data.tokens import sequences_of

    rows = []
    for row in data.trl_rows().values():
        found = sequences_of(row, tokenizer)
        given = min(each.given for each in found.values())
        tokens = {"prompt_ids": [*next(iter(found.values())).ids[:given]]}
        tokens |= {f"{name}_ids": [*each.ids[given:]] for name, each in found.items()}
        rows.append({**tokens, "label": row["label"]} if "label" in row else tokens)
    return rows


if __name__ == "__main__":
    from training.run.session import run_command

    run_command("dpo", DpoSettings, train)
