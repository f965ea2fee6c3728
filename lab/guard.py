"""The one guard that every event of the page goes past, from a button or the API: role, limits, and a log of admins."""

import time
from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import Any

import gradio as gr

from lab.middleware import KEY
from lab.roles import ROLES, Log, Role, role_needed
from lab.store import ACTION
from lab.ui.text import say

PER_MINUTE, AT_ONCE_EACH = 30, 4
"""How often somebody who is no admin may ask a model, and how many of those may be under way."""
SILENT_SECONDS = 60.0
"""After so long an answer of which nothing more was heard no longer counts as under way: its page was closed."""
ASKING = ("ask", "replay", "pair", "pair_on", "skip", "vote_*", "review", "review_blind", "refine", "grade_answer")


class GuardedBlocks(gr.Blocks):
    """A page of which everybody may call what their role may; `role_of` gives that of a name, None = without one.

    `is_done` says of the key of an action whether something of it was kept.
    """

    def __init__(
        self, role_of: Callable[[str | None], Role], log: Log, is_done: Callable[[str], bool], **options: Any
    ) -> None:
        super().__init__(**options)
        self.is_done = is_done
        self._role_of, self._log = role_of, log
        self._sessions: dict[str, str | None] = {}
        self._asked: dict[str, list[float]] = {}
        self._under_way: dict[str, tuple[str, float]] = {}

    async def process_api(self, block_fn: Any, inputs: list[Any], *given: Any, **known: Any) -> dict[str, Any]:
        """Do as Gradio does with an event of the page; `gr.Error` for one that this visitor may not call, or not now."""
        event, request, call = block_fn.api_name or "", known.get("request"), str(known.get("event_id"))
        if request is None:  # the lab's own code, not a visitor
            return await super().process_api(block_fn, inputs, *given, **known)
        if not isinstance(request, gr.Request):  # a list of them, to which who sends "batched" can make it
            raise gr.Error(say("people.unclear"), print_exception=False)
        if known.get("iterator") is None:
            self._admit(event, request, call)
            ACTION.set([key] if (key := request.headers.get(KEY)) else [])
        elif call in self._under_way:
            self._under_way[call] = (self._under_way[call][0], time.monotonic())
        done: dict[str, Any] = {}
        try:
            done = await super().process_api(block_fn, inputs, *given, **known)
        except gr.Error as error:
            error.print_exception = False  # it is told on the page, and says what is wrong
            raise
        finally:
            if not done.get("is_generating"):
                self._under_way.pop(call, None)
        if request.username and role_needed(event) == "admin":
            about = "; ".join(each[:80] for each in inputs if isinstance(each, str) and each)
            self._log(request.username, event, about[:400])
        return done

    def _admit(self, event: str, request: gr.Request, call: str) -> None:
        """Let a call pass that this visitor may make now; else `gr.Error`, in words for the page."""
        role, needed, session = self._role_of(request.username), role_needed(event), request.session_hash
        if ROLES.index(role) < ROLES.index(needed):
            raise gr.Error(say("people.denied", needed=needed, role=role), print_exception=False)
        if session and self._sessions.setdefault(session, request.username) != request.username:
            raise gr.Error(say("people.session"), print_exception=False)
        if role == "admin" or not any(fnmatchcase(event, each) for each in ASKING):
            return
        who, now = request.username or (request.client.host if request.client else ""), time.monotonic()
        asked = self._asked[who] = [each for each in self._asked.get(who, ()) if now - each < 60.0]
        self._under_way = {each: seen for each, seen in self._under_way.items() if now - seen[1] < SILENT_SECONDS}
        if len(asked) >= PER_MINUTE:
            raise gr.Error(say("people.rate", most=PER_MINUTE, seconds=61 - int(now - asked[0])), print_exception=False)
        if sum(each == who for each, _ in self._under_way.values()) >= AT_ONCE_EACH:
            raise gr.Error(say("people.at_once", most=AT_ONCE_EACH), print_exception=False)
        asked.append(now)
        self._under_way[call] = (who, now)
