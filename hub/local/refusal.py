"""What the local Hub answers when it will not do what was asked."""

from collections.abc import Mapping


class Refusal(Exception):
    """An error for the client: status, the Hub's own error code (typed exceptions hang on it), words."""

    def __init__(
        self,
        status: int,
        message: str,
        code: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.headers = dict(headers or {})


def unknown_entry(path: str, commit: str) -> Refusal:
    """Return the refusal for a file that a commit does not hold; clients remember it by the commit."""
    return Refusal(
        404, f"there is no {path} in commit {commit}", "EntryNotFound", {"X-Repo-Commit": commit}
    )


def unknown_revision(revision: str) -> Refusal:
    """Return the refusal for a branch, tag or commit that is not there."""
    return Refusal(404, f"Invalid rev id: {revision}", "RevisionNotFound")
