"""A reward model: of two answers to a question the one that people preferred gets the higher score.

    accelerate launch -m training.reward --config training/configs/embedded/reward.yaml

The score of an answer is the logit of "Yes" less that of "No" as the next token behind the answer's end, so a reward model is
an adapter like every other and can be checked, exported and published as one. Where people said how much better an answer is,
the scores are asked to be as far apart (Llama 2, arXiv:2307.09288, section 3.2.2). Its accuracy is measured on pairs that are
held out, whole questions at a time, by what was written to the run folder.
"""

import math
from collections.abc import Callable, Sequence
from statistics import fmean, pstdev
from typing import TYPE_CHECKING, Any

from pydantic import Field

from evals.errors import BadConfig
from evals.stats.intervals import DRAWS, Units, percentile_interval, resample, wilson
from training.config import StageSettings

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from training.data.tokens import DataRow, Rows
    from training.run.session import Prepared
    from training.upstream import SafeTrainer

BATCH = 8


class RewardSettings(StageSettings):
    """Settings of a reward model."""

    about = "Learn to score answers from pairs of a better and a worse one, for GRPO (--reward)."
    example = "--config training/configs/embedded/reward.yaml --data votes --output runs/rm"
    scores_twice = False
    is_asked = False

    max_length: int = Field(256, ge=16, description="longest question plus answer, tokens")
    hold_out: float = Field(
        0.2, ge=0.0, le=0.5, description="share of the pairs, whole questions, that its accuracy is measured on"
    )
    eval_steps: int = Field(25, ge=0, description="optimizer steps between looks at their loss; 0 = none")
    use_margins: bool = Field(
        True, description="ask for a larger difference of scores where people said how much better (margin, strength)"
    )
    centre: float = Field(0.01, ge=0.0, description="pull of both scores of a pair towards 0; 0 = none")

    @property
    def has_dev(self) -> bool:
        """Whether pairs are held out."""
        return bool(self.hold_out)

    @property
    def tokens_per_row(self) -> int:
        """Two answers with their question."""
        return 2 * self.max_length

    def read_rows(self, chain_prompt: str | None) -> "Rows[Any]":
        """Return pairs of answers, and those that are held out."""
        from training.data.dev import with_dev, with_held_out
        from training.data.preferences import read_preferences

        if self.eval_data:
            raise BadConfig("eval_data is for stages that answer; a reward model is measured on its hold_out.")
        data = self.mix_sources(lambda sources: read_preferences(sources, chain_prompt))
        return with_dev(with_held_out(data, self.hold_out, self.seed), self, None)


def options(settings: RewardSettings) -> dict[str, Any]:
    """Return the stage's own training arguments; tests/training/cases/trl_arguments.yaml has what TRL makes of them."""
    return {
        "center_rewards_coefficient": settings.centre or None,
        "max_length": settings.max_length,
        "pad_to_multiple_of": None,
    }


def train(ready: "Prepared[RewardSettings]") -> None:
    """Train an adapter and leave it in the run folder, with what it is worth on pairs that it has not seen."""
    from training.run.folder import say
    from training.run.session import processes

    with ready.session() as current:
        current.train(build_trainer(ready))
        if current.stop.is_asked or not processes().is_main_process:
            return
        say("scoring the pairs with what was written")
        scorer = Scorer(str(current.run.path), ready.settings.base)
        scores = [score for pair in scorer.pairs(ready.data) for score in pair]
        current.result |= {"reward_mean": round(fmean(scores), 6), "reward_deviation": round(pstdev(scores), 6)}
        if ready.data.held:
            found = accuracy(ready.data.held, scorer)
            current.result |= found
            say(
                f"held out: {found['held_out_accuracy']:.1%} of {found['held_out_pairs']} pairs in order"
                f" [{found['held_out_low']:.1%}, {found['held_out_high']:.1%}];"
                f" the longer answer is the better one in {found['held_out_longer']:.1%}"
            )


def build_trainer(ready: "Prepared[RewardSettings]") -> "SafeTrainer":
    """Return the trainer of an adapter on the start."""
    from trl import RewardConfig, RewardTrainer

    from training.upstream import ScoreTrainer

    settings, tokenizer = ready.settings, ready.tokenizer
    measured: dict[str, Any] = {"per_device_eval_batch_size": settings.batch, "prediction_loss_only": True}
    told = RewardConfig(**ready.arguments | options(settings) | measured)
    model = ready.model()
    model.config.num_labels = 1  # what TRL asks of a model that scores
    rows, held = (tokenize_pairs(data, tokenizer, settings) for data in (ready.data, ready.data.held))
    return ready.trainer(ScoreTrainer.scoring(RewardTrainer, score_tokens(tokenizer)), told, rows, held, model)


def tokenize_pairs(
    data: "Rows[Any] | None", tokenizer: "PreTrainedTokenizerBase", settings: RewardSettings
) -> list[Any]:
    """Return the pairs as tokens, each answer behind its question, with their margins where these are used."""
    from training.data.tokens import sequences_of

    rows = []
    for item in data.items if data else ():
        row = {f"{name}_ids": [*each.ids] for name, each in sequences_of(item.row(), tokenizer).items()}
        rows.append({**row, "margin": item.margin or 0.0} if settings.use_margins else row)
    return rows


def score_tokens(tokenizer: "PreTrainedTokenizerBase") -> tuple[int, int]:
    """Return the tokens whose logits make the score; BadConfig for a base that cannot tell them apart."""
    yes, no = (tokenizer(word, add_special_tokens=False)["input_ids"][-1] for word in ("Yes", "No"))
    if yes == no:
        raise BadConfig(
            "the base's tokenizer writes Yes and No alike, so no score can be read off them; use another base."
        )
    return yes, no


class Scorer:
    """The last stage of a chain, read as a reward model."""

    def __init__(self, run: str, base: str | None = None) -> None:
        from training.models.chain import load_chain

        self.chain = load_chain(run, base=base)
        self._adapters = self.chain.adapters_of_stage[self.chain.stages[-1]]
        self._tokens = score_tokens(self.chain.tokenizer)

    def scores(self, rows: Sequence["DataRow"]) -> list[float]:
        """Return the score of each row's `completion` behind its `prompt`, in logits."""
        import torch

        from training.data.tokens import sequences_of
        from training.models.stack import pad_texts
        from training.upstream import next_token_logits

        chain, found = self.chain, list[float]()
        texts = [sequences_of(row, chain.tokenizer)["completion"].ids for row in rows]
        for some in (texts[at : at + BATCH] for at in range(0, len(texts), BATCH)):
            ids, own = pad_texts(some, chain.stack.device, at_end=True)
            with torch.inference_mode(), chain.stack.lock, chain.stack.rows([self._adapters] * len(some)):
                logits = next_token_logits(chain.stack.model, ids, own.long()).float()
            yes, no = self._tokens
            found += (logits[:, yes] - logits[:, no]).tolist()
        return found

    def pairs(self, data: "Rows[Any]") -> list[tuple[float, float]]:
        """Return the scores of the better and of the worse answer of each pair."""
        rows = data.trl_rows().values()
        sides = (
            [{"prompt": row["prompt"], "completion": row[name]} for row in rows] for name in ("chosen", "rejected")
        )
        return list(zip(*map(self.scores, sides), strict=True))


def accuracy(held: "Rows[Any]", scorer: Scorer) -> dict[str, float | int]:
    """Return in how many of the pairs the better answer has the higher score, with its interval over questions.

    `held_out_longer` is the same for a rule that takes the longer answer.
    """
    import numpy as np

    right = np.array([float(better > worse) for better, worse in scorer.pairs(held)])
    longer = [len(str(row["chosen"])) > len(str(row["rejected"])) for row in held.trl_rows().values()]
    units = Units.of([next(iter(held.asks(item))) for item in held.items])
    drawn = resample(lambda weights: {"share": (weights * right).sum(1) / weights.sum(1)}, units, DRAWS, 0)["share"]
    span = percentile_interval(drawn) if 0 < right.mean() < 1 else wilson(right.mean() * units.n, units.n)
    low, high = span or (math.nan, math.nan)
    values = {"accuracy": right.mean(), "low": low, "high": high, "longer": fmean(longer)}
    return {
        "held_out_pairs": held.count,
        "held_out_questions": units.n,
        **{f"held_out_{name}": round(float(value), 4) for name, value in values.items()},
    }


class ModelReward:
    """A reward model beside the verifiers: (1 - share) of their reward and `share` of the model's, in 0..1.

    A score is put on a scale of 0 to 1 by the mean and the deviation of those of the pairs that the model learned from.
    Where no verifier scores an answer the model's counts alone.
    """

    __name__ = "reward"

    def __init__(self, run: str, share: float, verifiers: Callable[..., list[float | None]]) -> None:
        from pathlib import Path

        from training.models.manifest import chain_file
        from training.run.folder import RunFolder

        folder = Path(chain_file(run)).parent
        record = RunFolder(folder).record()
        if record is None or "reward_mean" not in record.result:
            raise BadConfig(
                f"reward is {run!r}, which is no reward model; name the run folder of a finished `assay train reward`."
            )
        self.share, self.verifiers, self.scorer = share, verifiers, Scorer(run)
        self.mean, self.deviation = (float(record.result[f"reward_{name}"]) for name in ("mean", "deviation"))
        self.facts = {
            "reward model": record.name,
            "reward model sha256": [*self.scorer.chain.stage_checksums.values()][-1],
        }

    def __call__(
        self,
        *,
        completions: Sequence[Any],
        prompts: Sequence[Any],
        log_metric: Any = None,
        log_extra: Any = None,
        **columns: Any,
    ) -> list[float]:
        """Return one reward per completion; both parts go to TRL's log."""
        told = {"log_metric": log_metric, "log_extra": log_extra}
        verified = self.verifiers(completions=completions, prompts=prompts, **told, **columns)
        rows = [{"prompt": asked, "completion": said} for asked, said in zip(prompts, completions, strict=True)]
        scaled = ((score - self.mean) / (self.deviation or 1.0) for score in self.scorer.scores(rows))
        scores = [1 / (1 + math.exp(-max(-30.0, min(30.0, each)))) for each in scaled]
        if log_metric is not None:
            log_metric("reward_model", fmean(scores))
        if log_extra is not None:
            log_extra("reward model", scores)
        shares = [self.share if each is not None else 1.0 for each in verified]
        return [(1 - s) * (v or 0.0) + s * m for s, v, m in zip(shares, verified, scores, strict=True)]


if __name__ == "__main__":
    from training.run.session import run_command

    run_command("reward", RewardSettings, train)
