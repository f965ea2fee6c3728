"""An engine behind any server that speaks OpenAI's chat completions: vLLM, llama.cpp, Ollama, a vendor's.

Answers are held to the JSON schema in the strictest way that the server accepts, from `HELD` down; what
it came to stands in the run's record, and `constrain` always stops where it would be nothing. A request
is tried again where that can help: no connection, a timeout, 408, 429, 5xx. Redirects are not followed
and proxies not used, so what is meant for this machine stays on it; the key goes into one header.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import httpx2

from evals.errors import BadConfig, LabError
from evals.review.prompt import array_schema, object_schema, prompt_sha256, system_prompt
from evals.schema.reviewruns import EngineRecord
from training.judge.client import checked_address, key_of
from training.reviewer.engine import Asking, Reply, Room

RETRIED = (408, 409, 425, 429)
REFUSED_FIELDS = (400, 404, 415, 422)
LONGEST_WAIT = 30.0
RENAMED = {"repetition_penalty": "", "max_tokens": "max_completion_tokens"}
"""Fields that some servers refuse, and what they are sent as then; nothing = left out."""
NONE = "none"
ABOUT_FORM = ("response_format", "schema", "json", "grammar", "guided")
"""Words of a refusal that is about the form; a prompt that is too long is refused in any form."""


@dataclass(frozen=True)
class Held:
    """One way to hold answers to the form, and what it adds to a request."""

    name: str
    fields: Mapping[str, Any]


def _schema_of(schema: Mapping[str, object]) -> dict[str, Any]:
    named = {"name": "concerns", "strict": True, "schema": schema}
    return {"response_format": {"type": "json_schema", "json_schema": named}}


HELD = (
    Held("array schema", _schema_of(array_schema())),
    Held("object schema", _schema_of(object_schema())),
    Held(NONE, {}),
)
"""From the form that replies are taught in to nothing; some servers take only an object at the top."""


@dataclass(frozen=True)
class ServerSettings:
    """Where the server is. `model` empty = the one it lists. `context` is what the model reads, tokens."""

    url: str
    model: str = ""
    key_variable: str = ""
    allow_remote: bool = False
    timeout_seconds: float = 600.0
    retries: int = 3
    backoff_seconds: float = 1.0


class ServerEngine:
    """Asks a server, each batch at once.

    BadConfig for an address that is none or not on this machine without leave; LabError if the server
    does not say which model it serves. Close it after use.
    """

    def __init__(
        self,
        settings: ServerSettings,
        asking: Asking,
        room: Room,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self.room = room
        self._settings, self._asking, self._pause = settings, asking, pause
        self._address = checked_address(settings.url, allow_remote=settings.allow_remote)
        key = key_of(settings.key_variable, self._address)
        self._client = httpx2.Client(
            timeout=settings.timeout_seconds,
            trust_env=False,
            headers={"Authorization": f"Bearer {key}"} if key else {},
        )
        self._level = len(HELD) - 1 if asking.constrain == "never" else 0
        self._renamed: dict[str, str] = {}
        self._refusals: list[str] = []
        self._served: dict[str, None] = {}
        self.model = settings.model or self._listed()

    def close(self) -> None:
        """Let go of the connections."""
        self._client.close()

    def record(self) -> EngineRecord:
        """Return host and model, what has answered and how it is held by now; never a path or the key."""
        return EngineRecord(
            kind="server",
            name=self.model,
            host=urlsplit(self._address).hostname or "",
            served=tuple(self._served),
            tokenizer=self.room.counter.name,
            constraint=HELD[self._level].name,
            prompt_sha256=prompt_sha256(),
            substitutions=tuple(self._refusals),
        )

    def answer(self, requests: Sequence[str]) -> list[Reply]:
        """Return one reply per request, in order, all asked at the same time."""
        with ThreadPoolExecutor(max(1, len(requests))) as pool:
            return list(pool.map(self._reply, requests))

    def _reply(self, request: str) -> Reply:
        problem = ""
        for attempt in range(self._settings.retries + 1):
            if attempt:
                self._pause(min(LONGEST_WAIT, self._settings.backoff_seconds * 2 ** (attempt - 1)))
            try:
                response = self._accepted(request)
            except httpx2.TimeoutException:
                problem = f"no reply within {self._settings.timeout_seconds:g} s"
                continue
            except httpx2.HTTPError as error:
                problem = f"no reply ({type(error).__name__})"
                continue
            if response.status_code == 200:
                reply = _read(response)
                if not reply.error:
                    self._served |= dict.fromkeys(_served(response))
                    return reply
                problem = reply.error
            else:
                problem = f"the server answered {response.status_code}: {_said(response)}"
                if response.status_code < 500 and response.status_code not in RETRIED:
                    break
        return Reply(finish_reason="error", error=problem)

    def _accepted(self, request: str) -> httpx2.Response:
        """Return the response in the strictest form that the server takes."""
        while True:
            level, renamed = self._level, self._renamed
            body = {**self._body(request), **HELD[level].fields}
            body = {renamed.get(name, name): value for name, value in body.items()}
            body.pop("", None)
            response = self._client.post(f"{self._address}/chat/completions", json=body)
            if response.status_code not in REFUSED_FIELDS:
                return response
            said = _said(response)
            field = next((name for name in RENAMED if name in said and name in body), None)
            if field is not None:
                self._rename(field, said)
            elif level + 1 < len(HELD) and any(word in said.lower() for word in ABOUT_FORM):
                self._loosen(level, said)
            else:
                return response

    def _rename(self, field: str, said: str) -> None:
        if field not in self._renamed:
            self._renamed = {**self._renamed, field: RENAMED[field]}
            now = f"sent as {RENAMED[field]}" if RENAMED[field] else "left out"
            self._refusals.append(f"{field} is {now}: {said}")

    def _loosen(self, level: int, said: str) -> None:
        if level + 2 == len(HELD) and self._asking.constrain == "always":
            raise LabError(
                f"the server holds answers to no JSON schema ({said}), and constrain is always; use constrain"
                " auto to ask it all the same."
            )
        if self._level == level:
            self._level = level + 1
            self._refusals.append(f"the server refuses the {HELD[level].name}: {said}")

    def _body(self, request: str) -> dict[str, Any]:
        """Return a request with every sampling field: servers have defaults of their own."""
        asking = self._asking
        body: dict[str, Any] = {
            "model": self.model,
            "messages": [
                {"role": "system", "content": system_prompt()},
                {"role": "user", "content": request},
            ],
            "temperature": asking.temperature,
            "top_p": asking.top_p,
            "seed": asking.seed,
            "max_tokens": asking.max_new_tokens,
            "n": 1,
            "stream": False,
        }
        if asking.repetition_penalty != 1.0:
            body["repetition_penalty"] = asking.repetition_penalty
        return body

    def _listed(self) -> str:
        address = f"{self._address}/models"
        try:
            names = [str(row["id"]) for row in self._client.get(address).json()["data"]]
        except (httpx2.HTTPError, ValueError, KeyError, TypeError) as error:
            raise LabError(
                f"{address} does not say which model it serves ({type(error).__name__}); start the server"
                " first, or name the model with --model."
            ) from None
        if len(names) != 1:
            raise BadConfig(f"the server lists {len(names)} models ({', '.join(names[:5])}); name one with --model.")
        return names[0]


def _read(response: httpx2.Response) -> Reply:
    """Return the reply in a response; one without text has an error."""
    try:
        document = response.json()
        choice = document["choices"][0]
        text = choice["message"]["content"]
        if text is None:
            text = _thought(choice["message"])
    except (ValueError, KeyError, IndexError, TypeError):
        return Reply(finish_reason="error", error="the reply is not a chat completion")
    if not isinstance(text, str):
        return Reply(finish_reason="error", error="the reply holds no text")
    usage = document.get("usage") or {}
    return Reply(
        text,
        str(choice.get("finish_reason") or "unknown"),
        _count(usage.get("prompt_tokens")),
        _count(usage.get("completion_tokens")),
    )


def _thought(message: Mapping[str, Any]) -> str | None:
    """Return the reasoning of a reply that was cut off before its answer began, as a model writes it."""
    found = message.get("reasoning_content") or message.get("reasoning")
    return f"<think>{found}" if isinstance(found, str) else None


def _served(response: httpx2.Response) -> tuple[str, ...]:
    """Return the model that a server says has answered: often a dated one behind a name that moves."""
    model = response.json().get("model")
    return (" ".join(model.split())[:200],) if isinstance(model, str) and model.strip() else ()


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and value >= 0 else None


def _said(response: httpx2.Response) -> str:
    """Return what a server says of a refusal, in a line."""
    try:
        document = response.json()
        told = document.get("error", document)
        text = str(told.get("message", told) if isinstance(told, dict) else told)
    except (ValueError, AttributeError):
        text = response.text
    return " ".join(text.split())[:160] or "nothing"


class Estimate:
    """Counts tokens of a model whose tokenizer is not here: one for every three characters, too many."""

    name = "estimated, a token for three characters"

    def ends(self, text: str) -> Sequence[int]:
        """Return where each token is taken to end."""
        return [*range(3, len(text), 3), len(text)] if text else ()

    def chat(self, messages: Sequence[Mapping[str, str]]) -> int:
        """Return the tokens of a conversation, eight for the marks of a turn."""
        return sum(8 + len(self.ends(each["content"])) for each in messages)
