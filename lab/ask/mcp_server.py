"""The lab for programs that speak MCP: look and ask under the page's roles and limits, where the package is installed."""

import asyncio
import base64
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import partial
from hashlib import sha256
from importlib import import_module, metadata
from typing import Any

import gradio as gr
from pydantic import TypeAdapter
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from evals.errors import LabError
from evals.model import Sampling
from evals.questions import DATASETS
from lab.ask.session import answering
from lab.guard import GuardedBlocks
from lab.middleware import PasswordThrottle
from lab.questions.session import QuestionSets
from lab.results.reports import chosen_report, groups_of, orders_of, ranked
from lab.services import Services, once
from lab.session import QuestionRequest, checked_question, stop
from lab.train.chains import chain_of, choices_of_chains
from lab.ui.components import AT_ONCE
from lab.ui.text import say
from lab.visitors import Visitor, new_visitor

PACKAGE, PATH = "mcp", "/mcp"
Reply = dict[str, Any]


def one_of(name: str, known: Iterable[str]) -> str:
    if name and name not in known:
        raise LabError(say("mcp.unknown", name=name, known=", ".join(known)))
    return name or next(iter(known), "")


def tools_of(services: Services, visitor: Visitor) -> dict[str, Callable[..., Reply]]:
    def chains() -> Reply:
        """List the chains that can be asked, with the stages they add to the base; "" is the lab's own."""
        return {"chains": [{"chain": name, "label": label} for label, name in choices_of_chains(services)]}

    def ask(question: str, stages: tuple[str, ...] = (), chain: str = "") -> Reply:
        """Ask every stage of a chain, or those named, a question. Small models are often wrong: quote them as such."""
        key, text = chain_of(services, chain), checked_question(question)
        pick = lambda known: tuple(one_of(stage, known) for stage in stages) or known  # noqa: E731
        *_, last = answering(services, QuestionRequest(visitor, text, Sampling(), "ask", pick, key))
        return {
            "problem": last.problem,
            "answers": [each.model_dump(mode="json", exclude={"session"}) for each in last.kept or ()],
        }

    def leaderboard(questions: str = "", group: str = "", order: str = "") -> Reply:
        """Rank stages and baselines with n and 95 % intervals; only a better rank is shown to be better."""
        if not (reports := services.reports().reports):
            return {"rows": []}
        report = chosen_report(reports, one_of(questions, names := [each.data_name for each in reports]))
        known = {"questions": names, "group": list(groups_of(report)), "order": list(orders_of(report))}
        group, order = one_of(group, known["group"]), one_of(order, known["order"])
        rows = [each.model_dump(mode="json", exclude_none=True) for each in ranked(report, group, order)]
        return {"questions": report.data_name, "group": group, "order": order, "rows": rows, "can_be_named": known}

    def questions() -> Reply:
        """List the question sets: those that come with Assay, the versions frozen in this lab, your drafts."""
        return {"sets": [*DATASETS, *(title for title, _ in QuestionSets(services, visitor).listed())]}

    return {each.__name__: each for each in (chains, ask, leaderboard, questions)}


class McpEndpoint:
    """Answers at `PATH`, each request by itself; where the lab has names, by HTTP Basic of one of them."""

    def __init__(self, services: Services, page: GuardedBlocks, is_right: Any, wrong: dict[str, list[float]]) -> None:
        self._services, self._page, self._is_right = services, page, is_right
        self._throttle, self._known = PasswordThrottle(self._enter, wrong=wrong), dict[bytes, str]()
        self._manager, self._threads = once(self._make), ThreadPoolExecutor(AT_ONCE)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        told = Headers(scope=scope).get("authorization", "")
        name, door = self._known.get(sha256(told.encode()).digest()), self._answer
        if scope["method"] != "POST":
            door = PlainTextResponse(say("mcp.post"), 405, {"allow": "POST"})
        elif self._is_right and name is None:  # a try is counted with those at the page's own door
            door = self._throttle if told else self._enter
        await door({**scope, "assay.name": name, "path": "/login"}, receive, send)

    async def _enter(self, scope: Scope, receive: Receive, send: Send) -> None:
        told = Headers(scope=scope).get("authorization", "")
        name = password = ""
        with suppress(ValueError):
            name, _, password = base64.b64decode(told.removeprefix("Basic ")).decode().partition(":")
        if name and await run_in_threadpool(self._is_right, name, password):
            self._known[sha256(told.encode()).digest()] = name
            await self._answer({**scope, "assay.name": name}, receive, send)
        else:
            await PlainTextResponse(say("mcp.login"), 401, {"www-authenticate": "Basic"})(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        manager = (await run_in_threadpool(self._manager))()
        async with manager.run():
            await manager.handle_request(scope, receive, send)

    def _make(self) -> Callable[[], Any]:
        names = ("server.lowlevel", "server.streamable_http_manager", "types")
        lowlevel, http, types = (import_module(f"{PACKAGE}.{name}") for name in names)
        server, tools = lowlevel.Server("assay", metadata.version("assay")), tools_of(self._services, new_visitor())

        async def list_tools() -> list[Any]:
            schemas = {name: TypeAdapter(tool).json_schema() for name, tool in tools.items()}
            return [types.Tool(name=name, description=tools[name].__doc__, inputSchema=schemas[name]) for name in tools]

        async def call_tool(name: str, arguments: Reply) -> Reply:
            asked = server.request_context.request
            visitor = replace(new_visitor(who := asked.scope["assay.name"]), name=who or "")
            known = tools_of(self._services, visitor)
            try:
                work = partial(known[one_of(name, known)], **arguments)
                self._page.admit(name, gr.Request(asked, who), visitor.page)
                return await asyncio.get_running_loop().run_in_executor(self._threads, work)
            except gr.Error as error:
                raise LabError(error.message) from error
            finally:  # also for who leaves before
                self._page.leave(visitor.page)
                stop(self._services, visitor, "ask")

        server.list_tools()(list_tools)
        server.call_tool()(call_tool)
        return partial(http.StreamableHTTPSessionManager, server, stateless=True)
