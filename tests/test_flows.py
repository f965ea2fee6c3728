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
from lab.exports import write_export
from lab.review.session import review
from lab.visitors import new_visitor
from tests.hub.runs import write_run
from tests.lab.chains import ScriptedChain, lab_with
from tests.lab.reviewers import PAPER, ScriptedReader
from tests.lab.votes import NOON, cast
from tests.test_architecture import ROOT, product_files

LOADED = """
import sys
import training.sft
print(*(getattr(module, "__file__", "") for module in sys.modules.values()), sep="\\n")
"""


def files_entered(flow: Callable[[], object]) -> list[str]:
    """Return the product's files whose functions are entered while `flow` runs, in any thread that it starts."""
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
    return ours(entered)


def ours(paths: set[str]) -> list[str]:
    return sorted(str(path.relative_to(ROOT)) for path in product_files() if str(path) in paths)


def at_most(limit: int, files: list[str]) -> None:
    assert len(files) <= limit, "\n".join([f"{len(files)} files, {limit} allowed:", *files])


def test_a_question_comes_back_with_its_verdict_through_18_files_at_most(tmp_path):
    first, second = [row for row in questions.pathway_heldout() if row.kind == "direct"][:2]
    room = lab_with(tmp_path, ScriptedChain({"sft": "The data say so.\nAnswer: up\nConfidence: 80%"}))
    visitor = new_visitor()

    def answered(question: str) -> str:
        *_, view = ask(room, visitor, question, (0, 64, 0))
        return view.cards

    assert "badge" in answered(first.prompt)  # the chain is loaded, the bank read
    cards = []
    at_most(18, files_entered(lambda: cards.append(answered(second.prompt))))
    assert "badge" in cards[0]


def test_a_vote_becomes_a_row_of_dpo_through_10_files_at_most(tmp_path):
    room = lab_with(tmp_path)

    def exported(number: int) -> None:
        cast(room.store, number, ("base", "sft"), "left", question=f"Is MYC up in liver {number}?")
        rows = export_votes(room.store.preference_pairs(), "dpo", NOON + timedelta(days=3))
        write_export(rows, tmp_path / f"rows{number}")

    exported(1)
    at_most(10, files_entered(lambda: exported(2)))


def test_a_pasted_paper_comes_back_as_concerns_through_16_files_at_most(tmp_path):
    room = replace(lab_with(tmp_path), readers=lambda: (ScriptedReader(),))
    visitor, views = new_visitor(), []

    def read(paper: str) -> None:
        views[:] = review(room, visitor, (None, paper), "Scripted", (0, 256, 0.1))

    read(PAPER)
    at_most(16, files_entered(lambda: read(PAPER.replace("Diet", "Fasting"))))
    assert views[-1].cards.count('class="concern"') == 3


def test_a_run_becomes_a_card_through_11_files_at_most(tmp_path):
    run, packed = write_run(tmp_path / "run", stages=("sft", "grpo")), []
    at_most(11, files_entered(lambda: packed.append(pack_last(run, Publication("org/mine")))))
    assert packed[0].parts["README.md"].text().startswith("---")


def test_the_file_of_a_stage_loads_35_of_our_files_at_most():
    done = subprocess.run([sys.executable, "-c", LOADED], cwd=ROOT, capture_output=True, text=True, check=True)
    at_most(35, ours({*done.stdout.splitlines()}))
