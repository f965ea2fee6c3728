"""Handlers: discussions and pull requests."""

from typing import Any

from starlette.responses import Response

from hub.local.accounts import stamp
from hub.local.call import Call, answer
from hub.local.hub import Hub
from hub.local.refusal import Refusal
from hub.local.repositories import MAIN, PULLS, Discussion, NewCommit, Repository


def open_pull_request(
    hub: Hub, repository: Repository, user: str, header: dict[str, Any]
) -> tuple[Repository, Discussion]:
    """Return the repository with one more pull request, which starts at main."""
    return _opened(hub, repository, user, (header["summary"], header.get("description") or ""))


def listing(call: Call) -> Response:
    """List a repository's discussions and pull requests."""
    repository = call.seen()
    found = [_document(call, repository, each) for each in repository.discussions]
    return answer({"discussions": found, "count": len(found), "start": 0})


def start(call: Call) -> Response:
    """Open a discussion or a pull request."""
    user, repository, wanted = call.known_user, call.readable(), call.document()
    words = (str(wanted["title"]), wanted.get("description") or "")
    opened, discussion = _opened(
        call.hub, repository, user, words, is_pull_request=bool(wanted.get("pullRequest"))
    )
    return answer(_document(call, opened, discussion))


def show(call: Call) -> Response:
    """Show one discussion."""
    repository = call.seen()
    return answer(_document(call, repository, _found(call, repository)))


def merge(call: Call) -> Response:
    """Put a pull request's files on main; 409 if main went on meanwhile."""
    repository = call.writable()
    discussion = _found(call, repository)
    if not discussion.is_pull_request or discussion.status not in ("open", "draft"):
        raise Refusal(409, f"#{discussion.number} is no open pull request")
    commit = call.hub.repositories.commit(repository, f"{PULLS}{discussion.number}")
    before = {each.oid for each in call.hub.repositories.history(repository, commit)}
    if repository.refs[MAIN] not in before:
        raise Refusal(409, "main has changed since the pull request was opened")
    new = NewCommit(
        ref=MAIN,
        title=f"{discussion.title} (#{discussion.number})",
        author=call.known_user,
        tree=commit.tree,
    )
    repository, made = call.hub.repositories.add(repository, new)
    _replace(call.hub, repository, discussion, status="merged", merge_commit=made.oid)
    return answer({})


def change_status(call: Call) -> Response:
    """Open or close a discussion."""
    repository = call.writable()
    discussion = _found(call, repository)
    status = call.document().get("status")
    if status not in ("open", "closed"):
        raise Refusal(400, f"a status is open or closed, found {status!r}")
    _replace(call.hub, repository, discussion, status=status)
    event = {
        "id": f"{discussion.number}-s",
        "type": "status-change",
        "createdAt": stamp(call.hub.now()),
        "author": {"name": call.known_user},
        "data": {"status": status},
    }
    return answer({"newStatus": event})


def _opened(
    hub: Hub,
    repository: Repository,
    user: str,
    words: tuple[str, str],
    *,
    is_pull_request: bool = True,
) -> tuple[Repository, Discussion]:
    discussion = Discussion(
        number=len(repository.discussions) + 1,
        title=words[0],
        description=words[1],
        author=user,
        created_at=hub.now(),
        is_pull_request=is_pull_request,
        status="open",
    )
    refs = dict(repository.refs)
    if is_pull_request:
        refs[f"{PULLS}{discussion.number}"] = refs[MAIN]
    discussions = (*repository.discussions, discussion)
    changed = repository.model_copy(update={"refs": refs, "discussions": discussions})
    return hub.repositories.save(changed), discussion


def _found(call: Call, repository: Repository) -> Discussion:
    for discussion in repository.discussions:
        if str(discussion.number) == call.parts["number"]:
            return discussion
    raise Refusal(404, "Discussion not found")


def _replace(hub: Hub, repository: Repository, discussion: Discussion, **changes: object) -> None:
    changed = discussion.model_copy(update=changes)
    discussions = tuple(
        changed if each.number == discussion.number else each for each in repository.discussions
    )
    hub.repositories.save(repository.model_copy(update={"discussions": discussions}))


def _document(call: Call, repository: Repository, discussion: Discussion) -> dict[str, Any]:
    first = {
        "id": f"{discussion.number}-0",
        "type": "comment",
        "createdAt": stamp(discussion.created_at),
        "author": {"name": discussion.author},
        "data": {"edited": False, "hidden": False, "latest": {"raw": discussion.description}},
    }
    changes = {"base": MAIN}
    if discussion.merge_commit:
        changes["mergeCommitId"] = discussion.merge_commit
    return {
        "num": discussion.number,
        "title": discussion.title,
        "author": {"name": discussion.author},
        "createdAt": stamp(discussion.created_at),
        "status": discussion.status,
        "isPullRequest": discussion.is_pull_request,
        "repo": {"name": repository.id, "type": repository.kind},
        "repoOwner": {},
        "events": [first],
        "changes": changes,
        "filesWithConflicts": [],
        "diff": "",
    }
