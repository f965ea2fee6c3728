"""Alarms over what a run logs, and looks at what it still knows, held against plain formulas."""

import json
from pathlib import Path

import pytest
import torch
from torch.nn.functional import kl_div
from transformers import PreTrainedTokenizerBase, TrainerControl, TrainerState, TrainingArguments, trainer_callback

from evals.errors import BadConfig
from evals.questions import DATASETS
from evals.questions.task import Questions
from tests.models import ALL_LINEAR, SYSTEM_PROMPT, load_base, tiny_adapter, tiny_base
from tests.training.cases import cases
from training.data.questions import grpo_row, prompt_of, watched_questions
from training.data.tokens import DevSet, Rows
from training.dpo import DpoSettings
from training.models.base import find_base
from training.models.start import stacked_policy
from training.models.targets import lora_config
from training.run.folder import RunFolder
from training.run.watch import EVALUATED, KL, Alarm, AlarmCallback, StoppingAlarmCallback, alarms_of, evaluate
from training.sft import SftSettings
from training.upstream import StackedPeftModel

CASES = cases("alarms")
SHARE = Alarm("share", "{now:.0%} of them, {before:.0%} before", above=0.5)
LENGTHS = Alarm("length", "from {before:.0f} to {now:.0f}", above=2.0, below=0.5, from_start=True)


class Log:
    """A run that logs one figure after the other, and what was said at each step."""

    def __init__(self, folder: Path, *alarms: Alarm, window: int = 2) -> None:
        self.run = RunFolder(folder)
        self.callback = AlarmCallback(self.run, alarms, window=window)
        self.arguments = TrainingArguments(output_dir=str(folder), use_cpu=True)
        self.step = 0

    def add(self, metric: str, *values: float, reward: float | None = None) -> "Log":
        for at, value in enumerate(values):
            self.step += 1
            state = TrainerState(global_step=self.step, is_world_process_zero=True)
            logged = {metric: value} | ({} if reward is None else {"reward": reward * at})
            self.callback.on_log(self.arguments, state, TrainerControl(), logged)
        return self

    def said(self) -> list[tuple[int, str]]:
        return [(row["step"], row["alert"]) for row in self.run.metric_rows() if "alert" in row]


def test_an_alarm_speaks_once_its_window_is_full_and_again_only_after_all_was_right(tmp_path: Path, capsys):
    for number, (name, values, said) in enumerate(CASES["courses"]):
        alarm = {"share": SHARE, "length": LENGTHS}[name]
        log = Log(tmp_path / str(number), alarm)
        log.run.path.mkdir()
        assert [*map(list, log.add(name, *values).said())] == said, number
    assert "step 2: 60% of them" in capsys.readouterr().err
    line = json.loads((tmp_path / "0" / "metrics.jsonl").read_text(encoding="utf-8"))
    assert line == {"step": 2, "alert": "60% of them, 60% before"}


def test_a_resumed_run_remembers_its_start_and_what_was_said(tmp_path: Path):
    run = RunFolder(tmp_path)
    for step, length in enumerate((50, 50, 10, 10), start=1):
        run.append_metrics({"step": step, "length": length})
    log = Log(tmp_path, LENGTHS)
    log.callback.on_train_begin(log.arguments, TrainerState(), TrainerControl())
    assert log.add("length", 10).said() == []
    assert [text for _, text in log.add("length", 50, 50, 10, 10).said()] == ["from 50 to 10"]


def test_each_alarm_speaks_in_words_about_its_own_figure_and_leaves_a_healthy_run_in_peace(tmp_path: Path):
    alarms = alarms_of("sampling", "grpo", "preferences")
    for number, (metric, values, said) in enumerate(CASES["spoken"]):
        log = Log(tmp_path / str(number), *alarms, window=1)
        log.run.path.mkdir()
        ((_, text),) = log.add(metric, *values).said()
        assert said in text
    for metric, values, said in CASES["gamed"]:
        for reward, alerts in ((1.0, [said]), (-1.0, [said] if metric in ("judge/canary", "judge/none_rate") else [])):
            log = Log(tmp_path / f"{metric.replace('/', '-')}{reward}", *alarms_of("refiner"), window=1)
            log.run.path.mkdir()
            texts = [text for _, text in log.add(metric, *values, reward=reward).said()]
            assert len(texts) == len(alerts) and all(said in text for text in texts), (metric, reward, texts)
    healthy = Log(tmp_path / "healthy", *alarms)
    for metric, value in CASES["healthy"].items():
        healthy.add(metric, *[value] * 6)
    assert healthy.said() == []


# ---- looks -------------------------------------------------------------------------------------

Pair = tuple[StackedPeftModel, PreTrainedTokenizerBase]
QUESTIONS = tuple(sorted(DATASETS["kmp-train"]()[:5], key=lambda row: -len(row.prompt)))


@pytest.fixture(scope="module")
def moved(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    """A policy that has moved away from its reference, base plus sft."""
    folder = tmp_path_factory.mktemp("monitor")
    base = tiny_base(folder / "model")
    sft = tiny_adapter(base, folder / "sft")
    model, tokenizer = load_base(find_base(str(base)), "float32")
    settings = SftSettings(data=("x",), output="x", lora_targets=ALL_LINEAR, lora_dropout=0.5)
    policy = stacked_policy(model, {"sft": sft}, lora_config(settings, model))
    policy.add_adapter("ref", policy.peft_config["default"])
    policy.set_adapter("default")
    with torch.random.fork_rng():
        torch.manual_seed(3)
        for name, parameter in policy.named_parameters():
            if ".lora_B.ref." in name:
                parameter.data.zero_()
            elif ".lora_B.default." in name:
                parameter.data.normal_(0.0, 0.05)
    return policy, tokenizer


@torch.no_grad()
def alone(pair: Pair, question: int, tokens: int) -> tuple[float, int]:
    """The sum of KL over one answer and its length, computed without batch, padding or cache."""
    policy, tokenizer = pair
    policy.eval()
    prompt = prompt_of(QUESTIONS[question], SYSTEM_PROMPT)
    text = tokenizer.apply_chat_template(prompt, tokenize=False, add_generation_prompt=True)
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


def seen(pair: Pair, count: int, **values: int) -> dict[str, float]:
    """Return what an evaluation of DPO finds in the first questions."""
    named = {row.id: row for row in QUESTIONS[:count]}
    rows = Rows(named, lambda row: grpo_row(row, SYSTEM_PROMPT), lambda row: (row.prompt,), len, SYSTEM_PROMPT, {})
    settings = DpoSettings(data=("x",), output="x", chain="x", **values)
    return evaluate(*pair, DevSet(Questions(system_prompt=SYSTEM_PROMPT), rows), settings)


def test_the_distance_is_the_mean_kl_per_written_token_whatever_the_batch(moved: Pair):
    parts = [alone(moved, number, 6) for number in range(len(QUESTIONS))]
    tokens = sum(length for _, length in parts)
    for batch in (1, 4):
        look = seen(moved, len(QUESTIONS), eval_tokens=6, eval_batch=batch)
        assert look[KL] == pytest.approx(sum(total for total, _ in parts) / tokens, rel=1e-4) and look[KL] > 0.01
        assert look[EVALUATED] == pytest.approx(tokens / len(QUESTIONS))


def test_a_look_leaves_the_policy_and_chance_as_they_were(moved: Pair):
    policy, _ = moved
    policy.train()
    before = torch.random.get_rng_state()
    seen(moved, 3, eval_tokens=4)
    assert (policy.training, policy.active_adapters[0]) == (True, "default")
    assert torch.equal(torch.random.get_rng_state(), before)
    weights = [(name, each) for name, each in policy.named_parameters() if ".lora_" in name]
    assert all(each.requires_grad == (".default." in name) for name, each in weights)


def test_the_watched_questions_are_one_for_each_of_some_trained_facts_and_none_that_is_asked():
    found = watched_questions(("kmp-dev",), 100, 0)
    assert len(found) > 20
    assert len({row.cluster for row in found}) == len(found)
    assert {row.split for row in found} == {"train"}
    assert watched_questions(("kmp-dev",), 10, 0) == watched_questions(("kmp-dev",), 10, 0)
    assert len(watched_questions(("kmp-dev",), 10, 0)) == 10
    assert watched_questions(("kmp-dev",), 100, 0, {found[0].prompt}) == found[1:]
    with pytest.raises(BadConfig, match="nothing is left to ask"):
        watched_questions(("kmp-dev",), 100, 0, {row.prompt for row in found})


def test_transformers_does_not_warn_of_alarms_beside_others(tmp_path, monkeypatch):
    said: list[object] = []
    monkeypatch.setattr(trainer_callback.logger, "warning", lambda *words: said.append(words))
    run = RunFolder(tmp_path)
    handler = trainer_callback.CallbackHandler([AlarmCallback(run, ())], None, None, None, None)
    handler.add_callback(StoppingAlarmCallback(run, ()))
    assert not [each for each in said if "already one" in str(each)]
