"""The client of servers that speak OpenAI's chat completions: vLLM, llama.cpp, Ollama, a vendor's.

So many requests at a time. Tried again, after what Retry-After says or a growing and jittered pause: no
connection, a timeout, a reply without text, 408, 409, 425, 429 and 5xx. After 401 or 403 nothing more is sent
until the connections are closed. A server that refuses the JSON schema or one of our fields is asked without; what
then brings a reply is kept to, and said. Redirects are not followed, proxies not used: what was meant for this
machine stays on it. The key goes into one header. Replies are read up to `MOST_BYTES`.
"""

import asyncio
import ipaddress
import json
import logging
import os
import random
import sqlite3
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

import aiohttp

from evals.errors import BadConfig, LabError
from evals.normalize import whole_characters
from evals.refine.judge import number_of
from training.judge.prompts import ServerSettings

RETRIED = (408, 409, 425, 429)
REFUSED_FIELDS = (400, 404, 415, 422)
DENIED = (401, 403)
LONGEST_WAIT = 30.0
MOST_BYTES = 64_000_000
"""Of a reply; a server that sends more is not read to the end."""
MOST_CHARACTERS = 1_000_000
"""Of a reply's text, thoughts included; what comes behind is cut off."""
RENAMED = {"chat_template_kwargs": "", "repetition_penalty": "", "max_tokens": "max_completion_tokens"}
"""Fields that some servers refuse by name, and what they are sent as then; nothing = left out."""
log = logging.getLogger(__name__)
Messages = list[dict[str, str]]
Result = TypeVar("Result")


def checked_address(base_url: str, *, allow_remote: bool) -> str:
    """Return the address without a slash at its end; BadConfig if it is none, or not on this machine without leave."""
    parts = urlsplit(base_url.strip())
    if parts.scheme not in ("http", "https") or not parts.hostname:
        shown = base_url.rpartition("@")[2][:80]  # never what stands before an @
        raise BadConfig(f"the server's address is {shown!r}; it takes one such as http://127.0.0.1:8000/v1.")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise BadConfig(
            "the server's address holds a user, a password or a query; give the address alone, and name"
            " the variable that holds the key with judge_key_env (--key-env)."
        )
    if not (is_local(parts.hostname) or allow_remote):
        raise BadConfig(
            f"the server at {parts.hostname} is not on this machine, and everything it is to read (questions,"
            " evidence, answers, papers) would be sent there; set judge_allow_remote (--allow-remote) if that"
            " is meant."
        )
    return base_url.strip().rstrip("/")


def is_local(host: str) -> bool:
    """Return whether a host name or address is this machine's own.

    >>> is_local("localhost"), is_local("127.0.0.1"), is_local("10.0.0.1"), is_local("a.localhost.org")
    (True, True, False, False)
    """
    try:
        return host.lower() in ("localhost", "ip6-localhost") or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def key_of(variable: str, base_url: str) -> str | None:
    """Return the key that a variable holds, if one is named; BadConfig if it is not set, or would go unencrypted."""
    if not variable:
        return None
    key = os.environ.get(variable, "").strip()
    if not key:
        raise BadConfig(
            f"the variable {variable} that is to hold the server's key (judge_key_env, --key-env) is not set;"
            " export it, or name none for a server without a key."
        )
    parts = urlsplit(base_url)
    if parts.scheme == "http" and not is_local(parts.hostname or ""):
        raise BadConfig(f"a key would be sent to {parts.hostname} without encryption; use an https address.")
    return key


@dataclass(frozen=True)
class Reply:
    """One answer of a model. `error` says why there is none; tokens are None where they are not known.

    `finish_reason` is the server's word, or "too long" of a text that was cut off at `MOST_CHARACTERS`.
    """

    text: str = ""
    finish_reason: str = "stop"
    tokens_read: int | None = None
    tokens_written: int | None = None
    error: str = ""


@dataclass(frozen=True)
class Constraint:
    """One way to hold replies to a form: its name, and what it adds to a request."""

    name: str
    fields: Mapping[str, Any]

    @classmethod
    def json_schema(cls, name: str, schema: Mapping[str, Any], **more: Any) -> "Constraint":
        """Return the constraint to a schema, as `response_format` takes it."""
        return cls(name, {**more, "response_format": {"type": "json_schema", "json_schema": schema}})


@dataclass
class Counts:
    """What happened on a line since the counts were last taken; `loose` replies came without the full constraint."""

    calls: int = 0
    retries: int = 0
    hits: int = 0
    loose: int = 0
    seconds: list[float] = field(default_factory=list)


class ChatClient:
    """Asks a server from any event loop; each loop closes its own connections.

    BadConfig for an address that is none, one on another machine without leave, or a key that is not set.
    `refused` is what the server refused and said of it, `served` the models that it says have answered, `denied` its
    last 401 or 403 in words.
    """

    def __init__(self, settings: ServerSettings) -> None:
        self.settings = settings
        self.address = checked_address(settings.base_url, allow_remote=settings.allow_remote)
        key_of(settings.key_variable, self.address)
        self.model = settings.model
        self.counts = Counts()
        self.refused: dict[str, str] = {}
        self.served: dict[str, None] = {}
        self.denied = ""
        self._levels: dict[str, int] = {}
        self._renamed: dict[str, str] = {}
        self._lines: WeakKeyDictionary[Any, tuple[aiohttp.ClientSession, asyncio.Semaphore]] = WeakKeyDictionary()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.settings,)

    async def find_model(self) -> str:
        """Return the model that is asked: the one that was named, else the only one that the server lists."""
        if self.model:
            return self.model
        address = f"{self.address}/models"
        try:
            async with self._line()[0].get(address, allow_redirects=False) as response:
                status, content = response.status, await _content(response)
            if status in DENIED:
                raise LabError(f"{self._denied(status, content)}.")
            names = [whole_characters(str(row["id"])) for row in json.loads(content)["data"]]
        except (aiohttp.ClientError, OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise LabError(
                f"{address} does not say which model it serves ({type(error).__name__}); start the server"
                " first, or name the model with judge_model (--model)."
            ) from None
        if len(names) != 1:
            raise BadConfig(
                f"the server lists {len(names)} models ({', '.join(names[:5])}); name one with judge_model (--model)."
            )
        self.model = names[0]
        return self.model

    async def unreachable(self, seconds: float = 3.0) -> str:
        """Return why the server gives nobody an answer within so long, "" where it does."""
        try:
            most, address = aiohttp.ClientTimeout(total=seconds), f"{self.address}/models"
            async with self._line()[0].get(address, allow_redirects=False, timeout=most) as response:
                is_wrong = response.status in DENIED or response.status >= 500
                return f"the server answered {response.status}" if is_wrong else ""
        except (aiohttp.ClientError, OSError) as error:
            return f"no reply ({type(error).__name__})"

    async def chat(
        self, compose: Callable[[], Messages], sampling: Mapping[str, Any], constraints: Sequence[Constraint]
    ) -> Reply:
        """Return the reply to a conversation, with an error if there is none after all tries.

        `compose` makes the messages once it is their turn, so requests that wait cost those under way
        nothing. `constraints` go from the strictest to the loosest that will do.
        """
        session, turn = self._line()
        reply, pause = Reply(), 0.0
        for attempt in range(self.settings.retries + 1):
            if attempt:
                self.counts.retries += 1
                longest = self.settings.backoff_seconds * 2 ** (attempt - 1)
                await asyncio.sleep(min(LONGEST_WAIT, max(pause, random.uniform(0.5 * longest, longest))))
            async with turn:
                if self.denied:
                    return _failed(self.denied)
                request = {"model": self.model, "messages": compose(), "n": 1, "stream": False, **sampling}
                reply, again = await self._once(session, request, constraints)
            if again is None:
                break
            pause = again
        return reply

    def form(self, constraints: Sequence[Constraint]) -> Constraint:
        """Return the strictest of these that the server has not refused by now."""
        return constraints[min(self._levels.get(constraints[0].name, 0), len(constraints) - 1)]

    async def close(self) -> None:
        """Let go of this loop's connections, and ask again where the server had denied access."""
        self.denied = ""
        line = self._lines.pop(asyncio.get_running_loop(), None)
        if line is not None:
            await line[0].close()

    def run(self, work: Awaitable[Result]) -> Result:
        """Return what some work gives, from code without an event loop; its connections are closed after it."""

        async def closing() -> Result:
            try:
                return await work
            finally:
                await self.close()

        return in_a_loop(closing())

    def take_counts(self) -> Counts:
        """Return what happened since this was last asked, and start anew."""
        taken, self.counts = self.counts, Counts()
        return taken

    async def _once(
        self, session: aiohttp.ClientSession, request: Mapping[str, Any], constraints: Sequence[Constraint]
    ) -> tuple[Reply, float | None]:
        """Return the reply, and the least pause in seconds after which another try may help; None = it is final."""
        started = time.monotonic()
        self.counts.calls += 1
        try:
            status, headers, content = await self._accepted(session, request, constraints)
        except TimeoutError:
            return _failed(f"no reply within {self.settings.timeout_seconds:g} s"), 0.0
        except (aiohttp.ClientError, OSError) as error:
            return _failed(f"no reply ({type(error).__name__})"), 0.0
        finally:
            self.counts.seconds.append(time.monotonic() - started)
        if status == 200 and len(content) > MOST_BYTES:
            return _failed(f"the reply is longer than {MOST_BYTES // 1_000_000} MB"), None
        if status == 200:
            reply = self._read(content)
            return reply, 0.0 if reply.error else None
        if status in DENIED:
            self.denied = self._denied(status, content)
            return _failed(self.denied), None
        pause = max(0.0, number_of(headers.get("Retry-After", "")) or 0.0)
        said = self._said(content)[:160]
        return _failed(f"the server answered {status}: {said}"), pause if status in RETRIED or status >= 500 else None

    async def _accepted(
        self, session: aiohttp.ClientSession, request: Mapping[str, Any], constraints: Sequence[Constraint]
    ) -> tuple[int, Mapping[str, str], bytes]:
        """Return status, headers and body of the reply in the strictest form that the server takes.

        It is asked in that form from now on, but only if that brought a reply: a prompt that is too long
        is refused in any form.
        """
        strictest, renamed = constraints[0].name, dict(self._renamed)
        level = list(constraints).index(self.form(constraints))
        refused: dict[str, str] = {}
        while True:
            fields = {**request, **constraints[level].fields}
            body = {renamed.get(name, name): value for name, value in fields.items()}
            body.pop("", None)
            address = f"{self.address}/chat/completions"
            async with session.post(address, json=body, allow_redirects=False) as response:
                status, headers, content = response.status, response.headers, await _content(response)
            if status not in REFUSED_FIELDS:
                break
            said = self._said(content)
            name = next((name for name in RENAMED if name in body and name in said), None)
            if name is not None:
                renamed[name] = RENAMED[name]
                refused[name] = said
            elif level + 1 < len(constraints):
                refused[f"the {constraints[level].name}"] = said
                level += 1
            else:
                break
        if status == 200:
            self._levels[strictest] = max(level, self._levels.get(strictest, 0))
            self._renamed |= renamed
            self.counts.loose += level > 0
            for name in refused.keys() - self.refused.keys():
                log.warning("the server refuses %s; it is asked without from now on", name)
            self.refused |= refused
        return status, headers, content

    def _read(self, content: bytes) -> Reply:
        try:
            document = json.loads(content)
            choice = document["choices"][0]
            message = choice["message"]
            text = message["content"]
        except (ValueError, KeyError, IndexError, TypeError, RecursionError):
            return _failed("the reply is not a chat completion")
        if text is None:  # cut off while the model was thinking
            thought = message.get("reasoning_content") or message.get("reasoning")
            text = f"<think>{thought}" if isinstance(thought, str) else None
        if not isinstance(text, str):
            return _failed("the reply holds no text")
        if isinstance(model := document.get("model"), str) and model.strip():
            self.served[whole_characters(" ".join(model.split())[:200])] = None
        usage = document.get("usage")
        tokens = [usage.get(f"{what}_tokens") if isinstance(usage, dict) else None for what in ("prompt", "completion")]
        read, written = (each if isinstance(each, int) and each >= 0 else None for each in tokens)
        reason = whole_characters(str(choice.get("finish_reason") or "unknown")[:40])
        if len(text) > MOST_CHARACTERS:
            text, reason = text[:MOST_CHARACTERS], "too long"
        return Reply(whole_characters(text), reason, read, written)

    def _denied(self, status: int, content: bytes) -> str:
        """Return in words that the server lets nobody in with this key, or with none."""
        variable = self.settings.key_variable
        advice = (
            f"look whether {variable} holds a key that may use this model"
            if variable
            else "name the variable that holds its key with judge_key_env (--key-env)"
        )
        return f"the server answered {status}: {self._said(content)[:160]}; {advice}"

    def _said(self, content: bytes) -> str:
        """Return what a server says of a refusal, on one line and without our key."""
        text = content.decode("utf-8", "replace")
        try:
            told = json.loads(text)
            told = told.get("error", told)
            text = str(told.get("message", told) if isinstance(told, dict) else told)
        except (ValueError, AttributeError, RecursionError):
            pass
        if key := key_of(self.settings.key_variable, self.address):
            text = text.replace(key, "***")
        return whole_characters(" ".join(text[:MOST_CHARACTERS].split())[:2000]) or "nothing"

    def _line(self) -> tuple[aiohttp.ClientSession, asyncio.Semaphore]:
        loop = asyncio.get_running_loop()
        if loop not in self._lines:
            key, at_once = key_of(self.settings.key_variable, self.address), self.settings.concurrency
            session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=at_once),
                timeout=aiohttp.ClientTimeout(total=self.settings.timeout_seconds),
                headers={"Authorization": f"Bearer {key}"} if key else {},
                cookie_jar=aiohttp.DummyCookieJar(),
                trust_env=False,
            )
            self._lines[loop] = session, asyncio.Semaphore(at_once)
        return self._lines[loop]


async def _content(response: aiohttp.ClientResponse) -> bytes:
    """Return the body of a reply, a little more than `MOST_BYTES` of it at most."""
    content = bytearray()
    async for block in response.content.iter_any():
        content += block
        if len(content) > MOST_BYTES:
            break
    return bytes(content)


def _failed(error: str) -> Reply:
    return Reply(finish_reason="error", error=error)


def in_a_loop(work: Coroutine[Any, Any, Result]) -> Result:
    """Return what a coroutine returns; in a thread of its own where a loop runs here already."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(lambda: asyncio.run(work)).result()


class ReplyCache:
    """Replies that were given before, as JSON in one SQLite file; opened on first use, safe for several processes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None

    def get(self, key: str) -> Any:
        """Return what is kept under a key; None if nothing is."""
        with self._lock:
            row = self._open().execute("SELECT verdicts FROM replies WHERE key = ?", (key,)).fetchone()
        return row and json.loads(row[0])

    def put(self, key: str, document: Mapping[str, object]) -> None:
        """Keep a whole reply; failures are never remembered."""
        text = json.dumps(document, ensure_ascii=False)
        with self._lock:
            self._open().execute("INSERT OR REPLACE INTO replies VALUES (?, ?)", (key, text))

    def close(self) -> None:
        """Let go of the file; the next use opens it again."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            connection = None
            try:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                connection = sqlite3.connect(self.path, timeout=30, check_same_thread=False, isolation_level=None)
                connection.execute("PRAGMA journal_mode=WAL")
                connection.execute("PRAGMA synchronous=NORMAL")
                connection.execute("CREATE TABLE IF NOT EXISTS replies (key TEXT PRIMARY KEY, verdicts TEXT NOT NULL)")
            except (sqlite3.Error, OSError) as error:
                if connection is not None:
                    connection.close()
                raise LabError(
                    f"the cache of verdicts {self.path} cannot be used ({error}); name another file, or"
                    " delete it: verdicts are asked for again."
                ) from error
            self._connection = connection
        return self._connection
