"""`assay refiner items`: rubric items held against pairs, by the stub judge, by words, and by a server."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from evals.errors import BadConfig, BadRow, LabError
from evals.refine.bank import refiner_bank
from evals.refine.grammar import parse
from evals.refine.items import CONFIG, RULES, Rule, degraded, figures, sides_of
from evals.refine.items import ConsistencySides as Sides
from evals.refine.judge import Verdicts, compare_words
from evals.refine.records import read_records
from evals.schema.refiner import UNDECIDED, AnswerPair, ItemReport
from lab.cli import app
from tests.evals.refiner.answers import TOOL_OUTPUT, record
from tests.training.judge_server import JudgeServer, well
from training.data.refiner import refiner_data
from training.refine.items import read_items, with_kept_items

DOWN = "<answer><snippet id=S1>OXPHOS is down</snippet></answer>"
UP = "<answer><snippet id=S1>OXPHOS is up</snippet></answer>"
ITEMS = {"way": "positive", "wrong": "positive", "flat": "positive", "unsure": "positive"}


def row(place: int, **changes: object) -> dict[str, object]:
    """Return a pair whose table prefers `better` by "way", `worse` by "wrong", neither by "flat"."""
    return {
        "id": f"p{place}",
        "record": {
            "id": f"r{place}",
            "prompt": "Which way does OXPHOS go in liver?",
            "tool_output": TOOL_OUTPUT,
            "positive_rubrics": [
                {"title": name, "description": f'Says "{name}".', "source": "a teacher"} for name in ITEMS
            ],
            "split_group": f"study {place}",
        },
        "better": DOWN,
        "worse": UP,
        "preferred_by": "people",
        "stub_better": {"rubric_raw": {"way": 2, "wrong": 0, "flat": 1, "unsure": None}},
        "stub_worse": {"rubric_raw": {"way": 0, "wrong": 2, "flat": 1, "unsure": 1}},
        **changes,
    }


def elsewhere(place: int) -> dict[str, object]:
    """Return a record with other words and passages than those of any pair."""
    told = f"<snippet id=S1>In study {place}, OXPHOS is down</snippet>"
    asked = {"prompt": f"Which way in study {place}?", "tool_output": told}
    return {**dict(row(place)["record"]), **asked}


def items(folder: Path, rows: list[dict[str, object]], *more: str, judge: str = "stub") -> Result:
    file = folder / "pairs.jsonl"
    file.write_text("".join(json.dumps(each) + "\n" for each in rows), encoding="utf-8")
    words = ["refiner", "items", str(file), "--judge", judge, "--out", str(folder / "items.json")]
    return CliRunner().invoke(app, [*words, *more])


def report(folder: Path) -> ItemReport:
    return ItemReport.model_validate_json((folder / "items.json").read_bytes())


def test_each_kind_of_item_is_counted_and_what_sides_with_the_worse_answer_is_dropped(
    tmp_path: Path,
):
    done = items(tmp_path, [row(n) for n in range(6)], "--json")
    assert done.exit_code == 0, done.output
    found = {each["title"]: each for each in json.loads(done.stdout)["items"]}
    way, wrong, flat, unsure = (found[name] for name in ITEMS)
    assert (way["decided"], way["consistent"], way["finding"]) == (6, 6, "agrees")
    assert (wrong["share"], wrong["finding"], wrong["is_kept"]) == (0.0, "contradicts", False)
    assert (flat["ties"], flat["decided"], flat["share"], flat["interval"]) == (6, 0, None, None)
    assert (unsure["missing"], unsure["finding"], unsure["is_kept"]) == (6, "too few pairs", True)
    assert way["writer"] == "a teacher"
    assert way["interval"] == pytest.approx([0.6097, 1.0], abs=1e-3)  # Wilson, 6 of 6 groups
    assert report(tmp_path).preferred_by == {"people": 6}
    assert report(tmp_path).groups == tuple(f"study {n}" for n in range(6))


@pytest.mark.parametrize(
    ("wins", "losses", "finding"),
    [
        (4, 0, "too few pairs"),
        (0, 4, "too few pairs"),
        (0, 6, "contradicts"),
        (3, 3, "seldom"),
        (3, 2, "agrees"),
        (2, 3, "seldom"),
    ],
)
def test_an_item_is_dropped_only_once_enough_pairs_tell(wins: int, losses: int, finding: str):
    pairs = [
        AnswerPair(id=str(n), record=record(id=str(n)), better=one, worse=other)
        for n in range(wins + losses)
        for one, other in [(DOWN, UP) if n < wins else (UP, DOWN)]
    ]
    judged = [(each, *map(compare_words, each.inquiries())) for each in sides_of(pairs)]
    found = {(each.polarity, each.title): each for each in figures(judged, Rule())}
    assert found["positive", "way"].finding == finding
    assert found["negative", "wrong way"].finding == finding
    assert found["positive", "way"].is_kept is (finding in ("agrees", "too few pairs"))


def test_pairs_about_one_study_are_not_taken_for_independent():
    pairs = [
        AnswerPair(id=str(n), record=record(id=str(n), split_group="one"), better=DOWN, worse=UP) for n in range(9)
    ]
    judged = [(each, *map(compare_words, each.inquiries())) for each in sides_of(pairs)]
    way = next(each for each in figures(judged, Rule()) if each.title == "way")
    assert (way.decided, way.groups) == (9, 1)
    assert way.interval == pytest.approx((0.2065, 1.0), abs=1e-3)


@pytest.mark.parametrize(("groups", "finding"), [(2, "too few groups"), (3, "seldom")])
def test_one_or_two_studies_drop_no_item_for_all_the_others(tmp_path: Path, groups, finding):
    rows = [row(n) for n in range(5)]
    for place, each in enumerate(rows):
        each["record"]["split_group"] = f"study {place % groups}"
    assert items(tmp_path, rows).exit_code == 0
    wrong = next(each for each in report(tmp_path).items if each.title == "wrong")
    assert (wrong.decided, wrong.share, wrong.groups) == (5, 0.0, groups)
    assert (wrong.finding, wrong.is_kept) == (finding, groups < 3)


def test_a_report_of_before_groups_were_counted_is_read(tmp_path: Path):
    items(tmp_path, [row(0)])
    old = json.loads((tmp_path / "items.json").read_text(encoding="utf-8"))
    del old["min_groups"]
    assert ItemReport.model_validate(old).min_groups == 1


def test_a_study_with_many_pairs_weighs_no_more_than_one_with_one_pair():
    pairs = [
        AnswerPair(id=str(n), record=record(id=str(n), split_group=group), better=one, worse=other)
        for n, group in enumerate([*["many"] * 50, *(f"study {n}" for n in range(9))])
        for one, other in [(UP, DOWN) if group == "many" else (DOWN, UP)]
    ]
    judged = [(each, *map(compare_words, each.inquiries())) for each in sides_of(pairs)]
    way = next(each for each in figures(judged, Rule()) if each.title == "way")
    assert (way.consistent, way.decided, way.groups) == (9, 59, 10)
    assert way.share == pytest.approx(0.9)
    assert way.interval == pytest.approx((0.5958, 0.9821), abs=1e-3)  # Wilson, 9 of 10 groups
    assert way.finding == "agrees"


def test_a_server_judges_the_pairs_and_is_not_asked_about_citations(tmp_path: Path):
    rows = [row(n) for n in range(5)]
    for each in rows:
        each["record"]["positive_rubrics"] = [{"title": "way", "description": 'Says "down".'}]
    with JudgeServer() as server:
        done = items(tmp_path, rows, "--model", "tiny-judge", judge=server.url)
        assert done.exit_code == 0, done.output
        asked = {each["kind"] for request in server.requests for each in request.items}
        assert len(server.requests) == 10 and asked == {"behaviour"}
        assert server.url not in (tmp_path / "items.json").read_text(encoding="utf-8")
    way = next(each for each in report(tmp_path).items if each.title == "way")
    assert (way.writer, way.decided, way.finding) == ("record", 5, "agrees")
    assert report(tmp_path).judge_mode == "batched"


def test_without_a_single_verdict_nothing_is_reported(tmp_path: Path):
    with JudgeServer(lambda asked: (500, b"")) as server:
        done = items(tmp_path, [row(0)], "--model", "tiny-judge", judge=server.url)
    assert isinstance(done.exception, LabError) and "no item has a verdict" in str(done.exception)
    assert "14 of 14 verdicts on items are missing: " in str(done.exception)
    assert not (tmp_path / "items.json").exists()


def test_missing_verdicts_are_counted_on_the_screen_with_what_the_judge_failed_at(tmp_path: Path):
    rows = [row(0), row(1)]
    rows[1]["record"]["prompt"] = "Which way in zebras?"
    with JudgeServer(lambda asked: (500, b"") if "zebras" in asked.text else well(asked)) as server:
        done = items(tmp_path, rows, "--model", "tiny-judge", judge=server.url)
    assert done.exit_code == 0, done.output
    assert "14 of 28 verdicts on items are missing: " in done.output and "500" in done.output


def test_pairs_of_which_none_can_be_read_are_not_blamed_on_the_judge(tmp_path: Path):
    done = items(tmp_path, [row(0, worse="no tags at all"), row(1, better="none either")])
    assert isinstance(done.exception, BadConfig)
    assert "in each of the 2 pairs an answer is not well formed" in str(done.exception)


def test_pairs_made_by_rule_say_so_and_the_other_records_are_written_for_training(tmp_path: Path):
    out, rest = tmp_path / "items.json", tmp_path / "train.jsonl"
    words = ["refiner", "items", "--degrade", "refiner-train", "--share", "0.2", "--judge"]
    words += ["heuristic", "--out", str(out), "--filtered", str(rest)]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert "not what people prefer" in " ".join(done.output.split())
    found = report(tmp_path)
    assert set(found.preferred_by) == {"rule"} and found.pairs_name.startswith("references of")
    kept = read_records(rest)
    assert kept and not {each.group for each in kept} & set(found.groups)
    assert len(kept) < len(refiner_bank().train)


def test_training_on_the_records_written_counts_the_items_that_it_drops_from_them(tmp_path: Path):
    file, rest = tmp_path / "all.jsonl", tmp_path / "rest.jsonl"
    wanted = [row(5)["record"], *(elsewhere(n) for n in (8, 9))]
    file.write_text("".join(json.dumps(each) + "\n" for each in wanted), "utf-8")
    done = items(tmp_path, [row(n) for n in range(6)], "--records", str(file), "--filtered", str(rest))
    assert done.exit_code == 0, done.output
    kept = read_items(tmp_path / "items.json")
    data = with_kept_items(refiner_data([str(rest)]), kept, has_static=True)
    assert [each.id for each in data.records] == ["r8", "r9"]
    assert all("wrong" not in {i.title for i in each.positive_rubrics} for each in data.records)
    assert data.record()["items dropped from records"] == 2


@pytest.fixture(scope="module")
def by_rule() -> list[tuple[Sides, Verdicts, Verdicts]]:
    """Every pair that rules make of our own records, judged by comparing words."""
    pairs = degraded(refiner_bank().train)
    return [(each, *map(compare_words, each.inquiries())) for each in sides_of(pairs)]


def test_the_page_says_what_pairs_made_by_rule_show_of_our_own_items(by_rule):
    found = figures(by_rule, Rule())
    told = [each for each in found if each.finding not in UNDECIDED]
    worst = min(told, key=lambda each: each.share or 0.0)
    page = (Path(__file__).parents[3] / "docs" / "refiner.md").read_text(encoding="utf-8")
    assert all(each.is_kept for each in found)
    assert (
        f"{len(by_rule)} pairs made by rule decide on {len(told)} kinds of the {len(found)}, and the least"
        f" consistent of these, *{worst.title}*, agrees in {worst.consistent} of {worst.decided}."
    ) in page


def test_every_rule_makes_readable_answers_that_earn_no_more_than_the_reference(by_rule):
    assert {each.pair.about for each, _, _ in by_rule} == set(RULES)
    assert all(parse(each.pair.worse).is_wellformed for each, _, _ in by_rule)
    for each, better, worse in by_rule:
        gains = [b - w for b, w in zip(better.raws, worse.raws, strict=True)]
        signs = [1 if item.polarity == "positive" else -1 for item in each.better.items]
        assert sum(g * s for g, s in zip(gains, signs, strict=True)) >= 0, each.pair.id
    assert CONFIG.static_rubrics


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"worse": DOWN}, "(whole line)"),
        ({"preferred_by": "nobody"}, "preferred_by"),
        ({"record": {"id": "r", "prompt": "?", "tool_output": "nothing"}}, "record.answerable"),
        ({"chosen": "x"}, "chosen"),
    ],
)
def test_a_bad_pair_is_named_by_line_and_field(tmp_path: Path, change, field):
    done = items(tmp_path, [row(0), row(1, **change)])
    assert isinstance(done.exception, BadRow)
    assert (done.exception.line, done.exception.field) == (2, field)


@pytest.mark.parametrize(
    ("words", "says_what"),
    [
        (["--judge", "stub"], "one of them"),
        (["--judge", "stub", "--degrade", "refiner-test"], "kept for testing"),
        (["--judge", "stub", "--degrade", "refiner-train", "--share", "2"], "between 0 and 1"),
        (
            ["--judge", "heuristic", "--degrade", "refiner-train", "--filtered", "t.jsonl"],
            "none is left to train on",
        ),
    ],
)
def test_what_cannot_be_held_out_is_refused(tmp_path: Path, monkeypatch, words, says_what):
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["refiner", "items", *words, "--out", "items.json"])
    assert isinstance(done.exception, BadConfig) and says_what in str(done.exception)
    assert not Path("items.json").exists()


@pytest.mark.parametrize("words", [("--share", "0.5"), ("--seed", "3"), ("--records", "r.jsonl")])
def test_an_option_that_would_change_nothing_is_refused(tmp_path: Path, words: tuple[str, str]):
    assert isinstance(items(tmp_path, [row(0)], *words).exception, BadConfig)


def test_pairs_about_records_kept_for_testing_are_refused(tmp_path: Path):
    tested = refiner_bank().test[0].model_dump(mode="json", exclude_defaults=True)
    done = items(tmp_path, [row(0, record=tested)])
    assert isinstance(done.exception, BadConfig) and "kept for testing" in str(done.exception)


def test_pairs_with_an_answer_that_cannot_be_read_are_left_out_and_counted(tmp_path: Path):
    done = items(tmp_path, [row(0), row(1, worse="no tags at all")])
    assert "1 pair left out" in done.output
    assert (report(tmp_path).pairs, report(tmp_path).unreadable) == (2, 1)
