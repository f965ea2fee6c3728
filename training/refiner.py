"""GRPO of the refiner: answers that cite evidence are sampled, judged by rubric and citations, compared.

    accelerate launch -m training.refiner --config training/configs/embedded/refiner-grpo.yaml

Starts from a chain whose SFT stage learned the grammar (`assay train sft` on the same records). The
judge is tried on known pairs first; who it is and how it was asked stands in run.json. An answer without
a verdict has no reward, and a judge that fails too often ends the run. Everything else is GRPO as in
`training.grpo`.
"""

from typing import TYPE_CHECKING, Any, Literal, cast

from pydantic import Field

from evals.schema.refiner import RewardConfig
from training.grpo import SampledSettings, policy_trainer

if TYPE_CHECKING:
    from evals.refine.judge import Judge
    from training.data.tokens import Rows
    from training.run.session import Prepared
    from training.upstream import SampledTrainer

HEURISTIC = "heuristic"


class RefinerSettings(SampledSettings, RewardConfig):
    """Settings of GRPO on answers with citations; `data` are refiner-train or JSONL files of records.

    A prompt over `max_prompt_length` loses passages that nothing rests on; what is still too long then
    is refused or dropped. The reward's settings are those of `assay refiner score`.
    """

    about = "Reward answers that cite evidence by rubric and citations (GRPO)."
    example = "--config training/configs/embedded/refiner-grpo.yaml --judge heuristic --dry-run"
    holds_out = True
    starts_from = (
        "of the SFT stage that learned the grammar, such as runs/refiner/sft: answers that no one could read have no"
        " reward to learn from."
    )

    judge: str = Field(
        pattern=f"^({HEURISTIC}$|https?://)",
        description="heuristic, which compares words and is for small machines, or the address of an OpenAI-compatible"
        " server, such as http://127.0.0.1:8000/v1 (vllm serve MODEL --host 127.0.0.1 --enable-prefix-caching)",
    )
    judge_model: str = Field("", description="model to ask of the server; empty = the one it lists")
    judge_key_env: str = Field("", description="variable that holds the server's key; empty = none")
    judge_allow_remote: bool = Field(False, description="let another machine read all that is judged")
    judge_mode: Literal["batched", "per_item"] = Field(
        "batched", description="all items of an answer in one request, or each in its own"
    )
    judge_concurrency: int = Field(64, ge=1, description="requests at a time, per process")
    judge_timeout_seconds: float = Field(60.0, ge=0.01, description="longest wait for a reply")
    judge_deadline_seconds: float = Field(
        600.0, ge=0.01, description="longest wait for all answers of a step; those not judged by then have no reward"
    )
    judge_retries: int = Field(3, ge=0, le=20, description="further tries where one may help")
    judge_cache: str = Field("", description="file that keeps verdicts; empty = none")
    max_none_fraction: float = Field(
        0.25, ge=0.0, le=1.0, description="share of a step's answers that may stay without verdict"
    )
    none_patience: int = Field(1, ge=1, description="steps in a row above it that stop the run")
    held_out_share: float = Field(
        0.1,
        ge=0.01,
        le=0.5,
        description="share of the studies and tissues (groups) that are the dev set where eval_data names none",
    )
    monitor_stop: bool = Field(False, description="stop the run at the first alarm")

    def read_rows(self, chain_prompt: str | None) -> "Rows[Any]":
        """Return records to answer, without those that are the dev set."""
        from training.data.dev import records, with_dev
        from training.data.refine import check_refiner_chain, refiner_data

        check_refiner_chain(chain_prompt)
        data, held = refiner_data(self.sources), None
        if self.eval_steps and not self.eval_data:
            data, held = data.split_groups(self.held_out_share, self.seed)
        data = self.mix_sources(refiner_data, data)
        if not self.eval_steps:
            return data
        asked = held or refiner_data(self.eval_data)
        return with_dev(data, self, records(data, asked, self, self.reward()))

    def check_judge(self) -> None:
        """Raise BadConfig for the address of a judge that may not be asked."""
        if self.judge != HEURISTIC:
            from training.judge.client import checked_address

            checked_address(self.judge, allow_remote=self.judge_allow_remote)

    def check_key(self) -> None:
        """Raise BadConfig if the judge's key is not set on this machine."""
        if self.judge != HEURISTIC:
            from training.judge.client import key_of

            key_of(self.judge_key_env, self.judge)

    def reward(self) -> RewardConfig:
        """Return how verdicts become a reward."""
        return RewardConfig(**{name: getattr(self, name) for name in RewardConfig.model_fields})


def train(ready: "Prepared[RefinerSettings]") -> None:
    """Train an adapter on top of a chain and leave it, with the longer chain, in the run folder."""
    from training.refiner_rewards import judge_facts, judge_for
    from training.run.folder import say
    from training.run.watch import AlarmCallback, StoppingAlarmCallback, alarms_of

    settings = ready.settings
    judge = judge_for(settings)
    say(f"trying the judge {judge.label} on known pairs")
    with ready.session(**judge_facts(settings, judge)) as current:
        trainer = build_trainer(ready, judge)
        trainer.add_callback(AlarmCallback(current.run, alarms_of("sampling")))
        stop = current.stop.ask if settings.monitor_stop else None
        trainer.add_callback(StoppingAlarmCallback(current.run, alarms_of("refiner"), stop))
        current.train(trainer)
        trainer.run_async(cast(Any, trainer).reward_funcs[0].close())  # in the loop that made the judge's connections


def build_trainer(ready: "Prepared[RefinerSettings]", judge: "Judge") -> "SampledTrainer":
    """Return the trainer of an adapter on the chain, which is also the reference."""
    from training.data.refine import RefinerData
    from training.judge.judge import StopRule
    from training.refiner_rewards import RefinerReward
    from training.run.folder import say

    settings, data = ready.settings, ready.data
    assert isinstance(data, RefinerData)
    if data.trimmed:
        say(f"{len(data.trimmed)} records are trimmed to fit")
    stop = StopRule(settings.max_none_fraction, settings.none_patience)
    reward = RefinerReward(settings.reward(), judge, stop, settings.judge_deadline_seconds)
    return policy_trainer(ready, reward)


if __name__ == "__main__":
    from training.run.session import run_command

    run_command("refiner", RefinerSettings, train)
