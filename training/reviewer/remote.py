"""A reviewer behind any server that speaks OpenAI's chat completions: vLLM, llama.cpp, Ollama, a vendor's.

Answers are held to the JSON schema in the strictest way that the server accepts, from `HELD` down; what
it came to stands in the run's record, and `constrain` always stops where it would be nothing.
"""

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from urllib.parse import urlsplit

from evals.errors import LabError
from evals.review.prompt import ARRAY_SCHEMA, OBJECT_SCHEMA, conversation, prompt_sha256
from evals.schema import Message
from evals.schema.reviewruns import EngineRecord
from training.judge.client import ChatClient, Constraint, Reply
from training.judge.prompts import ServerSettings
from training.reviewer.engine import Asking, Room

NAMED = {"name": "concerns", "strict": True}
HELD = (
    Constraint.json_schema("array schema", {**NAMED, "schema": ARRAY_SCHEMA}),
    Constraint.json_schema("object schema", {**NAMED, "schema": OBJECT_SCHEMA}),
    Constraint("none", {}),
)
"""From the form that replies are taught in to nothing; some servers take only an object at the top."""
ABOUT_FORM = ("response_format", "schema", "json", "grammar", "guided")
"""Words of a refusal that is about the form; a prompt that is too long is refused in any form."""


class ServerEngine:
    """Asks a server, each batch at once. Errors of the address, the key and the model are those of `ChatClient`."""

    def __init__(self, settings: ServerSettings, asking: Asking, room: Room) -> None:
        self.room = room
        self._asking = asking
        self._client = ChatClient(settings)
        self._held = {"auto": HELD, "always": HELD[:-1], "never": HELD[-1:]}[asking.constrain]
        self.model = self._client.run(self._client.find_model())

    def record(self) -> EngineRecord:
        """Return host and model, what has answered and how it is held by now; never a path or the key."""
        client = self._client
        return EngineRecord(
            kind="server",
            name=self.model,
            host=urlsplit(client.address).hostname or "",
            served=tuple(client.served),
            tokenizer=self.room.counter.name,
            constraint=self._held[client.level].name,
            prompt_sha256=prompt_sha256(),
            substitutions=tuple(f"the server refuses {name}: {said[:160]}" for name, said in client.refused.items()),
        )

    def answer(self, requests: Sequence[str], told: Callable[[int], None] | None = None) -> list[Reply]:
        """Return one reply per request, in order, all asked at the same time."""
        return self.asked([conversation(each) for each in requests])

    def asked(
        self, conversations: Sequence[Sequence[Message]], held: Sequence[Constraint] | None = None
    ) -> list[Reply]:
        """Return one reply per conversation, held to the form of concerns or to another."""
        asking, form = self._asking, held or self._held
        sampling = {
            "temperature": asking.temperature,
            "top_p": asking.top_p,
            "seed": asking.seed,
            "max_tokens": asking.max_new_tokens,
        }
        if asking.repetition_penalty != 1.0:
            sampling["repetition_penalty"] = asking.repetition_penalty

        async def replied() -> list[Reply]:
            ask = [lambda each=each: [turn.model_dump() for turn in each] for each in conversations]
            return await asyncio.gather(*(self._client.chat(each, sampling, form) for each in ask))

        replies = self._client.run(replied())
        refused = next((each.error for each in replies if "the server answered 4" in each.error), "").lower()
        if asking.constrain == "always" and any(word in refused for word in ABOUT_FORM):
            raise LabError(
                f"the server holds answers to no JSON schema ({refused}), and constrain is always; use constrain"
                " auto to ask it all the same."
            )
        return replies

    def stream(self, request: str, stop: threading.Event) -> Iterator[Reply]:
        """Yield the whole reply: servers are asked for nothing less."""
        yield from self.answer([request])


class Estimate:
    """Counts tokens of a model whose tokenizer is not here: one for every three characters, too many."""

    name = "estimated, a token for three characters"

    def ends(self, text: str) -> Sequence[int]:
        """Return where each token is taken to end."""
        return [*range(3, len(text), 3), len(text)] if text else ()

    def chat(self, messages: Sequence[Mapping[str, str]]) -> int:
        """Return the tokens of a conversation, eight for the marks of a turn."""
        return sum(8 + len(self.ends(each["content"])) for each in messages)
