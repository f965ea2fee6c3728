"""Question sets in the lab: brought, checked, frozen, asked as a batch, annotated."""

import json
from functools import cache
from pathlib import Path

import pytest
import yaml

from evals.errors import BadConfig, LabError
from evals.io import data_sha256
from evals.questions import is_held_out
from evals.questions import sets as sets_of
from evals.questions.sets import EXAMPLES, load_questions, read_question_set, right_answer
from evals.report import load_report
from evals.schema.questions import Sampling
from lab.ask.session import ask
from lab.data.tab import TEMPLATE, _check_tables, _state
from lab.services import open_store
from lab.session import Visitor, new_visitor
from lab.shared import work as batch
from lab.shared.sets import QuestionSets, as_jsonl
from tests.lab.chains import STAGES, ScriptedChain, lab_with
from tests.lab.commands import printed_by
from tests.lab.test_jobs import until
from training.models.chain import load_chain

SHEETS = Path(__file__).parents[1] / "evals/files/sheets"
ANN, BOB = (Visitor(name, f"page of {name}") for name in ("ann", "bob"))
CSV = """id,prompt,kind,value,options,unit,tolerance,group,split
codon/UUU,Which amino acid does the codon UUU code for?,choice,phenylalanine,leucine|phenylalanine|serine,,,phe,test
codon/CUG,Which amino acid does the codon CUG code for?,choice,glycine,leucine|serine,,,leu,test
water,What is the molar mass of water?,number,18.015,,g/mol,1%,water,test
stop,Which codons end translation?,set,UAA|UAG|UGA,,,,stop,dev
urea,What is the molar mass of urea?,number,sixty,,g/mol,1%,urea,test
"""


@pytest.fixture
def sets(room):
    return QuestionSets(room, ANN)


@pytest.fixture
def draft(sets, tmp_path):
    return sets.bring(file_in(tmp_path, CSV))


def file_in(folder: Path, text: str, name: str = "codons.csv") -> Path:
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


def test_a_file_with_bad_rows_gives_a_draft_of_the_good_ones_and_names_the_others_by_line_and_field(draft):
    assert [row.id for row in draft.rows] == ["codon/UUU", "water", "stop"]
    assert [(fault.line, fault.field) for fault in draft.faults] == [(3, "truth.value"), (6, "truth.value")]
    page = _check_tables(draft)
    assert "glycine" in page and "sixty" in page and "Bad rows, left out" in page
    assert "How baselines without a model score on test rows" in page


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("codons.docx", CSV, r"codons.docx ends in .docx; a file of questions is"),
        ("codons.csv", "id,prompt\n", "^codons.csv holds no rows"),
        ("codons.csv", CSV.replace(",test", ",never").replace(",dev", ",never"), "no row .* field 'split'"),
        ("many.jsonl", '{"id": "a"}\n' * 5_001, "5,001 rows"),
    ],
)
def test_a_file_that_gives_no_question_is_refused_in_words(sets, tmp_path, name, text, told):
    with pytest.raises(LabError, match=told):
        sets.bring(file_in(tmp_path, text, name))


def test_a_sheet_of_questions_and_a_benchmark_are_brought_as_they_are_and_say_how_they_were_read(sets, tmp_path):
    known = sets.bring(SHEETS / "set.ods")
    assert [(row.id, row.truth.value, known.note) for row in known.rows] == [("a", "2", "")]
    known = sets.bring(SHEETS / "quiz.xlsx")
    assert [(row.truth.value, row.truth.lettered) for row in known.rows] == [("mitochondrion", True)]
    assert [(fault.line, fault.field) for fault in sets.open(known.id).faults] == [(3, "A")]
    assert "layout: mmlu" in known.note and "“Answer” is read as a letter" in known.note and "'Notes'" in known.note
    known = sets.bring(file_in(tmp_path, "question,A,B,C,answer\nWhich?,x,y,z,1\n", "quiz2.csv"))
    assert (known.rows, known.note[:37]) == ((), "quiz2: whether 'answer' counts from 0")
    with pytest.raises(LabError, match="no question to freeze"):
        sets.freeze(known.id)
    assert [row.truth.value for row in sets.read_again(known.id, answers_from="1").rows] == ["x"]


MICRO = """Frage;A;B;Antwort
Was verursacht Diphtherie?;Corynebacterium diphtheriae;Vibrio cholerae;Corynebacterium diphteriae
Was verursacht Cholera?;Corynebacterium diphtheriae;Vibrio cholerae;Vibrio cholerae
Was ist ein Gram-negatives Bakterium?;Bacillus subtilis;Escherichia coli;Escherichia coli
"""


def test_a_suggestion_that_is_taken_makes_a_bad_row_a_question(sets, tmp_path):
    known = sets.bring(file_in(tmp_path, MICRO, "micro.csv"))
    assert [(each.line, each.suggestion) for each in known.faults] == [(2, "Corynebacterium diphtheriae")]
    mended = sets.mend(known.id, [2])
    assert (mended.id, mended.faults, [row.id for row in mended.rows]) == (
        known.id,
        (),
        ["micro/2", "micro/3", "micro/4"],
    )
    assert mended.rows[0].truth.value == "Corynebacterium diphtheriae"
    known = sets.bring(file_in(tmp_path, CSV.replace("glycine", "leucin").replace("sixty", "ca. 60"), "own.csv"))
    assert [right_answer(row.truth) for row in sets.mend(known.id, [3, 6]).rows][1::3] == ["leucine", "60 g/mol"]


def test_columns_of_a_sheet_can_be_chosen_and_cells_pasted(sets):
    known = sets.paste("Cosa\tKey\tnope\nWhich organelle makes ATP?\tmitochondrion\tnucleus\n")
    assert known.rows == () and known.note.endswith("Choose below which column holds what")
    columns = {"question": ("Cosa",), "answer": ("Key",), "wrong": ("nope",)}
    known = sets.read_again(known.id, columns=columns)
    assert (known.rows[0].truth.value, len(known.rows[0].truth.options)) == ("mitochondrion", 2)
    assert dict(known.columns) == columns and known.title == "Pasted questions"


def test_a_sheet_whose_first_row_is_a_question_is_read_by_the_places_of_its_columns(sets):
    known = sets.name_by_place(sets.paste("Wo?\there\tthere\tA\nWer?\tich\tdu\tB\n").id)
    assert known.rows == () and known.brought.rows[0] == (
        1,
        {f"column {n}": each for n, each in enumerate(("Wo?", "here", "there", "A"), 1)},
    )
    columns = {"question": ("column 1",), "options": ("column 2", "column 3"), "answer": ("column 4",)}
    assert [row.truth.value for row in sets.read_again(known.id, columns=columns).rows] == ["here", "du"]


def test_the_template_is_a_sheet_that_can_be_brought(sets):
    known = sets.bring(TEMPLATE)
    assert ([row.truth.kind for row in known.rows], known.faults) == (["choice", "number", "term"], ())


def test_cannot_be_told_is_offered_once_somebody_says_that_some_questions_cannot_be_answered(sets, tmp_path):
    known = sets.bring(file_in(tmp_path, MICRO, "micro.csv"))
    assert all(row.truth.answerable for row in known.rows)
    offered = sets.offer_cannot_tell(known.id, True)
    assert not any(row.truth.answerable for row in sets.mend(offered.id, [2]).rows)
    codons = sets.bring_named("codons-and-enzymes")  # has questions that cannot be answered
    assert sets.offer_cannot_tell(codons.id, False).rows == codons.rows


def test_sets_are_renamed_duplicated_and_deleted(sets, draft):
    frozen = sets.freeze(sets.rename(draft.id, " Codons 2 ").id)
    assert frozen.name == "Codons 2 v1"
    copy = sets.duplicate(frozen.id)
    assert (copy.title, copy.version, copy.rows) == ("Codons 2 (copy)", None, frozen.rows)
    bob = QuestionSets(sets.services, BOB)
    with pytest.raises(LabError, match="somebody else"):
        bob.delete(copy.id, is_draft=True)
    assert [sets.delete(copy.id, is_draft=True), sets.delete(frozen.id, is_draft=False)] == [
        "Codons 2 (copy)",
        "Codons 2 v1",
    ]
    assert [id for _, id in sets.choices()] == [draft.id]
    with pytest.raises(LabError, match="needs a title"):
        sets.rename(draft.id, " ")


def test_a_draft_is_not_listed_beside_the_version_it_was_frozen_as_until_it_is_changed(sets, draft):
    frozen = sets.freeze(draft.id)
    assert [id for _, id in sets.choices()] == [frozen.id]
    sets.offer_cannot_tell(draft.id, True)
    assert [id for _, id in sets.choices()] == [draft.id, frozen.id]


def test_any_sheet_of_a_file_with_several_is_read_and_one_without_a_table_is_none_to_choose(sets):
    known = sets.bring(SHEETS / "two-sheets.xlsx")
    assert (known.brought.sheet, [*known.brought.sheets]) == ("First", ["First", "R & D"])
    known = sets.choose_sheet(known.id, "R & D")
    assert (known.brought.sheet, known.brought.rows) == ("R & D", ((2, {"q": "z"}),))
    corrected = sets.read_again(known.id, columns={"prompt": ("q",)}, answers_from=None)
    assert sets.choose_sheet(known.id, "R & D").columns == corrected.columns != known.columns, "it is only left"
    with pytest.raises(LabError, match="was not kept"):
        sets.choose_sheet(known.id, "nowhere")
    assert sets.bring(SHEETS / "quiz.xlsx").brought.sheets == {}, "its other sheet is empty"


@pytest.mark.parametrize("name", ["", "/etc/passwd", "../secret", "mine.csv", "runs/mine.yaml", "tests/lab"])
def test_a_name_reads_no_file_of_the_server(sets, name):
    with pytest.raises(BadConfig if name.count("/") == 1 and not Path(name).exists() else LabError):
        sets.bring_named(name)


@pytest.mark.parametrize("named", ["my/rows", "my/rows@v1", "my/rows:default", "my/rows@v1:default", "file://my/rows"])
def test_a_folder_of_the_server_is_no_data_set_of_the_hub_however_it_is_named(sets, tmp_path, monkeypatch, named):
    (folder := tmp_path / "my" / "rows").mkdir(parents=True)
    file_in(folder, CSV, "test.csv")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(LabError, match="is not the name of a data set"):
        sets.bring_named(named)


def test_a_data_set_of_the_hub_is_brought_by_name_and_offline_says_so(sets, monkeypatch):
    with pytest.raises(LabError, match="could not be fetched from the Hub"):
        sets.bring_named("my-org/my-questions")
    rows = [dict(row) for row in map(json.loads, as_jsonl(sets.bring_named("codons-and-enzymes")).splitlines())]
    monkeypatch.setattr("training.data.tables.from_hub", lambda *_: (("test", row) for row in [*rows, {"id": "x"}]))
    brought = sets.bring_named("hub:my-org/my-questions@v1.0")
    assert (len(brought.rows), brought.faults[0].line) == (60, 61)


def test_a_frozen_version_stays_and_an_edited_download_brought_again_is_the_next(sets, draft, tmp_path):
    frozen = sets.freeze(draft.id)
    assert (frozen.name, len(frozen.sha256)) == ("codons v1", 64)
    assert sets.freeze(draft.id).id == frozen.id, "the same questions are no new version"
    assert "What is the molar mass of water?" in _state(frozen) and "18.015 g/mol" in _state(frozen)
    download = file_in(tmp_path, as_jsonl(frozen), "codons.jsonl")
    assert read_question_set(download).examples == frozen.examples()
    download.write_text(as_jsonl(frozen).replace("molar mass of water", "molar mass of H2O"), encoding="utf-8")
    assert sets.freeze(sets.bring(download).id).name == "codons v2"
    assert sets.open(frozen.id) == frozen


def test_versions_are_everybodys_and_drafts_their_owners(sets, draft):
    frozen = sets.freeze(draft.id)
    bob = QuestionSets(sets.services, BOB)
    assert [name for _, name in bob.choices()] == [frozen.id]
    assert bob.open(frozen.id).rows == draft.rows
    with pytest.raises(LabError, match="somebody else"):
        bob.open(draft.id)


# ---- asked as a batch ----------------------------------------------------------------------------


@cache
def enzymes():
    """Return each third question of a set that ships, as a file holds them."""
    known = yaml.safe_load((EXAMPLES / "codons-and-enzymes.yaml").read_text(encoding="utf-8"))["questions"]
    return "".join(f"{json.dumps(row)}\n" for row in known[::3])


@pytest.fixture
def frozen(sets, tmp_path):
    """A set of twenty questions."""
    return sets.freeze(sets.bring(file_in(tmp_path, enzymes(), "enzymes.jsonl")).id)


def batch_on(sets, known, **changes):
    asked = {"split": "all", "stages": STAGES, "sampled": (0, 32, 0.0), **changes}
    return batch.start_batch(sets.services, known, asked["split"], asked["stages"], asked["sampled"], sets.owner)


def test_each_batch_keeps_its_own_report_whose_checksum_the_page_and_the_command_give_too(room, sets, frozen):
    batch.register_batches(room)
    others = ({"stages": ("sft",)}, {"split": "test", "sampled": (7, 96, 0.8)})
    with room.jobs.working():
        jobs = [until(room.jobs, batch_on(sets, frozen), lambda job: job.is_over)]
        kept = Path(jobs[0].result["report"]).read_bytes()
        waiting = [batch_on(sets, frozen, **{"split": "all", **changes}) for changes in others]
        jobs += [until(room.jobs, id, lambda job: job.is_over) for id in waiting]
    assert {(job.state, job.error, job.done == job.total) for job in jobs} == {("done", "", True)}
    reports = [load_report(Path(job.result["report"])) for job in jobs]
    answered = [(row.example.id, row.stage) for row in reports[0].rows if row.stage in STAGES]
    assert len(answered) == len(set(answered)) == 60 and reports[0].data_sha256 == frozen.sha256
    assert "constant answer" not in str(reports[0].settings) and "accuracy" in reports[0].summaries[0].metrics
    assert "--data enzymes-v1.jsonl[all]" in reports[0].command.replace("'", "")
    first = "enzymes v1[all], 32 tokens"
    names = [first, f"{first}, run 2", "enzymes v1, seed 7 at 0.8"]
    assert [job.result["name"] for job in jobs] == names == [report.data_name for report in reports]
    assert Path(jobs[0].result["report"]).read_bytes() == kept
    assert jobs[1].title == f"{first}, run 2: 20 questions, SFT" and "grpo" not in reports[1].stage_checksums
    state = _state(frozen)
    assert (
        all(f"checksum {report.data_sha256[:12]}" in state for report in reports[-1:]) and frozen.sha256[:12] in state
    )
    data = Path(jobs[0].result["report"]).parent / "sets" / "enzymes-v1.jsonl"
    assert [data_sha256(load_questions(f"{data}[{split}]")) for split in ("all", "test")] == [
        frozen.sha256,
        reports[-1].data_sha256,
    ]


def test_a_batch_asked_twice_is_one_batch_and_of_other_stages_or_people_another(room, sets, frozen):
    first = batch_on(sets, frozen)
    assert batch_on(sets, frozen) == first
    others = [batch_on(sets, frozen, stages=STAGES[:1]), batch_on(QuestionSets(room, BOB), frozen)]
    assert len({first, *others}) == 3 == len(room.jobs.all())


def test_a_cancelled_batch_asked_again_goes_on_with_the_rest(tmp_path):
    class Gated(ScriptedChain):
        def generate(self, prompts, *given, **known):
            if len(self.prompts) in (48, 52):  # the third batch waits until it is cancelled
                services.jobs.cancel(asked[-1])
            return super().generate(prompts, *given, **known)

    chain = Gated()
    services = lab_with(tmp_path, chain)
    sets = QuestionSets(services, ANN)
    frozen = sets.freeze(sets.bring(file_in(tmp_path, enzymes(), "enzymes.jsonl")).id)
    batch.register_batches(services)
    asked = [first := batch_on(sets, frozen)]
    with services.jobs.working():
        assert until(services.jobs, first, lambda job: job.is_over).state == "cancelled"
        assert not services.jobs.get(first).result
        n = len(chain.prompts)
        asked.append(batch_on(sets, frozen, stages=STAGES[:1]))  # what was answered waits for the same batch
        assert until(services.jobs, asked[-1], lambda job: job.is_over).state == "cancelled"
        second = batch_on(sets, frozen)
        assert until(services.jobs, second, lambda job: job.is_over).state == "done"
    assert n == 52 and len(chain.prompts) == 52 + 8 + len(STAGES) * (20 - 16)


def test_a_question_asked_beside_a_batch_says_on_its_cards_how_far_the_batch_is_and_tells_waiting_from_writing(
    tmp_path,
):
    class Asking(ScriptedChain):
        def generate(self, prompts, *given, **known):
            if len(self.prompts) == 3 * 16:
                views.extend(ask(services, new_visitor(), "What is HSF1?", (0, 32, 0.0)))
            return super().generate(prompts, *given, **known)

    views, services = [], lab_with(tmp_path, Asking(seconds_per_word=0.05))
    batch.register_batches(services)
    sets = QuestionSets(services, ANN)
    frozen = sets.freeze(sets.bring(file_in(tmp_path, enzymes(), "enzymes.jsonl")).id)
    with services.jobs.working():
        until(services.jobs, batch_on(sets, frozen), lambda job: job.is_over)
    told = next(view.cards for view in views if "is using the model" in view.cards)
    line = "A batch is using the model: 16 of 20 questions answered, about 0 s left. Your question goes first."
    assert told.count(line) == len(STAGES)
    assert views[-1].cards.count("written in") == views[-1].cards.count("waited") == len(STAGES)
    assert "is using the model" not in views[-1].cards


@pytest.mark.slow
def test_a_batch_an_evaluation_and_the_command_write_the_same_texts_stages_apart_or_together(tmp_path, monkeypatch):
    chain, run = load_chain("embedded"), tmp_path / "runs" / "grpo"
    (run / "reports").mkdir(parents=True)
    monkeypatch.setattr(batch, "chain_of", lambda *_: str(run))
    services = lab_with(tmp_path, chain)
    sets = QuestionSets(services, ANN)
    known = sets.freeze(
        sets.bring(file_in(tmp_path, CSV.replace(",sixty,", ",60.06,").replace("glycine,", "leucine,"))).id
    )
    batch.register_batches(services)
    batch.register_batches(services, "evaluate")
    stages = ("base", "sft", "grpo")
    for asked in (stages, ("sft",)):
        batch.start_batch(services, known, "test", asked, (0, Sampling.max_new_tokens, 0.0), "ann")
    batch.start_run(services, "runs/grpo", known.id, "ann")
    with services.jobs.working():
        jobs = [until(services.jobs, each.id, lambda job: job.is_over, 500) for each in services.jobs.all()]
    assert [job.error for job in jobs] == ["", "", ""]
    files = [Path(job.result["report"]) for job in jobs]
    data = next(tmp_path.rglob("sets/*.jsonl"))
    words = ("--chain", "embedded", "--stage", "sft,grpo", "--data", f"{data}[test]", "--out", tmp_path / "cli.json")
    printed_by("eval", "run", *words)
    reports = [load_report(file) for file in (*files, tmp_path / "cli.json")]
    for stage in ("sft", "grpo"):
        texts = [{row.example.id: row.completion for row in each.rows if row.stage == stage} for each in reports]
        assert len({str(sorted(each.items())) for each in texts if each}) == 1, stage


def test_a_finished_run_is_measured_once_on_the_test_rows_of_a_frozen_set(tmp_path, monkeypatch):
    services, run = lab_with(tmp_path, ScriptedChain()), tmp_path / "runs" / "dpo"
    (run / "reports").mkdir(parents=True)
    monkeypatch.setattr(batch, "chain_of", lambda *_: str(run))
    version = QuestionSets(services, ANN).freeze(
        QuestionSets(services, ANN).bring(file_in(tmp_path, enzymes(), "enzymes.jsonl")).id
    )
    assert ("enzymes v1", version.id) in batch.sets_to_measure(services)
    assert batch.start_run(services, "runs/dpo", version.id, "ann") == "enzymes v1"
    with pytest.raises(LabError, match="already being evaluated on enzymes v1"):
        batch.start_run(services, "runs/dpo", version.id, "bob")
    (job,) = services.jobs.all()
    batch.register_batches(services, "evaluate")
    with services.jobs.working():
        job = until(services.jobs, job.id, lambda job: job.is_over)
    assert (job.state, job.error, job.title) == ("done", "", "Evaluate runs/dpo on enzymes v1")
    report = load_report(run / "reports" / "enzymes-v1.json")
    assert {row.example.split for row in report.rows} == {"test"} and report.data_name == "enzymes v1"
    assert "assay eval run --chain dpo --data enzymes-v1.jsonl[test]" in report.command.replace("'", "")


def test_test_rows_of_a_frozen_set_train_nothing_in_this_lab_or_the_next_on_its_store(room, draft, sets, monkeypatch):
    asked = {row.prompt: row.split for row in draft.rows}
    for open_again in (lambda: sets.freeze(draft.id), lambda: open_store(room.settings.database_url).close()):
        monkeypatch.setattr(sets_of, "_REGISTERED", {})
        assert not any(map(is_held_out, asked))
        open_again()
        assert {prompt: is_held_out(prompt) for prompt in asked} == {
            prompt: split == "test" for prompt, split in asked.items()
        }


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"stages": ()}, "no stage"),
        ({"split": "dev", "sampled": (0, 4, 0.0)}, "length is 4"),
        ({"sampled": (0, 32, 9.0)}, "temperature is 9"),
    ],
)
def test_a_batch_that_cannot_be_asked_is_refused_before_it_is_in_line(room, sets, draft, frozen, changes, told):
    with pytest.raises(LabError, match=told):
        batch_on(sets, frozen, **changes)
    with pytest.raises(LabError, match="Freeze"):
        batch.start_batch(room, draft, "all", STAGES, (0, 32, 0.0), "ann")
    assert room.jobs.all() == ()
