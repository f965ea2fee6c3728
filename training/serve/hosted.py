"""Models behind OpenAI-compatible servers, each a stage of its own beside those of a chain.

    with_hosted(load_chain("embedded"), ["gpt=https://api.openai.com/v1#gpt-4.1-mini"]).stages

They are asked the same conversation, system prompt included. A budget is never exceeded: before a request, the most
that it may take is set aside.
"""

import asyncio
import hashlib
import queue
import re
import threading
import time
import tomllib
from collections.abc import Coroutine, Iterator, Sequence
from copy import copy
from os import environ
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field, ValidationError

from evals.errors import BadConfig, LabError, first_problem
from evals.schema import Completion, Message, Record
from evals.schema.questions import Sampling, TokenScore
from evals.verifiers.line import LastAnswer, last_answer
from training.judge.client import ChatClient, Constraint, Reply, gather_until
from training.judge.prompts import ServerSettings
from training.models.generation import FinishReason, Piece

if TYPE_CHECKING:
    from training.models.chain import LoadedChain

NAMED = re.compile(r"(?P<name>[\w.-]+)=(?P<url>https?://[^#\s]+)(?:#(?P<model>\S+))?")
SILENT_SECONDS = 60.0
AS_IT_IS = (Constraint("none", {}),)
TOLD = tuple(Constraint(f"top_logprobs of {n}", {"logprobs": True, "top_logprobs": n}) for n in (20, 5))
SCORED = (*TOLD, *AS_IT_IS)


class HostedModel(Record):
    """A server's model, how patiently it is asked, and what a process may spend on it (None = no limit)."""

    url: str
    model: str = ""
    key_variable: str = ""
    retries: int = Field(default=3, ge=0)
    timeout_seconds: float = Field(default=120, gt=0)
    concurrency: int = Field(default=8, ge=1)
    dollars_per_million_read: float = Field(default=0, ge=0)
    dollars_per_million_written: float = Field(default=0, ge=0)
    max_tokens: int | None = Field(default=None, ge=1)
    max_dollars: float | None = Field(default=None, gt=0)

    def cost(self, n_read: int, n_written: int) -> float:
        """Dollars for so many tokens."""
        return (n_read * self.dollars_per_million_read + n_written * self.dollars_per_million_written) / 1e6


def read_hosted(given: Sequence[str]) -> dict[str, HostedModel]:
    """Return the models of NAME=URL#MODEL and of TOML files with a table per name; BadConfig for anything else.

    Without `key_variable`, the key is in ASSAY_KEY_NAME where that is set.
    """
    tables: dict[str, Any] = {}
    for each in given:
        if found := NAMED.fullmatch(each):
            tables[found["name"]] = {"url": found["url"], "model": found["model"] or ""}
            continue
        try:
            tables |= tomllib.loads(Path(each).expanduser().read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise BadConfig(
                f"{each!r} is no hosted model ({error}); give NAME=URL#MODEL, such as"
                " gpt=https://api.openai.com/v1#gpt-4.1-mini, or a TOML file with a table per name."
            ) from None
    models = {}
    for name, table in tables.items():
        try:
            model = HostedModel.model_validate(table)
        except ValidationError as error:
            field, problem, _ = first_problem(error)
            takes = ", ".join(HostedModel.model_fields)
            raise BadConfig(f"{f'{name}.{field}'.strip('.')}: {problem}; a hosted model takes {takes}.") from None
        if model.max_dollars and not model.cost(1, 1):
            raise BadConfig(f"{name}.max_dollars needs dollars_per_million_read and dollars_per_million_written.")
        variable = f"ASSAY_KEY_{re.sub(r'[^A-Z0-9]', '_', name.upper())}"
        usual = variable if environ.get(variable) else ""
        models[name] = model.model_copy(update={"key_variable": model.key_variable or usual})
    return models


class Hosted:
    """A model that is asked, and what was spent on it; a scored one tells how likely its greedy answers were."""

    def __init__(self, name: str, model: HostedModel, *, is_scored: bool = False) -> None:
        self.name, self.model, self.is_scored = name, model, is_scored
        self._scores: dict[tuple[tuple[Message, ...], str], Sequence[TokenScore]] = {}
        settings = ServerSettings(
            model.url, model.model, model.key_variable, True, model.concurrency, model.timeout_seconds, model.retries
        )
        self.client = ChatClient(settings)
        self.n_read = self.n_written = 0
        self.dollars = self.silent_until = 0.0
        self._aside = (0, 0.0)
        self._lock = threading.Lock()

    @property
    def is_silent(self) -> bool:
        """Whether it gave no answer when it was asked last, not long ago."""
        return time.monotonic() < self.silent_until

    @property
    def spending(self) -> str:
        """What was spent, in words."""
        cost = f", ${self.dollars:.4f}" if self.model.cost(1, 1) else ""
        return f"{self.name} ({self.client.model}): {self.n_read:,} tokens read, {self.n_written:,} written{cost}"

    async def ask(
        self, prompt: Sequence[Message], sampling: Sampling, form: Sequence[Constraint] = AS_IT_IS
    ) -> tuple[Completion, str, Sequence[TokenScore]]:
        """Return the answer, what it cost, in words, and its tokens where `form` asks for them.

        LabError without an answer, or where the budget is used up.
        """
        most = (
            sum(8 + len(each.content.encode()) for each in prompt),
            sampling.max_new_tokens,
        )  # a byte a token at most
        n, dollars = sum(most), self.model.cost(*most)
        with self._lock:
            held = (self.n_read + self.n_written + self._aside[0] + n, self.dollars + self._aside[1] + dollars)
            limits = (self.model.max_tokens, self.model.max_dollars)
            if any(limit is not None and each > limit for each, limit in zip(held, limits, strict=True)):
                raise LabError(
                    f"the budget for {self.name} is used up ({self.spending}); raise max_tokens or max_dollars."
                )
            self._aside = (self._aside[0] + n, self._aside[1] + dollars)
        reply = Reply(error="not asked")
        try:
            await self.client.find_model()
            asked = {"temperature": sampling.temperature, "max_tokens": sampling.max_new_tokens}
            drawn = {"top_p": sampling.top_p, "seed": sampling.seed} if sampling.temperature > 0 else {}
            reply = await self.client.chat(lambda: [each.model_dump() for each in prompt], asked | drawn, form)
        finally:
            with self._lock:
                self._aside = (self._aside[0] - n, self._aside[1] - dollars)
                n_read, n_written = (reply.tokens_read, reply.tokens_written) if not reply.error else (0, 0)
                n_read, n_written = (most[0] if n_read is None else n_read, most[1] if n_written is None else n_written)
                self.n_read, self.n_written = self.n_read + n_read, self.n_written + n_written
                self.dollars += (cost := self.model.cost(n_read, n_written))
        self.silent_until = time.monotonic() + SILENT_SECONDS if reply.error else 0.0
        if reply.error:
            raise LabError(f"{self.name} gave no answer: {reply.error}.")
        reason: FinishReason = "length" if reply.finish_reason in ("length", "too long") else "stop"
        answer = Completion(stage=self.name, text=reply.text, n_tokens=n_written, finish_reason=reason)
        return answer, f"${cost:.4f}" if self.model.cost(1, 1) else "", reply.scores

    def ask_all(self, prompts: Sequence[Sequence[Message]], sampling: Sampling) -> Iterator[Completion]:
        """Yield the answers to prompts that are asked together; LabError for the first that failed, or has no scores to keep."""
        form = SCORED if self.is_scored and not sampling.temperature else AS_IT_IS

        async def all_of() -> list[tuple[Completion, str, Sequence[TokenScore]] | BaseException]:
            asked = (self.ask(each, sampling, form) for each in prompts)
            return await asyncio.gather(*asked, return_exceptions=True)  # what was sent is paid for: it is counted

        for prompt, given in zip(prompts, self.client.run(all_of()), strict=True):
            if isinstance(given, BaseException):
                raise given
            answer, _, scores = given
            if form is SCORED and answer.text.strip():
                self._scores[tuple(prompt), answer.text] = self._behind(last_answer(answer.text), scores)
            yield answer

    def _behind(self, line: LastAnswer | None, scores: Sequence[TokenScore]) -> Sequence[TokenScore]:
        """Return the tokens behind the last "Answer:" of an answer with this line, none where they do not spell it.

        LabError for a server that tells none, or has spelled none of its answers by now.
        """
        spelled = "".join(each.text for each in scores)
        if not any(each.top for each in scores):
            refused = self.client.refused.get(f"the {TOLD[-1].name}", "")
            told = "of other tokens beside those it writes (top_logprobs)" if scores else "(logprobs)"
            told += f" and says {refused[:160]!r}" if refused else ""
        elif line is not None and (found := last_answer(spelled)) and found.text == line.text:
            return behind_answer(scores)
        elif line is None or any(self._scores.values()):
            return ()
        else:
            told = f"of what it writes: its tokens spell {spelled[-80:]!r}, its answer line says {line.text!r}"
        raise LabError(
            f"{self.name} ({self.client.model}) tells no log-probabilities {told}; leave likelihood out of --confidence, or"
            " name a server that tells them, such as vLLM, llama.cpp or OpenAI."
        )

    def token_scores(
        self, prompts: Sequence[Sequence[Message]], texts: Sequence[str], sampling: Sampling
    ) -> list[Sequence[TokenScore]]:
        """Return the tokens behind the last "Answer:" of texts that it answered before, and what may follow them.

        Where they are not known, it is asked again; there are none where it answers otherwise now. LabError for a server
        that tells no log-probabilities.
        """
        self.is_scored = True
        asked = [(tuple(prompt), text) for prompt, text in zip(prompts, texts, strict=True)]
        for _ in self.ask_all([prompt for prompt, text in asked if (prompt, text) not in self._scores], sampling):
            pass
        return [self._scores.get(each, ()) for each in asked]


def behind_answer(scores: Sequence[TokenScore]) -> Sequence[TokenScore]:
    """Return the tokens behind the last "Answer:" of an answer and the one that follows them, none without an answer line."""
    if (line := last_answer("".join(each.text for each in scores))) is None:
        return ()
    found, place = [], 0
    for each in scores:
        begins, place = place, place + len(each.text)
        found += [each] if place > line.at else []
        if begins >= line.end:
            return found
    return [*found, TokenScore("", 0.0, ())]


class HostedModels(dict[str, Hosted]):
    """The stages of a chain that servers answer, by name."""

    def complete(
        self,
        rows: Sequence[Sequence[Completion]],
        prompts: Sequence[Sequence[Message]],
        stages: Sequence[str],
        sampling: Sampling,
    ) -> list[list[Completion]]:
        """Return a chain's own answers with those of the servers among them, in the order of `stages`.

        LabError where a server gives none.
        """
        found = [{each.stage: each for each in row} for row in rows]
        for hosted in (self[stage] for stage in stages if stage in self):
            for row, answer in zip(found, hosted.ask_all(prompts, sampling), strict=True):
                row[hosted.name] = answer
        return [[row[stage] for stage in stages] for row in found]

    def stream(
        self,
        here: Iterator[Piece],
        prompt: Sequence[Message],
        stages: Sequence[str],
        sampling: Sampling,
        stop: threading.Event,
    ) -> Iterator[Piece]:
        """Yield a chain's own pieces and, as they come, one piece of each server, whose note says its cost or its problem."""
        found: queue.SimpleQueue[Piece] = queue.SimpleQueue()
        left = threading.Event()

        async def ask(hosted: Hosted) -> Piece:
            asking = [hosted.ask(prompt, sampling)]
            try:
                (given,) = await gather_until(asking, is_over=lambda: stop.is_set() or left.is_set())
            except LabError as error:
                return Piece(hosted.name, "", "cancelled", 0, str(error))
            if given is None:
                return Piece(hosted.name, "", "cancelled", 0)
            answer, cost, _ = given
            return Piece(hosted.name, answer.text, answer.finish_reason, answer.n_tokens, cost)

        def work(hosted: Hosted, asking: Coroutine[Any, Any, Piece]) -> None:
            try:
                found.put(hosted.client.run(asking))
            except Exception as error:
                found.put(Piece(hosted.name, "", "cancelled", 0, f"{type(error).__name__}: {error}"))

        asked = [self[stage] for stage in stages if stage in self]
        for hosted in asked:
            threading.Thread(target=work, args=(hosted, ask(hosted)), name="hosted", daemon=True).start()
        n_open = len(asked)
        try:
            for piece in here:
                yield piece
                while not found.empty():
                    n_open -= 1
                    yield found.get()
            for _ in range(n_open):
                yield found.get()
        finally:
            left.set()


def with_hosted(chain: "LoadedChain", given: Sequence[str], *, is_scored: bool = False) -> "LoadedChain":
    """Return a chain that answers with these models too; the chain itself where none is named.

    A scored one is asked for the log-probabilities with its answers (`Hosted.token_scores`).
    """
    if not (models := read_hosted(given)):
        return chain
    if taken := set(models) & set(chain.stages):
        raise BadConfig(f"the chain has a stage {sorted(taken)[0]!r} itself; give the hosted model another name.")
    both = copy(chain)
    both.hosted = HostedModels({name: Hosted(name, model, is_scored=is_scored) for name, model in models.items()})
    both.stages = (*chain.stages, *models)
    asked = {name: hashlib.sha256(f"{each.url}#{each.model}".encode()).hexdigest() for name, each in models.items()}
    both.stage_checksums = {**chain.stage_checksums, **asked}
    return both
