"""The line to a judge's server: so many requests at a time, retried where that can help.

Tried again, with a growing and jittered pause: no connection, a dropped one, a timeout, 408, 429 and
5xx. Not tried again: any other refusal. A server that does not know a way to force JSON, or our extra
fields, is asked without them from its first reply to such a request on, and the log says so; one that
refuses the plain request too, as one that is too long, is asked the next in full. Redirects are not
followed, proxies not used: what was meant for this machine stays on it. The key goes into the header
of the request and nowhere else.
"""

import asyncio
import json
import logging
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from evals.errors import LabError
from training.judging.questions import SCHEMA
from training.judging.settings import HttpSettings

RETRIED = (408, 429)
REFUSED_FIELDS = (400, 415, 422)
EXTRAS = (("chat_template_kwargs", "response_format"), ("chat_template_kwargs",), ())
"""What is asked of a server beyond the plain request, from the most to nothing."""
log = logging.getLogger(__name__)
Messages = list[dict[str, str]]


class JudgeFailure(Exception):
    """A request that brought no reply; what it asked for is missing."""


@dataclass
class Counts:
    """What happened on a line since the counts were last taken; `loose` replies came without all EXTRAS."""

    calls: int = 0
    retries: int = 0
    hits: int = 0
    failures: int = 0
    reasked: int = 0
    loose: int = 0
    seconds: list[float] = field(default_factory=list)


class Line:
    """Requests to one server from one event loop; made inside that loop."""

    def __init__(self, settings: HttpSettings, key: str | None, counts: Counts) -> None:
        self._settings = settings
        self.counts = counts
        self._turn = asyncio.Semaphore(settings.concurrency)
        self._level = 0
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=settings.concurrency),
            timeout=aiohttp.ClientTimeout(total=settings.timeout_seconds),
            headers={
                "Content-Type": "application/json",
                **({"Authorization": f"Bearer {key}"} if key else {}),
            },
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
        )

    async def model(self) -> str:
        """Return the name of the one model that the server lists; LabError if it lists none or several."""
        address = f"{self._settings.base_url}/models"
        try:
            async with self._session.get(address, allow_redirects=False) as response:
                document = await response.json(content_type=None)
            names = [str(row["id"]) for row in document["data"]]
        except (
            aiohttp.ClientError,
            OSError,
            TimeoutError,
            ValueError,
            KeyError,
            TypeError,
            RecursionError,
        ) as error:
            raise LabError(
                f"{address} does not say which model it serves ({type(error).__name__}); name it with"
                " judge_model, or start the server first."
            ) from None
        if len(names) != 1:
            raise LabError(
                f"the judge's server lists {len(names)} models ({', '.join(names[:5])}); name one with"
                " judge_model."
            )
        return names[0]

    async def ask(
        self,
        model: str,
        compose: Callable[[], Messages],
        vote: int = 0,
        schema: Mapping[str, Any] = SCHEMA,
    ) -> str:
        """Return the text of the reply; JudgeFailure if there is none after all tries.

        `compose` makes the messages once it is their turn, so requests that wait cost those that are
        under way nothing. `schema` is the JSON that a reply is held to, by servers that can.
        """
        problem = ""
        for attempt in range(self._settings.retries + 1):
            if attempt:
                self.counts.retries += 1
                await asyncio.sleep(self._pause(attempt))
            async with self._turn:
                request = self._request(model, compose(), vote)
                reply, problem, may_help = await self._once(request, schema)
            if reply is not None:
                return reply
            if not may_help:
                break
        self.counts.failures += 1
        raise JudgeFailure(problem)

    async def close(self) -> None:
        """Let go of the connections."""
        await self._session.close()

    async def _once(
        self, request: Mapping[str, Any], schema: Mapping[str, Any]
    ) -> tuple[str | None, str, bool]:
        """Return the reply, or None with the problem and whether another try may help."""
        started = time.monotonic()
        self.counts.calls += 1
        try:
            level = self._level
            status, document = await self._post({**request, **_extras(level, schema)})
            while status in REFUSED_FIELDS and level + 1 < len(EXTRAS):
                level += 1
                status, document = await self._post({**request, **_extras(level, schema)})
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            return None, f"no reply ({type(error).__name__})", True
        finally:
            self.counts.seconds.append(time.monotonic() - started)
        if status != 200:
            return None, f"the server answered {status}", status in RETRIED or status >= 500
        self._keep_to(level)
        try:
            text = document["choices"][0]["message"]["content"]
        except (KeyError, IndexError, TypeError):
            text = None
        if not isinstance(text, str):
            return None, "the reply holds no text", True
        return text, "", True

    def _keep_to(self, level: int) -> None:
        """Ask from now on for no more than what just brought a reply."""
        self.counts.loose += level > 0
        if level > self._level:
            left_out = ", ".join(name for name in EXTRAS[0] if name not in EXTRAS[level])
            log.warning("the judge's server refuses %s; it is asked without from now on", left_out)
            self._level = level

    async def _post(self, request: dict[str, Any]) -> tuple[int, Any]:
        address = f"{self._settings.base_url}/chat/completions"
        body = json.dumps(request).encode()
        async with self._session.post(address, data=body, allow_redirects=False) as response:
            content = await response.read()
        if response.status != 200:
            return response.status, None
        try:
            return response.status, json.loads(content)
        except (ValueError, RecursionError):  # the latter where brackets are nested a thousand deep
            return response.status, None

    def _request(self, model: str, messages: Messages, vote: int) -> dict[str, Any]:
        """Return the request with every sampling field: servers have defaults of their own."""
        return {
            "model": model,
            "messages": messages,
            "temperature": 0.0,
            "top_p": 1.0,
            "frequency_penalty": 0.0,
            "presence_penalty": 0.0,
            "seed": self._settings.seed + vote,
            "n": 1,
            "max_tokens": self._settings.max_tokens,
            "stream": False,
        }

    def _pause(self, attempt: int) -> float:
        longest = self._settings.backoff_seconds * 2 ** (attempt - 1)
        return random.uniform(0.5 * longest, longest)


def _extras(level: int, schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that go with the plain request at a level of EXTRAS."""
    fields = {
        "chat_template_kwargs": {"enable_thinking": False},
        "response_format": {"type": "json_schema", "json_schema": schema},
    }
    return {name: fields[name] for name in EXTRAS[level]}
