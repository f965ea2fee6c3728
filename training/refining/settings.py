"""Settings of the refiner's stage: everything of GRPO but the verifiers, then reward, judge and alarms."""

from dataclasses import dataclass
from typing import Literal

from evals.errors import BadConfig
from evals.schema.refining import RewardConfig
from training.config import SampledSettings
from training.judging.settings import MAX_VOTES, check_votes
from training.setting import setting

HEURISTIC = "heuristic"


@dataclass(frozen=True)
class RefinerSettings(SampledSettings):
    """Settings of GRPO on answers with citations; `data` are refiner-train or JSONL files of records.

    A prompt over `max_prompt_length` loses passages that nothing rests on; what is still too long then
    is refused or dropped. The reward's settings are those of `assay refiner score`.
    """

    judge: str = setting("heuristic (compares words), or the address of a server", default="")
    judge_model: str = setting("model to ask of the server; empty = the one it lists", default="")
    judge_key_env: str = setting("variable that holds the server's key; empty = none", default="")
    judge_allow_remote: bool = setting("let another machine read all that is judged", default=False)
    judge_mode: Literal["batched", "per_item"] = setting(
        "all items of an answer in one request, or each in its own", default="batched"
    )
    judge_votes: int = setting(
        "votes on each verdict, two at first and the others where these differ: the majority stands",
        default=1,
        low=1,
        high=MAX_VOTES,
    )
    noise_limit: float = setting(
        "items whose votes lie further apart than this share of the scale, on average over a question's"
        " answers, are left out of their reward; 1 = none",
        default=1.0,
        low=0.0,
        high=1.0,
    )
    judge_concurrency: int = setting("requests at a time, per process", default=64, low=1)
    judge_timeout_seconds: float = setting("longest wait for a reply", default=60.0, low=0.01)
    judge_deadline_seconds: float = setting(
        "longest wait for all answers of a step; those not judged by then have no reward",
        default=600.0,
        low=0.01,
    )
    judge_retries: int = setting("further tries where one may help", default=3, low=0, high=20)
    judge_cache: str = setting("file that keeps verdicts; empty = none", default="")
    second_judge: str = setting(
        "another judge that reads some answers too, to see whether the two drift apart; empty = none",
        default="",
    )
    second_share: float = setting("share of answers it reads", default=0.05, low=0.0, high=1.0)
    max_none_fraction: float = setting(
        "share of a step's answers that may stay without verdict", default=0.25, low=0.0, high=1.0
    )
    none_patience: int = setting("steps in a row above it that stop the run", default=1, low=1)
    static_rubrics: bool = setting("grade by the three items that fit every record", default=True)
    items_report: str = setting(
        "report of `assay refiner items`: items that it drops are not asked; empty = all are",
        default="",
    )
    retire_after: int = setting(
        "an item on which a question's answers were all alike so often in a row is not asked any"
        " more; 0 = never",
        default=3,
        low=0,
    )
    contrast_floor: float = setting(
        "an item weighs by how far it told a question's answers apart at the last visit, at least by"
        " this share of its weight; 1 = by its weight",
        default=1.0,
        low=0.01,
        high=1.0,
    )
    score_scale: float = setting("highest number a judge gives an item", default=2.0, low=0.01)
    citation_weight: float = setting("share of the citations", default=0.2, low=0.0, high=1.0)
    citation_metric: Literal["f1", "precision", "recall"] = setting("of citations", default="f1")
    citation_level: Literal["snippet", "paper"] = setting("what is cited", default="snippet")
    apply_citation: bool = setting("reward citations at all", default=True)
    combine: Literal["convex", "additive"] = setting(
        "(1 - w) rubric + w citations, or rubric + w citations", default="convex"
    )
    gate: Literal["off", "multiply", "require"] = setting(
        "what a format fault costs: nothing, its share, everything", default="require"
    )
    empty_answer: Literal["auto", "zero", "scored"] = setting(
        "an answer without a word earns nothing, or is graded; auto = graded with gate off only",
        default="auto",
    )
    verification_reward: float = setting("the highest reward", default=10.0, low=0.01)
    reasoning_tags: tuple[str, ...] = setting(
        "names of a leading block that is not part of the answer", default=()
    )
    max_words_per_claim: int = setting("a longer claim is unsupported; 0 = any", default=80, low=0)
    max_ids_per_claim: int = setting("one with more is unsupported; 0 = any", default=8, low=0)
    held_out_steps: int = setting(
        "optimizer steps between looks at records that are not trained on; 0 = none are held out",
        default=0,
        low=0,
    )
    held_out_share: float = setting(
        "of the studies and tissues (groups) that are held out", default=0.1, low=0.01, high=0.5
    )
    held_out_patience: int = setting(
        "looks in a row without a better score after which training is over; 0 = to the last step",
        default=0,
        low=0,
    )
    held_out_keep: Literal["auto", "best", "last"] = setting(
        "weights that a run ends with: of the best look at held-out records, or of the last step; auto ="
        " best with a held_out_patience, else last",
        default="auto",
    )
    monitor_stop: bool = setting("stop the run at the first alarm", default=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.chain.strip():
            raise BadConfig(
                "chain is empty; name the run folder of the SFT stage that learned the grammar, such as"
                " runs/refiner/sft: answers that no one could read have no reward to learn from."
            )
        for name in ("judge", *(["second_judge"] if self.second_judge else [])):
            if not is_judge(getattr(self, name)):
                raise BadConfig(
                    f"{name} is {getattr(self, name)!r}; it takes heuristic, which compares words and is"
                    " for small machines, or the address of an OpenAI-compatible server, such as"
                    " http://127.0.0.1:8000/v1 (vllm serve MODEL --host 127.0.0.1"
                    " --enable-prefix-caching)."
                )
        check_votes(self.judge, self.judge_votes)
        if self.judge_votes == 1 and self.noise_limit < 1.0:
            raise BadConfig(
                f"noise_limit is {self.noise_limit:g}, but one vote cannot lie apart; set judge_votes to 3,"
                " or noise_limit to 1."
            )

    @property
    def keeps_best(self) -> bool:
        """Whether a run ends with the weights of its best look at held-out records."""
        if self.held_out_keep == "auto":
            return self.held_out_patience > 0
        return self.held_out_keep == "best"

    def reward(self) -> RewardConfig:
        """Return how verdicts become a reward."""
        return RewardConfig(
            static_rubrics=self.static_rubrics,
            score_scale=self.score_scale,
            citation_level=self.citation_level,
            citation_metric=self.citation_metric,
            apply_citation=self.apply_citation,
            citation_weight=self.citation_weight,
            combine=self.combine,
            gate=self.gate,
            empty_answer=self.empty_answer,
            verification_reward=self.verification_reward,
            reasoning_tags=self.reasoning_tags,
            max_words_per_claim=self.max_words_per_claim,
            max_ids_per_claim=self.max_ids_per_claim,
        )


def is_judge(word: str) -> bool:
    """Return whether a word names a judge to train with: one that compares words, or a server."""
    return word == HEURISTIC or word.startswith(("http://", "https://"))
