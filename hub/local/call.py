"""One request, read: who asks, what stands in the address, and the body."""

import json
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse

from hub.local.hub import Hub
from hub.local.refusal import Refusal
from hub.local.repositories import Kind, Repository

KINDS: dict[str, Kind] = {"models": "model", "datasets": "dataset", "spaces": "space"}


@dataclass(frozen=True)
class Call:
    """A request with its address taken apart; `body` is empty for uploads, which are streamed."""

    hub: Hub
    request: Request
    parts: dict[str, str]
    body: bytes = b""

    @property
    def base(self) -> str:
        """The address of this Hub, without a slash at the end."""
        return str(self.request.base_url).rstrip("/")

    @property
    def user(self) -> str | None:
        """Who asks; Refusal for an unknown token."""
        scheme, _, token = self.request.headers.get("authorization", "").partition(" ")
        return self.hub.user(token.strip() if scheme.lower() == "bearer" and token else None)

    @property
    def known_user(self) -> str:
        """Who asks; Refusal for nobody."""
        user = self.user
        if user is None:
            raise Refusal(401, "Invalid username or password.")
        return user

    @property
    def kind(self) -> Kind:
        """The kind of repository that the address names."""
        return KINDS[self.parts.get("kind", "models")]

    @property
    def name(self) -> str:
        """ORG/NAME of the address."""
        return f"{self.parts['org']}/{self.parts['name'].removesuffix('.git')}"

    @property
    def is_pull_request(self) -> bool:
        """Whether what is asked shall become a pull request."""
        return self.request.query_params.get("create_pr") == "1"

    def document(self) -> dict[str, Any]:
        """Return the JSON object of the body; Refusal if it is none."""
        try:
            found = json.loads(self.body or b"{}")
        except ValueError:
            raise Refusal(400, "the body is not JSON") from None
        if not isinstance(found, dict):
            raise Refusal(400, "the body is no JSON object")
        return found

    def seen(self) -> Repository:
        """Return the repository of the address, if this user may know of it."""
        return self.hub.seen(self.kind, self.name, self.user)

    def readable(self) -> Repository:
        """Return the repository of the address, if this user may read it."""
        return self.hub.readable(self.kind, self.name, self.user)

    def writable(self) -> Repository:
        """Return the repository of the address, if this user may write to it."""
        return self.hub.writable(self.kind, self.name, self.user)


def answer(
    document: object, status: int = 200, headers: dict[str, str] | None = None
) -> JSONResponse:
    """Return a JSON answer."""
    return JSONResponse(document, status, headers=headers)
