"""The line to a judge's server: so many requests at a time, retried where that can help.

Tried again, with a growing and jittered pause: no connection, a dropped one, a timeout, 408, 429 and
5xx. Not tried again: any other refusal. A server that does not know a way to force JSON, or our extra
fields, is asked without them from its first reply to such a request on, and the log says so; one that
refuses the plain request too, as one that is too long, is asked the next in full. Redirects are not
followed, proxies not used: what was meant for this machine stays on it. The key goes into the header
of the request and nowhere else.
"""

import asyncio
import hashlib
import ipaddress
import json
import logging
import os
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

import aiohttp

from evals.errors import BadConfig, LabError
from evals.refine.judge import Inquiry, Verdicts
from training.judge.cache import VerdictCache
from training.judge.questions import (
    CANARY,
    SCHEMA,
    Fences,
    HttpSettings,
    Question,
    Verdict,
    citation_questions,
    fingerprint,
    messages,
    names_of,
    read_reply,
    rubric_questions,
)
from training.judge.votes import FIRST, Ballot, apart, is_open

LOCAL_NAMES = ("localhost", "ip6-localhost")


def checked_address(base_url: str, *, allow_remote: bool) -> str:
    """Return the address without a slash at its end; BadConfig if it is none, or not on this machine.

    A remote host needs `allow_remote`: the questions, evidence and answers are sent to it.
    """
    parts = urlsplit(base_url.strip())
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise BadConfig(
            f"the server's address is {_public(base_url)!r}; it takes one such as http://127.0.0.1:8000/v1."
        )
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
    if host.lower() in LOCAL_NAMES:
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def key_of(variable: str, base_url: str, environment: Mapping[str, str] | None = None) -> str | None:
    """Return the key that an environment variable holds; None if no variable is named.

    BadConfig if it is not set, or if a key would go to another machine without encryption. The key
    itself is in no message.
    """
    if not variable:
        return None
    key = (os.environ if environment is None else environment).get(variable, "").strip()
    if not key:
        raise BadConfig(
            f"the variable {variable} that is to hold the server's key (judge_key_env, --key-env) is not set;"
            " export it, or name none for a server without a key."
        )
    parts = urlsplit(base_url)
    if parts.scheme == "http" and not is_local(parts.hostname or ""):
        raise BadConfig(f"a key would be sent to {parts.hostname} without encryption; use an https address.")
    return key


def _public(address: str) -> str:
    """Return an address as a message may show it: without what stands before an @."""
    return address.rpartition("@")[2][:80]


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
                f"the judge's server lists {len(names)} models ({', '.join(names[:5])}); name one with judge_model."
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

    async def _once(self, request: Mapping[str, Any], schema: Mapping[str, Any]) -> tuple[str | None, str, bool]:
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


TRIES = 2
"""A reply, and one more for what it left out."""


class HttpJudge:
    """Asks a server; what it does not answer clearly is a missing verdict.

    BadConfig for an address that is none, one on another machine without leave, or a key that is not
    set. `counts` say what happened on the line.
    """

    def __init__(self, settings: HttpSettings) -> None:
        self.settings = settings
        self._address = checked_address(settings.base_url, allow_remote=settings.allow_remote)
        key_of(settings.key_variable, self._address)
        self._start()

    def _start(self) -> None:
        self.counts = Counts()
        self._model = self.settings.model
        self._cache = VerdictCache(self.settings.cache) if self.settings.cache else None
        self._fences = Fences()
        self._lines: WeakKeyDictionary[asyncio.AbstractEventLoop, Line] = WeakKeyDictionary()

    def __getstate__(self) -> dict[str, object]:
        return {"settings": self.settings, "_address": self._address}

    def __setstate__(self, state: Mapping[str, object]) -> None:
        self.__dict__.update(state)
        self._start()

    @property
    def label(self) -> str:
        """The model's name and that it is asked over HTTP; never the address or the key."""
        return f"http ({self._model or 'the model that the server lists'})"

    async def judge(self, inquiry: Inquiry) -> Verdicts:
        """Return the verdicts on one answer; none of them is a guess."""
        if not self._model:
            self._model = await self._line().model()
        groups = self._groups(inquiry)
        votes = self.settings.votes
        ballot = await self._voted(inquiry, groups, range(min(votes, FIRST)))
        if votes > FIRST:
            still = [
                tuple(each for each in group if each.key == CANARY or is_open(ballot.of(each.key))) for group in groups
            ]
            ballot += await self._voted(inquiry, [group for group in still if len(group) > 1], range(FIRST, votes))
        return _verdicts(inquiry, ballot)

    def _groups(self, inquiry: Inquiry) -> list[tuple[Question, ...]]:
        """Return what is asked together, a canary at the end of each."""
        rubric, citations = rubric_questions(inquiry), citation_questions(inquiry)
        groups: list[tuple[Question, ...]] = [rubric]
        if self.settings.mode == "per_item":
            groups = [(each, rubric[-1]) for each in rubric[:-1]]
        return [*groups, citations] if citations else groups

    async def _voted(self, inquiry: Inquiry, groups: Sequence[tuple[Question, ...]], votes: Sequence[int]) -> Ballot:
        """Return what came of some votes on each group."""
        pairs = [(group, vote) for group in groups for vote in votes]
        done = await asyncio.gather(*(self._asked(inquiry, *pair) for pair in pairs))
        ballot = Ballot()
        for (group, _), (verdicts, problem) in zip(pairs, done, strict=True):
            ballot.add(group, verdicts, problem)
        return ballot

    def write_cache(self) -> None:
        """Put the verdicts that were given into the cache's file, if there is one."""
        if self._cache is not None:
            self._cache.write()

    async def close(self) -> None:
        """Let go of this loop's connections and of the cache."""
        line = self._lines.pop(asyncio.get_running_loop(), None)
        if line is not None:
            await line.close()
        if self._cache is not None:
            self._cache.close()

    def take_counts(self) -> Counts:
        """Return what happened since this was last asked, and start anew."""
        taken, self.counts = self.counts, Counts()
        for line in self._lines.values():
            line.counts = self.counts
        return taken

    async def _asked(
        self, inquiry: Inquiry, questions: tuple[Question, ...], vote: int
    ) -> tuple[dict[str, Verdict], str]:
        """Return the verdicts on some questions by key, and what went wrong.

        A judge that says yes to the canary was talked into it: then all its verdicts are void.
        """
        key = self._key(inquiry, questions, vote) if self._cache else ""
        kept = self._cache.get(key) if self._cache else None
        if kept is not None:
            self.counts.hits += 1
            return kept, ""
        found: dict[str, Verdict] = {}
        problem = ""
        for attempt in range(TRIES):
            wanted = tuple(each for each in questions if each.key not in found or each.key == CANARY)
            if attempt:
                self.counts.reasked += 1
            try:
                found |= await self._reply(inquiry, wanted, vote)
            except JudgeFailure as failure:
                return {}, str(failure)
            if CANARY in found and found[CANARY].score > 0:
                found, problem = {}, "the judge said yes to what no answer can show"
                continue
            if len(found) == len(questions):
                if self._cache:
                    self._cache.put(key, found)
                return found, ""
        if problem and not found:
            return {CANARY: Verdict(questions[-1].top, "")}, problem
        left = len(questions) - len(found)
        return found, problem or f"{left} of {len(questions)} verdicts are missing from the reply"

    async def _reply(self, inquiry: Inquiry, wanted: tuple[Question, ...], vote: int) -> dict[str, Verdict]:
        names = names_of(inquiry, wanted, vote)
        text = await self._line().ask(self._model, lambda: messages(inquiry, names, self._fences), vote)
        return read_reply(text, names, inquiry.answer)

    def _line(self) -> Line:
        loop = asyncio.get_running_loop()
        if loop not in self._lines:
            key = key_of(self.settings.key_variable, self._address)
            self._lines[loop] = Line(self.settings, key, self.counts)
        return self._lines[loop]

    def _key(self, inquiry: Inquiry, questions: tuple[Question, ...], vote: int) -> str:
        told = f"{self._model}\n{self.settings.seed}\n{self.settings.mode}\n{self.settings.max_tokens}"
        asked = fingerprint(inquiry, questions) + (f" vote {vote}" if vote else "")
        return hashlib.sha256(f"{told}\n{asked}".encode()).hexdigest()


def _verdicts(inquiry: Inquiry, ballot: Ballot) -> Verdicts:
    """Return what stands, in the order of the inquiry."""
    found = ballot.standing()

    def score(key: str) -> float | None:
        return found[key].score if key in found else None

    items = [f"item {place}" for place in range(len(inquiry.items))]
    return Verdicts(
        raws=tuple(score(key) for key in items),
        quotes=tuple(found[key].quote if key in found else "" for key in items),
        support=tuple(score(f"support {place}") for place in range(len(inquiry.claims))),
        relevance=tuple(
            tuple(score(f"relevance {place} {name}") for name in ids) for place, ids in enumerate(inquiry.cited)
        ),
        needs=tuple(score(f"need {place}") for place in range(len(inquiry.uncited))),
        canary=max((vote.score for vote in ballot.of(CANARY)), default=None),
        apart=tuple(apart(ballot.of(key), inquiry.scale) for key in items) if ballot.has_several else (),
        problems=tuple(dict.fromkeys(ballot.problems)),
    )
