"""Signing in with Hugging Face, where it can work: on a Space with OAuth and the packages for it."""

import hashlib
import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec

import gradio as gr

# Kept under a name and key of our own, so that a browser is known again after a restart. The key
# is no secret: it travels with the page.
BROWSER_KEY = "assay-visitor"
BROWSER_SECRET = "assay-visitor-v1"


@dataclass(frozen=True)
class Visitor:
    """Who is reading: `rater` is the same in every tab of a browser, `page` differs by tab, `name` is who they say they are."""

    rater: str
    page: str
    name: str = ""

    @property
    def called(self) -> str:
        """The name they gave or signed in with, "" for none."""
        return self.name.removeprefix("name:").removeprefix("hf:")

    @property
    def voter(self) -> str:
        """Under which votes are kept."""
        is_typed = self.name.startswith("name:")
        return self.name.casefold() if is_typed else self.name or self.rater


@dataclass(frozen=True)
class Door:
    """The widgets that carry a visitor: `known` on the server, `remembered` in the browser."""

    known: gr.State
    remembered: gr.BrowserState


def door() -> Door:
    """Lay the widgets out inside the `gr.Blocks` that is currently open; nothing of them shows."""
    remembered = gr.BrowserState(None, storage_key=BROWSER_KEY, secret=BROWSER_SECRET)
    return Door(known=gr.State(None), remembered=remembered)


def new_visitor(rater: str | None = None) -> Visitor:
    """Return a visitor with a page of its own; one without a rater's name gets a random one."""
    return Visitor(rater=rater or uuid.uuid4().hex, page=uuid.uuid4().hex)


def meet(remembered: object, request: gr.Request) -> tuple[Visitor, object]:
    """Return who is at the page, and what their browser shall keep; the same page always gets the same answer."""
    session = request.session_hash or uuid.uuid4().hex
    page, drawn = (hashlib.sha256(f"{role} {session}".encode()).hexdigest()[:32] for role in ("page", "rater"))
    if request.username:
        return Visitor(request.username, page, request.username), remembered
    is_ours = isinstance(remembered, str) and re.fullmatch(r"[0-9A-Za-z]{32}( \S.{0,79})?", remembered)
    if not is_ours:
        remembered = drawn
    rater, _, name = str(remembered).partition(" ")
    return Visitor(rater, page, f"name:{name}" if name else ""), remembered


def name_visitor(remembered: object, name: str, request: gr.Request) -> tuple[Visitor, object]:
    """Return who is at the page once they said what they are called, and what their browser shall keep; "" forgets it."""
    _, kept = meet(remembered, request)
    said = " ".join(name.split())[:80]
    return meet(f"{str(kept).partition(' ')[0]} {said}".strip(), request)


NEEDED = ("SPACE_ID", "OAUTH_CLIENT_ID", "OAUTH_CLIENT_SECRET", "OAUTH_SCOPES", "OPENID_PROVIDER_URL")
PACKAGES = ("authlib", "itsdangerous")


def can_sign_in(environment: Mapping[str, str]) -> bool:
    """Whether the button would work here. Elsewhere gradio refuses to build a page that has it."""
    is_set_up = all(environment.get(name) for name in NEEDED)
    return is_set_up and all(find_spec(name) is not None for name in PACKAGES)


def meet_signed_in(remembered: object, request: gr.Request, profile: gr.OAuthProfile | None) -> tuple[Visitor, object]:
    """Return who is at the page: the name they signed in with, else who their browser says they are."""
    visitor, kept = meet(remembered, request)
    name = f"hf:{profile.username}" if profile else ""
    return (visitor if profile is None else Visitor(name, visitor.page, name)), kept
