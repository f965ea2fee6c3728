"""Direct preference optimisation: of two answers to a prompt the preferred one becomes likelier.

    accelerate launch -m training.dpo --config training/configs/embedded/dpo.yaml

The chain that the run starts from is also the reference, exactly (`training.models.start`), so the first loss
is ln 2. Training on preferences can destroy what a model knew: a monitor (`training.run.watch`) asks it
again and again. Rows are used whole, never cut; TRL's changed defaults are set outright.
"""

from typing import Any

from trl import DPOConfig, DPOTrainer

from training.config import DpoSettings, Request
from training.data.questions import watched_questions
from training.run.alarms import AlarmCallback, alarms_of
from training.run.folder import say
from training.run.session import Prepared, common_arguments, prepare, run_command, session
from training.run.watch import ForgettingMonitor
from training.upstream import SafeTrainer

CAREFUL_BETA = 0.1
"""Below it models of this study lost what they had been taught."""


def options(settings: DpoSettings) -> dict[str, Any]:
    """Return the training arguments; tests/training/cases/trl_arguments.yaml has what TRL makes of them."""
    return {
        **common_arguments(settings),
        "beta": settings.beta,
        "loss_type": [settings.loss_type, "sft"] if settings.sft_weight else [settings.loss_type],
        "loss_weights": [1.0, settings.sft_weight] if settings.sft_weight else None,
        "label_smoothing": settings.label_smoothing,
        "max_length": settings.max_length,
        "pad_to_multiple_of": None,
    }


class PreferenceTrainer(SafeTrainer, DPOTrainer):
    """TRL's DPOTrainer, safe to kill at any moment."""


def train(request: Request) -> None:
    """Train an adapter on top of a chain and leave it, with the longer chain, in the run folder."""
    ready = prepare("dpo", request)
    settings, data = ready.settings, ready.data
    assert isinstance(settings, DpoSettings)
    with session(ready) as current:
        trainer = build_trainer(ready)
        trainer.add_callback(AlarmCallback(current.run, alarms_of("dpo")))
        if settings.monitor_steps:
            count, asked = settings.monitor_questions, data.questions
            questions = watched_questions(settings.monitor_data, count, settings.seed, asked)
            stop = current.stop.ask
            trainer.add_callback(
                ForgettingMonitor(trainer, settings, questions, ready.system_prompt, current.run, stop)
            )
        current.train(trainer)


def build_trainer(ready: Prepared) -> PreferenceTrainer:
    """Return the trainer of an adapter on the chain, which is also the reference."""
    settings, data = ready.settings, ready.data
    assert isinstance(settings, DpoSettings)
    told = DPOConfig(**options(settings))  # before the base, which ZeRO-3 then loads in parts
    policy = ready.policy()
    if isinstance(data.items[0].prompt, str):
        say("the pairs are plain texts: no chat template is used")
    for what, count in data.facts.items():
        say(f"{count} x {what}")
    if settings.beta < CAREFUL_BETA:
        say(
            f"warning: beta {settings.beta:g} is aggressive; at 0.05 preference training destroyed what a model"
            f" of this study had learned. Use {CAREFUL_BETA} or more, or keep an eye on the monitor."
        )
    if settings.lora_dropout:
        say("lora_dropout has no effect here: DPO compares probabilities, which dropout would blur")
    return PreferenceTrainer(model=policy, args=told, train_dataset=ready.dataset(), processing_class=ready.tokenizer)


if __name__ == "__main__":
    run_command("dpo", train)
