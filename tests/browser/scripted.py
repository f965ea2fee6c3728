"""A lab with a scripted chain, for tests of the page alone: python -m tests.browser.scripted [NAME] PORT.

With a NAME all has that name, and every model answers with it.
"""

import json
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from evals.schema import Completion, EvalReport, Message
from evals.schema.questions import Sampling
from lab.app import build_app, put_on_air, run
from lab.engine import LabEngine
from lab.services import build_services
from lab.settings import from_environment, password_check
from lab.shared.evaluations import Evaluations
from tests.lab.chains import STAGES, ScriptedChain, Word
from tests.lab.evaluations import MUTE, scripted_report
from tests.lab.reviewers import SAID, ScriptedReader

ANSWERS = {
    "base": "alpha <script>alert('answer')</script> <img src=x onerror=alert(1)> ${alert(2)} {{x}}",
    "sft": "beta is up in the liver.\nAnswer: up\nConfidence: 75%",
    "grpo": "gamma is down in the liver, HALLMARK_OXIDATIVE_PHOSPHORYLATION.\nConfidence: 85%",
}
CITED = (
    "<answer><snippet id=S1>OXPHOS is down in flight in mouse liver.</snippet> It fell by 40 percent."
    " <snippet id=S9>Kidney <img src=x onerror=alert(1)> is up.</snippet></answer>"
)


SLOWLY = 0.6
"""Seconds per word for a question with the word "slowly" in it, and of eight questions asked of a stage as a batch."""
HELD = 5.0
"""Seconds before the first word for a question with the word "patiently" in it."""


class PatientChain(ScriptedChain):
    """Takes its time where the question asks for it, so that a test can look while it writes."""

    citing: ScriptedChain | None = None

    def stream(
        self, prompt: Sequence[Message], stages: Sequence[str], sampling: Sampling, stop: threading.Event
    ) -> Iterator[Word]:
        """Yield as a scripted chain does, with a pause after each word; from evidence it cites."""
        if "patiently" in prompt[-1].content:
            stop.wait(HELD)
        chain = self.citing if "<tool_output>" in prompt[-1].content and self.citing else super()
        for piece in chain.stream(prompt, stages, sampling, stop):
            yield piece
            if "slowly" in prompt[-1].content:
                stop.wait(SLOWLY)

    def generate(
        self,
        prompts: Sequence[Sequence[Message]],
        stages: Sequence[str],
        sampling: Sampling,
        told: Callable[[int], None],
    ) -> list[list[Completion]]:
        """Return what a scripted chain does, in its time."""
        threading.Event().wait(SLOWLY if "slowly" in prompts[0][-1].content else 0)
        return super().generate(prompts, stages, sampling, told)


def measured(name: str = "") -> Evaluations:
    """Return the evaluations of scripted answers; one stage of the second states no confidence."""
    whole = (scripted_report(), scripted_report("kmp-test", (MUTE, *STAGES)))
    return Evaluations(tuple(map(partial(renamed, name=name), whole)) if name else whole)


def renamed(report: EvalReport, name: str) -> EvalReport:
    """Return a report of which a stage, the data, the chain and all that was said have this name."""
    text = report.model_dump_json()
    for word in ("sft", report.data_name, report.chain_name):
        text = text.replace(json.dumps(word), json.dumps(name))
    rows = [{**row, "completion": f"{name} {row['completion']}"} for row in json.loads(text)["rows"]]
    return EvalReport.model_validate({**json.loads(text), "rows": rows})


def main() -> None:
    """Serve until stopped."""
    name, stages = "".join(sys.argv[1:-1]), ("base", "".join(sys.argv[1:-1]) or "sft", "grpo")
    chain = PatientChain(dict.fromkeys(stages, name) if name else ANSWERS, stages, seconds_per_word=0.02)
    if not name:
        chain.citing = ScriptedChain({"base": ANSWERS["base"], "sft": CITED, "grpo": CITED}, stages, 0.02)
    services = replace(
        build_services(from_environment()),
        engine=LabEngine(lambda *_: chain),
        refiner="",  # the scripted chain answers from evidence too
        reports=partial(measured, name),
        readers=lambda: (
            ScriptedReader(name or "Scripted", pause=0.1),
            ScriptedReader("Slow", pause=12.0),
            ScriptedReader("Other", SAID[1:]),
        ),
    )
    app = build_app(services)
    entry = {"auth": password_check(services.people, services.log)} if services.people else {}
    put_on_air(app, server_name="127.0.0.1", server_port=int(sys.argv[-1]), quiet=True, **entry)
    run(app, services, ready=lambda: None)


if __name__ == "__main__":
    main()
