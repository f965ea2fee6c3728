"""What is followed of a run while it writes, and how it is charted and shown."""

import re
from dataclasses import replace

import pytest

from lab.train.runs import Watched, follow, last_lines, look, progress_of
from lab.train.view import answers_table, ordered, panel
from lab.ui.charts import CHARTS, curve
from lab.ui.components import escape
from tests.lab.trainings import ROWS, now, plain, run_in, table
from training.refine.reward import RefinerReward
from training.rewards import VerifierReward
from training.run.folder import read_completions


def test_a_torn_last_line_is_left_for_the_next_look(tmp_path):
    run = run_in(tmp_path / "mine", steps=2)
    with run.metrics.open("a") as file:
        file.write('{"step": 3, "lo')
    seen = follow(Watched(run.path), read_completions)
    assert [row["step"] for row in seen.rows] == [1, 2]

    with run.metrics.open("a") as file:
        file.write('ss": 0.25}\n')
    again = follow(seen, read_completions)

    assert again.points("loss") == [(1, 1.0), (2, 0.5), (3, 0.25)]


def test_nothing_new_is_told_by_the_same_object(tmp_path):
    run = run_in(tmp_path / "mine", steps=2)
    table(run.completions, 1, *ROWS)
    seen = follow(Watched(run.path), read_completions)
    assert follow(seen, read_completions) is seen


def test_metrics_that_a_resumed_run_has_cut_are_read_anew(tmp_path):
    run = run_in(tmp_path / "mine", steps=9)
    seen = follow(Watched(run.path), read_completions)
    run._cut_metrics(2)
    run.append_metrics({"step": 3, "loss": 7.0})
    assert follow(seen, read_completions).points("loss")[-1] == (3, 7.0)
    assert len(follow(seen, read_completions).rows) == 3


def test_a_line_that_a_fault_has_garbled_is_counted_and_the_others_are_shown(tmp_path):
    run = run_in(tmp_path / "mine", steps=1)
    with run.metrics.open("ab") as file:
        file.write(b'\xff\xfe garbage\n{"step": 2, "loss": 0.5}\n[1]\n')
    seen = follow(Watched(run.path), read_completions)
    assert (seen.step, seen.unreadable) == (2, 2)
    shown = panel(look(run.path, now()), seen, progress_of(look(run.path, now()), seen, now()), now())
    assert "2 lines of metrics.jsonl cannot be read" in plain(shown)


def test_a_table_of_answers_that_is_not_whole_is_left_for_the_next_look(tmp_path):
    run = run_in(tmp_path / "mine", steps=1)
    whole = table(run.completions, 1, *ROWS).read_bytes()
    torn = run.completions / "completions_00002.parquet"
    torn.write_bytes(whole[: len(whole) // 2])
    seen = follow(Watched(run.path), read_completions)
    assert [batch.step for batch in seen.batches] == [1]

    table(run.completions, 2, *ROWS)

    assert [batch.step for batch in follow(seen, read_completions).batches] == [1, 2]


def test_the_ece_of_a_step_is_over_answers_that_were_scored_and_state_a_confidence(tmp_path):
    run = run_in(tmp_path / "mine")
    table(run.completions, 1, *ROWS)
    table(run.completions, 2, ("well", 0.1, 0.0, "no_claim", None))
    first, second = follow(Watched(run.path), read_completions).batches
    # |0 - 0.9| and |1 - 0.8|, one answer in each bin
    assert first.ece == pytest.approx((0.9 + 0.2) / 2)
    assert second.ece is None


def test_the_log_is_shown_as_a_terminal_would(tmp_path):
    log = tmp_path / "log.txt"
    log.write_bytes(b"loading\n 10%|#\r 50%|##\r100%|###\r\n\x1b[31mred\x1b[0m\n\n")
    assert last_lines(log) == "loading\n100%|###\nred"
    assert last_lines(tmp_path / "none") == ""


def test_only_charts_that_the_run_has_figures_for_are_drawn(tmp_path):
    run = run_in(tmp_path / "mine", steps=3)
    run.append_metrics({"step": 4, "reward": 0.7, "verifier/V1": 0.9, "verifier/V4": None})
    seen = follow(Watched(run.path), read_completions)
    drawn = {chart.name: figure for chart in CHARTS if (figure := curve(chart, seen))}
    assert set(drawn) == {"reward", "loss"}
    assert [(trace.name, list(trace.y)) for trace in drawn["reward"].data] == [
        ("reward", [0.5, 0.5, 0.5, 0.7]),
        ("V1", [0.9]),
    ]


def test_a_noisy_course_is_drawn_as_means_over_ten_steps_with_the_single_ones_behind(tmp_path):
    values = [float(step % 2) for step in range(1, 41)]
    name = "completions/mean_length"
    rows = tuple({"step": n, name: value} for n, value in enumerate(values, start=1))
    (length,) = [chart for chart in CHARTS if chart.name == "length"]
    figure = curve(length, Watched(tmp_path, rows=rows))
    single, mean = figure.data
    assert list(single.y) == values
    assert list(mean.y)[:4] == [1.0, 0.5, 2 / 3, 0.5]
    assert set(mean.y[9:]) == {0.5}
    assert figure.layout.title.text.endswith("(mean of 10)")

    (few,) = curve(length, Watched(tmp_path, rows=rows[:19])).data
    assert list(few.y) == values[:19]


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ("reward-best", ["down", "up", "well"]),
        ("reward-worst", ["up", "down", "well"]),
        ("advantage-best", ["down", "well", "up"]),
        ("advantage-worst", ["up", "well", "down"]),
    ],
)
def test_answers_are_sorted_and_those_without_a_reward_stand_last(tmp_path, order, expected):
    answers = read_completions(table(tmp_path, 1, *ROWS))
    assert [answer.completion for answer in ordered(answers, order)] == expected


@pytest.mark.parametrize("kind", [VerifierReward, RefinerReward])
def test_the_reward_is_read_by_whichever_name_its_stage_gives_it(tmp_path, kind):
    name = vars(kind)["__name__"]  # of its instances, as TRL asks for it; not of the class
    answers = read_completions(table(tmp_path, 1, *ROWS, reward=name))
    assert [answer.reward for answer in answers] == [0.2, 0.9, None]


def test_an_answer_stands_with_question_verdict_and_stated_confidence(tmp_path):
    answers = read_completions(table(tmp_path, 7, ("<b>down</b>", 0.9, 1.0, "correct", 0.8)))
    shown = answers_table(answers, "reward-best")
    assert plain(shown).endswith("0.900 +1.00 Correct 80 % question 0 &lt;b&gt;down&lt;/b&gt;")


def test_a_long_question_is_folded_behind_its_words_and_a_long_answer_behind_its_own(tmp_path):
    (short,) = read_completions(table(tmp_path, 7, ("up", 0.9, 1.0, "correct", 0.8)))
    prompt = f"<question>\nIs it up?\n</question>\n<tool_output>\n{'a passage ' * 200}</tool_output>"
    long = replace(short, prompt=prompt, completion="<answer>It is. " * 100)

    assert "<details" not in answers_table([short], "reward-best")
    page = answers_table([long], "reward-best")

    question, answer = re.findall(r"<details.*?</details>", page, re.DOTALL)
    head, whole = question.split("</summary>")
    assert plain(head).startswith("Is it up? a passage a passage")
    assert len(plain(head)) < 260 and plain(head).endswith(f"all of it, {len(prompt)} characters")
    assert escape(prompt) in whole
    assert plain(answer).startswith("&lt;answer&gt;It is.") and escape(long.completion) in answer


def test_the_first_answers_of_many_are_shown_and_more_in_the_same_order(tmp_path):
    rows = [(f"answer {n}.", n / 30, 0.0, "correct", 0.5) for n in range(23)]
    answers = read_completions(table(tmp_path, 7, *rows))
    shown = {count: plain(answers_table(answers, "reward-best", count)) for count in (10, 20, 30)}
    for count, said in shown.items():
        numbers = [int(each) for each in re.findall(r"answer (\d+)\.", said)]
        assert numbers == list(range(22, -1, -1))[:count]
        assert f"Answers of step 7: {min(count, 23)} of 23" in said
