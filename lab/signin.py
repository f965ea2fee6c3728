"""Signing in with Hugging Face, where it can work: on a Space with OAuth and the packages for it."""

from collections.abc import Mapping
from importlib.util import find_spec

import gradio as gr

from lab.visitors import Visitor, meet

NEEDED = (
    "SPACE_ID",
    "OAUTH_CLIENT_ID",
    "OAUTH_CLIENT_SECRET",
    "OAUTH_SCOPES",
    "OPENID_PROVIDER_URL",
)
PACKAGES = ("authlib", "itsdangerous")


def can_sign_in(environment: Mapping[str, str]) -> bool:
    """Whether the button would work here. Elsewhere gradio refuses to build a page that has it."""
    is_set_up = all(environment.get(name) for name in NEEDED)
    return is_set_up and all(find_spec(name) is not None for name in PACKAGES)


def meet_signed_in(
    remembered: object, request: gr.Request, profile: gr.OAuthProfile | None
) -> tuple[Visitor, object]:
    """Return who is at the page: the name they signed in with, else who their browser says they are."""
    visitor, kept = meet(remembered, request)
    return (visitor if profile is None else Visitor(f"hf:{profile.username}", visitor.page)), kept
