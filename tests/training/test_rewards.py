import asyncio
import json
import pickle
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context

import pytest
from datasets import Dataset

from evals.errors import BadConfig
from evals.questions import DATASETS
from evals.schema import Example
from evals.verifiers import VERIFIERS, verify
from tests.coroutines import result_of
from training.data.questions import grpo_row, prompt_of
from training.rewards import OneVerifier, VerifierReward, text_of, verifier_reward

EXAMPLES = DATASETS["kmp-train"]()
DIRECT = next(each for each in DATASETS["pathways-train"]() if each.kind == "direct")
FREE = next(each for each in EXAMPLES if each.ground_truth.kind == "facts")


def column(*examples: Example) -> list[str]:
    return [str(grpo_row(example)["example"]) for example in examples]


def said(*texts: str) -> list[list[dict[str, str]]]:
    return [[{"role": "assistant", "content": text}] for text in texts]


def test_a_right_answer_earns_more_than_a_wrong_one_and_silence_earns_nothing():
    wrong = DIRECT.answer
    for up, down in (
        ("upregulated", "downregulated"),
        ("higher", "lower"),
        ("goes up", "goes down"),
    ):
        wrong = wrong.replace(up, "\0").replace(down, up).replace("\0", down)
    assert wrong != DIRECT.answer
    right_reward, wrong_reward, silent_reward = verifier_reward(
        completions=said(DIRECT.answer, wrong, ""), example=column(DIRECT, DIRECT, DIRECT)
    )
    assert right_reward is not None
    assert wrong_reward is not None
    assert right_reward > wrong_reward >= silent_reward == 0.0


def test_only_the_answer_line_earns_whatever_the_text_before_it_says():
    text, _, lines = DIRECT.answer.partition("\nAnswer: ")
    without_line = f"{text}\n{lines.splitlines()[1]}"
    in_text, in_line = verifier_reward(
        completions=said(without_line, f"Answer: {lines}"), example=column(DIRECT, DIRECT)
    )
    assert (in_text, in_line) == (0.0, verify(DIRECT, DIRECT.answer).reward)


def test_a_question_that_no_verifier_judges_is_not_scored():
    rewards = verifier_reward(completions=said(FREE.answer, DIRECT.answer), example=column(FREE, DIRECT))
    assert rewards[0] is None
    assert rewards[1] is not None


def test_the_reward_is_what_the_verifiers_say_with_the_weights_given():
    weights = {"V1": 1.0}
    text = DIRECT.answer
    assert VerifierReward(weights)(completions=said(text), example=column(DIRECT)) == [
        verify(DIRECT, text, weights).reward
    ]


def test_rows_that_repeat_earn_the_same_and_one_text_is_judged_anew_for_each_question():
    other = next(each for each in DATASETS["pathways-train"]() if each.answer != DIRECT.answer)
    asked = [DIRECT, other, DIRECT, other, DIRECT]
    texts = [DIRECT.answer, DIRECT.answer, DIRECT.answer, other.answer, ""]
    assert verifier_reward(completions=said(*texts), example=column(*asked)) == [
        verify(example, text).reward for example, text in zip(asked, texts, strict=True)
    ]


def test_a_single_verifier_gives_its_score_and_none_where_it_does_not_apply():
    kmp = next(each for each in EXAMPLES if each.ground_truth.kind == "label")
    texts = (DIRECT.answer, kmp.answer)
    for name in VERIFIERS:
        rewards = OneVerifier(name)(completions=said(*texts), example=column(DIRECT, kmp))
        assert rewards == [
            verify(example, text).scores[name] for example, text in zip((DIRECT, kmp), texts, strict=True)
        ]
    assert OneVerifier("V2")(completions=said(kmp.answer), example=column(kmp)) == [None]
    with pytest.raises(BadConfig, match="no verifier is called V9"):
        OneVerifier("V9")


def test_plain_text_completions_are_scored_as_conversations_are():
    text = DIRECT.answer
    plain = verifier_reward(completions=[text], example=column(DIRECT))
    assert plain == verifier_reward(completions=said(text), example=column(DIRECT))


def test_the_parts_and_the_verdicts_go_to_the_trainers_log():
    metrics: dict[str, float] = {}
    extra: dict[str, list[object]] = {}
    verifier_reward(
        completions=said(DIRECT.answer, "no idea", "anything"),
        example=column(DIRECT, DIRECT, FREE),
        log_metric=metrics.__setitem__,
        log_extra=extra.__setitem__,
        trainer_state=None,
    )
    assert metrics["verdict/correct"] == metrics["verdict/no_claim"] == 0.5
    assert metrics["verifier/V1"] == metrics["verifier/V3"] == 0.5
    assert metrics["line/answer"] == 0.5
    assert metrics["confidence/stated"] == metrics["confidence/missing"] == 0.5
    assert metrics["confidence/invalid"] == 0.0
    assert metrics["confidence/mean"] == DIRECT.confidence
    assert extra["verdict"] == ["correct", "no_claim", "no_claim"]
    assert extra["stated_confidence"] == [DIRECT.confidence, None, None]
    assert extra["V1"] == [1.0, 0.0, None]


def test_what_applies_to_no_row_of_a_batch_is_left_out_of_the_log():
    metrics: dict[str, float] = {}
    counted = next(each for each in EXAMPLES if each.kind == "count")
    verifier_reward(
        completions=said("Confidence: 140%"),
        example=column(counted),
        log_metric=metrics.__setitem__,
    )
    assert "verifier/V2" not in metrics
    assert "confidence/mean" not in metrics
    assert metrics["confidence/invalid"] == 1.0


# ---- rows that hold ground truth instead of an example ----------------------------------------------

KNOWN = [
    each
    for name in ("pathways-train", "kmp-train")
    for each in {e.ground_truth.kind: e for e in DATASETS[name]()}.values()
]


def table(examples: list[Example], *, as_json: bool) -> Dataset:
    """Return rows as a trainer's table, in which every row has the fields of all."""
    truths = [each.ground_truth.model_dump(mode="json") for each in examples]
    return Dataset.from_list(
        [
            {
                "prompt": prompt_of(each),
                "ground_truth": json.dumps(truth) if as_json else truth,
            }
            for each, truth in zip(examples, truths, strict=True)
        ]
    )


PATHWAYS = [each for each in KNOWN if each.source == "genelab"]


@pytest.mark.parametrize(("known", "as_json"), [(KNOWN, True), (PATHWAYS, True), (PATHWAYS, False)])
def test_rows_with_ground_truth_earn_what_the_same_rows_with_an_example_earn(known: list[Example], as_json: bool):
    rows = table(known, as_json=as_json)
    answers = said(*(each.answer for each in known))
    rewards = verifier_reward(prompts=rows["prompt"], completions=answers, ground_truth=rows["ground_truth"])
    assert rewards == verifier_reward(completions=answers, example=column(*known))
    assert len({each.ground_truth.kind for each in known}) >= 5


def test_a_prompt_of_plain_text_is_the_question():
    truth = DIRECT.ground_truth.model_dump(mode="json")
    echo = verifier_reward(
        prompts=[DIRECT.prompt],
        completions=[f"{DIRECT.prompt}\nConfidence: 62%"],
        ground_truth=[truth],
    )
    assert echo == [0.0]
    assert verifier_reward(prompts=[DIRECT.prompt], completions=[DIRECT.answer], ground_truth=[truth]) == [
        verify(DIRECT, DIRECT.answer).reward
    ]


def test_the_example_counts_where_a_row_holds_both():
    both = verifier_reward(
        prompts=["?"],
        completions=[DIRECT.answer],
        example=column(DIRECT),
        ground_truth=[{"kind": "abstain"}],
    )
    assert both == [verify(DIRECT, DIRECT.answer).reward]


@pytest.mark.parametrize(
    ("columns", "found"),
    [
        ({"answer": ["x"]}, "answer"),
        ({"ground_truth": [{"kind": "abstain"}]}, "ground_truth"),
        ({}, "none"),
    ],
)
def test_rows_without_a_truth_are_an_error_that_names_the_columns(columns: dict[str, list[object]], found: str):
    with pytest.raises(BadConfig, match=rf"no column `example`.*columns found: {found}\)"):
        verifier_reward(completions=said("x"), **columns)


@pytest.mark.parametrize(
    ("columns", "field"),
    [
        ({"example": ['{"id": "half"}']}, "example.source"),
        ({"example": ["not JSON"]}, "example"),
        ({"example": [None]}, "example"),
        ({"ground_truth": [{"kind": "maybe"}]}, "ground_truth"),
        ({"ground_truth": ['{"kind": "count", "value": "many"}']}, "ground_truth.count.value"),
        ({"ground_truth": [{"kind": "direct", "tissue": "eye"}]}, "ground_truth.direct.pathway"),
        ({"ground_truth": [{"kind": "abstain", "why": "?"}]}, "ground_truth.abstain.why"),
        ({"ground_truth": [None]}, "ground_truth"),
    ],
)
def test_a_broken_row_raises_with_its_field_and_never_counts_as_a_wrong_answer(
    columns: dict[str, list[object]], field: str
):
    with pytest.raises(BadConfig, match=rf"row 0 of this batch cannot be verified: {field}"):
        verifier_reward(completions=said("x"), prompts=["?"], **columns)


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ("Down.", "Down."),
        (
            [{"role": "assistant", "content": "Up."}, {"role": "assistant", "content": "Down."}],
            "Down.",
        ),
        ([{"role": "assistant", "content": [{"type": "text", "text": "Down."}]}], "Down."),
        ([{"role": "assistant", "content": None, "tool_calls": []}], ""),
        ([], ""),
    ],
)
def test_the_last_words_of_a_completion_are_the_answer(answer, text: str):
    assert text_of(answer) == text


def test_fewer_examples_than_completions_raise():
    with pytest.raises(ValueError, match="zip"):
        verifier_reward(completions=said("x", "y"), example=column(DIRECT))


def test_the_reward_survives_pickling_with_its_weights():
    reward = pickle.loads(pickle.dumps(VerifierReward({"V4": 1.0})))
    assert reward.weights == {"V4": 1.0}
    assert reward.__name__ == "verifier"
    again = pickle.loads(pickle.dumps(verifier_reward))
    assert again(completions=said(DIRECT.answer), example=column(DIRECT)) == verifier_reward(
        completions=said(DIRECT.answer), example=column(DIRECT)
    )


# ---- at once, elsewhere, again ------------------------------------------------------------------------


def batch(index: int) -> list[float | None]:
    examples = [*KNOWN[index % 3 :], *KNOWN[: index % 3]]
    answers = said(*(each.answer if n % 2 else "" for n, each in enumerate(examples)))
    return verifier_reward(completions=answers, example=column(*examples))


def test_calls_at_once_from_threads_and_coroutines_give_what_calls_in_turn_give():
    in_turn = [batch(index) for index in range(12)]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(batch, range(12))) == in_turn

    async def gathered() -> list[list[float | None]]:
        return list(await asyncio.gather(*(asyncio.to_thread(batch, n) for n in range(12))))

    assert result_of(gathered()) == in_turn


def test_nothing_is_kept_between_calls():
    before = dict(vars(verifier_reward))
    first = batch(1)
    batch(2)
    assert batch(1) == first
    assert vars(verifier_reward) == before


def test_another_process_gets_the_same_rewards():
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        far = pool.submit(
            VerifierReward("phase4", "legacy"),
            completions=said(DIRECT.answer),
            example=column(DIRECT),
        )
        assert far.result() == [verify(DIRECT, DIRECT.answer, "phase4", "legacy").reward]


@pytest.mark.parametrize(("weights", "v4"), [("phase5", "proper"), ({"V9": 1.0}, "proper"), (None, "brier")])
def test_weights_and_modes_that_do_not_exist_are_refused_when_the_reward_is_made(weights, v4: str):
    with pytest.raises(BadConfig):
        VerifierReward(weights, v4)
