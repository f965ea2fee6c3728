"""A record, answers to it, and a lab whose stages give them: for tests of answers with evidence."""

from dataclasses import replace
from pathlib import Path

from evals.schema.refiner import BehaviourItem, RefinerRecord
from lab.services import Services
from tests.lab.chains import ScriptedChain, lab_with

GOOD = (
    "<answer><snippet id=S1>OXPHOS is down in flight in mouse liver.</snippet> It fell by 40 percent."
    " <snippet id=S9>Adipogenesis <script>alert('claim')</script> is up.</snippet></answer>"
)
PLAIN = "OXPHOS is down. <img src=x onerror=alert(1)>"
HALF = "<answer><snippet id=S1,S2>OXPHOS is down in liver.</snippet></answer>"
RECORD = RefinerRecord(
    id="r1",
    prompt="Which way does OXPHOS move in mouse liver?",
    agent_reasoning="I looked it up.",
    tool_output=(
        "<snippet id=S1>RR-1, mouse liver: OXPHOS NES -1.9, it is down in flight.</snippet>\n"
        "<snippet id=S2>RR-3, mouse kidney <b onclick=alert(2)>${x} {{y}}</b>: no change.</snippet>"
    ),
    positive_rubrics=(BehaviourItem(title="Direction", description='Says that it is "down".'),),
    negative_rubrics=(BehaviourItem(title="Overreach", description='Says that it is "proven".', weight=2.0),),
    sources={"S1": "GLDS-1", "S2": "GLDS-3"},
    split_group="genelab/liver",
)


def refining_lab(folder: Path, **changes: object) -> Services:
    """Return a lab whose three stages answer GOOD, PLAIN and HALF, whatever they are asked."""
    chain = ScriptedChain({"base": PLAIN, "sft": HALF, "grpo": GOOD})
    return replace(lab_with(folder, chain), **changes)
