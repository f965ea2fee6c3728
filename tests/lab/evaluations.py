"""Reports on the real questions, answered by a scripted model: right and sure to set degrees."""

import random
import re
from collections.abc import Sequence
from functools import cache
from html import unescape
from pathlib import Path
from types import SimpleNamespace

import gradio as gr
import yaml

from evals.questions import DATASETS
from evals.questions.task import Questions
from evals.report import build_report
from evals.run import RunSettings, baseline_rows, run_task
from evals.schema import EvalReport, Example
from lab.results.tab import ResultsTab
from lab.services import Services
from lab.session import door
from tests.evals.reports import ScriptedModel
from tests.lab.served import caller
from tests.lab.votes import NOON

STAGES = {"base": (0.35, (80, 90, 100)), "sft": (0.6, (60, 70, 80)), "grpo": (0.75, (60, 80, 90))}
"""Stage -> share of right answers, and the confidences it states."""
MUTE = "mute"
"""A stage that can be asked for besides: right as often as SFT, it never states a confidence."""
BEHAVIOUR = {**STAGES, MUTE: (0.6, ())}

CASES = yaml.safe_load((Path(__file__).parent / "tables" / "figures.yaml").read_text(encoding="utf-8"))
"""How figures are shown."""

OPPOSITE = {"up": "down", "down": "up", "upregulated": "downregulated", "higher": "lower"}


@cache
def scripted_report(data: str = "pathways-heldout", stages: tuple[str, ...] = tuple(STAGES)) -> EvalReport:
    """Return a report of scripted stages and all baselines on one of the lab's data sets."""
    examples = DATASETS[data]()
    chance = random.Random(0)
    script = {
        (stage, example.prompt): _answer(example, *BEHAVIOUR[stage], chance) for stage in stages for example in examples
    }
    rows = run_task(Questions(), ScriptedModel(script), examples, stages, RunSettings())
    about = {
        "data_name": data,
        "chain_name": "scripted",
        "stage_checksums": {stage: f"sha-of-{stage}" for stage in stages},
        "settings": {"max_new_tokens": 128, "temperature": 0.0},
        "created_at": NOON,
        "command": f"assay eval run --chain scripted --stage all --data {data}",
    }
    train = DATASETS["kmp-train" if data == "kmp-test" else "pathways-train"]()
    return build_report(examples, (*rows, *baseline_rows(Questions(), examples, train)), **about)


def _answer(example: Example, share_right: float, confidences: Sequence[int], chance: random.Random) -> str:
    said = example.answer.rsplit("\n", 1)[0]
    if chance.random() > share_right:
        words = re.compile(r"\b(" + "|".join(OPPOSITE) + r")\b")
        said = words.sub(lambda found: OPPOSITE[found[0]], said)
    if not confidences or chance.random() < 0.05:
        return said
    return f"{said}\nConfidence: {chance.choice(confidences)}%"


def plain(html: str) -> str:
    """Return the words of a page as they are read."""
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", html)).split())


def open_tab(services: Services, address: str = "") -> SimpleNamespace:
    """Open Results at an address, and return what it shows."""
    with gr.Blocks() as page, gr.Tab("Tab") as tab:
        ResultsTab(services, door(), tab)
    shown = caller(page)("results", None, address)
    services.store.close()
    names = ("view", "data", "group", "stages", "order", "reading", "words", "ranked", "forest")
    names += ("charts", "reliability", "risk", "page", "managing", "title", "goes", "drop", "keep", "managed")
    return SimpleNamespace(**dict(zip(names, shown, strict=True)))
