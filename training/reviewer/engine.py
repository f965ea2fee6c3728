"""Papers reviewed by a chain or a server: requests, engines that answer, and one review as it is written.

engine = ChainEngine(load_chain("reviewer"), Asking())
for step in stream_review(article, engine, asking, stop, clock): ...
"""

import hashlib
import json
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, get_args
from urllib.parse import urlsplit

from evals.errors import BadConfig, LabError
from evals.review.clean import key_of
from evals.review.parse import parse
from evals.review.prompt import (
    ARRAY_SCHEMA,
    MOST,
    OBJECT_SCHEMA,
    Budget,
    TokenCounter,
    check_prompt,
    pieces_of,
    prompt_sha256,
    request,
    review_conversation,
    without_marks,
)
from evals.schema import Article, Message
from evals.schema.articles import PAPER_NOTE, DroppedConcern, EngineRecord, PartReply, ReviewedRow, ReviewStep
from evals.schema.questions import Sampling
from evals.schema.reviews import SEVERITIES, UNKNOWN, Concern, ParsedReview, ParseStatus
from training.judge.client import FILTERED, MOST_CHARACTERS, ChatClient, Constraint, Reply, gather_until
from training.judge.prompts import ServerSettings

if TYPE_CHECKING:
    from training.models.chain import LoadedChain

Constrain = Literal["auto", "always", "never"]


@dataclass(frozen=True)
class Asking:
    """How papers are asked about. The defaults are the published ones, but for the length of a reply.

    `context` 0 = what the engine has, 16,384 tokens at most. `constrain` auto = answers are held to
    the JSON schema where the engine can, which is recorded; always = or not asked at all.
    """

    max_new_tokens: int = 2_048
    temperature: float = 0.1
    top_p: float = 0.9
    repetition_penalty: float = 1.05
    seed: int = 0
    context: int = 0
    overlap: int = 200
    max_parts: int = 4
    constrain: Constrain = "auto"

    def __post_init__(self) -> None:
        if self.constrain not in (known := get_args(Constrain)):
            raise BadConfig(f"constrain is {self.constrain!r}; it takes {', '.join(known)}.")
        self.budget(self.context or Budget().context)  # refused now, not once a model is loaded

    def budget(self, context: int) -> Budget:
        """Return the room of a request for an engine that reads `context` tokens."""
        wanted = self.context or min(context, Budget().context)
        if wanted > context:
            raise BadConfig(f"context is {wanted} tokens, but this model reads {context}; use that or less.")
        return Budget(wanted, self.max_new_tokens, self.overlap, self.max_parts)


@dataclass(frozen=True)
class Room:
    """What fits into an engine: its token counter, its context in tokens, and the control marks of its template."""

    counter: TokenCounter
    context: int
    marks: tuple[str, ...] = ()


@dataclass(frozen=True)
class ReplyForm:
    """What a reply is held to, where the engine can: a JSON schema, or None for free text."""

    name: str
    schema: Mapping[str, object] | None


CONCERNS = ReplyForm("concerns", ARRAY_SCHEMA)
FREE = ReplyForm("text", None)
Conversation = Sequence[Message]
OnTokens = Callable[[int], None]
"""Called with the tokens of each reply so far, where the engine knows."""


@dataclass(frozen=True)
class Watch:
    """Who follows replies: `done` is called with the place and the reply as each is complete; `stop` ends them soon."""

    on_tokens: OnTokens | None
    stop: threading.Event | None
    done: Callable[[int, Reply], None]


class Replies:
    """Usable replies by the checksum of engine and request: a request whose reply is here is not sent again.

    `keep` is called with each new one. `used` are the checksums looked up since it was last emptied; `seconds` is how
    long the known ones took.
    """

    def __init__(
        self,
        known: Mapping[str, Reply] | None = None,
        keep: Callable[[str, Reply], None] = lambda key, reply: None,
        seconds: float = 0.0,
    ) -> None:
        self.known, self.seconds = dict(known or {}), seconds
        self.used: list[str] = []
        self._keep = keep

    def get(self, key: str) -> Reply | None:
        """Return the reply that was kept under a checksum; None if there is none."""
        self.used.append(key)
        return self.known.get(key)

    def add(self, key: str, reply: Reply) -> None:
        """Keep a reply."""
        self.known[key] = reply
        self._keep(key, reply)


class ReviewEngine(ABC):
    """Something that answers requests about papers; the instructions are its own.

    `replies` are earlier ones: a resumed run, or an interrupted review, sets them.
    """

    room: Room
    asking: Asking

    def __init__(self) -> None:
        self.replies = Replies()

    @abstractmethod
    def record(self) -> EngineRecord:
        """Return who answers, as far as is known by now."""

    @abstractmethod
    def reply_to(self, conversations: Sequence[Conversation], form: ReplyForm, watch: Watch) -> list[Reply]:
        """Return one reply per conversation, in order; one that fails has an error and raises nothing."""

    def ask(
        self,
        conversations: Sequence[Conversation],
        form: ReplyForm = CONCERNS,
        is_usable: Callable[[str], bool] | None = None,
        on_tokens: OnTokens | None = None,
        stop: threading.Event | None = None,
    ) -> list[Reply]:
        """Return one reply per conversation, those that are kept without asking; usable new ones are kept."""
        keys = [self.key(each, form) for each in conversations]
        replies = {place: known for place, key in enumerate(keys) if (known := self.replies.get(key)) is not None}
        places = [place for place in range(len(keys)) if place not in replies]

        def done(number: int, reply: Reply) -> None:
            can_be_kept = not reply.error and reply.finish_reason not in ("cancelled", FILTERED)
            if can_be_kept and (is_usable or is_readable)(reply.text):
                self.replies.add(keys[places[number]], reply)

        if places:
            watch = Watch(on_tokens, stop, done)
            fresh = self.reply_to([conversations[place] for place in places], form, watch)
            replies |= dict(zip(places, fresh, strict=True))
        return [replies[place] for place in range(len(keys))]

    def key(self, conversation: Conversation, form: ReplyForm = CONCERNS) -> str:
        """Return the checksum of a request: engine, settings, form and conversation."""
        who = self.record().model_dump(mode="json", include={"kind", "name", "stage", "checksums"})
        document = [who, asdict(self.asking), form.name, form.schema, [each.model_dump() for each in conversation]]
        return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()

    def answer(self, requests: Sequence[str], on_tokens: OnTokens | None = None) -> list[Reply]:
        """Return one reply per request, in order, as `ask` does."""
        return self.ask([review_conversation(each) for each in requests], on_tokens=on_tokens)

    def stream(self, request: str, stop: threading.Event) -> Iterator[Reply]:
        """Yield the reply as it grows, whole at last; setting `stop` ends it soon."""
        yield from self.ask([review_conversation(request)], stop=stop)


def is_readable(text: str) -> bool:
    """Return whether a reply is a whole list of concerns, which may be empty."""
    return parse("", text).status in ("ok", "empty")


@dataclass(frozen=True)
class StagedReply(Reply):
    """The list that several stages led to (`text` is its JSON), what was dropped of it and why, and the stages' replies."""

    review: ParsedReview = field(default_factory=lambda: ParsedReview(id="", status="failed", concerns=()))
    dropped: tuple[DroppedConcern, ...] = ()
    stages: tuple[PartReply, ...] = ()
    stage: str = ""


IMPORTANCE = {severity: place for place, severity in enumerate((*SEVERITIES, UNKNOWN))}


@dataclass(frozen=True)
class PaperRequests:
    """The requests about a paper, one per part, and notes on how the paper was changed or cut for them."""

    article_id: str
    source: str
    requests: tuple[str, ...]
    tokens_lost: int
    notes: tuple[str, ...] = ()

    @property
    def sha256(self) -> str:
        """Checksum of all requests."""
        return hashlib.sha256("\0".join(self.requests).encode()).hexdigest()


def requests_for(article: Article, room: Room, budget: Budget) -> PaperRequests:
    """Return the requests about a paper, each within the budget; notes say what had to be done to it."""
    harmless, marks = without_marks(article, room.marks)
    pieces = pieces_of(harmless, budget.paper(room.counter), room.counter, budget.overlap, budget.max_parts)
    notes = [f"{PAPER_NOTE}{each}" for each in article.origin.notes]
    if marks:
        notes.append(f"{marks} control mark(s) of chat templates in the paper were taken apart")
    if pieces[0].lost:
        notes.append(f"{pieces[0].lost} of {pieces[0].whole} tokens of the paper could not be read")
    requests = tuple(request(piece.text, piece.part, piece.parts) for piece in pieces)
    return PaperRequests(article.id, article.source, requests, pieces[0].lost, tuple(notes))


def row_of(paper: PaperRequests, replies: Sequence[Reply], seconds: float) -> ReviewedRow:
    """Return the row of a paper: the replies to its parts read and merged.

    Failed if no part has an answer that can be read; partial if some of it is lost.
    """
    read = [read_reply(reply) for reply in replies]
    dropped = [each for reply in replies if isinstance(reply, StagedReply) for each in reply.dropped]
    parts: list[PartReply] = []
    for place, (each, reply) in enumerate(zip(read, replies, strict=True), start=1):
        if isinstance(reply, StagedReply):
            parts += [stage.model_copy(update={"part": place}) for stage in reply.stages]
        else:
            parts.append(part_of(reply, each).model_copy(update={"part": place}))
    concerns, repeats = merge_parts([each.concerns for each in read])
    problems = list(paper.notes)
    for place, (each, reply) in enumerate(zip(read, replies, strict=True), start=1):
        where = f"part {place}: " if len(replies) > 1 else ""
        problems += [f"{where}{problem}" for problem in ((reply.error,) if reply.error else each.problems)]
    if repeats:
        problems.append(f"{repeats} concern(s) were raised by more than one part")
    statuses = {"failed" if reply.error else each.status for each, reply in zip(read, replies, strict=True)}
    status: ParseStatus = "empty" if statuses == {"empty"} and not dropped else "ok"
    if statuses == {"failed"}:
        status = "failed"
    elif statuses & {"failed", "partial"}:
        status = "partial"
    return ReviewedRow(
        article_id=paper.article_id,
        source=paper.source,
        status=status,
        concerns=concerns,
        dropped=tuple(dropped),
        problems=tuple(problems),
        finish_reason=next((each.finish_reason for each in replies if each.finish_reason != "stop"), "stop"),
        parts=tuple(parts),
        tokens_lost=paper.tokens_lost,
        seconds=round(seconds, 3),
        asked_sha256=paper.sha256,
        raw_output="\n".join(reply.text for reply in replies),
    )


def read_reply(reply: Reply) -> ParsedReview:
    """Return the concerns of a reply, `MOST` of them at most, with what was wrong and what was left out.

    Of more than that, those that repeat an earlier one go first.
    """
    if isinstance(reply, StagedReply):
        return reply.review
    read = parse("", reply.text)
    lost = []
    if reply.finish_reason == "too long":
        lost.append(f"the reply was cut off after {MOST_CHARACTERS:,} characters")
    if reply.finish_reason == FILTERED:
        lost.append("the server's content filter cut the reply off")
    concerns = read.concerns
    if (n := len(concerns)) > MOST:
        firsts = {key_of(each.text): at for at, each in reversed([*enumerate(concerns)])}
        concerns = tuple(concerns[at] for at in sorted(firsts.values()))
        repeats = f", {n - len(concerns)} of them repeats" if len(concerns) < n else ""
        lost.append(f"the reply lists {n} concerns{repeats}, and {MOST} are allowed: the others were left out")
    problems = read.problems
    if (more := len(problems) - 2 * MOST) > 0:
        problems = (*problems[: 2 * MOST], f"and {more} problems more")
    status = "partial" if lost and read.status != "failed" else read.status
    changed = {"status": status, "concerns": concerns[:MOST], "problems": (*problems, *lost)}
    return read.model_copy(update=changed)


def part_of(reply: Reply, read: ParsedReview, name: str = "") -> PartReply:
    """Return what is kept of a reply beside its concerns."""
    return PartReply(
        part=1,
        name=name,
        status=read.status,
        finish_reason=reply.finish_reason,
        n_concerns=len(read.concerns),
        tokens_read=reply.tokens_read,
        tokens_written=reply.tokens_written,
        error=reply.error,
    )


def merge_parts(parts: Sequence[Sequence[Concern]]) -> tuple[tuple[Concern, ...], int]:
    """Return the concerns of all parts, important ones first, and how many a later part only repeats.

    One part alone is left as it is: its order and its repeats are the model's own. Of several, each
    part's first comes before any part's second among concerns of one severity.
    """
    if len(parts) == 1:
        return tuple(parts[0]), 0
    ranked = [
        (IMPORTANCE[concern.severity], rank, part, concern)
        for part, concerns in enumerate(parts)
        for rank, concern in enumerate(concerns)
    ]
    first_part: dict[str, int] = {}
    kept, repeats = [], 0
    for _, _, part, concern in sorted(ranked, key=lambda each: each[:3]):
        key = key_of(concern.text)
        if first_part.setdefault(key, part) != part:
            repeats += 1
        else:
            kept.append(concern)
    return tuple(kept), repeats


TOLD_EVERY = 20
"""Tokens after which a reply that grows is shown again."""


class ChainEngine(ReviewEngine):
    """A stage of a chain as reviewer, the last one if none is named.

    ChainMismatch if the chain was trained with other instructions than this version's. A base model
    without adapters was trained with none, and is given them.
    """

    def __init__(self, chain: "LoadedChain", asking: Asking, stage: str = "") -> None:
        super().__init__()
        if chain.manifest.stages:
            check_prompt(chain.manifest.system_prompt, chain.manifest.name)
        self.stage = stage or chain.stages[-1]
        if self.stage not in chain.stages:
            raise BadConfig(f"no stage {stage!r} in this chain; it has {', '.join(chain.stages)}.")
        self.room = Room(chain.counter, chain.context, chain.marks)
        self._chain, self.asking = chain, asking
        self._is_constrained = asking.constrain != "never"
        self._forms = {CONCERNS.name: self._form(CONCERNS)}
        self._sampling = Sampling(
            max_new_tokens=asking.max_new_tokens, temperature=asking.temperature, top_p=asking.top_p, seed=asking.seed
        )

    def record(self) -> EngineRecord:
        """Return the chain, the stage and their checksums."""
        return EngineRecord(
            kind="chain",
            name=self._chain.manifest.name,
            stage=self.stage,
            dtype=self._chain.dtype,
            tokenizer=self.room.counter.name,
            constraint="array schema" if self._is_constrained else "none",
            prompt_sha256=prompt_sha256(),
            checksums=dict(self._chain.stage_checksums),
            substitutions=tuple(self._chain.substitutions),
        )

    def reply_to(self, conversations: Sequence[Conversation], form: ReplyForm, watch: Watch) -> list[Reply]:
        """Return one reply per conversation, written in one batch; one after another where they may be stopped."""
        if form.name not in self._forms:
            self._forms[form.name] = self._form(form)
        if watch.stop is not None:
            replies = [list(self._stream_replies(each, form, watch.stop))[-1] for each in conversations]
        else:
            written = self._chain.generate(
                conversations, (self.stage,), self._sampling, self._forms[form.name], watch.on_tokens
            )
            replies = [Reply(each.text, each.finish_reason, None, each.n_tokens) for (each,) in written]
        n_read = (self.room.counter.chat([turn.model_dump() for turn in each]) for each in conversations)
        replies = [replace(reply, tokens_read=n) for reply, n in zip(replies, n_read, strict=True)]
        for place, reply in enumerate(replies):
            watch.done(place, reply)
        return replies

    def stream(self, request: str, stop: threading.Event) -> Iterator[Reply]:
        """Yield the reply whenever an object of it may be whole, or some tokens more are written.

        Setting `stop` ends it within a token.
        """
        conversation = review_conversation(request)
        key = self.key(conversation)
        if (known := self.replies.get(key)) is not None:
            yield known
            return
        reply = Reply()
        for reply in self._stream_replies(conversation, CONCERNS, stop):
            yield reply
        if reply.finish_reason != "cancelled":
            self.replies.add(key, reply)

    def _stream_replies(self, conversation: Conversation, form: ReplyForm, stop: threading.Event) -> Iterator[Reply]:
        text, reason, tokens, shown = "", "cancelled", 0, 0
        for piece in self._chain.stream(conversation, (self.stage,), self._sampling, stop, self._forms[form.name]):
            text, tokens, reason = text + piece.text, piece.n_tokens, piece.finish_reason or reason
            if "}" in piece.text or tokens >= shown + TOLD_EVERY:
                shown = tokens
                yield Reply(text, "unfinished", None, tokens)
        yield Reply(text, reason, None, tokens)

    def _form(self, form: ReplyForm) -> Any:
        return self._chain.form(form.schema if self._is_constrained else None, self.asking.repetition_penalty)


Clock = Callable[[], float]
"""Seconds from any start, such as time.monotonic."""


def stream_review(
    article: Article, engine: ReviewEngine, asking: Asking, stop: threading.Event, clock: Clock
) -> Iterator[ReviewStep]:
    """Yield a step whenever a part begins or a concern is whole, and a last one with the row.

    Setting `stop` ends the review soon, in a chain within a token; the row then holds what was found, and
    its finish reason is "cancelled". Parts and stages whose replies the engine has are not asked for again.
    BadConfig before the first step if the context is too small.
    """
    paper = requests_for(article, engine.room, asking.budget(engine.room.context))
    started, total = clock() - engine.replies.seconds, len(paper.requests)
    replies = list[Reply]()
    found, written = tuple[Concern, ...](), 0
    for part, one in enumerate(paper.requests, start=1):
        yield ReviewStep(part=part, parts=total, n_tokens=written, tokens_lost=paper.tokens_lost, concerns=found)
        if stop.is_set():
            break
        earlier, n, reply = found, written, Reply()
        for reply in engine.stream(one, stop):
            end = reply.text.rfind("}") + 1
            whole = parse(paper.article_id, f"{reply.text[:end]}]").concerns[:MOST] if end else ()
            found = (*earlier, *whole)
            written = n + (reply.tokens_written or 0)
            yield ReviewStep(
                part=part,
                parts=total,
                stage=reply.stage if isinstance(reply, StagedReply) else "",
                n_tokens=written,
                tokens_lost=paper.tokens_lost,
                concerns=found,
            )
        replies.append(reply)
    unasked = Reply(finish_reason="cancelled", error="the review was stopped before this part")
    row = row_of(paper, [*replies, *[unasked] * (total - len(replies))], clock() - started)
    yield ReviewStep(
        part=max(1, len(replies)),
        parts=total,
        n_tokens=written,
        concerns=row.concerns,
        row=row,
        requests=paper.requests,
        engine=engine.record(),
    )


# ---- a server ------------------------------------------------------------------------------------


NAMED = {"name": "concerns", "strict": True}
CONSTRAINTS = (
    Constraint.json_schema("array schema", {**NAMED, "schema": ARRAY_SCHEMA}),
    Constraint.json_schema("object schema", {**NAMED, "schema": OBJECT_SCHEMA}),
    Constraint("none", {}),
)
"""From the form that replies are taught in to nothing; some servers take only an object at the top."""
STOPPED = "the review was stopped before this reply"
ABOUT_FORM = ("response_format", "schema", "json", "grammar", "guided")
"""Words of a refusal that is about the form; a prompt that is too long is refused in any form."""


class ServerEngine(ReviewEngine):
    """Asks a server, each batch at once. Errors of the address, the key and the model are those of `ChatClient`.

    LabError, too, where the server denies access: no other paper would be answered.
    """

    def __init__(self, settings: ServerSettings, asking: Asking, room: Room) -> None:
        super().__init__()
        self.room, self.asking = room, asking
        self._client = ChatClient(settings)
        self._constraints = {"auto": CONSTRAINTS, "always": CONSTRAINTS[:-1], "never": CONSTRAINTS[-1:]}[
            asking.constrain
        ]
        self.model = self._client.run(self._client.find_model())

    def record(self) -> EngineRecord:
        """Return host and model, who has answered and the constraint in use; never a path or the key."""
        client = self._client
        return EngineRecord(
            kind="server",
            name=self.model,
            host=urlsplit(client.address).hostname or "",
            served=tuple(client.served),
            tokenizer=self.room.counter.name,
            constraint=client.form(self._constraints).name,
            prompt_sha256=prompt_sha256(),
            substitutions=tuple(f"the server refuses {name}: {said[:160]}" for name, said in client.refused.items()),
        )

    def reply_to(self, conversations: Sequence[Conversation], form: ReplyForm, watch: Watch) -> list[Reply]:
        """Return one reply per conversation, in order, all asked at the same time; setting `stop` ends the waiting."""
        asking, constraints = self.asking, self._constraints
        if form.schema is None:
            constraints = CONSTRAINTS[-1:]
        elif form is not CONCERNS and asking.constrain != "never":
            named = {"name": form.name, "strict": True, "schema": form.schema}
            constraints = (Constraint.json_schema(f"schema of {form.name}", named), CONSTRAINTS[-1])
        sampling = {
            "temperature": asking.temperature,
            "top_p": asking.top_p,
            "seed": asking.seed,
            "max_tokens": asking.max_new_tokens,
        }
        if asking.repetition_penalty != 1.0:
            sampling["repetition_penalty"] = asking.repetition_penalty

        async def ask_one(place: int) -> Reply:
            turns = [turn.model_dump() for turn in conversations[place]]
            reply = await self._client.chat(lambda: turns, sampling, constraints)
            if self._client.denied:
                raise LabError(f"{self._client.denied}. No further paper was asked about.")
            watch.done(place, reply)
            return reply

        is_stopped = watch.stop.is_set if watch.stop else None
        found = self._client.run(gather_until(map(ask_one, range(len(conversations))), is_over=is_stopped))
        replies = [each or Reply(finish_reason="cancelled", error=STOPPED) for each in found]
        refused = next((each.error for each in replies if "the server answered 4" in each.error), "").lower()
        if asking.constrain == "always" and any(word in refused for word in ABOUT_FORM):
            raise LabError(
                f"the server holds answers to no JSON schema ({refused}), and constrain is always; use constrain"
                " auto to ask it all the same."
            )
        return replies


class EstimatedTokens:
    """Counts tokens of a model whose tokenizer is not here: one for every three characters, too many."""

    name = "estimated, a token for three characters"

    def ends(self, text: str) -> Sequence[int]:
        """Return where each token is taken to end."""
        return [*range(3, len(text), 3), len(text)] if text else ()

    def chat(self, messages: Sequence[Mapping[str, str]]) -> int:
        """Return the tokens of a conversation, eight for the marks of a turn."""
        return sum(8 + len(self.ends(each["content"])) for each in messages)
