"""The rows of each stage, from the data that its settings name. Nothing is loaded, so a plan reads them too."""

from typing import Any

from evals.questions import SYSTEM_PROMPT
from evals.schema import Example
from training.config import DpoSettings, GrpoSettings, RefinerSettings, ReviewSettings, SftSettings
from training.data.conversations import Conversation, check_chain_prompt, read_conversations
from training.data.preferences import Preference, read_preferences
from training.data.questions import grpo_data, sft_data, watched_questions
from training.data.refiner import RefinerData, are_records, check_refiner_chain, refiner_data
from training.data.tokens import Rows


def sft_rows(settings: SftSettings, chain_prompt: str | None) -> Rows[Any]:
    """Return questions with their answers, or records of the refiner with their references."""
    if not are_records(settings.data):
        return sft_data(settings.data, settings.seed, chain_prompt or SYSTEM_PROMPT)
    check_refiner_chain(chain_prompt)
    return refiner_data(settings.data, is_for_sft=True)


def dpo_rows(settings: DpoSettings, chain_prompt: str | None) -> Rows[Preference]:
    """Return pairs of answers; what the monitor is to ask is tried, so that it is refused before the base is loaded."""
    data = read_preferences(settings.data, chain_prompt or SYSTEM_PROMPT)
    if settings.monitor_steps:
        watched_questions(settings.monitor_data, 1, settings.seed, data.questions)
    return data


def grpo_rows(settings: GrpoSettings, chain_prompt: str | None) -> Rows[Example]:
    """Return questions that a verifier can score."""
    return grpo_data(settings.data, settings.seed, chain_prompt or SYSTEM_PROMPT)


def review_rows(settings: ReviewSettings, chain_prompt: str | None) -> Rows[Conversation]:
    """Return papers with what people objected to."""
    data = read_conversations(settings.data)
    check_chain_prompt(data, chain_prompt)
    return data


def refiner_rows(settings: RefinerSettings, chain_prompt: str | None) -> RefinerData:
    """Return records to answer, without those that are held out."""
    check_refiner_chain(chain_prompt)
    data = refiner_data(settings.data)
    return data.parted(settings.held_out_share, settings.seed)[0] if settings.held_out_steps else data
