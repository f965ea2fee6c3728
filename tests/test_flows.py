"""How many of our files a request passes on its way: those whose functions run once the page stands and is warm."""

import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

from evals import questions
from evals.preferences.rows import export_votes
from hub.adapters import Publication
from hub.chains import pack_last
from lab.ask.session import ask
from lab.papers.session import review
from lab.session import new_visitor
from lab.shared.exports import write_export
from tests.hub.runs import write_run
from tests.lab.chains import ScriptedChain, lab_with
from tests.lab.reviewers import PAPER, ScriptedReader
from tests.lab.votes import NOON, cast
from tests.test_architecture import ROOT, product_files

LOADED = "import sys, training.sft; print(*(getattr(each, '__file__', '') for each in sys.modules.values()), sep='\\n')"


def at_most(limit: int, files: set[str]) -> None:
    ours = [str(file.relative_to(ROOT)) for file in product_files() if str(file) in files]
    assert len(ours) <= limit, "\n".join([f"{len(ours)} files, {limit} allowed:", *ours])


def enters_at_most(limit: int, flow: Callable[[], object]) -> None:
    """Run a flow, in all threads that it starts; fail if functions of more files of the product are entered."""
    entered = set()

    def note(frame, event, _):
        if event == "call" and frame.f_code.co_name != "<module>":
            entered.add(frame.f_code.co_filename)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        flow()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    at_most(limit, entered)


def test_a_question_comes_back_with_its_verdict_through_18_files_at_most(tmp_path):
    room = lab_with(tmp_path, ScriptedChain({"sft": "The data say so.\nAnswer: up\nConfidence: 80%"}))
    first, second = [row.prompt for row in questions.pathway_heldout() if row.kind == "direct"][:2]
    visitor, views = new_visitor(), []
    views += ask(room, visitor, first, (0, 64, 0))  # the chain is loaded, the bank read
    enters_at_most(18, lambda: views.extend(ask(room, visitor, second, (0, 64, 0))))
    assert "badge" in views[-1].cards


def test_a_vote_becomes_a_row_of_dpo_through_10_files_at_most(tmp_path):
    room = lab_with(tmp_path)

    def exported(number: int) -> None:
        cast(room.store, number, ("base", "sft"), "left", question=f"Is MYC up in liver {number}?")
        rows = export_votes(room.store.preference_pairs(), "dpo", NOON + timedelta(days=3))
        write_export(rows, tmp_path / f"rows{number}")

    exported(1)
    enters_at_most(10, lambda: exported(2))


def test_a_pasted_paper_comes_back_as_concerns_through_16_files_at_most(tmp_path):
    room = replace(lab_with(tmp_path), readers=lambda: (ScriptedReader(),))
    visitor, views = new_visitor(), []
    views += review(room, visitor, (None, PAPER), "Scripted", (0, 256, 0.1))
    other = (None, PAPER.replace("Diet", "Fasting"))
    enters_at_most(16, lambda: views.extend(review(room, visitor, other, "Scripted", (0, 256, 0.1))))
    assert views[-1].cards.count('class="concern"') == 3


def test_a_run_becomes_a_card_through_11_files_at_most(tmp_path):
    run, packed = write_run(tmp_path / "run", stages=("sft", "grpo")), []
    pack_last(run, Publication("org/mine"))  # the questions are read
    enters_at_most(11, lambda: packed.append(pack_last(run, Publication("org/mine"))))
    assert packed[0].parts["README.md"].text().startswith("---")


def test_the_file_of_a_stage_loads_35_of_our_files_at_most():
    done = subprocess.run([sys.executable, "-c", LOADED], cwd=ROOT, capture_output=True, text=True, check=True)
    at_most(35, {*done.stdout.splitlines()})
