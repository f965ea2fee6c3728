"""What run.json says of a run: the line that runs it again, and the loss it had."""

from pathlib import Path

import pytest
from accelerate import PartialState

from evals.errors import BadConfig
from evals.model import Sampling
from evals.questions import SYSTEM_PROMPT, system_prompt
from evals.schema import Message
from tests.models import tiny_base, tiny_tokenizer
from tests.training.runs import GRPO, SFT, one_thread, record, settings_file
from training import sft
from training.config import DpoSettings, Request, SftSettings, make, read_request
from training.data.tokens import with_template
from training.launch.accelerate import environment
from training.launch.plan import plan_of
from training.launch.preview import preview
from training.models.chain import check_chain, load_chain
from training.run.session import command_line

__all__ = ["one_thread"]


def request(*overrides: str) -> Request:
    settings = SftSettings(data=("a",), output="x")
    return Request(settings, Path("a.yaml"), overrides)


def test_weights_that_would_be_copied_although_fsdp_was_asked_for_stop_the_run(tmp_path, monkeypatch):
    monkeypatch.setattr(PartialState, "_shared_state", {})  # as in a process that just began
    monkeypatch.setenv("ACCELERATE_USE_CPU", "true")  # both as accelerate launch does
    monkeypatch.setenv("ACCELERATE_USE_FSDP", "true")
    with pytest.raises(BadConfig, match="accelerate divides weights among GPUs alone"):
        sft.train(read_request(SftSettings, ["--config", str(settings_file(tmp_path, SFT))]))
    assert not (tmp_path / "run").exists()


LINES = [
    ("--data=/secret/a.jsonl,/secret/b.jsonl[count]", "--data 'a.jsonl,b.jsonl[count]'"),
    ("--monitor_data=kmp-dev, /secret/c.jsonl", "--monitor_data kmp-dev,c.jsonl"),
    ("--chain=/secret/my run", "--chain 'my run'"),
]


@pytest.mark.parametrize(("override", "shown"), LINES)
def test_a_line_can_be_repeated_and_keeps_no_folder_of_this_machine(override: str, shown: str):
    line = command_line("sft", request(override))
    assert line == f"accelerate launch -m training.sft --config a.yaml {shown}"


def test_a_line_has_the_launchers_options_but_no_address(monkeypatch: pytest.MonkeyPatch):
    words = ("--config_file=/secret/mine.yaml", "--num_processes", "2")
    address = ("--main_process_ip", "10.0.0.1", "--main-process-port=29500")
    line = ("accelerate", "launch", *words, *address, "-m", "training.sft")
    monkeypatch.setenv("ASSAY_LAUNCHER", environment(line, 2)["ASSAY_LAUNCHER"])
    assert command_line("sft", request()).startswith(
        "accelerate launch --config_file=mine.yaml --num_processes 2 -m training.sft"
    )


def test_a_run_says_how_many_processes_trained_it(tmp_path: Path):
    file = settings_file(tmp_path, {**SFT, "max_steps": 1})
    sft.train(read_request(SftSettings, ["--config", str(file)]))
    assert record(tmp_path / "run")["host"]["processes"] == 1


@pytest.fixture
def untaught(tmp_path: Path) -> Path:
    """A folder with a base that was only pre-trained: its tokenizer has no chat template."""
    base = tiny_base(tmp_path / "model")
    tokenizer = tiny_tokenizer()
    tokenizer.chat_template = None
    for file in base.glob("*template*"):
        file.unlink()
    tokenizer.save_pretrained(base)
    return tmp_path


def test_a_base_without_a_chat_template_is_asked_as_the_published_runs_asked(untaught: Path):
    plan = plan_of("sft", ["--config", str(settings_file(untaught, SFT))], is_dry=True)
    seen = preview(plan)
    assert not seen.is_refused
    assert "no chat template, so questions are put as ### Instruction:" in seen.problems[0]
    row = seen.examples[0]
    asked, learned = "".join(row.tokens[: row.given]), "".join(row.tokens[row.given :])
    example = next(each for each in plan.data.examples if each.id == row.name)
    told = system_prompt(SYSTEM_PROMPT, example.prompt)
    assert asked.startswith(f"<|im_start|>{told}\n\n### Instruction:\n")
    assert asked.endswith(f"{example.prompt}\n\n### Response:\n")
    assert learned == f"{example.answer}<|im_end|>"


def test_a_chain_on_a_base_without_a_chat_template_is_served_as_it_was_trained(untaught: Path):
    file = settings_file(untaught, {**SFT, "max_steps": 1})
    sft.train(read_request(SftSettings, ["--config", str(file)]))
    run, base = untaught / "run", str(untaught / "model")
    assert "### Instruction:" in record(run)["substitutions"][0]
    assert all(finding.is_ok for finding in check_chain(run, base=base))
    chain = load_chain(run, "float32", base=base)
    assert chain.manifest.stages[0].probe.prompt.endswith("\n\n### Response:\n")
    asked = [Message(role="user", content="How many?")]
    assert len(chain.generate([asked], ("base", "sft"), Sampling(max_new_tokens=2))[0]) == 2


TURNS = [
    ([("user", "Up?")], "<|im_start|>### Instruction:\nUp?\n\n### Response:\n"),
    (
        [("system", "Be brief."), ("user", "Up?"), ("assistant", "Yes."), ("user", "Sure?")],
        "<|im_start|>Be brief.\n\n### Instruction:\nUp?\n\n### Response:\nYes.<|im_end|>\n\n"
        "### Instruction:\nSure?\n\n### Response:\n",
    ),
]


@pytest.mark.parametrize(("turns", "text"), TURNS)
def test_turns_are_written_one_after_the_other(turns: list[tuple[str, str]], text: str):
    tokenizer = tiny_tokenizer()
    tokenizer.chat_template = None
    messages = [{"role": role, "content": content} for role, content in turns]
    template = with_template(tokenizer)
    assert template.apply_chat_template(messages, tokenize=False, add_generation_prompt=True) == text


def test_grpo_with_fewer_questions_than_it_asks_at_a_time_is_refused_in_the_plan(tmp_path: Path):
    values = {**GRPO, "chain": str(tmp_path / "none"), "generation_batch": 36}
    file = settings_file(tmp_path, values)
    with pytest.raises(BadConfig, match="asks 9 questions at a time"):
        plan_of("grpo", ["--config", str(file)], is_dry=True)


@pytest.mark.parametrize("name", [" kmp-test", "kmp-test[count]", "kmp-test "])
def test_a_run_is_never_stopped_by_test_questions_however_they_are_written(name: str):
    with pytest.raises(BadConfig, match="monitor_stop with kmp-test"):
        make(DpoSettings, {"data": "a", "output": "x", "chain": "y", "monitor_data": name, "monitor_stop": True}, "f")
