"""Direct preference optimisation: of two answers to a prompt the preferred one becomes likelier.

    accelerate launch -m training.dpo --config training/configs/embedded/dpo.yaml

The chain that the run starts from is also the reference, exactly (`training.models.start`), so the first loss
is ln 2. Training on preferences can destroy what a model knew: a monitor (`training.run.watch`) asks it
again and again. Rows are used whole, never cut; TRL's changed defaults are set outright.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from datasets import Dataset
from trl import DPOConfig, DPOTrainer

from evals.questions import SYSTEM_PROMPT
from training.config import DpoSettings, Request
from training.data.preferences import Preferences, read_preferences
from training.data.questions import watched_questions
from training.data.tokens import length_of, within
from training.models.base import Base, find_base, load_tokenizer
from training.models.policy import policy_of
from training.models.start import Start, start_of
from training.run.alarms import AlarmCallback, alarms_of
from training.run.folder import announce, say
from training.run.session import Session, common_arguments, load_base_for, record_of, run_command, session
from training.run.trainer import SafeTrainer
from training.run.watch import ForgettingMonitor

CAREFUL_BETA = 0.1
"""Below it models of this study lost what they had been taught."""


class PreferenceTrainer(SafeTrainer, DPOTrainer):
    """TRL's DPOTrainer, safe to kill at any moment."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    run_command("dpo", DpoSettings, train, arguments)


def train(request: Request) -> None:
    """Train an adapter on top of a chain and leave it, with the longer chain, in the run folder."""
    settings = request.settings
    assert isinstance(settings, DpoSettings)
    base = find_base(settings.base, announce)
    start = start_of(settings, base)
    data = read_preferences(settings.data, start.system_prompt or SYSTEM_PROMPT)
    tokenizer = load_tokenizer(base)
    lengths = {pair.name: length_of(pair.row(), tokenizer) for pair in data.pairs}
    data = within(data, lengths, settings)
    record = record_of("dpo", request, base, {**data.record(), **start.record()})
    with session(record, Path(settings.output), overwrite=request.overwrite) as current:
        trainer = build_trainer(settings, data, start, base)
        _watch(trainer, settings, data, start, current)
        if current.train(trainer):
            current.leave(trainer, start, base)


def build_trainer(settings: DpoSettings, data: Preferences, start: Start, base: Base) -> PreferenceTrainer:
    """Return the trainer of an adapter on the chain, which is also the reference."""
    say(f"loading {base.public_name} and {', '.join(start.record())}")
    model, tokenizer = load_base_for(settings, base)
    longest = settings.max_length
    kind = "pairs of plain texts, no chat template" if data.pairs[0].is_plain else "pairs of answers"
    say(f"training on {len(data.pairs)} {kind}, of at most {longest} tokens")
    for what, count in data.notes.items():
        say(f"{count} x {what}")
    _warn(settings)
    return PreferenceTrainer(
        model=policy_of(model, start, settings),
        args=DPOConfig(**options(settings)),
        train_dataset=Dataset.from_list([pair.row() for pair in data.pairs]),
        processing_class=tokenizer,
    )


def options(settings: DpoSettings) -> dict[str, Any]:
    """Return every training argument of TRL's that has an effect; none is left to its default."""
    return {
        **common_arguments(settings),
        "beta": settings.beta,
        "loss_type": [settings.loss_type, "sft"] if settings.sft_weight else [settings.loss_type],
        "loss_weights": [1.0, settings.sft_weight] if settings.sft_weight else None,
        "label_smoothing": settings.label_smoothing,
        "f_divergence_type": "reverse_kl",
        "f_alpha_divergence_coef": 0.5,
        "ld_alpha": None,
        "use_weighting": False,
        "discopop_tau": 0.05,
        "max_length": settings.max_length,
        "truncation_mode": "keep_start",
        "padding_free": False,
        "pad_to_multiple_of": None,
        "precompute_ref_log_probs": False,
        "sync_ref_model": False,
        "disable_dropout": True,
        "router_aux_loss_coef": None,
        "activation_offloading": False,
    }


def _watch(
    trainer: PreferenceTrainer,
    settings: DpoSettings,
    data: Preferences,
    start: Start,
    current: Session,
) -> None:
    """Let the run be watched: its figures, and what the model still knows."""
    trainer.add_callback(AlarmCallback(current.run, alarms_of("dpo")))
    if not settings.monitor_steps:
        return
    questions = watched_questions(settings.monitor_data, settings.monitor_questions, settings.seed, data.questions)
    prompt = start.system_prompt or SYSTEM_PROMPT
    trainer.add_callback(ForgettingMonitor(trainer, settings, questions, prompt, current.run, current.stop.ask))


def _warn(settings: DpoSettings) -> None:
    """Say what is known to go wrong with these settings."""
    if settings.beta < CAREFUL_BETA:
        say(
            f"warning: beta {settings.beta:g} is aggressive; at 0.05 preference training destroyed what a model"
            f" of this study had learned. Use {CAREFUL_BETA} or more, or keep an eye on the monitor."
        )
    if settings.lora_dropout:
        say("lora_dropout has no effect here: DPO compares probabilities, which dropout would blur")


if __name__ == "__main__":
    main()
