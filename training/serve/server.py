"""An OpenAI-compatible server over a chain: `model` is a stage, and every request joins one running batch.

    uvicorn.run(ChainServer(load_chain("embedded"), keys=("secret",)).app())

Chat completions, streamed or whole, with stop, logprobs, seed, n, JSON schemas and usage, in the types of the `openai`
package. What would change the answer and is not there (`refused_fields.toml`) is refused, not ignored.
"""

import asyncio
import json
import secrets
import time
import tomllib
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from typing import Annotated, Any, Literal
from uuid import uuid4

from openai.types import CompletionUsage, Model, chat, shared
from openai.types.chat.completion_create_params import CompletionCreateParamsBase
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from evals.errors import LabError, first_problem
from evals.schema import Message
from evals.schema.questions import Sampling
from training.models.batching import Batcher, Busy, Generation, GenerationRequest
from training.models.chain import LoadedChain
from training.models.generation import UNFINISHED, LongPrompt, Piece
from training.serve import OwnHosts

HARMLESS: tuple[object, ...] = (None, False, 0, "", [], {}, {"type": "text"})
FIELDS = tomllib.loads(files("training.serve").joinpath("refused_fields.toml").read_text(encoding="utf-8"))
KNOWN = set(CompletionCreateParamsBase.__annotations__) - set(FIELDS["ignored"])
REFUSED: dict[str, list[object]] = {name: [] for name in KNOWN} | FIELDS["unchanged"]
"""The values of each field that change nothing; a request's own fields are looked up before."""
STATUS = {Busy: (429, "rate_limit_exceeded"), LongPrompt: (400, "context_length_exceeded", "messages")}


KINDS = {401: "authentication_error", 429: "rate_limit_error", 500: "server_error"}
BODY_BYTES = 4_000_000
"""Of a request, at most."""


class BadRequest(HTTPException):
    """A request that is not answered, as OpenAI's clients expect it."""

    def __init__(self, status: int, message: str, code: str | None = None, param: str | None = None) -> None:
        super().__init__(status, message, {"Retry-After": "1"} if status == 429 else None)
        kind = KINDS.get(status, "invalid_request_error")
        error = shared.ErrorObject(message=message, type=kind, param=param, code=code)
        self.body = {"error": error.model_dump(exclude_unset=True)}


def _text_of(content: Any) -> Any:
    """Return a message's content as text, where it came as parts."""
    is_text = isinstance(content, list) and all(isinstance(part, dict) and "text" in part for part in content)
    return "".join(str(part["text"]) for part in content) if is_text else content


class ChatTurn(Message):
    model_config = ConfigDict(extra="ignore")

    role: Annotated[
        Literal["system", "user", "assistant"], BeforeValidator(lambda role: "system" if role == "developer" else role)
    ]
    content: Annotated[str, BeforeValidator(_text_of)]


class Body(BaseModel):
    """What a chat completion takes; None = not said."""

    model_config = ConfigDict(strict=True, extra="allow")

    model: str
    messages: list[ChatTurn] = Field(min_length=1)
    response_format: shared.ResponseFormatText | shared.ResponseFormatJSONObject | shared.ResponseFormatJSONSchema = (
        Field(default=shared.ResponseFormatText(type="text"), discriminator="type")
    )
    stream: bool = False
    stream_options: chat.ChatCompletionStreamOptionsParam = {}
    temperature: float = Field(default=1, ge=0, le=2)
    top_p: float = Field(default=1, gt=0, le=1)
    seed: int | None = None
    n: int = Field(default=1, ge=1, le=8)
    stop: Annotated[
        list[Annotated[str, Field(min_length=1)]],
        BeforeValidator(lambda given: [given] if isinstance(given, str) and given else given),
    ] = []
    max_tokens: int | None = Field(default=None, ge=1)
    max_completion_tokens: int | None = Field(default=None, ge=1)
    logprobs: bool = False
    top_logprobs: int = Field(default=0, ge=0, le=20)

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, given: Any) -> Any:
        """Take null as not said, as OpenAI does."""
        return {name: value for name, value in given.items() if value is not None} if isinstance(given, dict) else given


@dataclass
class ChainServer:
    """The handlers; no `keys`: everybody who can reach it is answered, under these `hosts`. A model is a stage, or anything/stage.

    The batch has so many `rows` while others are `waiting`; no answer is longer than `answer_tokens`.
    """

    chain: LoadedChain
    keys: Sequence[str] = ()
    hosts: OwnHosts | None = None
    rows: int = 24
    waiting: int = 64
    answer_tokens: int = 4096

    def __post_init__(self) -> None:
        self.batcher = Batcher(self.chain, self.rows, self.waiting)

    def app(self) -> Starlette:
        """Return the server as an application; when it ends, so does the batch."""

        @asynccontextmanager
        async def lifespan(_: Starlette) -> AsyncGenerator[None]:
            yield
            await asyncio.to_thread(self.batcher.close)

        routes = [
            Route("/health", self.health),
            Route("/v1/models", self.models),
            Route("/v1/models/{name:path}", self.models),
            Route("/v1/chat/completions", self.chat, methods=["POST"]),
        ]
        handlers = dict.fromkeys((LabError, HTTPException, Exception), _error_response)
        return Starlette(routes=routes, exception_handlers=handlers, lifespan=lifespan)

    async def health(self, request: Request) -> Response:
        """Say whether the server answers, and how busy it is; needs no key."""
        self._admit(request, needs_key=False)
        busy = dict(zip(("running", "waiting"), self.batcher.load, strict=True))
        about = {"status": "ok", "chain": self.chain.manifest.name, "stages": self.chain.stages}
        return JSONResponse(about | busy)

    async def models(self, request: Request) -> Response:
        """List the stages, or return one of them."""
        self._admit(request)
        name = request.path_params.get("name")
        about: dict[str, Any] = {"created": int(time.time()), "owned_by": self.chain.manifest.name}
        stages = self.chain.stages if name is None else (self._stage(name),)
        found = [Model(id=stage, object="model", **about).model_dump() for stage in stages]
        return JSONResponse({"object": "list", "data": found} if name is None else found[0])

    async def chat(self, request: Request) -> Response:
        """Answer a conversation; one without a system message is given the chain's own."""
        body = await self._body(request)
        if body.messages[-1].role != "user":
            raise BadRequest(400, "the last message is not the user's; end with one to be answered.", param="messages")
        held, form, stage = body.response_format, None, self._stage(body.model)
        if held.type != "text":
            schema = held.json_schema.schema_ if held.type == "json_schema" else {"type": "object"}
            form = await asyncio.to_thread(self.chain.form, schema)
        prompt = self.chain.rows(body.messages, (stage,), Sampling(1), thinks=form is None)[0].prompt
        room = min(most := self.answer_tokens, self.chain.context - len(prompt))
        length = body.max_completion_tokens or body.max_tokens or room
        if length > room:
            told = f"max_tokens is {length:,}; at most {room:,} here after a prompt of {len(prompt):,} tokens."
            raise BadRequest(400, told, None if length > most else "context_length_exceeded", "max_tokens")
        seed = secrets.randbits(63) if body.seed is None else body.seed
        top, asked = body.top_logprobs if body.logprobs else None, []
        for copy in range(body.n):
            sampling = Sampling(length, body.temperature, body.top_p, (seed + copy) % 2**63)
            asked.append(GenerationRequest(prompt, stage, sampling, tuple(body.stop), top, form))
        reply = ChatReply(stage, self.chain.tokenizer)
        answers = PendingAnswers(self.batcher, asked)
        if body.stream:
            events = reply.events(answers, body.stream_options.get("include_usage", False))
            ended = BackgroundTask(answers.cancel)  # however the connection ends, their rows are free then
            return StreamingResponse(events, 200, {"Cache-Control": "no-cache"}, "text/event-stream", ended)
        written: list[list[Piece]] = [[] for _ in asked]
        try:
            async for place, piece in answers:
                written[place].append(piece)
                if await request.is_disconnected():
                    raise BadRequest(499, "the client went away.")
        finally:
            answers.cancel()
        choices = [reply.choice(place, pieces, role="assistant") for place, pieces in enumerate(written)]
        return Response(reply.json(choices, answers.usage), media_type="application/json")

    def _admit(self, request: Request, *, needs_key: bool = True) -> None:
        if self.hosts and (host := self.hosts.rejected_host(request.headers)) is not None:
            told = f"this server does not answer as {host!r}; ask http://127.0.0.1, or start it with --allow-host NAME."
            raise BadRequest(421, told, "unknown_host")
        given = request.headers.get("authorization", "").removeprefix("Bearer ").encode()
        if needs_key and self.keys and not any(secrets.compare_digest(given, key.encode()) for key in self.keys):
            raise BadRequest(
                401, "no valid API key was sent; send one as `Authorization: Bearer …`.", "invalid_api_key"
            )

    def _stage(self, model: str) -> str:
        stage = model.rpartition("/")[2]
        if stage not in self.chain.stages:
            known = ", ".join(self.chain.stages)
            raise BadRequest(
                404, f"no model {model!r}; the stages of this chain are {known}.", "model_not_found", "model"
            )
        return stage

    async def _body(self, request: Request) -> Body:
        self._admit(request)
        if not request.headers.get("content-type", "").startswith("application/json"):
            raise BadRequest(415, "send JSON, with the header `Content-Type: application/json`.")
        if int(request.headers.get("content-length", BODY_BYTES + 1)) > BODY_BYTES:
            raise BadRequest(413, f"the request is longer than {BODY_BYTES:,} bytes, or does not say its length.")
        try:
            body = Body.model_validate_json((await request.body()).removeprefix(b"\xef\xbb\xbf"))
        except ValidationError as error:
            place, problem, _ = first_problem(error)
            raise BadRequest(400, f"{place or 'the body'}: {problem}", param=place or None) from error
        for name, value in (body.model_extra or {}).items():
            harmless = (None, True) if name in FIELDS["on"] else (*HARMLESS, *REFUSED.get(name, (value,)))
            if value not in harmless:
                raise BadRequest(400, f"this server cannot do {name!r}; leave it out.", "unsupported_parameter", name)
        return body


class PendingAnswers:
    """The answers to one request as they come from the batcher's thread, by their place in it."""

    def __init__(self, batcher: Batcher, asked: Sequence[GenerationRequest]) -> None:
        """Submit all of them, or none; Busy where they find no place."""
        self._batcher, self._n_read, self._counts = batcher, len(asked[0].prompt), [0] * len(asked)
        self._items: asyncio.Queue[tuple[int, Piece | Exception]] = asyncio.Queue()
        self._jobs: list[Generation] = []
        loop = asyncio.get_running_loop()

        def put(place: int, item: Piece | Exception) -> None:
            with suppress(RuntimeError):  # the loop is closed: nobody reads any more
                loop.call_soon_threadsafe(self._items.put_nowait, (place, item))

        try:
            for place, each in enumerate(asked):
                self._jobs.append(batcher.submit(each, partial(put, place)))
        except Busy:
            self.cancel()
            raise

    async def __aiter__(self) -> AsyncIterator[tuple[int, Piece]]:
        """Yield new text until all answers have ended."""
        n_open = len(self._jobs)
        while n_open:
            place, item = await self._items.get()
            if isinstance(item, Exception):
                raise item
            self._counts[place] = item.n_tokens
            n_open -= item.finish_reason is not None
            yield place, item

    def cancel(self) -> None:
        for job in self._jobs:
            self._batcher.cancel(job)

    @property
    def usage(self) -> CompletionUsage:
        read, written = self._n_read, sum(self._counts)
        return CompletionUsage(prompt_tokens=read, completion_tokens=written, total_tokens=read + written)


class ChatReply:
    """How OpenAI writes answers down."""

    def __init__(self, stage: str, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._head = {"id": f"chatcmpl-{uuid4().hex}", "created": int(time.time()), "model": stage}

    def json(self, choices: Sequence[object], usage: CompletionUsage | None = None, *, is_event: bool = False) -> str:
        """Return a whole reply, or what an event of a streamed one holds."""
        kind = chat.ChatCompletionChunk if is_event else chat.ChatCompletion
        name = "chat.completion.chunk" if is_event else "chat.completion"
        told = {**self._head, "object": name, "choices": choices, **({"usage": usage} if usage else {})}
        return kind.model_validate(told).model_dump_json(exclude_unset=True, warnings=False)

    def choice(self, place: int, pieces: Sequence[Piece], part: str = "message", **role: str) -> object:
        """Return one answer, or what is new of it, which is `part` of a reply."""
        text, scored = "".join(piece.text for piece in pieces), [each for piece in pieces for each in piece.scored]
        told: dict[str, Any] = {"index": place, "finish_reason": pieces[-1].finish_reason, "logprobs": None}
        if scored:
            top = ([self._token_score(*pair) for pair in each.top] for each in scored)
            content = [{**self._token_score(each.token, each.logprob), "top_logprobs": next(top)} for each in scored]
            told["logprobs"] = {"content": content, "refusal": None}
        return {**told, part: {**role, "content": text}}

    async def events(self, answers: PendingAnswers, has_usage: bool) -> AsyncIterator[str]:
        """Yield server-sent events; what breaks in between is one of them."""
        try:
            begun: set[int] = set()
            async for place, piece in answers:
                role = {} if place in begun else {"role": "assistant"}
                begun.add(place)
                yield f"data: {self.json([self.choice(place, [piece], 'delta', **role)], is_event=True)}\n\n"
            if has_usage:
                yield f"data: {self.json([], answers.usage, is_event=True)}\n\n"
            yield "data: [DONE]\n\n"
        except Exception as error:
            yield f"data: {json.dumps(_refusal(error).body)}\n\n"

    def _token_score(self, token: int, logprob: float) -> dict[str, Any]:
        text = str(self._tokenizer.decode([token]))  # part of a character has no bytes of its own to tell
        return {"token": text, "logprob": logprob, "bytes": None if UNFINISHED in text else list(text.encode())}


def _refusal(error: Exception) -> BadRequest:
    """Return what a client is told about an error."""
    if isinstance(error, BadRequest):
        return error
    if isinstance(error, HTTPException):
        return BadRequest(error.status_code, error.detail)
    if isinstance(error, LabError):
        status, *about = STATUS.get(type(error), (400,))
        return BadRequest(status, str(error), *about)
    return BadRequest(500, f"the model stopped with {type(error).__name__}; the server's log says more.")


async def _error_response(request: Request, error: Exception) -> Response:
    refused = _refusal(error)
    return JSONResponse(refused.body, refused.status_code, refused.headers)
