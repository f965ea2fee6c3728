"""How long a page takes to open with 100,000 stored answers, against 100.

Two labs of all tabs, each a server of its own, are asked by turns for all that a page calls when its tab is chosen, by
visitors with a hundred answers of their own. The least of the rounds counts. With the answers come votes, annotations
in projects of a hundred, and reviews: one for every ten answers, ten and a hundred.
"""

import os
import sys
import tempfile
import time
from collections import defaultdict
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
from rich.table import Table

from tests.bench._measure import SMALL, rounds, show
from tests.browser.conftest import started

FEW, MANY = 100, 300 if SMALL else 100_000
LIMIT = 2.0
LAB = "import sys; from tests.bench.stored import serve; serve(int(sys.argv[1]))"
VISITOR = "r" * 32


def fill(services: Any, n: int) -> None:
    """Store `n` answers, and what people said of some of them."""
    from evals.preferences.annotations import usual_guidelines
    from evals.schema.votes import Annotation
    from lab.session import new_visitor, session_of
    from lab.shared.rater import item_of_answer, new_project
    from lab.store.database import ComparisonRow, DocumentRow, writing
    from tests.lab.votes import answer, vote

    store, own = services.store, session_of(services, new_visitor(VISITOR), "ask")
    for begin in range(0, n, 1000):
        answers = []
        for at in range(begin, min(n, begin + 1000)):
            whose = {"session": own if at < FEW else f"session {at // 20}", "question": f"Question {at // 2}?"}
            answers.append(answer(f"a{at}", ("base", "sft")[at % 2], **whose))
        store.add_answers(answers)
        pairs = list(zip(answers[::2], answers[1::2], strict=True))[::5]
        votes = [dict(vote(*pair, "left", rater=f"rater {at % 50}")) for at, pair in enumerate(pairs)]
        kind = {"task": "review", "document": {}, "session": "s"}
        documents = [kind | {"id": each.id, "made_at": each.asked_at} for each in answers[::FEW]]
        with writing(store._engine) as session:
            session.execute(ComparisonRow.__table__.insert(), votes)
            session.execute(DocumentRow.__table__.insert(), documents)
        project = new_project(services, f"Project {begin}", 1, usual_guidelines())
        store.annotations.keep_project(project)
        items = [item_of_answer(each, project.id) for each in answers[::10]]
        store.annotations.add_items(items)
        said = {"state": "submitted", "updated_at": services.now(), "guidelines": 1, "comment": "It falls."}
        store.annotations.save(Annotation(item=each.id, rater=f"rater {each.id[-1]}", **said) for each in items)


def serve(port: int) -> None:
    """Serve all tabs over a store of as many answers as the environment says."""
    from lab.app import build_app, put_on_air, run
    from lab.services import build_services
    from lab.settings import from_environment

    services = build_services(from_environment())
    fill(services, int(os.environ["ASSAY_BENCH_ANSWERS"]))
    app = build_app(services)
    put_on_air(app, server_port=port, quiet=True)
    run(app, services, ready=lambda: None, tabs=("Home",))  # no chain is loaded


class Page:
    """One visitor's page in one of the labs."""

    def __init__(self, url: str) -> None:
        limits = httpx.Limits(max_keepalive_connections=0)
        self.client = httpx.Client(base_url=url, timeout=300, limits=limits)
        config = self.client.get("config").json()
        self.events = config["dependencies"]
        self.values = {each["id"]: each["props"].get("value") for each in config["components"]}
        tabs = {each["id"]: each["props"]["label"] for each in config["components"] if each["type"] == "tabitem"}
        self.opening: dict[str, list[Any]] = defaultdict(list)
        for event in self.events:
            for target, kind in event["targets"]:
                if target in tabs and kind == "select" and event["backend_fn"]:
                    self.opening[tabs[target]].append(event)
        met = next(each for each in self.events if any(kind == "load" for _, kind in each["targets"]) and each["queue"])
        self.call(met, [VISITOR])
        named = {each["api_name"]: each for each in self.events}
        self.project = self.call(named["annotate_projects"], [None, "rater"])[0]["value"]
        self.opening["Annotate"].append(named["annotate_project"])
        self.opening["Papers"] = [named["my_reviews"]]
        self.opening["Votes"] = [named["preferences"]]
        earlier = [named["earlier"]["inputs"][1]]
        self.opening["Ask history"] = [next(each for each in self.events if each["outputs"] == earlier)]

    def call(self, event: Any, data: list[Any]) -> list[Any]:
        """Call an event as the page does, through the queue or not, and return what it gave."""
        body = {"data": data, "fn_index": event["id"], "session_hash": "page"}
        if not event["queue"]:
            return self.client.post("gradio_api/run/predict", json=body).raise_for_status().json()["data"]
        self.client.post("gradio_api/queue/join", json=body).raise_for_status()
        with self.client.stream("GET", "gradio_api/queue/data", params={"session_hash": "page"}) as stream:
            for line in stream.iter_lines():
                if "process_completed" in line:
                    assert '"success":true' in line, line[:2000]
                    return []
        raise AssertionError(f"no answer to {event['api_name']}")

    def opened(self, tab: str) -> float:
        """Return the milliseconds of what a tab calls when it is chosen."""
        for event in self.opening[tab]:
            if event["api_name"] == "annotate_project":  # one that is shown is not drawn again
                self.call(event, [None, None, "rater", [], None])
        begun = time.perf_counter()
        for event in self.opening[tab]:
            is_project = event["api_name"] == "annotate_project"
            given = [self.values.get(each) for each in event["inputs"]]
            given = [None, self.project, "rater", [], None] if is_project else given
            self.call(event, given)
        return 1000 * (time.perf_counter() - begun)


def main() -> None:
    """Print how long every page takes, with few answers and with many."""
    with ExitStack() as stack:
        pages = []
        for n in (FEW, MANY):
            os.environ["ASSAY_BENCH_ANSWERS"] = str(n)
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            pages.append(Page(stack.enter_context(started([sys.executable, "-c", LAB], folder, patience=600))))
        times: dict[str, list[list[float]]] = {tab: [[], []] for tab in pages[0].opening}
        for _ in range(rounds(7) + 1):
            for tab, found in times.items():
                for page, each in zip(pages, found, strict=True):
                    each.append(page.opened(tab))
    table = Table("page", f"ms at {FEW}", f"ms at {MANY}", "ratio", "limit")
    for tab, found in times.items():
        few, many = (min(each[1:]) for each in found)  # the first builds what is kept
        table.add_row(tab, f"{few:.1f}", f"{many:.1f}", f"{many / few:.2f}", str(LIMIT))
    show(table)
