"""How soon a person's question gets its first token while a batch is under way, against an idle model.

All stages of the embedded chain are asked a new question, by turns while nothing else runs and while batches of eight
questions are asked of a stage, as a batch on the page does. The limit is twice the idle time and one step of the batch
(the time between two of its tokens while nobody asks), each a median. Seconds of a clock: leave the machine alone.
"""

import random
import statistics
import tempfile
import threading
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

from rich.table import Table

from tests.bench._measure import SMALL, in_turns, show, spread

TOGETHER, LENGTH = 8, 4 if SMALL else 64
QUESTION = "Which way does the oxidative phosphorylation gene set move in mouse eye during spaceflight, up or down?"


class Measured:
    """A chain, and the batches that are asked of it while `batches` are wanted."""

    def __init__(self, name: str | Path) -> None:
        from evals.questions import kmp_test
        from training.models.chain import load_chain

        self.chain = load_chain(name)
        self.prompts = [self.chain.messages(row.prompt) for row in kmp_test()[:TOGETHER]]
        self.n, self.steps, self.end = 0, list[float](), threading.Event()
        self.random = random.Random(0)

    def first_token(self) -> float:
        """Return the seconds until any stage has written something of a new question."""
        from evals.schema.questions import Sampling

        self.n += 1
        asked, stop = self.chain.messages(f"{self.n}: {QUESTION}"), threading.Event()
        begun = time.perf_counter()
        stream = self.chain.stream(asked, self.chain.stages, Sampling(max_new_tokens=LENGTH), stop)
        next(stream)
        seconds = time.perf_counter() - begun
        stream.close()
        while any(self.chain.stack.batcher.load):
            time.sleep(0.01)
        return seconds

    def first_token_beside_a_batch(self) -> float:
        """Return the same, asked at any moment of a batch: while it reads its prompts, or between two tokens."""
        self.end.clear()
        batch = threading.Thread(target=self.batch)
        batch.start()
        time.sleep(self.random.uniform(0, 0.1 if SMALL else 10))
        seconds = self.first_token()
        self.end.set()
        batch.join()
        return seconds

    def batch(self) -> None:
        """Ask batches of questions of the last stage until the end is wanted."""
        from evals.schema.questions import Sampling

        while not self.end.is_set():
            self.chain.generate(self.prompts, self.chain.stages[-1:], Sampling(max_new_tokens=LENGTH), told=self.told)

    def told(self, n: int) -> Any:
        """End a batch after this token if that is wanted."""
        return self.end.is_set()

    def step(self) -> float:
        """Return the seconds between two tokens of a batch while nobody asks."""
        from evals.schema.questions import Sampling

        at = list[float]()
        sampling = Sampling(max_new_tokens=min(LENGTH, 8))
        self.chain.generate(
            self.prompts, self.chain.stages[-1:], sampling, told=lambda _: at.append(time.perf_counter())
        )
        return statistics.median(after - before for before, after in pairwise(at))


def main() -> None:
    """Print the time to the first token, idle and beside a batch, and how far below the limit it is."""
    with tempfile.TemporaryDirectory() as folder:
        if SMALL:
            from tests.models import tiny_chain

            measured = Measured(tiny_chain(Path(folder)))
        else:
            measured = Measured("embedded")
        measured.first_token()  # what is read once and kept
        ways = {"idle": measured.first_token, "beside": measured.first_token_beside_a_batch, "step": measured.step}
        found = in_turns(5, ways)
    idle, beside, step = (statistics.median(found[name]) for name in ways)
    table = Table("seconds", "median (least-greatest)")
    table.add_row("first token, idle", spread(found["idle"]))
    table.add_row("first token, a batch under way", spread(found["beside"]))
    table.add_row("one step of the batch", spread(found["step"]))
    table.add_row("ratio to idle", f"{beside / idle:.2f}")
    table.add_row("limit, 2 x idle + one step", f"{2 * idle + step:.3f}")
    show(table)
    print(f"within the limit: {'yes' if beside <= 2 * idle + step else 'no'}")
