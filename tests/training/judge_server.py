"""A judge's server on this machine: real HTTP, in a thread of its own, that answers or misbehaves.

It reads a request as a model is told to: what stands between the fences is material, the items come
last. A behaviour is there if the phrases that its text puts in double quotes stand in the answer.
"""

import asyncio
import json
import re
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from functools import cache, cached_property
from typing import Any
from unittest.mock import patch

from evals.refine.judge import Verdicts
from evals.refine.score import PreparedAnswer, final_figures
from tests.evals.refiner.answers import GOOD, prepared
from training.judge.judge import HttpJudge, canaries, collect_verdicts
from training.judge.prompts import HttpSettings, harmless

FENCE = re.compile(r"=== BEGIN (\w+) (\w+) ===\n(.*?)\n=== END \1 \2 ===", re.DOTALL)
OPENING = re.compile(r"=== BEGIN (\w+) (\w+) ===\n")
PHRASE = re.compile(r'"([^"]+)"')
Reply = tuple[int, bytes] | tuple[int, bytes, str] | None
"""Status, body and perhaps a header; None = the connection is dropped."""
Behaviour = Callable[["Asked"], "Reply | float"]
"""Makes a reply of a request; a number is how many seconds after it came a good one is given."""


class Asked:
    """A request as the server sees it; `number` counts requests from 1."""

    def __init__(self, number: int, body: dict[str, Any], headers: dict[str, str]) -> None:
        self.number, self.body, self.headers = number, body, headers
        self.text = "\n".join(turn["content"] for turn in body.get("messages", []))

    @cached_property
    def parts(self) -> dict[str, str]:
        found: dict[str, str] = {}
        at = 0
        while opening := OPENING.search(self.text, at):
            end = self.text.find(f"\n=== END {opening[1]} {opening[2]} ===", opening.end())
            if end >= 0:
                found[opening[1]] = self.text[opening.end() : end]
            at = max(end, opening.end())
        return found

    @cached_property
    def items(self) -> list[dict[str, str]]:
        rows = self.parts.get("ITEMS", "").splitlines()
        return [json.loads(line) for line in rows if line.startswith("{")]

    def verdicts(self) -> list[dict[str, Any]]:
        """Return honest verdicts."""
        return [self.verdict(item) for item in self.items]

    def verdict(self, item: dict[str, str]) -> dict[str, Any]:
        answer = re.sub(r"<[^>]*>", "", self.parts.get("ANSWER", ""))
        phrases = PHRASE.findall(item["text"])
        score, quote = 0.0, ""
        if item["kind"] in ("support", "relevance"):
            score = 1.0
        elif item["kind"] == "behaviour" and phrases and all(_says(answer, p) for p in phrases):
            score, quote = 2.0, phrases[0]
        return {"item": item["item"], "evidence_quote": quote, "score": score}


def _says(answer: str, phrase: str) -> bool:
    """Whether a phrase stands in an answer as whole words."""
    return re.search(rf"(?<!\w){re.escape(phrase)}(?!\w)", answer) is not None


def says(content: object) -> Reply:
    """Return a good HTTP reply whose message is `content` (an object becomes JSON)."""
    text = content if isinstance(content, str) else json.dumps(content)
    document = {"choices": [{"message": {"role": "assistant", "content": text}}]}
    return 200, json.dumps(document).encode()


def well(asked: Asked) -> Reply:
    """Answer every item."""
    return says({"verdicts": asked.verdicts()})


@cache
def _loop() -> asyncio.AbstractEventLoop:
    """Return the loop that all servers share, in a thread that ends with the process."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True).start()
    return loop


class JudgeServer:
    """The server, as a context manager, which is tried again at once. `requests` are all that came; `url` is what a judge is given."""

    def __init__(self, behaviour: Behaviour = well, models: tuple[str, ...] = ("tiny-judge",)) -> None:
        self.behaviour, self.models = behaviour, models
        self.requests: list[Asked] = []
        self.most_at_once = self._at_once = 0
        self._open: set[asyncio.Task[Any]] = set()
        self._no_wait = patch("openai._base_client.INITIAL_RETRY_DELAY", 0.001)
        self.url = ""

    def __enter__(self) -> "JudgeServer":
        asyncio.run_coroutine_threadsafe(self._start(), _loop()).result()
        self._no_wait.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._no_wait.stop()
        asyncio.run_coroutine_threadsafe(self._stop(), _loop()).result()

    async def _start(self) -> None:
        self._server = await asyncio.start_server(self._handle, "127.0.0.1", 0, limit=2**22)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/v1"

    async def _stop(self) -> None:
        self._server.close()
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    async def _handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        try:
            while await self._one(reader, writer):
                pass
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self._open.discard(task)
            writer.transport.abort()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = {k.lower(): v for k, _, v in (line.partition(": ") for line in head[1:]) if k}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        came = time.monotonic()
        if head[0].startswith("GET"):
            listed = {"data": [{"id": name} for name in self.models]}
            reply: Reply | float = (200, json.dumps(listed).encode())
        else:
            asked = Asked(len(self.requests) + 1, json.loads(body), headers)
            self.requests.append(asked)
            self._at_once += 1
            self.most_at_once = max(self.most_at_once, self._at_once)
            try:
                reply = self.behaviour(asked)
                if isinstance(reply, int | float):
                    gives_at = came + reply
                    reply = well(asked)
                    await asyncio.sleep(gives_at - time.monotonic())
            finally:
                self._at_once -= 1
        if reply is None:
            return False
        status, content, *headers = reply
        lines = (f"HTTP/1.1 {status} X", "Content-Type: application/json", *headers, f"Content-Length: {len(content)}")
        writer.write("\r\n".join((*lines, "", "")).encode() + content)
        await writer.drain()
        return True


# ---- judges that ask it, quick to give up ------------------------------------------------------

KNOWN = {harmless(each.answer): (each.says[0], each.confidence) for each in canaries()}
FAST = {"timeout_seconds": 5.0, "retries": 2}


def case(text: str = GOOD) -> PreparedAnswer:
    return prepared(text, static_rubrics=False)


def judge_for(server: JudgeServer, **settings: Any) -> HttpJudge:
    return HttpJudge(replace(HttpSettings(server.url), **{**FAST, **settings}))


def asked(server: JudgeServer, text: str = GOOD, **settings: Any) -> Verdicts:
    (verdicts,) = collect_verdicts(judge_for(server, **settings), [case(text).inquiry()], 10.0)
    return verdicts


def reward(verdicts: Verdicts) -> float | None:
    return final_figures(case(), verdicts).reward


def changed(**fields: object) -> Behaviour:
    return lambda asked: says({"verdicts": [{**row, **fields} for row in asked.verdicts()]})


def reads(asked: Asked) -> Reply:
    """Read as a good judge does: known answers as they are meant, others by their last lines."""
    if "ITEMS" in asked.parts:
        return well(asked)
    text = asked.parts["ANSWER"]
    if text in KNOWN:
        answer, confidence = KNOWN[text]
    else:
        lines = dict(re.findall(r"^(Answer|Confidence): (.*)$", text, re.MULTILINE))
        answer, stated = lines.get("Answer", "none"), lines.get("Confidence", "").rstrip("%")
        confidence = float(stated) if stated.isdigit() else None
        options = asked.parts["OPTIONS"].split(" / ")
        answer = answer if len(options) == 1 or answer in options else "none"
    return says({"answer": answer, "confidence": confidence})
