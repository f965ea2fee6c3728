"""A lab with a scripted chain, for tests of the page alone: python -m tests.browser.scripted PORT."""

import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace

from evals.model import Sampling
from evals.schema import Message
from lab.app import build_app, put_on_air, run
from lab.engine import LabEngine
from lab.results.evaluations import Evaluations
from lab.services import build_services
from lab.settings import from_environment
from tests.lab.chains import STAGES, ScriptedChain, Word
from tests.lab.evaluations import MUTE, scripted_report
from tests.lab.reviewers import SAID, ScriptedReader

ANSWERS = {
    "base": "alpha <script>alert('answer')</script> <img src=x onerror=alert(1)> ${alert(2)} {{x}}",
    "sft": "beta is up in the liver.\nAnswer: up\nConfidence: 75%",
    "grpo": "gamma is down in the liver, HALLMARK_OXIDATIVE_PHOSPHORYLATION.\nConfidence: 85%",
}


SLOWLY = 0.6
"""Seconds per word for a question with the word "slowly" in it."""


class PatientChain(ScriptedChain):
    """Takes its time where the question asks for it, so that a test can look while it writes."""

    def stream(
        self, prompt: Sequence[Message], stages: Sequence[str], sampling: Sampling, stop: threading.Event
    ) -> Iterator[Word]:
        """Yield as a scripted chain does, with a pause after each word."""
        for piece in super().stream(prompt, stages, sampling, stop):
            yield piece
            if "slowly" in prompt[-1].content:
                stop.wait(SLOWLY)


def measured() -> Evaluations:
    """Return the evaluations of scripted answers; one stage of the second states no confidence."""
    return Evaluations((scripted_report(), scripted_report("kmp-test", (MUTE, *STAGES))))


def main() -> None:
    """Serve until stopped."""
    chain = PatientChain(ANSWERS, seconds_per_word=0.02)
    services = replace(
        build_services(from_environment()),
        engine=LabEngine(lambda *_: chain),
        refiner="",  # the scripted chain answers in the Refine tab too
        reports=measured,
        readers=lambda: (
            ScriptedReader(pause=0.1),
            ScriptedReader("Slow", pause=12.0),
            ScriptedReader("Other", SAID[1:]),
        ),
    )
    app = build_app(services)
    put_on_air(app, server_name="127.0.0.1", server_port=int(sys.argv[1]), quiet=True)
    run(app, services, ready=lambda: None)


if __name__ == "__main__":
    main()
