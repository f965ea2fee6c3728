"""A run: its folder, checkpoints, settings and record; what goes on in it, what is refused, what is kept."""

import getpass
import inspect
import json
import os
import pkgutil
import shlex
import subprocess
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import pytest
from accelerate import PartialState
from trl import DPOConfig, GRPOConfig, KTOConfig, RewardConfig, SFTConfig
from trl.scripts.vllm_serve import ScriptArguments, build_command

from evals.errors import BadConfig
from evals.io import public_path
from evals.questions import SYSTEM_PROMPT, system_prompt
from evals.schema import Message, RunRecord
from evals.schema.questions import Sampling
from evals.schema.runs import RunProgress
from tests.models import tiny_base, tiny_tokenizer
from tests.training.cases import cases, not_refused
from tests.training.runs import SFT, settings_file, train
from tests.training.runs import record as run_record
from training import dpo, grpo, kto, reward, sft
from training.config import Request, StageSettings, as_document, read_request, read_settings
from training.dpo import DpoSettings
from training.grpo import GrpoSettings, advice
from training.kto import KtoSettings
from training.launch.accelerate import environment
from training.launch.plan import plan_of
from training.launch.preview import preview
from training.models.base import Base
from training.models.chain import check_chain, load_chain
from training.reward import RewardSettings
from training.run.checkpoints import fault_of, remove_old_checkpoints, seal
from training.run.folder import ProgressWriter, RunFolder, code_revision, host
from training.run.session import command_line, common_arguments, fit_processor, run_command
from training.sft import SftSettings
from training.stages import STAGES as KINDS
from training.upstream import CHECKED


def record(**changes: object) -> RunRecord:
    values = {
        "name": "mine",
        "stage": "sft",
        "command": "accelerate launch -m training.sft --config sft.yaml",
        "config": {"epochs": 2, "output": "runs/mine", "save_steps": 5},
        "seed": 0,
        "data": {"sha256": "abc"},
        "versions": {},
        "code_revision": None,
        "host": {},
        "started_at": datetime(2026, 1, 1, tzinfo=UTC),
    }
    return RunRecord.model_validate(values | changes)


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    return RunFolder(tmp_path / "mine")


def checkpoint(run: RunFolder, step: int, *, whole: bool = True) -> Path:
    folder = run.path / f"checkpoint-{step}"
    folder.mkdir(parents=True)
    (folder / "trainer_state.json").write_text("{}", encoding="utf-8")
    if whole:
        seal(folder)
    return folder


def best_weights(run: RunFolder) -> tuple[Path, ...]:
    """Write files as a run leaves them that keeps its best weights, one of them cut off."""
    files = (run.path / "best-3.safetensors", run.path / "best-5.part")
    for file in files:
        file.write_bytes(b"weights")
    return files


def test_an_unfinished_run_goes_on_from_its_newest_whole_checkpoint_with_the_metrics_up_to_there(run: RunFolder):
    assert run.begin(record()) is None
    for step in (5, 10, 11, 12):
        run.append_metrics({"step": step, "loss": None})
        run.append_metrics({"step": step, "train_runtime": 1.0})  # the end of training, that it may not be the end of
    with run.metrics.open("a", encoding="utf-8") as file:
        file.write('{"step": 13, "lo')
    checkpoint(run, 5)
    newest = checkpoint(run, 10)
    checkpoint(run, 15, whole=False)
    assert run.begin(record(started_at=datetime(2026, 2, 2, tzinfo=UTC))) == newest
    assert run.metric_rows() == ({"step": 5, "loss": None}, {"step": 10, "loss": None})
    assert run.record().started_at == record().started_at


def test_a_finished_run_keeps_its_result_alone_and_is_trained_anew_only_when_told_to(run: RunFolder):
    run.begin(record())
    checkpoint(run, 5)
    best = best_weights(run)
    run.end("finished", {"steps": 5})
    ended = run.record()
    assert (ended.status, ended.result, ended.ended_at is None) == ("finished", {"steps": 5}, False)
    assert run.last_checkpoint() is None and not any(file.exists() for file in best)
    with pytest.raises(BadConfig, match="has finished; name another --output, or add --overwrite"):
        run.begin(record())
    (run.path / "notes.txt").write_text("mine", encoding="utf-8")
    (run.path / "reports").mkdir()
    best = best_weights(run)
    assert run.begin(record(), overwrite=True) is None
    assert run.record().status == "running"
    assert (run.path / "notes.txt").is_file() and not (run.path / "reports").exists()
    assert not any(file.exists() for file in best)


@pytest.mark.parametrize("status", ["failed", "stopped"])
def test_a_run_that_did_not_finish_keeps_its_checkpoints(run: RunFolder, status):
    run.begin(record())
    last, best = checkpoint(run, 5), best_weights(run)
    run.end(status, {})
    assert run.begin(record()) == last
    assert all(file.exists() for file in best)


CASES = cases("runs")


def test_a_run_is_gone_on_with_only_with_the_settings_and_data_it_had(tmp_path: Path):
    for number, (known, result, wanted, said) in enumerate(CASES["resumed"]):
        run = RunFolder(tmp_path / str(number))
        run.begin(record(**known))
        last = checkpoint(run, 5)
        run.end("stopped", result)
        if said:
            with pytest.raises(BadConfig) as raised:
                run.begin(record(**wanted))
            assert said in str(raised.value)
        else:
            assert run.begin(record(**wanted)) == last


def test_a_folder_that_no_run_wrote_is_left_alone_even_with_overwrite(run: RunFolder):
    run.path.mkdir()
    (run.path / "thesis.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(BadConfig, match=r"holds thesis\.txt but no run\.json"):
        run.begin(record(), overwrite=True)
    assert (run.path / "thesis.txt").is_file()


@pytest.mark.parametrize("text", ["", "{", '{"name": "x"}', "\ud800"])
def test_a_damaged_record_is_an_error_that_names_the_file(run: RunFolder, text: str):
    run.path.mkdir()
    (run.path / "run.json").write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(BadConfig, match=r"run\.json is not a run record"):
        run.record()


def test_a_folder_that_a_run_holds_is_not_trained_in_by_another(run: RunFolder):
    with run.lock(), pytest.raises(BadConfig, match="another process is training in"), RunFolder(run.path).lock():
        pass
    with run.lock():
        run.begin(record())


def test_a_record_keeps_no_folder_of_this_machine(tmp_path: Path):
    found = [[text, public_path(text.format(root=tmp_path), tmp_path)] for text, _ in CASES["paths"]]
    assert found == CASES["paths"]


# ---- checkpoints -------------------------------------------------------------------------------


def filled(run: Path, step: int, *, is_sealed: bool = True) -> Path:
    folder = run / f"checkpoint-{step}"
    (folder / "deep").mkdir(parents=True)
    (folder / "weights.bin").write_bytes(bytes(1000))
    (folder / "deep" / "state.json").write_text(str(step), encoding="utf-8")
    if is_sealed:
        seal(folder)
    return folder


def test_a_damaged_checkpoint_is_passed_over_for_the_one_before_it_and_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    for number, (name, content, fault) in enumerate(CASES["damage"]):
        run = tmp_path / str(number)
        earlier, newest = filled(run, 5), filled(run, 10)
        assert (RunFolder(run).last_checkpoint(), capsys.readouterr().err, fault_of(newest)) == (newest, "", None)
        (newest / name).unlink()
        if isinstance(content, int):
            (newest / name).write_bytes(bytes(content))
        elif content is not None:
            (newest / name).write_text(content.replace("<1000 x>", "x" * 1000))
        assert RunFolder(run).last_checkpoint() == earlier
        assert capsys.readouterr().err == f"checkpoint-10 cannot be used ({fault}); looking for the one before it\n"


def test_the_newest_sealed_checkpoints_are_kept_and_older_remains_go(tmp_path: Path):
    for step, is_sealed in ((5, True), (7, False), (10, True), (15, False), (20, True), (25, False)):
        filled(tmp_path, step, is_sealed=is_sealed)
    remove_old_checkpoints(tmp_path, 2)
    assert {path.name for path in tmp_path.iterdir()} == {f"checkpoint-{step}" for step in (10, 15, 20, 25)}


def test_the_time_left_counts_the_steps_and_the_looks_that_remain(run: RunFolder, monkeypatch: pytest.MonkeyPatch):
    clock = iter([0.0, 0.0, 60.0, 60.0, 70.0, 70.0, 80.0, 80.0, 110.0])
    monkeypatch.setattr("time.monotonic", lambda: next(clock))
    writer = ProgressWriter(run.progress, looks_every=2)
    writer.steps = 4
    writer.tell("measuring", 0, 6)
    writer.tell("measuring", 6, 6)  # 10 s each
    assert writer.seconds_left() is None
    writer.tell("training")
    writer.tell("training", steps_made=1)  # 10 s
    assert writer.seconds_left() == 3 * 10 + 2 * 60
    writer.tell("training")
    writer.tell("training", steps_made=1)
    writer.tell("measuring", 0, 6)
    writer.tell("measuring", 3, 6)
    told = RunProgress.model_validate_json(run.progress.read_bytes())
    assert (told.doing, told.step, told.steps, told.done, told.of) == ("measuring", 2, 4, 3, 6)
    assert told.seconds_left == 2 * 10 + (3 + 6) * 10


# ---- what every run does --------------------------------------------------------------------------


OF_THE_MACHINE = {"use_cpu", "dataloader_pin_memory", "logging_dir", "output_dir", "run_name"}
STAGES: dict[str, tuple[Any, Any, StageSettings]] = {
    "sft": (sft, SFTConfig, SftSettings(data=("kmp-train",), output="run")),
    "dpo": (dpo, DPOConfig, DpoSettings(data=("pairs.jsonl",), output="run", chain="sft")),
    "kto": (kto, KTOConfig, KtoSettings(data=("thumbs.jsonl",), output="run", chain="sft")),
    "reward": (reward, RewardConfig, RewardSettings(data=("pairs.jsonl",), output="run")),
    "grpo": (grpo, GRPOConfig, GrpoSettings(data=("kmp-train",), output="run", chain="sft", batch=8)),
}


def test_trl_is_told_what_the_table_says_and_its_defaults_are_what_they_were():
    table, found = cases("trl_arguments"), {}
    for stage, (module, config, settings) in STAGES.items():
        told = config(**common_arguments(settings), **module.options(settings)).to_dict()
        found[stage] = {name: told[name] for name in sorted(told) if name not in OF_THE_MACHINE}
    assert json.loads(json.dumps(found)) == table


@pytest.mark.parametrize(("processor", "told", "computed"), cases("settings")["processors"])
def test_a_processor_without_bfloat16_computes_in_float32_and_the_record_says_so(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    processor: dict[str, bool],
    told: dict[str, Any],
    computed: list[str],
):
    monkeypatch.setattr("torch.cpu.get_capabilities", lambda: processor)
    monkeypatch.setattr("training.run.session.is_cpu", lambda: True)
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    settings = DpoSettings(data=("pairs.jsonl",), output="run", chain="sft", **told)
    request, notes = fit_processor(Request(settings, Path("dpo.yaml")), Base("here", tmp_path, ""))
    assert [request.settings.autocast, request.settings.weights] == computed
    assert bool(notes) == (request.settings != settings)


def test_a_short_run_asks_no_more_of_its_dev_set_than_it_has_rows():
    settings = DpoSettings(data=("pairs.jsonl",), output="run", chain="sft", batch=2)
    asked = {rows: settings.asked_at_a_look(rows) for rows in (3, 20, 600)}
    assert asked == {3: 8, 20: 20, 600: 24}
    short = settings.model_copy(update={"max_steps": 6})
    assert short.asked_at_a_look(600) == 12
    assert short.model_copy(update={"best_metric": "accuracy"}).asked_at_a_look(600) == 24, "they choose the weights"


def another(name: str, field: Any, value: Any) -> Any:
    """Return a value of a setting that is not `value`."""
    if get_origin(field.annotation) is Literal:
        return next(each for each in get_args(field.annotation) if each != value)
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    return value / 2 or 0.1 if isinstance(value, float) else name


def test_every_setting_reaches_trl_or_is_named_as_one_that_assay_reads_itself():
    """A new setting belongs into tests/training/cases/reaches.yaml."""
    table, found = cases("reaches"), {}
    needed = {"data": ("a",), "output": "x", "chain": "y", "judge": "heuristic"}
    for stage, kind in KINDS.items():
        known = {name: value for name, value in needed.items() if name in kind.model_fields}
        own = {"sft": sft, "review": sft, "dpo": dpo, "kto": kto, "reward": reward}.get(stage, grpo).options
        for name, field in kind.model_fields.items():
            if name in table["ours"]:
                continue
            values = {**known, **table["beside"].get(name, {})}
            plain = kind(**values)
            value = table["values"].get(name, another(name, field, getattr(plain, name)))
            both = (plain, kind(**{**values, name: value}))
            before, after = (common_arguments(each) | own(each) for each in both)
            changed = {each: after[each] for each in after if after[each] != before.get(each)}
            found.setdefault(name, set()).update(changed)
            if isinstance(value, float) or type(value) is int:
                assert str(value) in str(changed) or name == "max_prompt_length", (stage, name)
    assert {name: sorted(reached) for name, reached in found.items()} == table["trl"]
    every = {name for kind in KINDS.values() for name in kind.model_fields}
    assert not (every - table["trl"].keys() - set(table["ours"])), "neither"


# ---- what we use of TRL, transformers and PEFT beyond their promises: training/upstream.py ----------


def test_the_versions_are_those_that_were_checked():
    assert {name: version(name) for name in CHECKED} == CHECKED, (
        "run this file, mend what it names, then change CHECKED"
    )


def test_each_part_of_a_library_that_we_override_or_call_is_as_it_was():
    broken = []
    for name, expected, user in cases("upstream"):
        try:
            found = pkgutil.resolve_name(name)
        except (AttributeError, ModuleNotFoundError):
            broken.append(f"{name} is gone: {user}")
            continue
        if isinstance(expected, str):
            is_same = expected in inspect.getsource(found)
        else:
            is_same = expected is None or [*inspect.signature(found).parameters] == expected
        if not is_same:
            broken.append(f"{name} is no longer {expected}: {user}")
    assert broken == []


def test_the_documented_line_for_a_vllm_server_is_the_one_that_trl_needs_on_another_port_than_the_judge():
    page = (Path(__file__).parents[2] / "docs" / "training.md").read_text(encoding="utf-8")
    needed = shlex.join(build_command(ScriptArguments(model="BASE"))[-6:])
    assert f"VLLM_SERVER_DEV_MODE=1 vllm serve BASE --port 8001 {needed}\n" in page
    assert GrpoSettings.model_fields["vllm_server"].default == "http://localhost:8001"


# ---- run.json ----------------------------------------------------------------------------------


def test_a_line_can_be_repeated_and_keeps_no_folder_or_address_of_this_machine(monkeypatch: pytest.MonkeyPatch):
    settings = SftSettings(data=("a",), output="x")
    for override, shown in SETTINGS_CASES["lines"]:
        line = command_line("sft", Request(settings, Path("a.yaml"), (override,)))
        assert line == f"accelerate launch -m training.sft --config a.yaml {shown}"
    words = ("--config_file=/secret/mine.yaml", "--num_processes", "2")
    address = ("--main_process_ip", "10.0.0.1", "--main-process-port=29500")
    given = ("accelerate", "launch", *words, *address, "-m", "training.sft")
    monkeypatch.setenv("ASSAY_LAUNCHER", environment(given, 2)["ASSAY_LAUNCHER"])
    line = command_line("sft", Request(settings, Path("a.yaml")))
    assert line.startswith("accelerate launch --config_file=mine.yaml --num_processes 2 -m training.sft")


def test_a_second_ctrl_c_and_a_mistake_end_a_run_with_a_sentence(tmp_path: Path, capsys):
    def interrupted(_: object) -> None:
        raise KeyboardInterrupt

    for words, code, said in (
        (
            ["--config", str(settings_file(tmp_path, SFT))],
            130,
            "stopped at once; the same command resumes from the last checkpoint",
        ),
        (["--config", "nowhere.yaml"], 1, "error: there is no settings file nowhere.yaml"),
    ):
        with pytest.raises(SystemExit) as ended:
            run_command("sft", SftSettings, interrupted, words)
        assert ended.value.code == code
        assert said in capsys.readouterr().err


def test_the_code_revision_is_the_commit_and_says_when_files_were_edited_since(tmp_path: Path):
    def git(*words: str) -> str:
        identity = ["-c", "user.name=nobody", "-c", "user.email=nobody@example.org"]
        done = subprocess.run(["git", *identity, *words], cwd=tmp_path, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    git("init", "--quiet")
    (tmp_path / "code.py").write_text("1\n", encoding="utf-8")
    git("add", ".")
    git("commit", "--quiet", "-m", "first")
    (tmp_path / "run.json").write_text("{}", encoding="utf-8")  # which git does not know
    assert code_revision(tmp_path) == git("rev-parse", "HEAD")
    (tmp_path / "code.py").write_text("2\n", encoding="utf-8")
    assert code_revision(tmp_path) == f"{git('rev-parse', 'HEAD')}+changes"
    assert code_revision(tmp_path / "nowhere") is None


def test_the_description_of_the_machine_names_neither_it_nor_its_user():
    described = host()
    assert described["cores"] == os.cpu_count()
    texts = " ".join(str(value) for value in described.values()).split()
    assert os.uname().nodename not in texts and getpass.getuser() not in texts


def test_weights_that_would_be_copied_although_fsdp_was_asked_for_stop_the_run(tmp_path, monkeypatch):
    monkeypatch.setattr(PartialState, "_shared_state", {})  # as in a process that just began
    monkeypatch.setenv("ACCELERATE_USE_CPU", "true")  # both as accelerate launch does
    monkeypatch.setenv("ACCELERATE_USE_FSDP", "true")
    with pytest.raises(BadConfig, match="accelerate divides weights among GPUs alone"):
        train("sft", settings_file(tmp_path, SFT))
    assert not (tmp_path / "run").exists()


# ---- a base without a chat template ------------------------------------------------------------


@pytest.fixture
def untaught(tmp_path: Path) -> Path:
    """A folder with a base that was only pre-trained: its tokenizer has no chat template."""
    base, tokenizer = tiny_base(tmp_path / "model"), tiny_tokenizer()
    tokenizer.chat_template = None
    for file in base.glob("*template*"):
        file.unlink()
    tokenizer.save_pretrained(base)
    return tmp_path


def test_a_base_without_a_chat_template_is_asked_as_the_published_runs_asked_and_served_so(untaught: Path):
    file = settings_file(untaught, {**SFT, "max_steps": 1})
    plan = plan_of("sft", ["--config", str(file)], is_dry=True)
    seen = preview(plan)
    assert "no chat template, so questions are put as ### Instruction:" in seen.problems[0]
    row = seen.examples[0]
    asked = "".join(text for text, is_learned in zip(row.tokens, row.learned, strict=True) if not is_learned)
    learned = "".join(text for text, is_learned in zip(row.tokens, row.learned, strict=True) if is_learned)
    example = next(each for each in plan.data.items if each.id == row.name)
    told = system_prompt(SYSTEM_PROMPT, example.prompt)
    assert asked == f"<|im_start|>{told}\n\n### Instruction:\n{example.prompt}\n\n### Response:\n"
    assert learned == f"{example.answer}<|im_end|>"

    run, base = train("sft", file).path, str(untaught / "model")
    assert "### Instruction:" in run_record(run)["substitutions"][0]
    assert all(finding.is_ok for finding in check_chain(run, base=base))
    chain = load_chain(run, "float32", base=base)
    assert chain.manifest.stages[0].probe.prompt.endswith("\n\n### Response:\n")
    question = [Message(role="user", content="How many?")]
    assert len(chain.generate([question], ("base", "sft"), Sampling(max_new_tokens=2))[0]) == 2


# ---- settings: read from YAML and the command line ---------------------------------------------------


SETTINGS_CASES = cases("settings")
DIGITS = {"<5001 digits>": "1" + "0" * 5000, "<3000 brackets>": "[" * 3000}


def whole(text: str) -> str:
    for short, meant in DIGITS.items():
        text = text.replace(short, meant)
    return text


def read(folder: Path, stage: str, yaml: str, words: str):
    """Return the settings of a stage; lines of `yaml` take the place of its usual ones."""
    keys = {line.partition(":")[0] for line in yaml.splitlines()}
    usual = [line for line in SETTINGS_CASES["starts"][stage].splitlines() if line.partition(":")[0] not in keys]
    file = folder / f"{stage}.yaml"
    file.write_text("\n".join([*usual, yaml]) + "\n", encoding="utf-8")
    return read_request(KINDS[stage], ["--config", str(file), *words.split()]).settings


def test_settings_are_read_from_yaml_with_the_command_line_over_it(tmp_path: Path):
    found = [[*row[:4], as_document(read(tmp_path, *row[:3]))[row[3]]] for row in SETTINGS_CASES["read"]]
    assert found == SETTINGS_CASES["read"]


def test_what_makes_no_sense_is_refused_with_setting_value_and_what_is_accepted(tmp_path: Path):
    refused = SETTINGS_CASES["refused"]
    assert not_refused(refused, lambda stage, yaml, words: read(tmp_path, stage, whole(yaml), whole(words))) == []


def test_a_settings_file_that_is_not_whole_is_refused_with_the_reason(tmp_path: Path):
    def read_text(text: str) -> None:
        (tmp_path / "odd.yaml").write_text(whole(text), encoding="utf-8")
        read_settings(SftSettings, tmp_path / "odd.yaml")

    assert not_refused(SETTINGS_CASES["files"], read_text) == []


def test_settings_become_plain_json_values_and_come_back_from_them(tmp_path: Path):
    settings = read(tmp_path, "grpo", "verifier_weights: {V1: 0.5, V4: 0.5}", "")
    again = tmp_path / "again.yaml"
    again.write_text(json.dumps(as_document(settings)), encoding="utf-8")
    assert read_settings(KINDS["grpo"], again) == settings


# ---- advice ------------------------------------------------------------------------------------


SETTINGS = GrpoSettings(data=("kmp-train",), output="runs/g", chain="runs/sft")


def test_it_is_said_of_grpo_that_rewards_confidence_and_divides_by_the_deviation_of_groups():
    (note,) = advice(SETTINGS)
    assert "scale_rewards group" in note and "scale_rewards none" in note
    assert advice(SETTINGS.model_copy(update={"verifier_weights": "mve"}))
    for other in ({"scale_rewards": "none"}, {"verifier_weights": "V1=1"}, {"v4": "legacy"}):
        assert advice(SETTINGS.model_copy(update=other)) == (), other
    assert advice(SftSettings(data=("kmp-train",), output="runs/s")) == ()
