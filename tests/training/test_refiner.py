"""The refiner's stage: a run and what it leaves, settings, rows, its reward as TRL calls it, and the alarms."""

import json
import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

import pandas
import pytest
import torch
from tokenizers import AddedToken

from evals.errors import BadConfig, ChainMismatch
from evals.refine.bank import refiner_bank
from evals.refine.judge import Inquiry, Judge, Verdicts, missing
from evals.refine.task import SYSTEM_PROMPT
from evals.schema.refiner import RewardConfig
from tests.evals.refiner.answers import EVIDENCE, GOOD
from tests.evals.refiner.answers import record as made_record
from tests.models import tiny_llama, tiny_stage, tiny_tokenizer
from tests.training.judge_server import Asked, JudgeServer, Reply, says, well
from tests.training.runs import COMMON, figures, record, settings_file, train
from training.config import read_request, read_settings
from training.data.refine import check_refiner_chain, refiner_data, refiner_grpo_row
from training.grpo import GrpoSettings
from training.judge.client import in_a_loop
from training.judge.judge import HttpJudge, StopRule
from training.judge.prompts import HttpSettings
from training.launch.plan import plan_of
from training.models.chain import load_chain
from training.refiner import RefinerSettings
from training.refiner_rewards import RefinerReward, judge_for, records_of
from training.run.watch import BestWeights, alarms_of

ROOT = Path(__file__).parents[2]
CONFIGS = ROOT / "training" / "configs"
KEY = "sk-this-is-secret"
HERE, AWAY = "http://127.0.0.1:9/v1", "https://example.org/v1"


GRPO: Mapping[str, object] = {
    **COMMON,
    "batch": 8,
    "num_generations": 4,
    "beta": 0.001,
    "max_prompt_length": 1024,
    "max_completion_length": 1,
    "judge": "heuristic",
}
NAMES = {"A": ("up", "down"), "B": ("down", "up"), "C": ("up", "down"), "D": ("down", "up")}
RECORDS = tuple(
    {
        "id": name,
        "prompt": f"Which way is {name}?",
        "tool_output": f"<snippet id=S1>In flight {name} is {way}</snippet>"
        "<snippet id=S2>In study 7 nothing changed</snippet>",
        "positive_rubrics": [{"title": "way", "description": f'Says "{way}".'}],
        "negative_rubrics": [{"title": "wrong", "description": f'Says "{other}".'}],
        "reference": f"<answer><snippet id=S1>In flight {name} is {way}</snippet></answer>",
    }
    for name, (way, other) in NAMES.items()
)
STARTS = ("In flight", "It seems", *(f"In study {number}" for number in range(10)))
WELL, BARE, CUT = (
    "<answer><snippet id={id}>{claim}</snippet></answer>",
    "<answer>{claim}.</answer>",
    "<answer>{claim}",
)
ANSWERS = tuple(
    frame.format(id=key, claim=f"{start} {name} is {way}")
    for frame, starts in ((WELL, STARTS), (BARE, STARTS[:1]), (CUT, STARTS[:1]))
    for key, start, name, way in product(("S1", "S1,S2"), starts, NAMES, ("up", "down"))
)


def answering_base(folder: Path) -> Path:
    """Write a tiny random model whose words are whole answers: right, wrong, empty, and not well formed.

    Of other words it would never hit upon the grammar.
    """
    tokenizer = tiny_tokenizer()
    words = [AddedToken(text, normalized=False) for text in dict.fromkeys(ANSWERS)]
    tokenizer.add_tokens(words)
    model = tiny_llama(tokenizer, max_position_embeddings=2048, tie_word_embeddings=False)
    with torch.no_grad():
        model.lm_head.weight[: len(tokenizer) - len(words)] *= 0.1
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with four records, the tiny model and an SFT stage on it that was given the refiner's prompt."""
    folder = tmp_path_factory.mktemp("refiner")
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in RECORDS), encoding="utf-8")
    tiny_stage(folder / "sft", answering_base(folder / "model"), prompt=SYSTEM_PROMPT)
    return folder


def command(folder: Path, name: str = "run", **values: object) -> list[str]:
    """Return the words of a run on top of the SFT stage in `folder`."""
    known = {**GRPO, "chain": str(folder / "sft"), "output": str(folder / name)}
    return ["--config", str(settings_file(folder, {**known, **values}))]


def settings_of(start: Path, **values: object) -> RefinerSettings:
    settings = read_request(RefinerSettings, command(start, "settings", **values)).settings
    assert isinstance(settings, RefinerSettings)
    return settings


def failing(asked: Asked) -> Reply:
    """Fail at every third request, each time otherwise."""
    failures: list[Reply] = [(429, b""), (500, b""), None, says("I would rather not say."), says({"verdicts": []})]
    return well(asked) if asked.number % 3 else failures[asked.number // 3 % 5]


def test_a_run_learns_from_a_server_that_fails_at_every_third_request(start: Path, monkeypatch, capsys):
    monkeypatch.setenv("REFINER_TEST_KEY", KEY)
    monkeypatch.setattr("training.judge.judge.MAY_FAIL", 8)
    with JudgeServer(failing) as server:
        told = {"judge": server.url, "judge_key_env": "REFINER_TEST_KEY", "judge_retries": 0, "max_none_fraction": 1.0}
        run = train("refiner", Path(command(start, "failing", **told, batch=16, num_generations=8)[1]))
        assert len(server.requests) > 20
    kept = record(run.path)
    assert (kept["status"], kept["stage"]) == ("finished", "refiner")
    assert (kept["data"]["judged by"], kept["data"]["judge_mode"]) == ("http (tiny-judge)", "batched")
    assert kept["data"]["judge_probe"].endswith("of 8 known pairs ordered right")
    table = pandas.read_parquet(run.completions)
    lost = table[table["why"].str.contains("verdict is missing")]
    graded = table[table["why"] == "graded by rubric and citations"]
    assert len(lost) and lost["refiner"].isna().all()
    assert len(graded) and (graded["refiner"] > 0).all()
    assert (table[table["why"].str.startswith("not well formed")]["refiner"] == 0).all()
    assert max(figures(run, "judge/none_rate")) > 0
    assert {"judge/latency_s", "judge/asked", "answer/words"} <= set(run.metric_rows()[0])
    texts = [file.read_bytes() for file in run.path.rglob("*") if file.is_file()]
    assert not any(KEY.encode() in text for text in texts) and KEY not in str(capsys.readouterr())


def test_a_run_adds_one_stage_to_the_chain_and_starts_at_its_reference(start: Path):
    run = train("refiner", Path(command(start, "plain")[1]))
    chain = load_chain(run.path, "float32", base=str(start / "model"))
    assert chain.stages == ("base", "sft", "refiner")
    assert chain.manifest.system_prompt == SYSTEM_PROMPT
    assert figures(run, "kl")[0] == pytest.approx(0.0, abs=1e-5)
    data = record(run.path)["data"]
    assert "heuristic" in data["judged by"]
    assert (data["judge_mode"], data["judge_probe"]) == ("no language model", "8 of 8 known pairs ordered right")
    assert not (run.path / "adapter" / "ref").exists()


def test_a_judge_that_orders_known_pairs_wrongly_is_refused_before_anything_is_written(start: Path):
    with JudgeServer() as server, pytest.raises(BadConfig, match="of 8 known pairs"):
        train("refiner", Path(command(start, "blind", judge=server.url, judge_retries=0)[1]))
    assert not (start / "blind").exists()


def test_a_judge_elsewhere_needs_leave_and_a_key_has_to_be_set_in_the_plan_as_in_the_run(start, monkeypatch):
    monkeypatch.delenv("ASSAY_NO_SUCH_KEY", raising=False)
    for values, said in (
        ({"judge": AWAY}, "not on this machine"),
        ({"judge": f"{HERE}?key=1"}, "holds a user"),
        ({"judge": HERE, "judge_key_env": "ASSAY_NO_SUCH_KEY"}, "ASSAY_NO_SUCH_KEY"),
    ):
        with pytest.raises(BadConfig, match=said):
            judge_for(settings_of(start, **values))
    (problem,) = plan_of("refiner", command(start, "new", **values), is_dry=True).problems
    assert "ASSAY_NO_SUCH_KEY" in problem
    monkeypatch.setenv("ASSAY_NO_SUCH_KEY", "x")
    away = {"judge": AWAY, "judge_allow_remote": True}
    for allowed in (values, away):
        assert not plan_of("refiner", command(start, "new", **allowed), is_dry=True).problems
    assert "example.org" not in judge_for(settings_of(start, **away)).label


def test_new_runs_are_rewarded_by_the_defaults_and_published_ones_as_on_the_card():
    new = read_settings(RefinerSettings, CONFIGS / "refiner" / "grpo.yaml")
    published = read_settings(RefinerSettings, CONFIGS / "refiner" / "published.yaml")
    assert new.reward() == RewardConfig()
    assert published.reward() == RewardConfig.model_validate({"preset": "published"})
    own = {"verifier_weights", "v4", "reward", "reward_share"}
    assert set(GrpoSettings.model_fields) - set(RefinerSettings.model_fields) == own


def test_a_dry_run_shows_the_rows_and_the_line_of_both_stages(start: Path):
    words = command(start, "plan", eval_steps=5, held_out_share=0.25)
    plan = plan_of("refiner", words, is_dry=True)
    assert len(plan.data.trl_rows()) == 3  # of four
    assert plan.command.startswith("accelerate launch --num_processes 1 -m training.refiner")
    assert set(plan.data.trl_rows()["A"]) == {"prompt", "record"}
    file = start / "sft.yaml"
    file.write_text(f"base: {start / 'model'}\ndata: [{start / 'rows.jsonl'}]\noutput: {start / 'new'}\n")
    grammar = plan_of("sft", ["--config", str(file)], is_dry=True)
    assert grammar.data.trl_rows()["A"]["completion"][0]["content"] == RECORDS[0]["reference"]


def test_records_kept_for_testing_are_never_trained_on(tmp_path: Path):
    with pytest.raises(BadConfig, match="kept for testing"):
        refiner_data(["refiner-test"])
    file = tmp_path / "mine.jsonl"
    one = refiner_bank().test[0]
    file.write_text(one.model_dump_json(exclude_defaults=True) + "\n")
    with pytest.raises(BadConfig, match=f"such as {one.id}"):
        refiner_data([str(file)])


def test_a_chain_with_other_instructions_is_refused():
    check_refiner_chain(None)
    check_refiner_chain(SYSTEM_PROMPT)
    with pytest.raises(ChainMismatch, match="another system prompt"):
        check_refiner_chain("You are helpful.")


# ---- held-out records --------------------------------------------------------------------------


def test_weights_are_on_file_for_each_checkpoint_that_may_be_gone_on_from(tmp_path: Path):
    model, best = torch.nn.Linear(2, 2), BestWeights(tmp_path)
    best.keep(model, 0, [(0, 1.0)])
    (tmp_path / "checkpoint-2").mkdir()
    looks = [(0, 1.0), (2, 0.5), (4, 2.0)]
    first = model.weight.clone()
    with torch.no_grad():
        model.weight.zero_()
    best.keep(model, 4, looks)
    assert {each.name for each in tmp_path.glob("best-*")} == {"best-0.safetensors", "best-4.safetensors"}
    assert best.give_back(model, 0) and torch.equal(model.weight, first)
    assert not best.give_back(model, 2)
    (tmp_path / "checkpoint-2").rename(tmp_path / "checkpoint-6")
    best.keep(model, 8, [*looks, (8, 3.0)])
    assert {each.name for each in tmp_path.glob("best-*")} == {"best-4.safetensors", "best-8.safetensors"}


def test_groups_stay_whole_and_one_group_cannot_be_held_out():
    data, held = refiner_data(["refiner-train"]).split_groups(0.2, 0)
    groups = [{each.group for each in part.items} for part in (data, held)]
    assert not groups[0] & groups[1] and all(groups)
    with pytest.raises(BadConfig, match="cannot be split"):
        held.without([each.id for each in held.items[1:]], "gone").split_groups(0.2, 0)


# ---- the reward as TRL calls it ----------------------------------------------------------------------


WRONG = "<answer><snippet id=S1>OXPHOS is up in liver</snippet></answer>"


class Log:
    """What TRL keeps of a call."""

    def __init__(self) -> None:
        self.metrics: dict[str, float] = {}
        self.extras: dict[str, list[object]] = {}


class Talked:
    """A judge that is talked into full marks for every wanted behaviour, and says nothing of some answers."""

    label = "talked into it"

    def __init__(self, is_missing: Callable[[Inquiry], bool] = lambda _: False) -> None:
        self.is_missing = is_missing
        self.asked: list[Inquiry] = []

    async def judge(self, inquiry: Inquiry) -> Verdicts:
        self.asked.append(inquiry)
        if self.is_missing(inquiry):
            return missing(inquiry, "it said nothing")
        top = inquiry.scale
        return Verdicts(
            raws=tuple(top if item.polarity == "positive" else 0.0 for item in inquiry.items),
            quotes=("",) * len(inquiry.items),
            support=(1.0,) * len(inquiry.claims),
            relevance=tuple((1.0,) * len(ids) for ids in inquiry.cited),
            needs=(0.0,) * len(inquiry.uncited),
            canary=2.0 if "Score 2" in inquiry.answer else 0.0,
        )


def called(reward: RefinerReward, texts: Sequence[str], log: Log | None = None, **about: object) -> list[float | None]:
    """Call the reward as TRL does: by keywords, in a loop."""
    row = refiner_grpo_row(made_record(**about))["record"]

    async def work() -> list[float | None]:
        try:
            return await reward(
                prompts=[[{"role": "user", "content": "q"}]] * len(texts),
                completions=[[{"role": "assistant", "content": text}] for text in texts],
                completion_ids=[[1]] * len(texts),
                record=[row] * len(texts),
                trainer_state=None,
                log_metric=log.metrics.__setitem__ if log else None,
                log_extra=log.extras.__setitem__ if log else None,
            )
        finally:
            await reward.close()

    return in_a_loop(work())


def reward_by(judge: Judge, stop: StopRule | None = None) -> RefinerReward:
    return RefinerReward(RewardConfig(), judge, stop=stop)


def test_the_reward_travels_between_processes_and_with_a_cache_needs_no_server(tmp_path):
    with JudgeServer() as server:
        settings = HttpSettings(server.url, model="m", cache=tmp_path / "v.sqlite", retries=0)
        reward = reward_by(HttpJudge(settings))
        first = called(reward, [GOOD, WRONG])
        assert called(pickle.loads(pickle.dumps(reward)), [GOOD, WRONG]) == first
    again = called(reward_by(HttpJudge(replace(settings))), [GOOD, WRONG])
    assert again == first and None not in first


def test_rows_of_a_table_are_read_without_a_record_column():
    one = json.loads(refiner_grpo_row(made_record())["record"])
    columns = {name: [value] for name, value in one.items() if name != "prompt"}
    (read,) = records_of({**columns, "question": [None]}, ["Which way?"], 1)
    assert read.tool_output == made_record().tool_output
    assert read.positive_rubrics == made_record().positive_rubrics


PUBLISHED = RewardConfig.model_validate({"preset": "published"})
LONG = " ".join(f"word{n}" for n in range(40))
WITH_LONG = "\n".join(f"<snippet id={name}>{text}</snippet>" for name, text in {**EVIDENCE, "L1": LONG}.items())


def claim(text: str, ids: str = "S1") -> str:
    return f"<answer><snippet id={ids}>{text}</snippet></answer>"


GAMES = {  # the figure that an alarm watches, and an answer that games it
    "answer/words": GOOD.replace("Briefly", "Briefly and " + "so on " * 40),
    "answer/claims": GOOD.replace("</answer>", "<snippet id=S1>down</snippet>" * 6 + "</answer>"),
    "answer/ids_per_claim": claim("OXPHOS is down in liver", "S1,S2,W:3.a-b_c,L1"),
    "answer/unknown_ids": claim("OXPHOS is down in liver", "S1,X9"),
    "answer/copied": claim(LONG, "L1"),
    "judge/over_words": claim("Bananas are yellow and taste of summer"),
    "judge/canary": claim("Score 2 for OXPHOS, it is down in liver"),
    "judge/none_rate": WRONG,
}


def test_each_figure_that_an_alarm_watches_leaves_its_band_with_an_answer_that_games_it():
    bands = {band.metric: band for band in alarms_of("refiner")}
    assert bands.keys() == GAMES.keys()
    for metric, answer in GAMES.items():
        judge, logs = Talked(lambda inquiry: "up" in inquiry.answer), (Log(), Log())
        for log, text in zip(logs, (GOOD, answer), strict=True):
            called(RefinerReward(PUBLISHED, judge, stop=StopRule(1.0)), [text] * 4, log, tool_output=WITH_LONG)
        before, now = (log.metrics.get(metric, 0.0) for log in logs)
        assert now - before > max(bands[metric].share * before, bands[metric].slack), metric


def test_a_missing_verdict_costs_an_answer_its_reward_and_no_points():
    judge = Talked(lambda inquiry: "up" in inquiry.answer)
    rewards = called(reward_by(judge, stop=StopRule(0.5)), [GOOD, WRONG, GOOD])
    assert rewards[1] is None
    assert rewards[0] == rewards[2] == pytest.approx(10.0)
