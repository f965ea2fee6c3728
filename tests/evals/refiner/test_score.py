"""What an answer earns, by its rubric and its citations; `assay refiner score`; reports of a refiner."""

import json
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from evals.compare import compare
from evals.errors import BadConfig, BadRow, IncomparableReports, LabError
from evals.refine.bank import refiner_bank
from evals.refine.cases import read_cases, read_records
from evals.refine.grammar import evidence_of
from evals.refine.judge import Verdicts, items_of, static_items, support_by_words
from evals.refine.score import PreparedAnswer, copied_share, explain, final_figures, prepare
from evals.refine.task import Refine
from evals.report import build_report, summarise
from evals.run import baseline_rows, grade_answers
from evals.schema.refiner import PRESETS, BehaviourItem, RewardConfig
from evals.schema.reports import RefinerReport, RefinerRow
from evals.task import StageAnswer
from lab.cli import app
from tests.evals.refiner.answers import CASES, GOOD, ORIGIN, PARTS, prepared, record, verdicts, written
from tests.evals.reports import TABLES
from tests.training.judge_server import JudgeServer

GATES = ("off", "multiply", "require")
RAWS = (2.0, 0.0, 2.0, 0.0, 1.0)


def random_verdicts(case: PreparedAnswer, seed: int) -> Verdicts:
    source = random.Random(seed)
    return verdicts(
        case,
        raws=tuple(source.choice([0.0, 0.7, 2.0]) for _ in case.items),
        support=tuple(source.choice([0.0, 0.5, 1.0]) for _ in case.reading.claims),
        relevance=tuple(tuple(float(source.random() < 0.5) for _ in ids) for ids in case.cited),
        needs=tuple(float(source.random() < 0.5) for _ in case.reading.uncited),
    )


# ---- the reward -------------------------------------------------------------------------------


def test_the_reward_is_the_convex_sum_of_rubric_and_f1_times_ten_and_each_setting_does_what_it_says():
    case = prepared(GOOD)
    settled = final_figures(case, verdicts(case, raws=RAWS))
    assert (settled.rubric, settled.citation.f1) == (pytest.approx(4.5 / 5), 1.0)
    assert settled.reward == pytest.approx(10 * (0.8 * 0.9 + 0.2))
    for config, share in TABLES["refiner: what each setting earns, as a share of ten"]:
        case = prepared("<answer><snippet id=S1,S2>OXPHOS is down</snippet></answer>", **config)
        given = verdicts(case, raws=RAWS, relevance=((1.0, 0.0),))
        assert final_figures(case, given).reward == pytest.approx(10 * share), config


def test_wanted_and_unwanted_behaviours_weigh_what_they_are_given_and_the_scale_has_ends():
    about = record(
        positive_rubrics=(BehaviourItem(title="a", description="x", weight=3.0),),
        negative_rubrics=(BehaviourItem(title="b", description="y", weight=1.0),),
    )
    weighed, plain = prepared(GOOD, about, static_rubrics=False), prepared(GOOD, static_rubrics=False)
    cases = [(weighed, (2.0, 2.0), 0.75), (weighed, (0.0, 0.0), 0.25), (plain, (7.0, -3.0), 1.0)]
    assert [final_figures(case, verdicts(case, raws=raws)).rubric for case, raws, _ in cases] == [x for *_, x in cases]


def test_silence_is_paid_only_by_the_published_settings():
    configs = [({"preset": "published"}, 4.0), ({}, 0.0), ({"gate": "multiply"}, 0.0)]
    for config, paid in (*configs, ({"gate": "off", "empty_answer": "zero"}, 0.0)):
        case = prepared("<answer></answer>", record(negative_rubrics=()), **config)
        assert final_figures(case, verdicts(case, raws=(0.0,) * 4)).reward == pytest.approx(paid), config
        assert paid or final_figures(case, None).reward == 0.0


def test_a_gate_costs_nothing_a_share_or_everything_and_a_hard_fault_everything_whatever_the_gate():
    found = {}
    for gate in GATES:
        case, broken = (prepared(text, gate=gate) for text in (f"Sure. {GOOD}", "<answer><snippet id=S1>cut off"))
        found[gate] = final_figures(case, verdicts(case, raws=(2.0, 0.0, 2.0, 0.0, 0.0))).reward
        assert not broken.is_judgeable and final_figures(broken, None).reward == 0.0
    assert found == {"off": 10.0, "multiply": pytest.approx(10 * (0.8 * 0.8 + 0.2)), "require": 0.0}


def test_a_missing_verdict_makes_the_reward_missing_and_never_a_number_but_hides_no_fault_of_form():
    case, faulty = prepared(GOOD), prepared(f"Sure. {GOOD}")
    gone = {"raws": (2.0, None, 2.0, 0.0, 0.0), "support": (None,), "relevance": ((None,),)}
    for name, values in {**gone, "needs": (None,) * len(case.reading.uncited)}.items():
        assert final_figures(case, verdicts(case, **{name: values})).reward is None, name
    without = prepared(GOOD, apply_citation=False)
    assert final_figures(without, verdicts(without, share=None)).reward is not None
    assert final_figures(faulty, verdicts(faulty, raws=(None,) * 5)).reward == 0.0


def test_nobody_is_asked_about_an_id_that_is_not_in_the_evidence():
    text = "<answer><snippet id=X1>a</snippet> <snippet id=S1,X1>b</snippet></answer>"
    case = prepared(text, preset="published")
    assert case.cited == ((), ("S1",))
    settled = final_figures(case, Verdicts((0.0,) * 5, ("",) * 5, (None, 1.0), ((), (1.0,)), ()))
    assert (settled.citation.precision, settled.citation.recall) == pytest.approx((1 / 3, 1 / 2))


def test_citations_can_be_counted_by_document():
    about = record(sources={"S1": "paper", "S2": "paper", "X9": "paper"})
    text = "<answer><snippet id=S1,S2,W:3.a-b_c>a</snippet></answer>"
    case = prepared(text, about, citation_level="paper")
    given = verdicts(case, relevance=((1.0, 0.0, 0.0),))
    found = [final_figures(each, given).citation.precision for each in (case, prepared(text, about))]
    assert found == pytest.approx([1 / 2, 1 / 3])


def test_saying_nothing_checkable_is_right_only_where_there_is_no_answer():
    for answerable, score in ((False, 1.0), (True, 0.0)):
        case = prepared("<answer>The evidence does not say.</answer>", record(answerable=answerable), gate="off")
        assert [final_figures(case, verdicts(case, need=need)).citation.f1 for need in (0.0, 1.0)] == [score, 0.0]


def test_one_giant_claim_with_every_id_counts_as_unsupported():
    many = ",".join(f"S{n}" for n in range(9))
    for text in (f"<snippet id={many}>a</snippet>", f"<snippet id=S1>{'word ' * 81}</snippet>"):
        case = prepared(f"<answer>{text}</answer>", gate="off")
        assert case.cited == ((),) and final_figures(case, verdicts(case)).citation.f1 == 0.0
        assert "earns nothing" in str(explain(case, verdicts(case), "test").claims[0].note)


def test_the_static_items_are_three_and_can_be_left_out_and_presets_changed_key_by_key():
    assert [item.polarity for item in static_items()] == ["positive", "negative", "negative"]
    assert len(items_of(record(), RewardConfig(static_rubrics=False))) == 2
    with pytest.raises(BadConfig, match="nothing to"):
        prepare(record(positive_rubrics=(), negative_rubrics=()), GOOD, RewardConfig(static_rubrics=False))
    published = RewardConfig.model_validate({"preset": "published", "gate": False, "w": 0.3})
    assert (published.gate, published.zero_if_empty, published.citation_weight) == ("off", False, 0.3)
    assert RewardConfig().gate == "require" and RewardConfig().zero_if_empty
    assert set(PRESETS) == {"assay", "published"}


def test_every_verdict_is_shown_at_its_place_in_the_text():
    text = '<answer>It falls by 1.9. <snippet id="S1,X9">OXPHOS is down</snippet></answer>'
    case = prepared(text, gate="off")
    shown = explain(case, verdicts(case, need=1.0), "test")
    claim, passage = shown.claims[0], shown.uncited[0]
    assert text[claim.start : claim.end] == "OXPHOS is down"
    found = [(each.id, each.is_known, each.relevant) for each in claim.citations]
    assert found == [("S1", True, 1.0), ("X9", False, 0.0)]
    assert (text[passage.start : passage.end], passage.needs_citation) == ("It falls by 1.9.", 1.0)
    assert [item.polarity for item in shown.items].count("negative") == 3
    assert shown.judge == "test"


# ---- ALCE, and the judge that compares words ---------------------------------------------------


def test_citation_precision_and_recall_of_alce_are_those_of_its_own_script():
    passages = enumerate(CASES["alce_passages"], 1)
    about = record(tool_output="\n".join(f"<snippet id=S{n}>{text}</snippet>" for n, text in passages))
    task, wrong = Refine(reward=RewardConfig(gate="off")), []
    for sentences, precision, recall in CASES["alce"]:
        text = written([([f"S{n}" for n in ids], said) if ids else said for said, ids in sentences])
        (grade,) = task.grade([about], [text])
        found = [grade.parts["alce_precision"], grade.parts["alce_recall"]]
        wrong += [] if found == pytest.approx([precision, recall], abs=1e-3) else [(text, found)]
    assert not wrong
    said = "<answer>Briefly: <snippet id=S3>folate is a vitamin</snippet>, as known.</answer>"
    (grade,) = task.grade([about], [said])
    assert grade.parts["alce_recall"] == 1.0


def test_words_never_match_for_a_claim_that_denies_or_a_passage_that_does():
    passage, claim = "Nisin killed 99% of Listeria in milk and was effective.", "Nisin killed 99% of Listeria in milk."
    assert support_by_words(claim, [passage]) == 1.0
    assert [each for each in CASES["denied"] if support_by_words(each, [passage])] == []
    assert [each for each in CASES["denied"] if support_by_words(claim, [each])] == []
    wanted = BehaviourItem(title="rate", description='Says that it is "99%".')
    about = record(
        prompt="Does nisin kill Listeria?",
        tool_output=f"<snippet id=S1>{passage}</snippet>",
        positive_rubrics=(wanted,),
    )
    texts = [f"<answer><snippet id=S1>{each}</snippet></answer>" for each in (claim, *CASES["denied"])]
    best, *rewards = [each.reward for each in Refine().grade([about] * len(texts), texts)]
    assert best == 1.0 and max(rewards) <= 0.6


# ---- what holds for every answer --------------------------------------------------------------


@given(PARTS, st.integers(0, 99), st.sampled_from(GATES))
@settings(max_examples=80)
def test_a_convex_reward_stays_between_0_and_10(parts, seed, gate):
    case = prepared(written(parts), gate=gate)
    assert 0.0 <= final_figures(case, random_verdicts(case, seed)).reward <= 10.0


@given(PARTS, st.integers(0, 99), st.sampled_from(GATES), st.integers(0, 5))
@settings(max_examples=80)
def test_an_unknown_id_never_raises_the_reward(parts, seed, gate, place):
    spans = [at for at, part in enumerate(parts) if not isinstance(part, str)]
    if not spans:
        return
    chosen, changed = spans[place % len(spans)], [*parts]
    changed[chosen] = ([*parts[chosen][0], "unknown-id"], parts[chosen][1])
    before, after = (prepared(written(each), gate=gate) for each in (parts, changed))
    given = random_verdicts(before, seed)
    assert final_figures(after, given).reward <= final_figures(before, given).reward + 1e-12


# ---- `assay refiner score` --------------------------------------------------------------------


@pytest.fixture
def score(tmp_path):
    """Score cases, each the case of the table with its changes; what a changed table of verdicts leaves out stays."""

    def run(*changes: dict, judge: str = "stub", more: tuple[str, ...] = ()):
        rows = [json.dumps({**CASES["case"], "id": str(at), **change}) for at, change in enumerate(changes)]
        (tmp_path / "cases.jsonl").write_text("\n".join(rows), encoding="utf-8")
        command = ["refiner", "score", str(tmp_path / "cases.jsonl"), "--judge", judge, "--json", *more]
        return CliRunner().invoke(app, command)

    return run


def test_a_verdict_that_is_none_makes_the_reward_null(score):
    table = CASES["case"]["stub_judge"]
    found = score(*({"stub_judge": change if change is None else table | change} for change, _ in CASES["verdicts"]))
    rows, rewards = json.loads(found.stdout), [reward for _, reward in CASES["verdicts"]]
    assert [row["reward"] and round(row["reward"], 6) for row in rows] == rewards
    assert "stub (verdicts from a table)" in found.stderr


def test_a_bad_case_is_named_by_file_line_and_field(score):
    wrong = []
    for change, field in CASES["bad_cases"]:
        result = score({"id": "first"}, change)
        told = result.exception
        good = isinstance(told, BadRow) and (told.line, told.field) == (2, field) and "cases.jsonl" in str(told)
        wrong += [] if good and not result.stdout else [(change, told)]
    assert not wrong


RAGAS = sorted((Path(__file__).parents[1] / "files/ragas").iterdir())
"""One row in the shapes in which Ragas, pandas and public repositories keep such rows."""


@pytest.mark.parametrize("path", RAGAS, ids=lambda path: path.name)
def test_rows_in_the_columns_of_ragas_are_scored_from_any_file(path):
    done = CliRunner().invoke(app, ["refiner", "score", str(path), "--judge", "heuristic", "--json"])
    (found,) = json.loads(done.stdout)
    assert found["claims"] == [{"text": "Nisin killed 99% of Listeria in milk.", "ids": ["S1"]}], done.output
    assert [each["text"] for each in found["verdicts"]["uncited"]] == ["Folate is safe."]
    assert [found[name] for name in ("citation_precision", "alce_precision", "alce_recall")] == [1.0, 1.0, 0.5]
    assert found["verdicts"]["items"][0]["description"] == "Says what is true: Nisin kills 99% in milk."
    assert found["verdicts"]["claims"][0]["verdict"] == "Words match" and "upported" not in done.stdout
    assert "RAGAS" in done.stderr
    (about,) = read_records(path)
    assert list(evidence_of(about.tool_output)) == ["S1", "S2"] and about.asked == CASES["ragas"]["user_input"]


def test_a_row_of_ragas_that_cannot_be_read_is_named_and_an_answer_that_cites_nothing_is_held_against_all(tmp_path):
    path = tmp_path / "a.jsonl"
    for row, message in CASES["bad_ragas"]:
        path.write_text(json.dumps(row), encoding="utf-8")
        with pytest.raises(BadRow, match=message):
            read_cases(path)
    (tmp_path / "a.csv").write_text("question,contexts,answer\n", encoding="utf-8")
    with pytest.raises(LabError, match="holds no rows"):
        read_cases(tmp_path / "a.csv")
    (tmp_path / "a.csv").write_text("question,contexts,answer\na,['the cell''s wall'],b\n", encoding="utf-8")
    assert "the cell's wall" in read_cases(tmp_path / "a.csv")[0].record.tool_output
    known = {"question": "a", "contexts": ["b", "c"], "answer": "One. Two.", "ground_truth": float("nan")}
    path.write_text(json.dumps(known), encoding="utf-8")
    assert [claim.ids for claim in read_cases(path)[0].prepare().reading.claims] == [("S1", "S2")] * 2


def test_a_claim_cites_the_passages_that_its_answer_names_however_models_write_it(tmp_path):
    rows = [
        {
            "id": answer,
            "question": "a",
            "contexts": ["b", {"text": "", "content": " "}, {"text": "", "content": "c"}, "d"],
        }
        | {"answer": answer}
        for answer, _ in CASES["cited"]
    ]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    wrong = []
    for case, (answer, expected) in zip(read_cases(tmp_path / "a.jsonl"), CASES["cited"], strict=True):
        assert evidence_of(case.record.tool_output) == {"S1": "b", "S3": "c", "S4": "d"}
        found = [[claim.text, " ".join(claim.ids)] for claim in case.prepare().reading.claims]
        wrong += [] if found == expected else [(answer, found)]
    assert wrong == []


def test_who_judged_is_told(score):
    with JudgeServer() as server:
        (over_http,) = json.loads(score({}, judge=server.url).stdout)
    assert over_http["verdicts"]["claims"][0]["verdict"] == "Supported"
    assert (over_http["judge"], over_http["rubric"]) == ("http (tiny-judge)", 1.0)


def test_a_judge_that_is_none_or_far_away_is_refused(score):
    told = [(score({}, judge=judge, more=more).exception, says) for judge, more, says in CASES["judges"]]
    assert [row for row in told if not isinstance(row[0], BadConfig) or row[1] not in str(row[0])] == []


# ---- reports ----------------------------------------------------------------------------------

BAD = "<answer><snippet id=S1>OXPHOS is up in liver</snippet></answer>"
BROKEN = "<answer>cut off"
TASK = Refine()


def rows_of(stage: str, *texts: str) -> tuple[RefinerRow, ...]:
    """Return a row per text, two records to a cluster."""
    records = [record(id=f"r{place}", split_group=f"g{place // 2}") for place in range(len(texts))]
    return grade_answers(TASK, records, [StageAnswer(stage, text) for text in texts])


def report(*rows: RefinerRow, **changes: object) -> RefinerReport:
    return build_report([record()], rows, Refine, **ORIGIN).model_copy(update=changes)


def test_an_answer_without_a_verdict_stays_out_of_the_mean_and_of_differences_and_is_counted():
    good, other = rows_of("sft", GOOD, GOOD)
    lost = other.model_copy(update={"scored": other.scored.model_copy(update={"reward": None})})
    found = summarise([good, lost], task=Refine)[0].metrics["reward"]
    assert (found.n, found.value, found.note) == (1, good.scored.reward, "1 of 2 answers without a verdict")
    one = report(good, lost, *rows_of("refiner", BAD, BROKEN))
    (pair,) = compare([((one, "sft"), (one, "refiner"))]).comparisons
    (reward,) = (each for each in pair.differences if each.metric == "reward")
    assert (pair.n, pair.n_clusters, reward.n, reward.second) == (2, 1, 1, one.rows[2].scored.reward)
    assert summarise(rows_of("sft", GOOD, BROKEN), task=Refine)[0].metrics["wellformed"].value == 0.5


def test_reports_of_another_judge_other_records_or_another_reward_are_not_compared():
    rows = [*rows_of("sft", GOOD), *rows_of("refiner", GOOD)]
    others = [({"judge": "http (other)"}, "judge heuristic"), ({"judge_mode": "per_item"}, "per_item")]
    others += [({"data_sha256": "0"}, "different questions"), ({"reward": RewardConfig(gate="off")}, "reward")]
    for changed, told in others:
        with pytest.raises(IncomparableReports, match=told):
            compare([((report(*rows), "sft"), (report(*rows, **changed), "refiner"))])


def test_the_references_beat_what_anybody_gets_for_nothing():
    rows = baseline_rows(TASK, refiner_bank().test)
    means = {each.stage: each.metrics["reward"].value for each in summarise(rows, draws=10, task=Refine)}
    reference = means.pop("reference")
    assert means["silent"] == 0.0 and reference > max(means.values()) + 1.0


def test_only_long_runs_of_one_passage_count_as_copied():
    passage, other = (" ".join(f"{letter}{n}" for n in range(40)) for letter in "wx")
    half = " ".join((*passage.split()[:12], *other.split()[:12]))
    shares = {(passage,): 1.0, ("w1 w2 w3 of another text",): 0.0, (half,): 0.5, (): None}
    assert {texts: copied_share(texts, {"S1": passage}) for texts in shares} == shares
