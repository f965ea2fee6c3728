"""The client of servers that speak OpenAI's chat completions: vLLM, llama.cpp, Ollama, a vendor's.

So many requests at a time, by the `openai` package, which tries again, after what Retry-After says or a growing and
jittered pause: no connection, a timeout, 408, 409, 429 and 5xx. After 401 or 403 nothing more is sent until the
connections are closed. A server that refuses the JSON schema or one of our fields is asked without; what then brings a
reply is kept to, and said. An error in a reply with status 200 counts as one with the status that it names. Redirects are not followed, proxies not used: what was meant for this machine stays on it.
The key goes into one header; of the environment variables that `openai` reads, none is sent.
"""

import asyncio
import ipaddress
import json
import logging
import math
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from typing import Any, TypeVar
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

import httpx2
import openai
from openai.types.chat import ChatCompletion

from evals.errors import BadConfig, LabError
from evals.refine.judge import number_of
from evals.schema.questions import TokenScore
from evals.wording import whole_characters
from training.judge.prompts import ServerSettings

REFUSED_FIELDS = (400, 404, 415, 422)
DENIED = (openai.AuthenticationError, openai.PermissionDeniedError)
FILTERED = "content_filter"
"""The word of servers for an answer that their filter withholds or cuts off: a finish reason, or the code of an error."""
MOST_BYTES = 64_000_000
"""Of a reply; a server that sends more is not read to the end."""
SENT = {"accept", "connection", "content-length", "content-type", "host", "user-agent"}
"""The headers of a request; what `openai` adds of this machine and of its own environment variables is not sent."""
MOST_CHARACTERS = 1_000_000
"""Of a reply's text, thoughts included; what comes behind is cut off."""
RENAMED = {"chat_template_kwargs": "", "repetition_penalty": "", "max_tokens": "max_completion_tokens"}
"""Fields that some servers refuse by name, and what they are sent as then; nothing = left out."""
LOOK_SECONDS = 0.1
"""How often what is under way is looked at that may be stopped."""
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
            " the variable that holds the key with judge_key_env (key_env in the file of --config, or ASSAY_JUDGE_KEY)."
        )
    if not (is_local(parts.hostname) or allow_remote):
        raise BadConfig(
            f"the server at {parts.hostname} is not on this machine, and everything it is to read (questions,"
            " evidence, answers, papers) would be sent there; set judge_allow_remote (--allow-remote, or"
            " allow_remote in the file of --config) if that is meant."
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
            f"the variable {variable} that is to hold the server's key (judge_key_env, key_env) is not set;"
            " export it, or name none for a server without a key."
        )
    parts = urlsplit(base_url)
    if parts.scheme == "http" and not is_local(parts.hostname or ""):
        raise BadConfig(f"a key would be sent to {parts.hostname} without encryption; use an https address.")
    return key


@dataclass(frozen=True)
class Reply:
    """One answer of a model. `error` says why there is none; tokens are None where they are not known.

    `finish_reason` is the server's word, "error" where there is none, or "too long" of a text that was cut off at
    `MOST_CHARACTERS`. With "content_filter" and an error the filter left nothing of the answer. `scores` are of its tokens,
    where `logprobs` were asked for and are told.
    """

    text: str = ""
    finish_reason: str = "stop"
    tokens_read: int | None = None
    tokens_written: int | None = None
    error: str = ""
    scores: tuple[TokenScore, ...] = field(default=(), kw_only=True)


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
        self._lines: WeakKeyDictionary[Any, tuple[openai.AsyncOpenAI, asyncio.Semaphore]] = WeakKeyDictionary()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.settings,)

    async def find_model(self) -> str:
        """Return the model that is asked: the one that was named, else the only one that the server lists."""
        if self.model:
            return self.model
        try:
            listed = await self._line()[0].with_options(max_retries=0).models.list()
            names = [whole_characters(str(model.id)) for model in listed.data if model.id]
        except DENIED as error:
            raise LabError(f"{self._denial(error)}.") from None
        except (openai.APIError, ValueError, AttributeError, TypeError, RecursionError) as error:
            raise LabError(
                f"{self.address}/models does not say which model it serves ({type(error).__name__}); start the server"
                " first, or name the model with judge_model (URL#MODEL)."
            ) from None
        if len(names) != 1:
            raise BadConfig(
                f"the server lists {len(names)} models ({', '.join(names[:5])}); name one with judge_model (URL#MODEL)."
            )
        self.model = names[0]
        return self.model

    async def chat(
        self, compose: Callable[[], Messages], sampling: Mapping[str, Any], constraints: Sequence[Constraint]
    ) -> Reply:
        """Return the reply to a conversation, with an error if there is none after all tries.

        `compose` makes the messages once it is their turn, so requests that wait cost those under way
        nothing. `constraints` go from the strictest to the loosest that will do.
        """
        client, turn = self._line()
        async with turn:
            if self.denied:
                return _failure(self.denied)
            started, seconds = time.monotonic(), self.settings.timeout_seconds
            request = {"model": self.model, "messages": compose(), "n": 1, "stream": False, **sampling}
            try:
                return self._read(await self._strictest_reply(client, request, constraints))
            except DENIED as error:
                self.denied = self._denial(error)
                return _failure(self.denied)
            except openai.APIStatusError as error:
                said = self._server_words(error.body)[:160]
                if _is_filtered(error):
                    return Reply(
                        finish_reason=FILTERED, error=f"the server's content filter refused the request: {said}"
                    )
                return _failure(f"the server answered {error.status_code}: {said}")
            except openai.APITimeoutError:
                return _failure(f"no reply within {seconds:g} s")
            except openai.APIConnectionError as error:
                return _failure(f"no reply ({type(error.__cause__).__name__})")
            except LabError as error:
                return _failure(str(error))
            except (ValueError, RecursionError):
                return _failure("the reply is not a chat completion")
            finally:
                self.counts.seconds.append(time.monotonic() - started)

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

    async def _strictest_reply(
        self, client: openai.AsyncOpenAI, request: Mapping[str, Any], constraints: Sequence[Constraint]
    ) -> ChatCompletion:
        """Return the reply in the strictest form that the server takes.

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
            try:
                reply = await client.post("/chat/completions", cast_to=ChatCompletion, body=body)
                break
            except openai.APIStatusError as error:
                said = self._server_words(error.body)
                name = next((name for name in RENAMED if name in body and name in said), None)
                is_final = error.status_code not in REFUSED_FIELDS or _is_filtered(error)
                if is_final or (name is None and level + 1 == len(constraints)):
                    raise
                if name is not None:
                    renamed[name] = RENAMED[name]
                    refused[name] = said
                else:
                    refused[f"the {constraints[level].name}"] = said
                    level += 1
        self._levels[strictest] = max(level, self._levels.get(strictest, 0))
        self._renamed |= renamed
        self.counts.loose += level > 0
        for name in refused.keys() - self.refused.keys():
            log.warning("the server refuses %s; it is asked without from now on", name)
        self.refused |= refused
        return reply

    def _read(self, document: ChatCompletion) -> Reply:
        """Return what a reply says; servers leave out fields, or fill them with what is none of OpenAI's types."""
        try:
            choice = document.choices[0]
            message, text = choice.message, choice.message.content
        except (AttributeError, LookupError, TypeError):
            return _failure("the reply is not a chat completion")
        if text is None:  # cut off while the model was thinking
            thought = getattr(message, "reasoning_content", None) or getattr(message, "reasoning", None)
            text = f"<think>{thought}" if isinstance(thought, str) else getattr(message, "refusal", None)
        reason = whole_characters(str(choice.finish_reason or "unknown")[:40])
        if reason == FILTERED and not (isinstance(text, str) and text.strip()):
            return Reply(finish_reason=FILTERED, error="the server's content filter withheld the answer")
        if not isinstance(text, str):
            return _failure("the reply holds no text")
        if model := " ".join(str(document.model or "").split()):
            self.served[whole_characters(model[:200])] = None
        tokens = [getattr(document.usage, name, None) for name in ("prompt_tokens", "completion_tokens")]
        read, written = (each if isinstance(each, int) and each >= 0 else None for each in tokens)
        if len(text) > MOST_CHARACTERS:
            text, reason = text[:MOST_CHARACTERS], "too long"
        return Reply(whole_characters(text), reason, read, written, scores=_scores(choice))

    def _denial(self, error: openai.APIStatusError) -> str:
        """Return in words that the server lets nobody in with this key, or with none."""
        variable = self.settings.key_variable
        advice = (
            f"look whether {variable} holds a key that may use this model"
            if variable
            else "name the variable that holds its key with judge_key_env (key_env in the file of --config, or ASSAY_JUDGE_KEY)"
        )
        return f"the server answered {error.status_code}: {self._server_words(error.body)[:160]}; {advice}"

    def _server_words(self, body: object) -> str:
        """Return what a server says of a refusal, on one line and without our key."""
        told = _error(body) or body
        text = str(told.get("message", told) if isinstance(told, dict) else told)
        if key := key_of(self.settings.key_variable, self.address):
            text = text.replace(key, "***")
        return whole_characters(" ".join(text[:MOST_CHARACTERS].split())[:2000]) or "nothing"

    def _status(self, document: object) -> int:
        """Return the status of a reply that came with 200: the one that an error in it names; LabError if it names none."""
        if (error := _error(document)) is None:
            return 200
        code = number_of(error.get("code") or error.get("status")) if isinstance(error, dict) else None
        if code is None or not 400 <= code < 600:
            raise LabError(f"the server answered 200 with an error: {self._server_words(document)[:160]}")
        return int(code)

    def _line(self) -> tuple[openai.AsyncOpenAI, asyncio.Semaphore]:
        loop = asyncio.get_running_loop()
        if loop not in self._lines:
            settings, key = self.settings, key_of(self.settings.key_variable, self.address)

            async def prepare(request: httpx2.Request) -> None:
                self.counts.calls += request.method == "POST"
                self.counts.retries += request.headers.get("x-stainless-retry-count", "0") != "0"
                for name in request.headers.keys() - (SENT | {"authorization"} if key else SENT):
                    del request.headers[name]

            async def bound(response: httpx2.Response) -> None:
                response.stream = BoundedStream(response.stream, settings.timeout_seconds)
                if response.status_code == 200 and response.request.method == "POST":
                    with suppress(ValueError, RecursionError):
                        response.status_code = self._status(json.loads(await response.aread()))

            client = openai.AsyncOpenAI(
                api_key=key or "none",
                base_url=self.address,
                timeout=settings.timeout_seconds,
                max_retries=settings.retries,
                default_headers={"Authorization": f"Bearer {key}"},
                http_client=httpx2.AsyncClient(
                    trust_env=False,
                    event_hooks={"request": [prepare], "response": [bound]},
                    limits=httpx2.Limits(max_connections=settings.concurrency),
                ),
            )
            self._lines[loop] = client, asyncio.Semaphore(settings.concurrency)
        return self._lines[loop]


class BoundedStream(httpx2.AsyncByteStream):
    """The body of a reply; LabError where it is longer than `MOST_BYTES`, a timeout where it takes longer than `seconds`."""

    def __init__(self, stream: Any, seconds: float) -> None:
        self._stream, self._until = stream, time.monotonic() + seconds

    async def __aiter__(self) -> AsyncIterator[bytes]:
        n_read = 0
        async for block in self._stream:
            n_read += len(block)
            if n_read > MOST_BYTES:
                raise LabError(f"the reply is longer than {MOST_BYTES // 1_000_000} MB")
            if time.monotonic() > self._until:
                raise httpx2.ReadTimeout("the reply does not end")
            yield block

    async def aclose(self) -> None:
        await self._stream.aclose()


def _scores(choice: Any) -> tuple[TokenScore, ...]:
    """Return the log-probabilities of a choice's tokens; none where it has none in OpenAI's shape."""
    try:
        return tuple(
            TokenScore(each.token, each.logprob, tuple((one.token, one.logprob) for one in each.top_logprobs or ()))
            for each in choice.logprobs.content
        )
    except (AttributeError, TypeError):
        return ()


def _error(document: object) -> object:
    """Return what a reply says went wrong: an error at its top, in place of it, or of its first choice; None if nothing."""
    if not isinstance(document, dict):
        return None
    choices = document.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}
    return document.get("error") or choice.get("error") or (document if document.get("object") == "error" else None)


def _is_filtered(error: openai.APIStatusError) -> bool:
    """Return whether a server's content filter refused a request: the code of its error says so (Azure, OpenAI)."""
    told = _error(error.body) or error.body
    return isinstance(told, dict) and FILTERED in (told.get("code"), told.get("type"))


def _failure(error: str) -> Reply:
    return Reply(finish_reason="error", error=error)


def in_a_loop(work: Coroutine[Any, Any, Result]) -> Result:
    """Return what a coroutine returns; in a thread of its own where a loop runs here already."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(lambda: asyncio.run(work)).result()


async def gather_until(
    work: Iterable[Coroutine[Any, Any, Result]],
    seconds: float = math.inf,
    is_over: Callable[[], bool] | None = None,
    tell: Callable[[int], None] | None = None,
) -> list[Result | None]:
    """Return what each piece of work returns, in order; None for what is not done after `seconds`, or when `is_over`.

    Each is begun while those before it wait, so what it takes to make one costs the others no time.
    The first error ends all the rest and is raised. `tell` hears how many are done.
    """
    ends_at = time.monotonic() + seconds
    tasks: list[asyncio.Task[Result]] = []
    number, done = count(1), set[asyncio.Task[Result]]()
    try:
        for each in work:
            tasks.append(asyncio.create_task(each))
            if tell is not None:
                tasks[-1].add_done_callback(lambda task: task.cancelled() or tell(next(number)))
            await asyncio.sleep(0)
        while len(done) < len(tasks) and not (is_over and is_over()):
            left = max(0.0, ends_at - time.monotonic())
            done, _ = await asyncio.wait(tasks, timeout=min(left, LOOK_SECONDS), return_when=asyncio.FIRST_EXCEPTION)
            if failed := [error for task in done if (error := task.exception()) is not None]:
                raise failed[0]
            if left <= LOOK_SECONDS:
                break
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return [task.result() if task in done else None for task in tasks]
