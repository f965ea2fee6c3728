"""Question sets of one's own: read whole or not at all, in three formats, and looked at before they are used."""

import itertools
import json
import re
import unicodedata
from collections import Counter
from pathlib import Path

import pytest
import yaml

from evals.errors import BadConfig, BadRow, LabError
from evals.questions import conversation, find, is_held_out, kmp_test, load_questions, register
from evals.questions.checking import report_on
from evals.questions.layouts import ImportOptions, import_rows, question_rows, split_groups
from evals.questions.prompt import answer_form
from evals.questions.sets import EXAMPLES, examples_of, question_row, read_question_set, right_answer, to_example
from evals.questions.task import Questions
from evals.report import build_report
from evals.run import baseline_rows
from evals.verifiers import verify
from tests.evals.reports import ORIGIN, TABLES
from tests.examples import write_examples

HERE = Path(__file__).parent
CASES = yaml.safe_load((HERE / "cases/question_rows.yaml").read_text(encoding="utf-8"))
LAYOUTS = yaml.safe_load((HERE / "cases/layouts.yaml").read_text(encoding="utf-8"))
CODONS = "codons-and-enzymes"
NCBI = "FFLLSSSSYY**CC*WLLLLPPPPHHQQRRRRIIIMTTTTNNKKSSRRVVVVAAAADDEEGGGG"
"""NCBI translation table 1, bases in the order T, C, A, G."""
NAMES = CASES["amino acids"]
CHOICE = {"kind": "choice", "value": "up", "options": ["up", "down"]}
ROW = {"id": "a", "prompt": "Which way?", "truth": CHOICE, "group": "g", "split": "train"}


def check(path: Path):
    return report_on(read_question_set(path), path.name)


def put(path: Path, *rows: dict) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def rows_of(n: int, **changes: object) -> list[dict]:
    return [{**ROW, "id": f"r{at}", "prompt": f"Which way goes {at}?", "group": f"g{at}", **changes} for at in range(n)]


# ---- reading ----------------------------------------------------------------------------------


def test_every_bad_row_is_named_with_its_line_its_field_and_what_to_do(tmp_path):
    wrong = []
    for case in CASES["bad"]:
        row = {name: value for name, value in {**ROW, **case["change"]}.items() if value is not None}
        found = read_question_set(put(tmp_path / "set.jsonl", *rows_of(2), row)).faults
        told = [(each.line, each.field) for each in found if each.remedy]
        wrong += [] if told == [(3, case["field"])] * (case["field"] is not None) else [(case, found)]
    assert not wrong, "\n".join(map(str, wrong))
    file = put(tmp_path / "set.jsonl", *rows_of(3), {**ROW, "split": "exam"}, {**ROW, "id": 5})
    with pytest.raises(BadRow, match=r"line 4, field 'split'.*line 5, field 'id'"):
        load_questions(file)


def test_lines_that_are_no_rows_are_named_in_every_format_and_a_file_that_is_no_set_is_refused(tmp_path):
    for name, text, lines in CASES["no rows in files"]:
        (tmp_path / name).write_text(text)
        assert [fault.line for fault in read_question_set(tmp_path / name).faults] == lines, name
    for name, text, message in CASES["files that are no sets"]:
        (tmp_path / name).write_text(text)
        with pytest.raises(LabError, match=message):
            read_question_set(tmp_path / name)


def test_a_table_as_excel_saves_it_in_german_reads_with_its_decimal_commas_and_says_plainly_what_is_wrong(tmp_path):
    table = (HERE / "files/sets/german.csv").read_text(encoding="utf-8").replace("\n", "\r\n")
    (tmp_path / "excel.csv").write_bytes(table.encode("utf-8-sig"))
    found = read_question_set(tmp_path / "excel.csv")
    truths = [each.ground_truth for each in found.examples]
    assert [truth.value for truth in truths[2:]] == [3.2e6, 1.66e-24]
    truths = truths[:2]
    near = [(truth.value, truth.tolerance.relative or truth.tolerance.absolute) for truth in truths]
    assert near == [(180.16, 0.005), (0.75, 0.02)]
    comma, kind = (f"{each.line}: {each.problem}; {each.remedy}" for each in found.faults)
    assert comma == "4: may be 1250 or 1.250, seen '1,250'; write 1250 or 1.250, without a comma"
    assert kind.startswith("5: Input tag 'free text'")
    assert kind.endswith("; use one of choice, number, set, term, rubric")


def test_the_same_set_reads_the_same_from_jsonl_csv_and_yaml():
    jsonl, table, tree = (load_questions(f"{HERE}/files/sets/mixed.{end}") for end in ("jsonl", "csv", "yaml"))
    assert jsonl == table == tree
    assert jsonl[0].answer == "It rises, as seen.\nAnswer: up\nConfidence: 95%"
    assert (jsonl[0].cluster, jsonl[0].facts, jsonl[0].source) == ("g", ("g",), "mixed")
    right = ["up", "12.5 kg", "UAA, UAG", "active site", "cannot be told from these data"]
    assert [right_answer(row.ground_truth) for row in jsonl] == right


def test_rows_of_our_own_kinds_whole_examples_and_rows_of_the_hub_are_taken_as_well(tmp_path):
    olds = CASES["our own kinds"]
    rows = [{**row, "truth": truth} for row, truth in zip(rows_of(5), olds, strict=True)]
    assert [row.kind for row in load_questions(put(tmp_path / "old.jsonl", *rows))] == [old["kind"] for old in olds]
    write_examples(tmp_path / "whole.jsonl", kmp_test())
    assert load_questions(tmp_path / "whole.jsonl", part="train") == kmp_test()
    number = {"kind": "number", "value": 3.0, "values": None, "unit": "kg", "tolerance": None}
    hub = [
        ("train", {**ROW, "truth": json.dumps(CHOICE), "kind": "choice", "split": None}),
        ("validation", {**ROW, "id": "b", "prompt": "How many?", "truth": number, "split": None}),
    ]
    found = load_questions("hub:org/set@v1.0:default", lambda *asked: {("org/set", "v1.0", "default"): hub}[asked])
    told = [("train", "choice", "org/set"), ("dev", "number", "org/set")]
    assert [(row.split, row.kind, row.source) for row in found] == told


def test_a_part_is_named_in_brackets_or_by_whoever_asks(tmp_path):
    file = put(tmp_path / "set.jsonl", *rows_of(2), {**ROW, "split": "test"})
    parts = {"": 1, "[train]": 2, "[test]": 1, "[all]": 3}
    assert {part: len(load_questions(f"{file}{part}", part="test")) for part in parts} == parts
    assert len(load_questions(file)) == 3
    with pytest.raises(BadConfig, match="no rows of the split dev; it has test, train"):
        load_questions(f"{file}[dev]")
    with pytest.raises(BadConfig, match=r"no data set is called 'nothing'.*codons-and-enzymes"):
        load_questions("nothing")


# ---- prompts, verdicts, reports ---------------------------------------------------------------


def test_prompts_that_differ_only_in_their_truth_are_byte_equal():
    for truths in TABLES["questions: truths of one prompt"]:
        examples = [to_example(question_row({**ROW, "truth": truth}), "x") for truth in truths]
        assert len({json.dumps([turn.model_dump() for turn in conversation(each)]) for each in examples}) == 1
        assert {verify(each, each.answer).verdict for each in examples} == {"correct"}
        assert verify(examples[0], examples[-1].answer).verdict == "incorrect"
        assert verify(examples[-1], examples[0].answer).verdict == "incorrect"


def test_a_report_on_a_set_of_ones_own_has_its_kinds_as_groups_and_resamples_its_groups():
    test = load_questions(CODONS, part="test")
    rows = baseline_rows(Questions("Answer: {answer}"), test, load_questions(f"{CODONS}[train]"))
    report = build_report(test, rows, **ORIGIN)
    found = {each.group: each for each in report.summaries if each.stage.startswith("always abstain")}
    assert set(found) == {"all", "unaided", "choice", "number", "set", "term"}
    accuracy = found["all"].metrics["accuracy"]
    assert (accuracy.value, accuracy.n) == (2 / 16, 16)
    assert accuracy.low is not None and accuracy.low < 2 / 16 < accuracy.high


def test_a_registered_set_is_known_by_its_wording_and_its_test_rows_are_held_out(monkeypatch):
    monkeypatch.setattr("evals.questions.sets._REGISTERED", {})
    question = "Which amino acid does the codon UAU code for?"
    assert find(question) is None
    register(load_questions(CODONS))
    assert find(f" {question.upper()} ").id == "codon/UAU" and is_held_out(question)
    assert not is_held_out("Which amino acid does the codon UUU code for?")


# ---- looking at a set -------------------------------------------------------------------------


def test_what_spoils_a_measurement_is_warned_of_and_nothing_else_is(tmp_path):
    sets = {name: [{**ROW, **change} for change in rows] for name, rows in CASES["warned"].items()}
    for name, rows in sets.items():
        warned = {each.check: each for each in check(put(tmp_path / "set.jsonl", *rows)).warnings}
        assert name in warned and warned[name].remedy, name
    alike = [{**row, "split": ("train", "test")[at % 2]} for at, row in enumerate(rows_of(40))]
    assert "near-duplicate" not in {each.check for each in check(put(tmp_path / "set.jsonl", *alike)).warnings}
    untold = check(put(tmp_path / "set.jsonl", *rows_of(4, truth={"kind": "abstain"}))).warnings
    assert ["cannot be told" in each.remedy for each in untold if each.check == "always right"] == [True]
    report = check(EXAMPLES / f"{CODONS}.yaml")
    assert (report.rows, report.faults, report.warnings) == (60, (), ())
    assert report.splits == {"train": 36, "test": 16, "dev": 8}
    assert max(score.accuracy for score in report.scores) <= 0.125
    example = check(EXAMPLES.parent / "example.yaml")
    assert (example.faults, example.warnings) == ((), ())


def test_a_row_of_thirty_megabytes_is_named_by_its_line_and_field(tmp_path):
    big = "word " * 600_000
    rows = [ROW, {**ROW, "id": "b", "prompt": big}, {**ROW, "id": "c", "prompt": "c?", "explanation": big}]
    faults = read_question_set(put(tmp_path / "set.jsonl", *rows)).faults
    assert [(each.line, each.field) for each in faults] == [(2, "prompt"), (3, "explanation")]
    big *= 10
    (tmp_path / "x.csv").write_text(f'question,A,B,answer\nWhich?,x,y,A\n"{big}",x,y,B\n')
    with pytest.raises(BadRow, match=r"line 3, field 'question': holds 30,000,000 characters"):
        imported(tmp_path / "x.csv")


WHOLE, DAMAGED = CASES["whole names"], CASES["damaged names"]


def test_names_that_a_spreadsheet_damaged_are_told_with_their_line(tmp_path):
    rows = [{**ROW, "id": name, "prompt": f"Which {name}?", "subject": [name]} for name in (*WHOLE, *DAMAGED)]
    rows[0]["truth"] = {**CHOICE, "options": ["up", "down", "4-Dec"]}
    (found,) = [each for each in check(put(tmp_path / "set.jsonl", *rows)).warnings if each.check == "spreadsheet"]
    told = [f"line {line} {name!r}" for line, name in [(1, "4-Dec"), *enumerate(DAMAGED, len(WHOLE) + 1)]]
    assert found.problem.partition(": ")[2].split("; ") == told


def test_a_set_without_training_rows_has_no_baseline_that_knows_its_answers_and_tricks_on_options_are_tried(tmp_path):
    options = [[f"{at}", f"{at} {at}", f"{at}-{at} longer"] for at in range(12)]
    rows = rows_of(12, split="test")
    for row, each in zip(rows, options, strict=True):
        row["truth"] = {"kind": "choice", "value": each[2], "options": each}
    scores = {each.policy: each.correct for each in check(put(tmp_path / "set.jsonl", *rows)).scores}
    assert (scores["longest option"], scores["always option 3 of the list"]) == (12, 12)
    assert not [name for name in scores if "training" in name]
    known = check(put(tmp_path / "set.jsonl", *({**row, "split": "train"} for row in rows)))
    assert not [each.policy for each in known.scores if "training" in each.policy]
    truths = [{"kind": "term", "accept": [name], "others": ["x"]} for name in ("active site", "codon", "apoenzyme")]
    terms = [{**row, "truth": truth} for row, truth in zip(rows_of(3, split="test"), truths, strict=True)]
    assert "all terms on one line" in {each.policy for each in check(put(tmp_path / "set.jsonl", *terms)).scores}


def test_accents_are_the_same_however_they_were_typed(tmp_path):
    composed, parted = (unicodedata.normalize(form, "Ménière") for form in ("NFC", "NFD"))
    truth = {"kind": "choice", "value": parted, "options": [composed, "other"]}
    row = {**ROW, "truth": truth, "prompt": f"Is it {parted}?"}
    (found,) = read_question_set(put(tmp_path / "set.jsonl", row)).examples
    assert (found.ground_truth.value, found.prompt) == (composed, f"Is it {composed}?")
    twice = {**ROW, "truth": {**truth, "options": [composed, parted]}}
    (fault,) = read_question_set(put(tmp_path / "set.jsonl", twice)).faults
    assert (fault.line, fault.field) == (1, "truth.options") and "stands twice" in fault.problem
    both = [{**row, "id": "x", "truth": CHOICE}, {**row, "id": "y", "prompt": f"Is it {composed}?", "truth": CHOICE}]
    assert "asked twice" in {each.check for each in check(put(tmp_path / "set.jsonl", *both)).warnings}


def test_the_codons_of_the_example_are_those_of_the_standard_table():
    table = dict(zip(map("".join, itertools.product("UCAG", repeat=3)), NCBI, strict=True))
    codons = {name: {each for each in table if table[each] == letter} for letter, name in NAMES.items()}
    right = {
        "codon": lambda which: NAMES[table[which]],
        "codons-of": lambda which: len(codons[which]),
        "set": lambda which: codons[which],
        "stop-codons": lambda _: {each for each in table if table[each] == "*"},
        "start-codon": lambda _: min(codons["methionine"]),
        "sense-codons": lambda _: sum(letter != "*" for letter in NCBI),
    }
    asked = [(row.id.partition("/"), row.ground_truth) for row in load_questions(CODONS)]
    asked = [(name, truth) for name, truth in asked if name[0] in right]
    found = {name: set(truth.values) if truth.kind == "set" else truth.value for name, truth in asked}
    assert found == {name: right[name[0]](name[2]) for name, _ in asked} and len(asked) == 31


# ---- importing --------------------------------------------------------------------------------


def layout_file(folder: Path, case: dict) -> Path:
    file = folder / f"x.{case['end']}"
    lines = "".join(json.dumps(row) + "\n" for row in case.get("lines", ()))
    file.write_text(case.get("text") or lines or json.dumps(case["json"]), encoding="utf-8", newline="")
    return file


def imported(file: Path, layout: str | None = None, **wishes: object):
    rows, faults, _ = question_rows(file, layout)
    return import_rows(rows, "x", layout, ImportOptions(**wishes), faults)


def right_in(row: dict) -> object:
    truth = question_row(row).truth
    return next(
        [*map(str, value)] if isinstance(value, tuple) else value
        for value in (getattr(truth, name, None) for name in ("value", "values", "accept")) if value is not None
    ) if truth.kind != "rubric" else [each.title for each in truth.items]  # fmt: skip


def test_files_are_read_as_their_publishers_lay_them_out(tmp_path):
    wrong = []
    for name, case in LAYOUTS.items():
        wanted = {
            key: case[key]
            for key in ("found", "right", "asks", "explains", "within", "unread", "columns")
            if key in case
        }
        try:
            made = imported(layout_file(tmp_path, case), case.get("layout"), answers_from=case.get("from"))
        except LabError as error:
            wrong.append(f"{name}: {error}")
            continue
        seen = {"found": made.layout, "right": [right_in(row) for row in made.rows], "unread": made.unread}
        seen |= {"asks": made.rows[0]["prompt"], "explains": made.rows[0].get("explanation")}
        seen["within"] = getattr(question_row(made.rows[0]).truth, "tolerance", None)
        seen["within"] = seen["within"] and seen["within"].absolute
        seen["columns"] = {role: made.columns[role] for role in case.get("columns", ())}
        told = {key: seen[key] for key in wanted}
        wrong += [] if told == wanted else [f"{name}: {told}"]
    assert not wrong, "\n".join(wrong)


def test_what_stands_beside_a_question_comes_along(tmp_path):
    cases = {name: case for name, case in LAYOUTS.items() if "from" not in case}
    rows = {name: imported(layout_file(tmp_path, case), case.get("layout")).rows for name, case in cases.items()}
    asked = (rows[name] for name in ("PubMedQA", "MedMCQA", "SQuAD", "LAB-Bench"))
    (pubmed, _), (first, _), (squad, open_one), lab = asked
    assert pubmed["prompt"] == "Cells die.\n\nHoles form.\n\nDo mitochondria play a role?"
    assert (pubmed["id"], pubmed["explanation"]) == ("x/21645374", "They do.")
    assert pubmed["truth"]["options"] == ["yes", "no", "maybe"]
    assert (first["tags"], first["explanation"]) == (["Biochemistry"], "Hydroxylation needs it.")
    assert first["truth"]["lettered"] is True
    assert (squad["group"], right_answer(question_row(open_one).truth)) == ("Cells", "cannot be told from these data")
    assert lab[1]["prompt"] == "Step 1: Wash.\n\nWhat went wrong?" and "lettered" not in lab[1]["truth"]
    bases = question_row(rows["several right options"][0])
    assert bases.prompt == "Which are bases?\n\nA. HCl\nB. NaOH\nC. KOH"
    lines, asked = ("B, C", "NaOH, KOH", "B", "A, B, C"), to_example(bases, "x")
    said = {line: verify(asked, f"Answer: {line}").verdict for line in lines}
    assert said == {"B, C": "correct", "NaOH, KOH": "correct", "B": "incorrect", "A, B, C": "incorrect"}


def test_numbered_columns_that_look_like_options_are_not_passed_over(tmp_path):
    (file := tmp_path / "x.csv").write_text("question,pick1,pick2,pick3,label\nWhich?,x,y,z,2\nAnd this?,x,y,z,0\n")
    with pytest.raises(LabError, match="pick1, pick2, pick3 of x look like options"):
        imported(file)
    with pytest.raises(LabError, match="the columns options of x look like options"):
        imported(
            put(tmp_path / "x.jsonl", {"instruction": "Which is a base?", "options": ["HCl", "NaOH"], "output": "NaOH"})
        )
    with pytest.raises(LabError, match="the columns output_1, output_2 of x look like options"):
        imported(put(tmp_path / "x.jsonl", {"input": "Why?", "output_1": "So.", "output_2": "No.", "label": 2}))
    columns = {"question": ["question"], "answer": ["label"]}
    assert [right_in(row) for row in imported(file, columns=columns).rows] == [2, 0]


def test_what_a_spreadsheet_made_of_a_gene_or_a_formula_is_no_answer(tmp_path):
    (file := tmp_path / "x.csv").write_text("Question,Answer\nWhich septin?,2-Sep\nWhich gene?,#REF!\nAnd?,TP53\n")
    made = imported(file, skip_bad=True)
    assert [right_in(row) for row in made.rows] == [["TP53"]]
    assert [(each.line, each.field) for each in made.skipped] == [(2, "Answer"), (3, "Answer")]
    assert all("SEPT2; write the name as text" in each.problem for each in made.skipped)


def test_columns_are_read_as_they_are_said_to_be_and_no_others(tmp_path):
    (file := tmp_path / "x.csv").write_text("Q,Key,One,Two,split,Answer\nWhich?,y,x,y,never,x\n")
    made = imported(file, columns={"question": ["Q"], "answer": ["Key"], "options": ["One", "Two"]})
    assert (right_in(made.rows[0]), made.unread) == ("y", ["split", "Answer"])
    with pytest.raises(BadConfig, match="no column 'Keys'; did you mean 'Key'"):
        imported(file, columns={"question": ["Q"], "answer": ["Keys"]})
    with pytest.raises(LabError, match="which column holds the right answer"):
        imported(file, columns={"question": ["Q"]})


def test_a_bad_row_says_what_was_probably_meant(tmp_path):
    (file := tmp_path / "x.csv").write_text(
        "Question,A,B,Answer,Split\n1?,Vibrio cholerae,Yersinia pestis,A,test\n2?,Vibrio cholerae,Yersinia pestis,Vibrio cholera,test\n"
        "3?,up,down,B,tets\n4?,up,down,A,test\n5?,up,down,B,test\n"
    )
    told = [(each.line, each.suggestion, each.remedy) for each in imported(file, skip_bad=True).skipped]
    assert told == [(3, "A", "did you mean 'A'?"), (4, "test", "did you mean 'test'?")]
    file.write_text("Question,Answer,Unit\nMass?,ca. 2,g\nSize?,3,µm\n")
    (fault,) = imported(file, skip_bad=True).skipped
    assert (fault.field, fault.suggestion) == ("Answer", "2") and "is no number, seen 'ca. 2'" in fault.problem
    file.write_text("Question,A,B,Answer\n1?,up,down,A\n2?,up,down,\n")
    (fault,) = imported(file, skip_bad=True).skipped
    assert "seen nothing" in fault.problem
    options = ["Corynebacterium diphtheriae", "Vibrio cholerae"]
    truth = {"kind": "choice", "value": "Corynebacterium diphteriae", "options": options}
    (fault,) = examples_of([(1, {**ROW, "truth": truth})], "x").faults
    assert fault.suggestion == "Corynebacterium diphtheriae" and "{" not in fault.problem


def test_cannot_be_told_is_offered_only_where_a_set_says_so(tmp_path):
    (file := tmp_path / "x.csv").write_text("question,A,B,answer\n1?,up,down,A\n2?,up,down,B\n")
    made = [imported(file, cannot_tell=offered).rows for offered in (False, True)]
    forms = [[answer_form("1?", question_row(row).truth) for row in rows] for rows in made]
    assert forms == [["up / down"] * 2, ["up / down / cannot be told from these data"] * 2]
    truths = ({"kind": "number", "value": 2}, {"kind": "number", "value": 2, "answerable": True})
    numbered = [answer_form("?", question_row({**ROW, "truth": truth}).truth) for truth in truths]
    assert numbered == ["a number, or cannot be told from these data", "a number"]
    row = {**ROW, "truth": {"kind": "number", "value": "cannot be told", "answerable": True}}
    assert examples_of([(1, row)], "x").faults[0].field == "truth.answerable"


def test_a_set_is_divided_by_group_the_same_way_each_time():
    rows = [question_row({**ROW, "id": f"{n}", "group": f"g{n // 2}"}) for n in range(60)]
    found, again = split_groups(rows), split_groups(rows[::-1])
    assert found == again
    assert Counter(found[row.group] for row in rows) == {"train": 42, "dev": 6, "test": 12}


def test_options_are_shuffled_the_same_way_each_time_where_the_right_one_always_comes_first(tmp_path):
    lab = LAYOUTS["SciQ"]["json"][0]
    rows = [(at, {**lab, "id": f"rec{at}", "question": f"Which of {at}?"}) for at in range(40)]
    made, again = (import_rows(rows, "x").rows for _ in range(2))
    assert made == again
    assert {row["truth"]["options"].index(row["truth"]["value"]) for row in made} == {0, 1, 2, 3}
    assert {row["split"] for row in made} == {"train", "dev", "test"}


def test_what_can_be_read_in_two_ways_is_asked_about_and_never_guessed(tmp_path):
    wrong = []
    for name, (text, message) in CASES["unclear"].items():
        (tmp_path / "x.csv").write_text(text)
        try:
            wrong.append(f"{name}: read as {imported(tmp_path / 'x.csv').rows}")
        except LabError as error:
            wrong += [] if re.search(message, str(error), re.DOTALL) else [f"{name}: {error}"]
    assert not wrong, "\n".join(wrong)


def test_rows_without_a_known_answer_are_named_and_left_out_only_if_asked():
    first, second = LAYOUTS["MMLU as on the Hub"]["lines"]
    rows = [(1, second), (2, {**first, "answer": -1}), (3, {**first, "choices": ["a"]})]
    with pytest.raises(BadRow, match=r"line 2, field 'answer'.*seen -1.*1 more bad row: line 3, field 'choices'"):
        import_rows(rows, "x")
    made = import_rows(rows, "x", None, ImportOptions(split="test", skip_bad=True, answers_from="0"))
    assert ([row["id"] for row in made.rows], [each.line for each in made.skipped]) == (["x/1"], [2, 3])
