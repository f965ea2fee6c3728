"""Authorisation for every Gradio event: role, limits, values, a log of what admins did."""

import logging
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from typing import Any

import gradio as gr

from evals.errors import LabError
from lab.middleware import KEY, REFUSED
from lab.settings import ROLES, Log, Role, role_needed
from lab.store import ACTION
from lab.ui.text import say

CHOICES_NAMED, LARGEST = 12, 2**53
PER_MINUTE, AT_ONCE_EACH = 30, 4
"""How often somebody who is no admin may ask a model, and how many of those may be under way."""
SESSIONS_KEPT = 10_000
"""Pages whose name is remembered; those that called nothing for longest are forgotten."""
SILENT_SECONDS = 60.0
"""After so long an answer of which nothing more was heard no longer counts as under way: its page was closed."""
ASKING = ("ask", "pair", "pair_on", "compare_set", "undo", "review")
EMPTY = {gr.Textbox: "", gr.CheckboxGroup: [], gr.Checkbox: False}
"""What a field of which nothing came is taken to hold."""
UNWRITABLE = re.compile("[\0\ud800-\udfff]")
"""What neither a database nor a reply in UTF-8 can hold."""
log = logging.getLogger(__name__)


def refusal(field: Any, value: Any) -> str:
    """Return what a field of the page takes, in words, if a value is nothing for it; else ""."""
    if isinstance(value, str) and UNWRITABLE.search(value):
        return say("people.takes.letters")
    if isinstance(field, gr.Number | gr.Slider) and (value is not None or isinstance(field, gr.Slider)):
        low, high = (-LARGEST if field.minimum is None else field.minimum), field.maximum or LARGEST
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return "" if is_number and low <= value <= high else say("people.takes.number", low=low, high=high)
    if isinstance(field, gr.Radio | gr.Dropdown | gr.CheckboxGroup):
        known, is_many = (
            [each for _, each in field.choices],
            getattr(field, "multiselect", isinstance(field, gr.CheckboxGroup)),
        )
        chosen = value if is_many and isinstance(value, list) else [value] if is_many or value is not None else []
        named = ", ".join(map(str, known[:CHOICES_NAMED])) + ", …" * (len(known) > CHOICES_NAMED)
        return "" if all(each in known for each in chosen) else say("people.takes.choice", known=named or "–")
    kinds = {gr.Textbox: (str, "text"), gr.Checkbox: (bool, "mark"), gr.UploadButton: (object, "file")}
    kind, takes = kinds.get(type(field), (object, ""))
    return say(f"people.takes.{takes}") if takes and (value is None or not isinstance(value, kind)) else ""


class GuardedBlocks(gr.Blocks):
    """A page of which everybody may call what their role may; `role_of` gives that of a name, None = without one.

    `is_done` says of the key of an action whether something of it was kept; `first_values` what fields hold, by their ids,
    in the page that is sent to who signed in by a name, "" for nobody.
    """

    def __init__(
        self, role_of: Callable[[str | None], Role], log: Log, is_done: Callable[[str], bool], **options: Any
    ) -> None:
        super().__init__(**options)
        self.is_done = is_done
        self.first_values: Callable[[str], Mapping[str, str]] = lambda name: {}
        self._role_of, self._log = role_of, log
        self._sessions = OrderedDict[str, str | None]()
        self._asked: dict[str, list[float]] = {}
        self._under_way: dict[str, tuple[str, float]] = {}

    async def process_api(self, block_fn: Any, inputs: list[Any], *given: Any, **known: Any) -> dict[str, Any]:
        """Do as Gradio does with an event of the page; `gr.Error` for one that this visitor may not call, or not now."""
        event, request, call = block_fn.api_name or "", known.get("request"), str(known.get("event_id"))
        if request is None:  # the lab's own code, not a visitor
            return await super().process_api(block_fn, inputs, *given, **known)
        if not isinstance(request, gr.Request):  # a list of them, to which who sends "batched" can make it
            raise gr.Error(say("people.unclear"), print_exception=False)
        if clicked := known.get("event_data"):
            sent = clicked._data if isinstance(clicked._data, dict) else {}
            clicked._data = {name: sent[name] for name in sent if isinstance(sent[name], str | int)}
        done: dict[str, Any] = {}
        try:
            if known.get("iterator") is None:
                self.admit(event, request, call)
                ACTION.set([key] if (key := request.headers.get(KEY)) else [])
            elif call in self._under_way:
                self._under_way[call] = (self._under_way[call][0], time.monotonic())
            done = await super().process_api(block_fn, inputs, *given, **known)
        except (gr.Error, LabError) as error:
            told = error if isinstance(error, gr.Error) else gr.Error(str(error))
            told.print_exception = False  # it is told on the page, and says what is wrong
            told.message = str(told.message).replace("<", "&lt;")  # there it is read as HTML
            request.request.scope.get(REFUSED, []).append(told)
            raise told from error
        finally:
            if not done.get("is_generating"):
                self._under_way.pop(call, None)
        if request.username and role_needed(event) == "admin" and known.get("iterator") is None:
            told = (re.sub("//[^/@]*@", "//…@", each)[:80] for each in inputs if isinstance(each, str) and each)
            about = "; ".join(told)
            self._log(request.username, event, about[:400])
        return done

    async def preprocess_data(self, block_fn: Any, inputs: list[Any], state: Any, explicit_call: Any = False) -> Any:
        """Return what the fields make of what was sent for them; `gr.Error`, and a line in the log, for what is none."""
        given, problem = [*inputs], say("people.unclear")
        try:
            for place, field in enumerate(block_fn.inputs):
                now = field if field.stateful or not state or field._id not in state else state[field._id]
                choices = [choice for _, choice in getattr(now, "choices", ())]
                first = getattr(field, "value", None)
                start = first if first in choices else EMPTY.get(type(now))
                value = given[place] = start if inputs[place] is None else inputs[place]
                if takes := refusal(now, value):
                    name = now.label or now.elem_id or place + 1
                    problem = say("people.value", field=name, takes=takes, value=f"{value!r:.80}")
                    raise ValueError
            return await super().preprocess_data(block_fn, given, state, explicit_call)
        except Exception as error:  # Gradio's own are of values too few, and of files that nobody uploaded
            log.warning("%s: %s %s", block_fn.api_name, problem, " ".join(f"{error!r:.200}".split()))
            raise gr.Error(problem, print_exception=False) from error

    def admit(self, event: str, request: gr.Request, call: str) -> None:
        """Let a call pass that this visitor may make now; else `gr.Error`, in words for the page."""
        role, needed, session = self._role_of(request.username), role_needed(event), request.session_hash
        if ROLES.index(role) < ROLES.index(needed):
            raise gr.Error(say("people.denied", needed=needed, role=role), print_exception=False)
        if session:
            if self._sessions.setdefault(session, request.username) != request.username:
                raise gr.Error(say("people.session"), print_exception=False)
            self._sessions.move_to_end(session)
            if len(self._sessions) > SESSIONS_KEPT:
                self._sessions.popitem(last=False)
        if role == "admin" or not any(fnmatchcase(event, each) for each in ASKING):
            return
        who, now = request.username or (request.client.host if request.client else ""), time.monotonic()
        self._asked = {each: times for each, times in self._asked.items() if now - times[-1] < 60.0}
        asked = [each for each in self._asked.get(who, ()) if now - each < 60.0]
        self._under_way = {each: seen for each, seen in self._under_way.items() if now - seen[1] < SILENT_SECONDS}
        if len(asked) >= PER_MINUTE:
            raise gr.Error(say("people.rate", most=PER_MINUTE, seconds=61 - int(now - asked[0])), print_exception=False)
        if sum(each == who for each, _ in self._under_way.values()) >= AT_ONCE_EACH:
            raise gr.Error(say("people.at_once", most=AT_ONCE_EACH), print_exception=False)
        self._asked[who] = [*asked, now]
        self._under_way[call] = (who, now)
