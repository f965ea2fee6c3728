"""A reviewer behind any server that speaks OpenAI's chat completions: vLLM, llama.cpp, Ollama, a vendor's.

Answers are held to the JSON schema in the strictest way that the server accepts, from `HELD` down; what
it came to stands in the run's record, and `constrain` always stops where it would be nothing.
"""

import asyncio
import threading
from collections.abc import Callable, Mapping, Sequence
from urllib.parse import urlsplit

from evals.errors import LabError
from evals.review.prompt import ARRAY_SCHEMA, OBJECT_SCHEMA, prompt_sha256
from evals.schema.articles import EngineRecord
from training.judge.client import ChatClient, Constraint, Reply
from training.judge.prompts import ServerSettings
from training.reviewer.engine import CONCERNS, Asking, Conversation, ReplyForm, ReviewEngine, Room, Told

NAMED = {"name": "concerns", "strict": True}
HELD = (
    Constraint.json_schema("array schema", {**NAMED, "schema": ARRAY_SCHEMA}),
    Constraint.json_schema("object schema", {**NAMED, "schema": OBJECT_SCHEMA}),
    Constraint("none", {}),
)
"""From the form that replies are taught in to nothing; some servers take only an object at the top."""
LOOK_SECONDS = 0.2
"""How often a review that may be stopped looks whether it is."""
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
            constraint=client.form(self._held).name,
            prompt_sha256=prompt_sha256(),
            substitutions=tuple(f"the server refuses {name}: {said[:160]}" for name, said in client.refused.items()),
        )

    def asked(
        self,
        conversations: Sequence[Conversation],
        form: ReplyForm,
        told: Told | None = None,
        stop: threading.Event | None = None,
        done: Callable[[int, Reply], None] = lambda place, reply: None,
    ) -> list[Reply]:
        """Return one reply per conversation, in order, all asked at the same time; setting `stop` ends the waiting."""
        asking, held = self.asking, self._held
        if form.schema is None:
            held = HELD[-1:]
        elif form is not CONCERNS and asking.constrain != "never":
            named = {"name": form.name, "strict": True, "schema": form.schema}
            held = (Constraint.json_schema(f"schema of {form.name}", named), HELD[-1])
        sampling = {
            "temperature": asking.temperature,
            "top_p": asking.top_p,
            "seed": asking.seed,
            "max_tokens": asking.max_new_tokens,
        }
        if asking.repetition_penalty != 1.0:
            sampling["repetition_penalty"] = asking.repetition_penalty

        async def replied(place: int) -> Reply:
            turns = [turn.model_dump() for turn in conversations[place]]
            reply = await self._client.chat(lambda: turns, sampling, held)
            if self._client.denied:
                raise LabError(f"{self._client.denied}. No further paper was asked about.")
            done(place, reply)
            return reply

        async def all_of_them() -> list[Reply]:
            tasks = [asyncio.ensure_future(replied(place)) for place in range(len(conversations))]
            waiting = set(tasks)
            while waiting and not (stop and stop.is_set()):
                finished, waiting = await asyncio.wait(
                    waiting, timeout=LOOK_SECONDS if stop else None, return_when=asyncio.FIRST_EXCEPTION
                )
                for each in finished:
                    each.result()
            return [each.result() if each.done() else Reply(finish_reason="cancelled", error=STOPPED) for each in tasks]

        replies = self._client.run(all_of_them())
        refused = next((each.error for each in replies if "the server answered 4" in each.error), "").lower()
        if asking.constrain == "always" and any(word in refused for word in ABOUT_FORM):
            raise LabError(
                f"the server holds answers to no JSON schema ({refused}), and constrain is always; use constrain"
                " auto to ask it all the same."
            )
        return replies


class Estimate:
    """Counts tokens of a model whose tokenizer is not here: one for every three characters, too many."""

    name = "estimated, a token for three characters"

    def ends(self, text: str) -> Sequence[int]:
        """Return where each token is taken to end."""
        return [*range(3, len(text), 3), len(text)] if text else ()

    def chat(self, messages: Sequence[Mapping[str, str]]) -> int:
        """Return the tokens of a conversation, eight for the marks of a turn."""
        return sum(8 + len(self.ends(each["content"])) for each in messages)
