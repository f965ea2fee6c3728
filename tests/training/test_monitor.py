"""What a look measures, held against the plain formulas on one question at a time."""

import pytest
import torch
from torch.nn.functional import kl_div
from transformers import PreTrainedTokenizerBase

from evals.errors import BadConfig
from evals.questions import DATASETS, kmp_test
from tests.models import ALL_LINEAR, SYSTEM_PROMPT, tiny_adapter, tiny_base
from tests.training.runs import one_thread
from training.config import SftSettings
from training.data.questions import prompt_of, watched_questions
from training.models.base import find_base, load_base
from training.models.policy import StackedPeftModel, lora_of, stacked_policy
from training.run.watch import KL, LENGTH, forgetting

__all__ = ["one_thread"]

Pair = tuple[StackedPeftModel, PreTrainedTokenizerBase]
QUESTIONS = tuple(sorted(DATASETS["kmp-train"]()[:11], key=lambda row: -len(row.prompt)))


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    """A policy that has moved away from its reference, base plus sft."""
    folder = tmp_path_factory.mktemp("monitor")
    base = tiny_base(folder / "model")
    sft = tiny_adapter(base, folder / "sft")
    model, tokenizer = load_base(find_base(str(base)), "float32")
    settings = SftSettings(data=("x",), output="x", lora_targets=ALL_LINEAR, lora_dropout=0.5)
    policy = stacked_policy(model, {"sft": sft}, lora_of(settings, model))
    policy.add_adapter("ref", policy.peft_config["default"])
    policy.set_adapter("default")
    for name, parameter in policy.named_parameters():
        if ".lora_B.ref." in name:
            parameter.data.zero_()
    with torch.random.fork_rng():
        torch.manual_seed(3)
        for name, parameter in policy.named_parameters():
            if ".lora_B.default." in name:
                parameter.data.normal_(0.0, 0.05)
    return policy, tokenizer


@torch.no_grad()
def alone(pair: Pair, question: int, tokens: int) -> tuple[float, int]:
    """The sum of KL over one answer and its length, computed without batch, padding or cache."""
    policy, tokenizer = pair
    policy.eval()
    text = tokenizer.apply_chat_template(
        prompt_of(QUESTIONS[question], SYSTEM_PROMPT), tokenize=False, add_generation_prompt=True
    )
    ids = tokenizer(text, add_special_tokens=False, return_tensors="pt")["input_ids"]
    total = 0.0
    for length in range(1, tokens + 1):
        ours = policy(ids).logits[0, -1].log_softmax(-1)
        with policy.disable_adapter():
            theirs = policy(ids).logits[0, -1].log_softmax(-1)
        total += float(kl_div(theirs, ours, reduction="sum", log_target=True))
        token = ours.argmax()
        ids = torch.cat([ids, token.view(1, 1)], dim=1)
        if token == tokenizer.eos_token_id:
            return total, length
    return total, tokens


def test_the_distance_is_the_mean_kl_per_written_token_whatever_the_batch(policy: Pair):
    look = forgetting(*policy, QUESTIONS, SYSTEM_PROMPT, 6)
    parts = [alone(policy, number, 6) for number in range(len(QUESTIONS))]
    tokens = sum(length for _, length in parts)
    assert look[KL] == pytest.approx(sum(total for total, _ in parts) / tokens, rel=1e-4)
    assert look[KL] > 0.01
    assert look[LENGTH] == pytest.approx(tokens / len(QUESTIONS))


def test_a_look_leaves_the_policy_and_chance_as_they_were(policy: Pair):
    model, _ = policy
    model.train()
    before = torch.random.get_rng_state()
    forgetting(*policy, QUESTIONS[:3], SYSTEM_PROMPT, 4)
    assert model.training
    assert model.active_adapters[0] == "default"
    assert torch.equal(torch.random.get_rng_state(), before)
    assert all(
        each.requires_grad == (".default." in name) for name, each in model.named_parameters() if ".lora_" in name
    )


def test_the_watched_questions_are_one_for_each_of_some_trained_facts():
    found = watched_questions(("kmp-dev",), 100, 0)
    assert len(found) > 20
    assert len({row.cluster for row in found}) == len(found)
    assert {row.split for row in found} == {"train"}
    assert watched_questions(("kmp-dev",), 10, 0) == watched_questions(("kmp-dev",), 10, 0)
    assert len(watched_questions(("kmp-dev",), 10, 0)) == 10


def test_a_question_that_is_trained_on_is_not_watched():
    whole = watched_questions(("kmp-dev",), 100, 0)
    rest = watched_questions(("kmp-dev",), 100, 0, {whole[0].prompt})
    assert rest == whole[1:]


def test_the_kmp_test_may_be_watched_and_other_test_rows_may_not():
    assert set(watched_questions(("kmp-test",), 100, 0)) <= set(kmp_test())
    with pytest.raises(BadConfig, match="kept for testing"):
        watched_questions(("pathways-heldout",), 100, 0)


def test_nothing_left_to_watch_is_an_error():
    asked = {row.prompt for row in watched_questions(("kmp-dev",), 100, 0)}
    with pytest.raises(BadConfig, match="nothing is left to watch"):
        watched_questions(("kmp-dev",), 100, 0, asked)
