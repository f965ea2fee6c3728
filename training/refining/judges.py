"""The judges that settings ask for, and whether the one that rewards is fit to: known pairs, before training."""

from pathlib import Path

from evals.refiner.judging import Judge
from training.judging.choice import judge_of
from training.judging.http import HttpJudge
from training.judging.probe import ProbeResult, probe
from training.judging.questions import VERSION
from training.judging.settings import HttpSettings
from training.refining.reward import Judging
from training.refining.settings import HEURISTIC, RefinerSettings


def judging_of(settings: RefinerSettings) -> Judging:
    """Return who judges; BadConfig for an address that may not be asked, or a key that is not set."""
    wants_second = settings.second_judge and settings.second_share
    return Judging(
        judge=_judge(settings, settings.judge, settings.judge_model),
        deadline_seconds=settings.judge_deadline_seconds,
        second=_judge(settings, settings.second_judge, "") if wants_second else None,
        second_share=settings.second_share,
        noise_limit=settings.noise_limit,
    )


def fit_judge(judging: Judging) -> ProbeResult:
    """Return how the judge orders known pairs; BadConfig if it is not fit to reward anything."""
    found = probe(judging.judge, judging.deadline_seconds)
    found.refuse_unless_fit(judging.judge.label)
    return found


def judge_facts(settings: RefinerSettings, judging: Judging, found: ProbeResult) -> dict[str, str]:
    """Return what run.json keeps of the judges: who they are, how they are asked, how they were tried.

    Never an address or a key.
    """
    is_http = isinstance(judging.judge, HttpJudge)
    return {
        "judged by": judging.judge.label,
        "judge_mode": settings.judge_mode if is_http else "no language model",
        "judge_votes": str(settings.judge_votes),
        "judge_prompt": VERSION if is_http else "none",
        "judge_probe": f"{found.right} of {found.total} known pairs ordered right",
        **({"also judged by": judging.second.label} if judging.second else {}),
    }


def _judge(settings: RefinerSettings, word: str, model: str) -> Judge:
    if word == HEURISTIC:
        return judge_of("heuristic")
    return judge_of(
        "http",
        HttpSettings(
            base_url=word,
            model=model,
            key_variable=settings.judge_key_env,
            allow_remote=settings.judge_allow_remote,
            mode=settings.judge_mode,
            concurrency=settings.judge_concurrency,
            timeout_seconds=settings.judge_timeout_seconds,
            retries=settings.judge_retries,
            seed=settings.seed,
            votes=settings.judge_votes,
            cache=Path(settings.judge_cache).expanduser() if settings.judge_cache else None,
        ),
    )
