"""Question sets of one's own: read whole or not at all, in three formats, and looked at before they are used."""

import itertools
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from evals.errors import BadConfig, BadRow, LabError
from evals.questions import conversation, find, is_held_out, kmp_test, register, write_examples
from evals.questions.checking import check
from evals.questions.importing import Options, import_rows
from evals.questions.sets import (
    EXAMPLES,
    examine,
    load_questions,
    question_row,
    right_answer,
    to_example,
)
from evals.report import Origin, build_report
from evals.run import baseline_rows
from evals.verifiers import verify

NCBI = "FFLLSSSSYY**CC*WLLLLPPPPHHQQRRRRIIIMTTTTNNKKSSRRVVVVAAAADDEEGGGG"
"""NCBI translation table 1, bases in the order T, C, A, G."""
NAMES = {
    "A": "alanine", "R": "arginine", "N": "asparagine", "D": "aspartate", "C": "cysteine", "E": "glutamate",
    "Q": "glutamine", "G": "glycine", "H": "histidine", "I": "isoleucine", "L": "leucine", "K": "lysine",
    "M": "methionine", "F": "phenylalanine", "P": "proline", "S": "serine", "T": "threonine", "W": "tryptophan",
    "Y": "tyrosine", "V": "valine",
}  # fmt: skip
CHOICE = {"kind": "choice", "value": "up", "options": ["up", "down"]}
ROW = {"id": "a", "prompt": "Which way?", "truth": CHOICE, "group": "g", "split": "train"}


def put(path: Path, *rows: dict) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def rows_of(n: int, **changes: object) -> list[dict]:
    return [{**ROW, "id": f"r{at}", "prompt": f"Which way goes {at}?", "group": f"g{at}", **changes} for at in range(n)]


# ---- reading ----------------------------------------------------------------------------------

BAD = [
    ({**ROW, "id": ""}, "id"),
    ({**ROW, "prompt": " "}, "prompt"),
    ({**ROW, "id": 7}, "id"),
    ({key: value for key, value in ROW.items() if key != "group"}, "group"),
    ({key: value for key, value in ROW.items() if key != "split"}, "split"),
    ({**ROW, "split": "exam"}, "split"),
    ({**ROW, "colour": "red"}, "colour"),
    ({key: value for key, value in ROW.items() if key != "truth"}, "truth"),
    ({**ROW, "truth": "up"}, "truth"),
    ({**ROW, "truth": {"value": "up"}}, "truth.kind"),
    ({**ROW, "truth": {"kind": "guess"}}, "truth.kind"),
    ({**ROW, "truth": {**CHOICE, "value": "left"}}, "truth.value"),
    ({**ROW, "truth": {**CHOICE, "aliases": {"left": ["l"]}}}, "truth.aliases"),
    ({**ROW, "truth": {"kind": "choice", "value": "up", "options": ["up"]}}, "truth.options"),
    ({**ROW, "truth": {"kind": "choice", "value": "-1", "options": ["-1", "1"]}}, None),
    ({**ROW, "truth": {"kind": "choice", "value": "up"}}, "truth.options"),
    ({**ROW, "options": ["up", "left"]}, "options"),
    ({**ROW, "truth": {"kind": "number"}}, "truth.value"),
    ({**ROW, "truth": {"kind": "number", "value": "many"}}, "truth.value"),
    ({**ROW, "truth": {"kind": "number", "value": 3, "tolerance": "some"}}, "truth.tolerance"),
    (
        {
            **ROW,
            "truth": {"kind": "number", "value": 3, "tolerance": {"absolute": 1, "relative": 0.1}},
        },
        "truth.tolerance",
    ),
    ({**ROW, "truth": {"kind": "number", "value": 3, "options": ["3", "4"]}}, "options"),
    ({**ROW, "truth": {"kind": "set", "values": ["EC 1, 2", "EC 3"]}}, "truth"),
    ({**ROW, "truth": {"kind": "term", "accept": ["heart"], "others": ["heart"]}}, "truth"),
    ({**ROW, "explanation": "So it is.\nAnswer: down"}, "truth"),
    ({**ROW, "prompt": "Which way goes 0?", "id": "b"}, None),
    (
        {**ROW, "prompt": "which way goes  0?", "id": "b", "truth": {**CHOICE, "value": "down"}},
        "truth",
    ),
    ({**ROW, "id": "r0"}, "id"),
]


def test_every_bad_row_is_named_with_its_line_its_field_and_what_to_do(tmp_path):
    good = rows_of(2)
    wrong = []
    for row, field in BAD:
        found = examine(put(tmp_path / "set.jsonl", *good, row)).faults
        if field is None:
            wrong += [(row, found)] if found else []
        elif [(each.line, each.field) for each in found] != [(3, field)] or not found[0].remedy:
            wrong.append((row, field, found))
    assert not wrong, "\n".join(map(str, wrong))


def test_lines_that_are_no_rows_are_named_in_every_format(tmp_path):
    files = {
        "a.jsonl": (f'{json.dumps(ROW)}\n[1]\n{{"id": "x", "id": "y"}}\nnot json\n', [2, 3, 4]),
        "a.csv": (
            'id,prompt,kind,value,options,group,split\na,"Which\nway?",choice,up,up|down,g,train\nb,c\n',
            [4],
        ),
        "a.yaml": ("- {id: a, id: b}\n- text\n", [1, 2]),
    }
    for name, (text, lines) in files.items():
        (tmp_path / name).write_text(text)
        assert [fault.line for fault in examine(tmp_path / name).faults] == lines, name


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.yaml", "- {id: a, prompt: [}\n", r"a\.yaml, line 1: no YAML"),
        ("a.yaml", "just words\n", "holds no list of rows"),
        ("a.csv", "id,id\n1,2\n", "two have the same"),
        ("a.jsonl", "\n", "holds no rows"),
        ("a.txt", "x", "ends in .txt"),
    ],
)
def test_a_file_that_is_no_set_is_refused_in_one_sentence(tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    with pytest.raises(LabError, match=message):
        examine(tmp_path / name)


def test_one_bad_row_and_nothing_of_the_set_is_used_and_all_bad_rows_are_told(tmp_path):
    file = put(tmp_path / "set.jsonl", *rows_of(3), {**ROW, "split": "exam"}, {**ROW, "id": 5})
    with pytest.raises(BadRow, match=r"line 4, field 'split'.*line 5, field 'id'"):
        load_questions(file)


def test_the_same_set_reads_the_same_from_jsonl_csv_and_yaml(tmp_path):
    rows = [
        {**ROW, "explanation": "It rises, as seen.", "tags": ["x", "y"], "licence": "cc0-1.0"},
        {"id": "n", "prompt": "How many?", "truth": {"kind": "number", "value": 12.5, "unit": "kg", "tolerance": {"relative": 0.05}}, "group": "n", "split": "dev"},
        {"id": "s", "prompt": "Which ones?", "truth": {"kind": "set", "values": ["UAA", "UAG"]}, "group": "s", "split": "test"},
        {"id": "t", "prompt": "What is it?", "truth": {"kind": "term", "accept": ["active site"], "others": ["coenzyme"]}, "group": "t", "split": "test"},
        {"id": "u", "prompt": "How heavy?", "truth": {"kind": "number", "value": None, "unit": "kg"}, "group": "u", "split": "test"},
    ]  # fmt: skip
    put(tmp_path / "set.jsonl", *rows)
    (tmp_path / "set.csv").write_text(
        "id;prompt;kind;value;options;unit;tolerance;others;group;split;tags;explanation;licence\n"
        "a;Which way?;choice;up;up|down;;;;g;train;x|y;It rises, as seen.;cc0-1.0\n"
        "n;How many?;number;12.5;;kg;5%;;n;validation;;;\n"
        "s;Which ones?;set;UAA|UAG;;;;;s;test;;;\n"
        "t;What is it?;term;active site;;;;coenzyme;t;test;;;\n"
        "u;How heavy?;number;cannot be told;;kg;;;u;test;;;\n"
    )
    (tmp_path / "set.yaml").write_text(
        """
questions:
- {id: a, prompt: "Which way?", truth: {kind: choice, value: up}, options: [up, down], group: g, split: train,
   explanation: "It rises, as seen.", tags: [x, y], licence: cc0-1.0}
- {id: n, prompt: "How many?", truth: {kind: number, value: 12.5, unit: kg, tolerance: 5%}, group: n, split: dev}
- {id: s, prompt: "Which ones?", truth: {kind: set, value: [UAA, UAG]}, group: s, split: test}
- {id: t, prompt: "What is it?", truth: {kind: term, accept: active site, others: coenzyme}, group: t, split: test}
- {id: u, prompt: "How heavy?", truth: {kind: number, value: cannot be told, unit: kg}, group: u, split: test}
"""
    )
    jsonl, table, tree = (load_questions(tmp_path / f"set.{end}") for end in ("jsonl", "csv", "yaml"))
    assert jsonl == table == tree
    assert jsonl[0].answer == "It rises, as seen.\nAnswer: up\nConfidence: 95%"
    assert (jsonl[0].cluster, jsonl[0].facts, jsonl[0].source) == ("g", ("g",), "set")
    assert [right_answer(row.ground_truth) for row in jsonl] == [
        "up", "12.5 kg", "UAA, UAG", "active site", "cannot be told from these data",
    ]  # fmt: skip


def test_rows_of_the_kinds_of_before_and_files_of_whole_examples_are_taken_as_well(tmp_path):
    olds = [
        {"kind": "count", "value": 8484, "unit": "DEG", "subject": "heart"},
        {"kind": "label", "value": "HU", "others": ["IR"]},
        {"kind": "direct", "tissue": "liver", "pathway": "HALLMARK_GLYCOLYSIS", "direction": "UP"},
        {"kind": "abstain"},
        {"kind": "facts", "facts": ["one"]},
    ]
    rows = [{**row, "truth": truth} for row, truth in zip(rows_of(5), olds, strict=True)]
    assert [row.kind for row in load_questions(put(tmp_path / "old.jsonl", *rows))] == [old["kind"] for old in olds]
    write_examples(tmp_path / "whole.jsonl", kmp_test())
    assert load_questions(tmp_path / "whole.jsonl", part="train") == kmp_test()


def test_a_part_is_named_in_brackets_or_by_whoever_asks(tmp_path):
    file = put(tmp_path / "set.jsonl", *rows_of(2), {**ROW, "split": "test"})
    assert [len(load_questions(f"{file}{part}", part="test")) for part in ("", "[train]", "[test]", "[all]")] == [
        1,
        2,
        1,
        3,
    ]
    assert len(load_questions(file)) == 3
    with pytest.raises(BadConfig, match="no rows of the split dev; it has test, train"):
        load_questions(f"{file}[dev]")
    with pytest.raises(BadConfig, match=r"no data set is called 'nothing'.*codons-and-enzymes"):
        load_questions("nothing")


def test_what_the_hub_gives_back_is_read_whatever_shape_its_library_gave_the_truth():
    merged = {"kind": "number", "value": None, "values": None, "unit": "kg", "tolerance": None}
    rows = [
        ("train", {**ROW, "truth": json.dumps(CHOICE), "kind": "choice", "split": None}),
        (
            "validation",
            {
                **ROW,
                "id": "b",
                "prompt": "How many?",
                "truth": {**merged, "value": 3.0},
                "split": None,
            },
        ),
    ]
    found = load_questions(
        "hub:org/set@v1.0:default",
        lambda *asked: rows if asked == ("org/set", "v1.0", "default") else [],
    )
    assert [(row.split, row.kind, row.source) for row in found] == [
        ("train", "choice", "org/set"),
        ("dev", "number", "org/set"),
    ]


# ---- prompts, verdicts, reports ---------------------------------------------------------------


@pytest.mark.parametrize(
    "truths",
    [
        [{**CHOICE, "value": value} for value in ("up", "down", "cannot be told")],
        [{"kind": "number", "value": value, "unit": "kg"} for value in (1, 2e9, "cannot be told")],
        [{"kind": "set", "values": values} for values in (["UAA"], ["UAG", "UGA"], "cannot be told")],
        [{"kind": "term", "accept": accept} for accept in (["heart"], ["left lung"], "cannot be told")],
    ],
)
def test_prompts_that_differ_only_in_their_truth_are_byte_equal(truths):
    examples = [to_example(question_row({**ROW, "truth": truth}), "x") for truth in truths]
    assert len({json.dumps([turn.model_dump() for turn in conversation(each)]) for each in examples}) == 1
    assert [verify(each, each.answer).verdict for each in examples] == ["correct"] * len(examples)
    assert verify(examples[0], examples[-1].answer).verdict == "incorrect"
    assert verify(examples[-1], examples[0].answer).verdict == "incorrect"


def test_a_report_on_a_set_of_ones_own_has_its_kinds_as_groups_and_resamples_its_groups():
    test = load_questions("codons-and-enzymes", part="test")
    rows = baseline_rows(test, "Answer: {answer}", load_questions("codons-and-enzymes[train]"))
    report = build_report(
        test,
        rows,
        Origin("codons-and-enzymes", "none", {}, {}, datetime(2026, 1, 2, tzinfo=UTC), "assay eval run"),
    )
    groups = {each.group for each in report.summaries if each.stage.startswith("always abstain")}
    assert groups == {"all", "unaided", "choice", "number", "set", "term"}
    (accuracy,) = (
        each.metrics["accuracy"]
        for each in report.summaries
        if each.stage.startswith("always abstain") and each.group == "all"
    )
    assert (accuracy.value, accuracy.n) == (2 / 16, 16)
    assert accuracy.low is not None and accuracy.low < 2 / 16 < accuracy.high


def test_a_registered_set_is_known_by_its_wording_and_its_test_rows_are_held_out(monkeypatch):
    monkeypatch.setattr("evals.questions.bank._REGISTERED", {})
    question = "Which amino acid does the codon UAU code for?"
    assert find(question) is None
    register(load_questions("codons-and-enzymes"))
    assert find(f" {question.upper()} ").id == "codon/UAU"
    assert is_held_out(question)
    assert not is_held_out("Which amino acid does the codon UUU code for?")


# ---- looking at a set -------------------------------------------------------------------------


def test_a_set_without_faults_warns_of_nothing_and_tricks_score_next_to_nothing():
    report = check(EXAMPLES / "codons-and-enzymes.yaml")
    assert (report.rows, report.faults, report.warnings) == (60, (), ())
    assert report.splits == {"train": 36, "test": 16, "dev": 8}
    assert max(score.accuracy for score in report.scores) <= 0.125
    example = check(EXAMPLES.parent / "example.yaml")
    assert (example.faults, example.warnings) == ((), ())


OPTIONS = [["a b", "c", "d"], ["e", "f g", "h"], ["i", "j", "k"], ["l", "m", "n"]]
WARNED = {
    "group leak": [{**ROW}, {**ROW, "id": "b", "prompt": "Where?", "split": "test"}],
    "near-duplicate": [
        *rows_of(8),
        {**ROW, "id": "x", "group": "x", "prompt": "Which enzyme joins two strands of DNA?"},
        {
            **ROW,
            "id": "y",
            "group": "y",
            "prompt": "Two strands of DNA: which enzyme joins them?",
            "split": "test",
        },
    ],
    "always right": rows_of(4),
    "same place": [
        {**row, "truth": {"kind": "choice", "value": options[0], "options": options}}
        for row, options in zip(rows_of(4), OPTIONS, strict=True)
    ],
    "explanation": rows_of(1),
    "judge": rows_of(1, truth={"kind": "rubric", "items": ["says why"]}),
    "splits": rows_of(1),
}


@pytest.mark.parametrize("name", WARNED)
def test_what_spoils_a_measurement_is_warned_of(tmp_path, name):
    warned = {each.check: each for each in check(put(tmp_path / "set.jsonl", *WARNED[name])).warnings}
    assert name in warned
    assert warned[name].remedy


def test_questions_of_one_template_are_no_near_duplicates(tmp_path):
    rows = [{**row, "split": ("train", "test")[at % 2]} for at, row in enumerate(rows_of(40))]
    assert "near-duplicate" not in {each.check for each in check(put(tmp_path / "set.jsonl", *rows)).warnings}


def test_a_kind_that_only_unanswerable_questions_have_is_told_to_give_itself_away(tmp_path):
    rows = rows_of(4, truth={"kind": "abstain"})
    (warned,) = (each for each in check(put(tmp_path / "set.jsonl", *rows)).warnings if each.check == "always right")
    assert "cannot be told" in warned.remedy


# ---- the set that comes with Assay ------------------------------------------------------------


def test_the_codons_of_the_example_are_those_of_the_standard_table():
    table = dict(zip(map("".join, itertools.product("UCAG", repeat=3)), NCBI, strict=True))
    codons = {name: [each for each in table if table[each] == letter] for letter, name in NAMES.items()}
    rows = {row.id: row.ground_truth for row in load_questions("codons-and-enzymes")}
    asked = 0
    for name, truth in rows.items():
        what, _, which = name.partition("/")
        expected = {
            "codon": lambda which=which: NAMES[table[which]],
            "codons-of": lambda which=which: len(codons[which]),
            "set": lambda which=which: set(codons[which]),
            "stop-codons": lambda: {each for each in table if table[each] == "*"},
            "start-codon": lambda: codons["methionine"][0],
            "sense-codons": lambda: sum(letter != "*" for letter in NCBI),
        }.get(what)
        if expected is not None:
            asked += 1
            assert (set(truth.values) if truth.kind == "set" else truth.value) == expected(), name
    assert asked == 31


# ---- importing --------------------------------------------------------------------------------

LAYOUTS = {
    "MMLU": [
        {"question": "Which organelle makes ATP?", "subject": "college_biology", "choices": ["nucleus", "mitochondrion", "ribosome", "lysosome"], "answer": 1},
        {"question": "Which is the smallest?", "subject": "college_biology", "choices": ["2", "3", "1", "0"], "answer": 3},
    ],
    "MMLU-Pro": [{"question_id": 70, "question": "Which base?", "options": ["A base", "thymine"], "answer": "B", "answer_index": 1, "cot_content": "", "category": "biology", "src": "x"}],
    "ARC": [
        {"id": "Mercury_1", "question": "Which is a planet?", "choices": {"text": ["Sun", "Mars"], "label": ["A", "B"]}, "answerKey": "B"},
        {"id": "NYSEDREGENTS_2", "question": "Which gas do plants take up?", "choices": {"text": ["oxygen", "carbon dioxide"], "label": ["1", "2"]}, "answerKey": "2"},
    ],
    "OpenBookQA": [{"id": "7-980", "question_stem": "The sun is responsible for", "choices": {"text": ["puppies", "plants sprouting"], "label": ["A", "B"]}, "answerKey": "B"}],
    "MedMCQA": [{"id": "e9ad", "question": "Vitamin needed for collagen?", "opa": "A", "opb": "B12", "opc": "C", "opd": "D", "cop": 2, "choice_type": "single", "exp": "Hydroxylation needs it.", "subject_name": "Biochemistry", "topic_name": None}],
    "MedQA": [{"question": "Which drug?", "answer": "Nitrofurantoin", "options": {"A": "Ampicillin", "B": "Nitrofurantoin"}, "meta_info": "step2&3", "answer_idx": "B"}],
    "PubMedQA": [{"pubid": 21645374, "question": "Do mitochondria play a role?", "context": {"contexts": ["Cells die.", "Holes form."], "labels": ["BACKGROUND", "RESULTS"]}, "long_answer": "They do.", "final_decision": "yes"}],
    "GPQA": [{"Record ID": "rec1", "Question": "Which energy resolves them?", "Correct Answer": "1e-4 eV", "Incorrect Answer 1": "1e-11 eV", "Incorrect Answer 2": "1e-8 eV", "Incorrect Answer 3": "1e-9 eV", "Explanation": "By uncertainty.", "Subdomain": "Physics"}],
    "SciQ": [{"question": "What does an enzyme lower?", "distractor1": "mass", "distractor2": "entropy", "distractor3": "volume", "correct_answer": "activation energy", "support": "Enzymes lower it."}],
    "a spreadsheet": [{"question": "Which is a base?", "A": "NaOH", "B": "HCl", "answer": "A"}, {"question": "Which is an acid?", "A": "NaOH", "B": "HCl", "answer": "(b)"}],
    "counted from 1": [{"question": "First?", "options": ["x", "y"], "answer": 2}, {"question": "Second?", "options": ["x", "y"], "answer": 1}],
}  # fmt: skip
RIGHT = {
    "MMLU": ["mitochondrion", "0"],
    "MMLU-Pro": ["thymine"],
    "ARC": ["Mars", "carbon dioxide"],
    "OpenBookQA": ["plants sprouting"],
    "MedMCQA": ["C"],
    "MedQA": ["Nitrofurantoin"],
    "PubMedQA": ["yes"],
    "GPQA": ["1e-4 eV"],
    "SciQ": ["activation energy"],
    "a spreadsheet": ["NaOH", "HCl"],
    "counted from 1": ["y", "x"],
}


def test_the_layouts_of_public_benchmarks_are_known_by_their_fields():
    found = {name: import_rows(list(enumerate(rows, 1)), "multiple-choice", "x")[0] for name, rows in LAYOUTS.items()}
    assert {name: [row["truth"]["value"] for row in rows] for name, rows in found.items()} == RIGHT
    (pubmed,), (medmcqa,) = found["PubMedQA"], found["MedMCQA"]
    assert pubmed["prompt"] == "Cells die.\n\nHoles form.\n\nDo mitochondria play a role?"
    assert (pubmed["explanation"], pubmed["truth"]["options"]) == (
        "They do.",
        ["yes", "no", "maybe"],
    )
    assert (medmcqa["tags"], medmcqa["explanation"]) == (
        ["Biochemistry"],
        "Hydroxylation needs it.",
    )


def test_options_are_shuffled_the_same_way_each_time_where_the_right_one_always_comes_first():
    gpqa = LAYOUTS["GPQA"][0]
    rows = [(at, {**gpqa, "Record ID": f"rec{at}", "Question": f"Which of {at}?"}) for at in range(40)]
    made, again = (import_rows(rows, "multiple-choice", "x")[0] for _ in range(2))
    assert made == again
    places = {row["truth"]["options"].index(row["truth"]["value"]) for row in made}
    assert places == {0, 1, 2, 3}
    assert {row["split"] for row in made} == {"train", "dev", "test"}


def test_rows_without_a_known_answer_are_named_and_left_out_only_if_asked():
    rows = [
        (1, LAYOUTS["MMLU"][0]),
        (2, {**LAYOUTS["MMLU"][1], "answer": -1}),
        (3, {**LAYOUTS["MMLU"][1], "choices": ["a"]}),
    ]
    with pytest.raises(BadRow, match=r"line 2, field 'answer'.*seen -1.*1 more bad row: line 3, field 'choices'"):
        import_rows(rows, "multiple-choice", "x")
    made, skipped = import_rows(rows, "multiple-choice", "x", Options(split="test", skip_bad=True))
    assert ([row["id"] for row in made], [each.line for each in skipped]) == (["x/1"], [2, 3])
    with pytest.raises(LabError, match="fields text, label, and no layout"):
        import_rows([(1, {"text": "a", "label": 1})], "multiple-choice", "x")
