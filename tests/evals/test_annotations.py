import csv
import io
import json
import re
from datetime import UTC, datetime, timedelta

import pytest
from datasets import load_dataset

from evals.errors import LabError
from evals.preferences.annotations import (
    agreements,
    check_raters,
    disagreements,
    progress,
    queue,
    settle_annotations,
    usual_guidelines,
    with_checks,
)
from evals.preferences.files import FORMS, LAYOUTS, export, read_annotations
from evals.preferences.rows import trainable_annotations
from evals.questions import pathway_heldout, pathway_training
from evals.readers import LabelRow
from evals.schema.votes import Annotation, AnnotationItem, AnnotationProject
from evals.stats.agreement import agreement_level
from tests.evals.reports import TABLES, judged
from tests.evals.tools import installed, run

NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)
REASON = "wrong number; sign"
GUIDE = usual_guidelines().model_copy(update={"reasons": (*usual_guidelines().reasons, REASON)})
PROJECT = AnnotationProject(id="liver", title="Liver", created_at=NOON, guidelines=GUIDE, raters_per_item=2)
QUESTIONS = [row.prompt for row in pathway_training()[:3]]
FILES = {"label-studio": "tasks.json", "csv": "annotations.csv"}


def item(number, stage="sft", question=None, **more):
    known = {"id": f"i{number}", "project": "liver", "added_at": NOON, "stage": stage, "chain": "embedded"}
    text = f'Hepatocytes say "up", {number}.\nAnswer: up\nConfidence: 80%'
    more = {"system_prompt": "Answer briefly.", **more}
    return AnnotationItem(**{**known, "question": question or QUESTIONS[number % 3], "text": text, **more})


def said(number, rater="ann", state="submitted", **more):
    return Annotation(item=f"i{number}", rater=rater, state=state, updated_at=NOON + timedelta(minutes=number), **more)


ITEMS = [item(number, "grpo" if number % 2 else "sft") for number in range(6)]
SPAN = {"start": 0, "end": 11, "kind": "unsupported", "comment": "which ones?"}
SAID = [
    said(0, ratings={"factual": 5, "safety": 5}, thumb="up", verdict="correct", notes=[SPAN]),
    said(0, "bob", ratings={"factual": 4}, thumb="up", verdict="correct"),
    said(1, state="draft", comment='"quoted", and\na second line'),
    said(2, "bob", state="discarded", comment="=no answer"),
    said(3, ratings={"factual": 1}, thumb="down", reasons=(REASON,), corrected="Down.\nAnswer: down"),
    said(3, "bob", ratings={"factual": 4}, thumb="up"),
]


def rows_of(form, items=ITEMS, annotations=SAID):
    return [json.loads(line) for line in export(PROJECT, items, annotations, form).files["train.jsonl"].splitlines()]


def test_a_rater_is_given_drafts_first_then_what_others_began_and_nothing_that_is_complete():
    def waiting(rater, items=ITEMS):
        return [each.id for each in queue(PROJECT, items, SAID, rater, NOON)]

    assert waiting("ann") == ["i1", "i2", "i4", "i5"]
    assert waiting("bob") == ["i1", "i4", "i5"]
    assert waiting("cat") == ["i1", "i2", "i4", "i5"]
    named = [each.model_copy(update={"assigned": ("cat",) if each.id in ("i0", "i5") else ()}) for each in ITEMS]
    assert waiting("cat", named) == ["i0", "i5", "i1", "i2", "i4"]
    assert waiting("bob", named) == ["i1", "i4"]
    assert progress(PROJECT, ITEMS, SAID)._asdict() == {
        "items": 6, "complete": 2, "begun": 1, "discarded": 1, "submitted": 4, "wanted": 12,
    }  # fmt: skip


def test_a_draft_keeps_its_raters_place_for_a_day_and_is_found_again_after():
    project = PROJECT.model_copy(update={"raters_per_item": 1})
    for waited, given in ((23, []), (25, ["i1"])):
        now = NOON + timedelta(hours=waited, minutes=1)
        assert [each.id for each in queue(project, ITEMS[1:2], SAID, "cat", now)] == given
        assert [each.id for each in queue(project, ITEMS[1:2], SAID, "ann", now)] == ["i1"]


def test_what_raters_say_together_is_the_mean_and_the_majority_until_somebody_settles_it():
    first, third = settle_annotations(ITEMS, SAID)
    assert (first.ratings, first.raters) == ({"factual": 4.5, "safety": 5}, 2)
    assert (first.thumb, first.verdict) == ("up", "correct")
    assert (disagreements(PROJECT, first), disagreements(PROJECT, third)) == ([], ["thumb", "factual"])
    assert (third.thumb, third.is_good(PROJECT.guidelines.dimensions), third.corrected[:5]) == (None, None, "Down.")
    ruled = [*SAID, said(3, "cat", thumb="up", ratings={"factual": 4}, is_adjudication=True)]
    third = settle_annotations(ITEMS, ruled)[1]
    assert (third.thumb, third.by, third.corrected, disagreements(PROJECT, third)) == ("up", "cat", None, [])
    second = rows_of("kto", annotations=ruled)[1]
    assert second["label"] is second["is_adjudicated"] is True


def test_agreement_stands_for_each_dimension_and_ratings_near_each_other_nearly_agree():
    pairs = [(5, 4), (1, 2), (3, 3), (4, 4), (2, 1), (5, 5), (1, 1), (4, 5), (2, 2), (3, 4), (1, 1), (5, 5)]
    both = [said(n, who, ratings={"factual": pair[k]}) for n, pair in enumerate(pairs) for k, who in enumerate("ab")]
    found = agreements(PROJECT, [*both, said(0, thumb="up"), said(0, "bob", state="draft", thumb="down")], draws=200)
    factual = found["factual"]["krippendorff_alpha"]
    assert set(found) == {"factual", "thumb"}
    assert factual.low < 0.9 < factual.value < 0.92 and found["factual"]["cohen_kappa"].value > 0.9
    assert found["thumb"]["gwet_ac1"].value is None
    assert (agreement_level(factual), agreement_level(found["thumb"]["krippendorff_alpha"])) == ("good", "few")
    opposed = [
        said(n, who, ratings={"factual": rating}) for n in range(12) for who, rating in (("a", n % 2 + 1), ("b", 3))
    ]
    figures = agreements(PROJECT, opposed, draws=200)["factual"]
    assert agreement_level(figures["krippendorff_alpha"]) == "chance"


def test_a_share_of_answers_has_a_known_label_and_a_share_is_asked_again_at_the_end():
    outcomes = [("incorrect" if n % 2 else "correct", None) for n in range(20)]
    items = [item(n, verdict=row.verdict) for n, row in enumerate(judged("sft", outcomes))]
    made = with_checks(items, 0.25, 0.1)
    assert made == with_checks(items, 0.25, 0.1)
    assert [each.id for each in made[:20]] == [each.id for each in items]
    assert [each.gold for each in made if each.gold] == [each.verdict.verdict for each in made if each.gold]
    assert (sum(each.gold is not None for each in made), [each.gold for each in made[20:]]) == (5, [None, None])
    assert all(each.id.removesuffix(":again") in {one.id for one in items} for each in made[20:])
    with pytest.raises(LabError, match="no answer here has a verdict"):
        with_checks(ITEMS, 0.1, 0)


def test_raters_are_checked_against_known_labels_and_themselves_and_timed_without_their_pauses():
    items = [item(n, gold="correct") for n in range(4)]
    items += [item(n).model_copy(update={"id": f"i{n}:again"}) for n in (0, 1)]
    known = [said(n, verdict="incorrect" if n == 3 else "correct", ratings={"factual": 4}) for n in range(4)]
    again = [("i0:again", 4, 30), ("i1:again", 1, 31)]
    twice = [
        said(at, verdict="correct", ratings={"factual": rated}).model_copy(update={"item": name})
        for name, rated, at in again
    ]
    (ann,) = check_raters(PROJECT, items, [*known, *twice])
    assert (ann.rater, ann.submitted, ann.seconds) == ("ann", 6, 60.0)
    assert (ann.gold.value, ann.gold.n, ann.itself.value, ann.itself.n) == (0.75, 4, 0.5, 2)
    assert ann.gold.low < 0.75 < ann.gold.high
    assert len(settle_annotations(items, [*known, *twice])) == 4, "the second time trains nobody"
    files = export(PROJECT, items, [*known, *twice], "csv", {"ann": "Ann"}).files
    (row,) = csv.DictReader(io.StringIO(files["raters.csv"].removeprefix("\ufeff")))
    assert [row[name] for name in ("rater_name", "submitted", "gold", "gold_n", "itself", "itself_n", "seconds")] == [
        "Ann", "6", "0.75", "4", "0.5", "2", "60.0",
    ]  # fmt: skip
    assert set(export(PROJECT, ITEMS, SAID, "csv").files) == {"annotations.csv"}, "nobody is checked"


def test_trainers_get_corrections_preferences_and_thumbs_in_rows_that_load(tmp_path):
    (demonstration, corrected) = rows_of("sft")
    assert demonstration["completion"][0]["content"] == ITEMS[0].text
    assert corrected["completion"] == [{"role": "assistant", "content": "Down.\nAnswer: down"}]
    assert [row["label"] for row in rows_of("kto")] == [True, True, False]
    file = tmp_path / "dpo.jsonl"
    file.write_text(export(PROJECT, ITEMS, SAID, "dpo").files["train.jsonl"])
    rows = load_dataset("json", data_files=str(file), split="train", cache_dir=str(tmp_path / "cache"))
    assert {"prompt", "chosen", "rejected", "margin"} <= set(rows.column_names) and len(rows) == 2
    assert rows[0]["rejected"] == [{"role": "assistant", "content": ITEMS[3].text}]
    liked = [said(3, thumb="up", corrected="Down.")]
    assert [row["margin"] for row in rows_of("dpo", annotations=liked)] == [0]
    assert rows[1]["margin"] == pytest.approx(7 / 8 + 1 / 16 - 3 / 8, abs=0.1)


def test_what_annotations_can_train_is_counted_as_it_is_exported():
    dpo, kto, reward = trainable_annotations(PROJECT, settle_annotations(ITEMS, SAID))
    pairs, thumbs = rows_of("dpo"), rows_of("kto")
    assert dpo.rows == reward.rows == reward.graded == len(pairs) and all(row["margin"] > 0 for row in pairs)
    assert (kto.rows, kto.good) == (len(thumbs), sum(row["label"] for row in thumbs)) and 0 < kto.good < kto.rows
    _, kto, _ = trainable_annotations(PROJECT, settle_annotations(ITEMS, SAID[:1]))
    assert (kto.rows, kto.good) == (0, 1), "nothing is called bad"


def test_answers_to_held_out_questions_train_nobody_and_an_empty_export_says_why():
    held = [item(0, question=pathway_heldout()[0].prompt)]
    for form in FORMS[:3]:
        told = r"1 held out to measure models\). They train no model. Choose labels, label-studio"
        with pytest.raises(LabError, match=told):
            export(PROJECT, held, SAID[:2], form)
    for form in FORMS:
        with pytest.raises(LabError, match="nothing was submitted yet"):
            export(PROJECT, [], [], form)


def test_verdicts_of_people_become_labels_that_readers_are_measured_on():
    label = LabelRow.model_validate_json(export(PROJECT, ITEMS, SAID, "labels").files["labels.jsonl"])
    assert (label.labels, label.labelled_twice, label.completion) == (("correct",), ("correct",) * 2, ITEMS[0].text)
    contested = [*SAID, said(1, verdict="correct"), said(1, "bob", verdict="incorrect")]
    made = export(PROJECT, ITEMS, contested, "labels")
    assert made.left_out == {"whose raters disagree, to be settled first": 1, "without anybody's verdict": 1}
    assert LabelRow.model_validate_json(made.files["labels.jsonl"]).labelled_twice is None


@pytest.mark.parametrize("layout", LAYOUTS)
def test_what_is_exported_comes_back_with_offsets_into_a_project_that_has_the_answers_or_not(layout, tmp_path):
    file = tmp_path / FILES[layout]
    file.write_text(export(PROJECT, ITEMS, SAID, layout).files[FILES[layout]])
    assert ",=" not in file.read_text(), "no cell is a formula"
    found = read_annotations(file, layout, PROJECT, ITEMS, NOON)
    lost = {"updated_at", "guidelines"}
    back, put = ([each.model_dump(exclude=lost) for each in one] for one in (found.annotations, SAID))
    assert back == put
    note = found.annotations[0].notes[0]
    assert (note.start, note.end, note.kind, found.items) == (0, 11, "unsupported", [])
    new = read_annotations(file, layout, PROJECT, [], NOON).items
    assert {(each.id, each.text, each.system_prompt) for each in new} <= {
        (f"liver:{each.id}", each.text, "Answer briefly.") for each in ITEMS
    }


def test_a_file_of_another_project_brings_its_answers_under_ids_of_their_own_and_twice_read_is_once_kept(tmp_path):
    file = tmp_path / "annotations.csv"
    rows = ["other:1,why?,up,ann,5,2026-01-02 12:00", "other:2,why?,up,ann,1,2026-01-02T12:00Z", ",so?,no,ann,3,"]
    file.write_text("item,question,text,rater,rating:factual,updated_at\n" + "\n".join(rows) + "\n", encoding="utf-8")
    found = read_annotations(file, "csv", PROJECT, [], NOON)
    assert [each.id for each in found.items][:2] == ["liver:other:1", "liver:other:2"]
    assert [each.ratings["factual"] for each in settle_annotations(found.items, found.annotations)] == [5, 1, 3]
    again = read_annotations(file, "csv", PROJECT, found.items, NOON)
    assert (again.items, again.annotations) == ([], found.annotations)
    file.write_text("question,text,rater\nelse?,yes,ann\n", encoding="utf-8")
    assert read_annotations(file, "csv", PROJECT, [], NOON).items[0].id not in {each.id for each in found.items}


def test_a_file_that_does_not_fit_is_refused_with_line_and_field(tmp_path):
    file = tmp_path / "annotations.csv"
    head = "question,text,rater,rating:factual,notes\n"
    for row, words in TABLES["annotations: rows that do not fit"]:
        file.write_text(head + row + "\n", encoding="utf-8")
        with pytest.raises(LabError, match=words):
            read_annotations(file, "csv", PROJECT, ITEMS, NOON)
    for table, words in TABLES["annotations: tables that do not fit"]:
        file.write_text(table, encoding="utf-8")
        with pytest.raises(LabError, match=words):
            read_annotations(file, "csv", PROJECT, ITEMS, NOON)
    file.write_text("question,text,rater,reasons\nwhy?,up, ann ,vague;too long\n", encoding="utf-8")
    (typed,) = read_annotations(file, "csv", PROJECT, ITEMS, NOON).annotations
    assert (typed.rater, typed.reasons) == ("ann", ("vague", "too long"))


def test_of_label_studio_nobody_is_no_rater_and_two_verdicts_are_none(tmp_path):
    file, wrong = tmp_path / "tasks.json", []
    for by, choices, words in TABLES["annotations: what Label Studio writes"]:
        region = {"from_name": "verdict", "to_name": "answer", "type": "choices", "value": {"choices": choices}}
        said = [{"result": [region]} | by]
        file.write_text(json.dumps([{"data": {"question": "why?", "answer": "up"}, "annotations": said}]))
        try:
            (found,) = read_annotations(file, "label-studio", PROJECT, ITEMS, NOON).annotations
            told = f"{found.rater} {found.verdict}"
        except LabError as error:
            told = str(error)
        wrong += [] if re.search(words, told) else [told]
    assert not wrong, "\n".join(wrong)


BRCA = ITEMS[0].model_copy(update={"id": "liver:z", "text": "🧬BRCA1 repairs DNA 🧬.", "question": "What does it do?"})


def test_marks_of_label_studio_are_placed_by_their_words_and_others_are_refused(tmp_path):
    file, wrong = tmp_path / "tasks.json", []
    for name, (start, end, words), expected in TABLES["annotations: marks"]:
        value = {"start": start, "end": end, "labels": ["unsupported"]} | ({"text": words} if words else {})
        result = [{"from_name": "notes", "to_name": "answer", "type": "labels", "value": value}]
        data = {"question": BRCA.question, "answer": BRCA.text, "item": BRCA.id}
        file.write_text(json.dumps([{"data": data, "annotations": [{"completed_by": 1, "result": result}]}]))
        try:
            (note,) = read_annotations(file, "label-studio", PROJECT, [BRCA], NOON).annotations[0].notes
            told = BRCA.text[note.start : note.end]
        except LabError as error:
            told = str(error)
        wrong += [] if re.search(expected, told) else [f"{name}: {told}"]
    assert not wrong, "\n".join(wrong)
    place = BRCA.text.index("repairs")
    note = {"start": place, "end": place + 7, "kind": "unsupported"}
    mine = said(0, notes=(note,)).model_copy(update={"item": BRCA.id})
    (task,) = json.loads(export(PROJECT, [BRCA], [mine], "label-studio").files["tasks.json"])
    marked = task["annotations"][0]["result"][0]["value"]
    assert (marked["start"], marked["end"], marked["text"]) == (8, 15, "repairs")


READING = """
import json
from label_studio_sdk.label_interface import LabelInterface
config = LabelInterface(open("config.xml").read())
config.validate()
tasks = json.load(open("tasks.json"))
shown = [{"data": task["data"]} for task in tasks]
print(all(map(config.validate_task, shown)), [config.validate_annotation(a) for t in tasks for a in t["annotations"]])
"""


@pytest.mark.network
@pytest.mark.timeout(900)
def test_label_studio_itself_reads_our_files(tmp_path):
    for name, text in export(PROJECT, ITEMS, SAID, "label-studio").files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    bin = installed("label-studio-sdk", tmp_path)
    read = run([str(bin / "python"), "-c", READING], tmp_path, bin).splitlines()[-1]
    assert read == "True [True, True, True, True, True]"
