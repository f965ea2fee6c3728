"""Fifty raters vote and rate for two minutes over HTTP, against an empty Gradio handler under the same people.

Both are servers of their own, and each rater asks them by turns. Every vote and rating that the lab acknowledged must
be in its database exactly once. A rater reads for a while between two votes (`THINKS`).
"""

import asyncio
import gc
import json
import os
import random
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import httpx
from rich.table import Table

from tests.bench._measure import ROOT, SMALL, show
from tests.browser.conftest import free_port

RATERS, SECONDS = (5, 3) if SMALL else (50, 120)
THINKS = (0.1, 0.3) if SMALL else (2.0, 6.0)
LIMIT = 1.5
EMPTY = """
import sys
import gradio as gr
with gr.Blocks() as demo:
    box = gr.Textbox()
    box.submit(lambda text: text, box, box, api_name="queued", concurrency_limit=40)
    box.change(lambda text: text, box, box, api_name="direct", queue=False)
demo.launch(server_port=int(sys.argv[1]), quiet=True, ssr_mode=False, max_threads=80)
"""
LAB = "import sys; from tests.bench.raters import serve; serve(int(sys.argv[1]))"


def serve(port: int) -> None:
    """Serve Compare on recorded answers, and a project to annotate."""
    from dataclasses import replace

    from evals.schema import Verdict
    from evals.schema.votes import Guidelines
    from lab.app import build_app, put_on_air, run
    from lab.services import build_services
    from lab.settings import from_environment
    from lab.shared.rater import item_of_answer, new_project
    from lab.shared.recorded import Recorded
    from tests.lab.votes import answer

    verdict = Verdict.model_validate(
        {
            "verdict": "correct",
            "reason": "as the data say",
            "scores": {},
            "reward": 1.0,
            "confidence": {"value": None, "status": "missing", "quote": None},
        }
    )
    answers = [
        answer(f"{stage}{n}", stage, question=f"Question {n}?", verdict=verdict, text=f"{stage} says yes.")
        for n in range(20)
        for stage in ("base", "sft")
    ]
    services = replace(build_services(from_environment()), recorded=Recorded(answers))
    project = new_project(services, "Liver", 1, Guidelines(text="Look closely.")).model_copy(update={"id": "p"})
    services.store.annotations.keep_project(project)
    services.store.annotations.add_items([item_of_answer(each, "p") for each in answers])
    app = build_app(services, ("Compare", "Annotate"))
    gc.freeze()  # as `assay lab` does
    put_on_air(app, server_port=port, quiet=True)
    run(app, services, ready=lambda: None, tabs=("Compare", "Annotate"))


@contextmanager
def served(code: str, folder: Path, seconds: float = 60) -> Iterator[str]:
    """Start a server in a process of its own; give its URL once it answers."""
    port = free_port()
    surroundings = os.environ | {"ASSAY_DATABASE_URL": f"sqlite:///{folder / 'assay.db'}"}
    process = subprocess.Popen([sys.executable, "-c", code, port], cwd=ROOT, env=surroundings, stdout=sys.stderr)
    try:
        for _ in range(int(seconds / 0.2)):
            if process.poll() is not None:
                raise RuntimeError(f"a server ended with status {process.returncode}")
            try:
                httpx.get(f"http://127.0.0.1:{port}/config").raise_for_status()
                break
            except httpx.TransportError:
                time.sleep(0.2)
        yield f"http://127.0.0.1:{port}/gradio_api"
    finally:
        process.kill()
        process.wait()


class Rater:
    """One person with a page of the lab open, and one of the empty handler."""

    def __init__(self, number: int, client: httpx.AsyncClient, events: dict[str, dict[str, Any]]) -> None:
        self.name, self.client, self.events = f"rater{number}", client, events
        self.pair: list[Any] = []
        self.votes: list[tuple[str, ...]] = []
        self.ratings: list[str] = []
        self.times: dict[str, list[float]] = {"vote": [], "queued": [], "rating": [], "direct": []}

    async def queued(self, event: str, data: list[Any]) -> list[Any]:
        """Call an event through the queue and return what it gave first."""
        known = self.events[event]
        body = {"data": data, "fn_index": known["id"], "session_hash": self.name}
        joined = await self.client.post(f"{known['url']}/queue/join", json=body)
        name, first = joined.raise_for_status().json()["event_id"], None
        asked = {"session_hash": self.name}
        async with self.client.stream("GET", f"{known['url']}/queue/data", params=asked) as stream:
            async for line in stream.aiter_lines():
                told = json.loads(line[6:]) if line.startswith("data:") else {}
                if told.get("event_id") == name and told["msg"] in ("process_generating", "process_completed"):
                    assert told["success"], told
                    first = first or told["output"].get("data")
                    if told["msg"] == "process_completed":
                        return [first, told["output"].get("data")]
        raise AssertionError(f"no answer to {event}")

    async def direct(self, event: str, data: list[Any]) -> list[Any]:
        """Call an event that does not queue."""
        known = self.events[event]
        body = {"data": data, "fn_index": known["id"], "session_hash": self.name}
        reply = await self.client.post(f"{known['url']}/run/predict", json=body)
        return reply.raise_for_status().json()["data"]

    def inputs(self, event: str, *last: Any) -> list[Any]:
        """Return what a page sends: nothing for what the server keeps, then what was typed."""
        return [*[None] * (len(self.events[event]["inputs"]) - len(last)), *last]

    async def timed(self, kind: str, work: Any) -> Any:
        begun = time.perf_counter()
        done = await work
        self.times[kind].append(time.perf_counter() - begun)
        return done

    async def open(self) -> None:
        """Open both pages, with the first pair."""
        await self.queued("meet", self.inputs("meet"))
        await self.direct("annotate_projects", [None, "rater"])
        await self.direct("annotate_project", [None, "p", "rater"])
        self.pair = await self.queued("pair", self.inputs("pair"))

    async def work(self, until: float) -> None:
        """Vote and rate, and ask the empty handler as often."""
        while time.monotonic() < until or len(self.times["vote"]) < 2:
            await asyncio.sleep(random.uniform(*THINKS))
            ids = next(each for each in self.pair[-1] if isinstance(each, list) and len(each) == 2)
            self.pair = await self.timed("vote", self.queued("vote_left", self.inputs("vote_left")))
            if "is stored" in json.dumps(self.pair):
                self.votes.append(tuple(ids))
            await self.timed("queued", self.queued("queued", ["x"]))
            comment = f"{self.name} {len(self.ratings)}"
            said = self.inputs("annotate_draft", None, "", [], "", comment)
            if "Draft kept" in json.dumps(await self.timed("rating", self.direct("annotate_draft", said))):
                self.ratings.append(comment)
            await self.timed("direct", self.direct("direct", ["x"]))


def main() -> None:
    """Print p95 of both kinds of change as a ratio, and what the database holds of what was acknowledged."""
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        urls = [stack.enter_context(served(code, Path(name))) for code in (LAB, EMPTY)]
        raters = asyncio.run(_work(urls))
        with closing(sqlite3.connect(Path(name) / "assay.db")) as database:
            votes = Counter(database.execute("SELECT left_answer, right_answer FROM comparisons"))
            said = database.execute("SELECT json_extract(document, '$.comment') FROM annotations").fetchall()
    ratings = Counter(comment for (comment,) in said)
    acknowledged = (
        [each for rater in raters for each in rater.votes],
        [each for rater in raters for each in rater.ratings],
    )
    table = Table("what", "acknowledged", "found once", "p50 ms", "p95 ms", "empty p95 ms", "ratio", "limit")
    is_whole = True
    for what, empty, told, found in (
        ("vote", "queued", acknowledged[0], votes),
        ("rating", "direct", acknowledged[1], ratings),
    ):
        times, bare = ([t for rater in raters for t in rater.times[kind]] for kind in (what, empty))
        once, (ours, theirs) = sum(found[each] == 1 for each in told), (p95(times), p95(bare))
        is_whole = is_whole and once == len(told) > 0
        figures = (1000 * statistics.median(times), 1000 * ours, 1000 * theirs, ours / theirs, LIMIT)
        table.add_row(what, str(len(told)), str(once), *(f"{figure:.1f}" for figure in figures))
    show(table)
    assert is_whole, "what was acknowledged is not in the database exactly once"


def p95(times: list[float]) -> float:
    return statistics.quantiles(times, n=20, method="inclusive")[-1]


async def _work(urls: list[str]) -> list[Rater]:
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
    async with httpx.AsyncClient(timeout=120, limits=limits) as client:
        events = {}
        for url in urls:
            config = (await client.get(url.replace("gradio_api", "config"))).json()
            events |= {each["api_name"]: each | {"url": url} for each in config["dependencies"]}
        raters = [Rater(number, client, events) for number in range(RATERS)]
        await asyncio.gather(*(rater.open() for rater in raters))
        until = time.monotonic() + SECONDS
        await asyncio.gather(*(rater.work(until) for rater in raters))
    return raters
