"""Handlers: what will be uploaded how, the commit itself, branches, tags and the history."""

import base64
import binascii
import fnmatch
import json
from typing import Any

from starlette.responses import Response

from hub.cards.lint import problems_of
from hub.local import uploads as xet
from hub.local.repos import stamp
from hub.local.state import (
    HEADS,
    MAIN,
    PULLS,
    TAGS,
    Call,
    Commit,
    Discussion,
    Entry,
    Hub,
    Kind,
    NewCommit,
    Refusal,
    Repository,
    Tree,
    answer,
    unknown_revision,
)


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
    opened, discussion = _opened(call.hub, repository, user, words, is_pull_request=bool(wanted.get("pullRequest")))
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
    discussions = tuple(changed if each.number == discussion.number else each for each in repository.discussions)
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


LARGE_BYTES = 10 * 1024 * 1024
"""Files above this go to LFS or xet whatever their name."""


def validate(call: Call) -> Response:
    """Say what is wrong with a card's front matter."""
    wanted = call.document()
    problems = problems_of(str(wanted.get("content", "")), wanted.get("repoType") or "model")
    errors = [{"message": each.message} for each in problems if each.is_error]
    warnings = [{"message": each.message} for each in problems if not each.is_error]
    return answer({"errors": errors, "warnings": warnings}, 400 if errors else 200)


def preupload(call: Call) -> Response:
    """Say of each file how it shall be uploaded, whether it is ignored, and what is there now."""
    repository = call.readable() if call.is_pull_request else call.writable()
    commit = call.hub.repositories.commit(repository, call.parts["revision"])
    wanted = call.document()
    ignored = _lines(wanted.get("gitIgnore") or _text(call, commit, ".gitignore"))
    attributes = _lines(_text(call, commit, ".gitattributes"))
    large = [line.split()[0] for line in attributes if "filter=lfs" in line]
    files = []
    for file in wanted["files"]:
        path, entry = file["path"], commit.tree.get(file["path"])
        is_large = file["size"] > LARGE_BYTES or _matches(path, large) or _is_binary(file)
        one = {
            "path": path,
            "uploadMode": "lfs" if is_large else "regular",
            "shouldIgnore": _matches(path, ignored),
        }
        if entry is not None:
            one["oid"] = entry.sha256 if entry.is_lfs else entry.oid
        files.append(one)
    return answer({"files": files, "commitOid": commit.oid})


def commit(call: Call) -> Response:
    """Make one commit of all changes, on a branch or as a pull request."""
    repository = call.readable() if call.is_pull_request else call.writable()
    user, revision = call.known_user, call.parts["revision"]
    head = call.hub.repositories.commit(repository, revision)
    header, tree = _changed(call, repository.kind, head)
    pull: Discussion | None = None
    if call.is_pull_request:
        repository, pull = open_pull_request(call.hub, repository, user, header)
        ref = f"{PULLS}{pull.number}"
    else:
        ref = _branch(repository, revision)
    new = NewCommit(
        ref=ref,
        title=header["summary"],
        message=header.get("description") or "",
        author=user,
        tree=tree,
        parent=head.oid,
    )
    repository, made = call.hub.repositories.add(repository, new)
    url = f"{call.base}/{repository.path}"
    document = {"success": True, "commitOid": made.oid, "commitUrl": f"{url}/commit/{made.oid}"}
    if pull is not None:
        document["pullRequestUrl"] = f"{url}/discussions/{pull.number}"
    return answer(document)


def history(call: Call) -> Response:
    """List the commits up to a revision, newest first."""
    repository = call.seen()
    head = call.hub.repositories.commit(repository, call.parts["revision"])
    found = [
        {
            "id": each.oid,
            "title": each.title,
            "message": each.message,
            "date": stamp(each.date),
            "authors": [{"user": each.author}],
        }
        for each in call.hub.repositories.history(repository, head)
    ]
    return answer(found)


def references(call: Call) -> Response:
    """List branches, tags and, if asked, pull requests."""
    repository = call.seen()
    named = {"branches": HEADS, "tags": TAGS}
    if call.request.query_params.get("include_prs") == "1":
        named["pullRequests"] = PULLS
    document: dict[str, list[dict[str, str]]] = {"converts": []}
    for group, start in named.items():
        document[group] = [
            {"name": ref.removeprefix(start), "ref": ref, "targetCommit": oid}
            for ref, oid in repository.refs.items()
            if ref.startswith(start)
        ]
    return answer(document)


def make_branch(call: Call) -> Response:
    """Make a branch at a revision; 409 if it is there."""
    start = call.document().get("startingPoint") or "main"
    return _point(call, HEADS, call.parts["revision"], start)


def make_tag(call: Call) -> Response:
    """Make a tag at a revision; 409 if it is there: a tag never moves."""
    return _point(call, TAGS, str(call.document().get("tag")), call.parts["revision"])


def delete_branch(call: Call) -> Response:
    """Remove a branch; main stays."""
    if call.parts["revision"] == "main":
        raise Refusal(403, "main cannot be deleted")
    return _remove(call, HEADS)


def delete_tag(call: Call) -> Response:
    """Remove a tag."""
    return _remove(call, TAGS)


def _point(call: Call, start: str, name: str, revision: str) -> Response:
    repository = call.writable()
    if start + name in repository.refs:
        raise Refusal(409, f"Reference already exists: {name}")
    target = call.hub.repositories.commit(repository, revision).oid
    refs = {**repository.refs, start + name: target}
    call.hub.repositories.save(repository.model_copy(update={"refs": refs}))
    return answer({})


def _remove(call: Call, start: str) -> Response:
    repository, name = call.writable(), call.parts["revision"]
    if start + name not in repository.refs:
        raise unknown_revision(name)
    refs = {ref: oid for ref, oid in repository.refs.items() if ref != start + name}
    call.hub.repositories.save(repository.model_copy(update={"refs": refs}))
    return answer({})


def _branch(repository: Repository, revision: str) -> str:
    for ref in (revision, HEADS + revision):
        if ref in repository.refs and not ref.startswith(TAGS):
            return ref
    raise Refusal(400, f"cannot commit to {revision}: it is no branch")


def _changed(call: Call, kind: Kind, head: Commit) -> tuple[dict[str, Any], Tree]:
    """Return the header of a commit and the files after it; nothing is kept if any line is wrong."""
    header: dict[str, Any] = {"summary": ""}
    tree = dict(head.tree)
    for line in call.body.splitlines():
        if not line.strip():
            continue
        item = json.loads(line)
        if item["key"] == "header":
            header = item["value"]
            _check_header(header, head)
        else:
            _apply(call, kind, item, tree)
    return header, tree


def _check_header(header: dict[str, Any], head: Commit) -> None:
    if not str(header.get("summary", "")).strip():
        raise Refusal(400, "the summary of the commit is empty")
    parent = header.get("parentCommit")
    if parent and not head.oid.startswith(parent):
        raise Refusal(412, "A commit has happened since. Please refresh and try again.")


def _apply(call: Call, kind: Kind, item: dict[str, Any], tree: Tree) -> None:
    key, value = item["key"], item["value"]
    path = str(value["path"])
    if path.startswith("/") or {"..", ".git", ""} & set(path.rstrip("/").split("/")):
        raise Refusal(400, f"Invalid path: {path}")
    if key == "file":
        tree[path] = _small(call, kind, path, value["content"])
    elif key == "lfsFile":
        tree[path] = _large(call, path, value["oid"])
    elif key == "deletedFile":
        if tree.pop(path, None) is None:
            raise Refusal(404, "A file with this name doesn't exist", "EntryNotFound")
    elif key == "deletedFolder":
        inside = [name for name in tree if name.startswith(path.rstrip("/") + "/")]
        if not inside:
            raise Refusal(404, "A folder with this name doesn't exist", "EntryNotFound")
        for name in inside:
            del tree[name]
    else:
        raise Refusal(400, f"unknown change {key!r}")


def _small(call: Call, kind: Kind, path: str, encoded: str) -> Entry:
    try:
        content = base64.b64decode(encoded, validate=True)
    except binascii.Error:
        raise Refusal(400, f"the content of {path} is not base64") from None
    if path == "README.md":
        problems = problems_of(content.decode("utf-8", "replace"), kind)
        errors = [each.message for each in problems if each.is_error]
        if errors:
            raise Refusal(400, "\n- ".join(["Invalid metadata in README.md.", *errors]))
    return call.hub.objects.add(content)


def _large(call: Call, path: str, sha256: str) -> Entry:
    folder = call.hub.options.xet
    name = xet.bring(folder, sha256, call.hub.objects) if folder else None
    if not call.hub.objects.has(sha256):
        raise Refusal(400, f"LFS pointer pointed to a file that does not exist: {path}")
    return call.hub.objects.large(sha256, name)


def _text(call: Call, commit: Commit, path: str) -> str:
    entry = commit.tree.get(path)
    return call.hub.objects.read(entry.sha256).decode("utf-8", "replace") if entry else ""


def _lines(text: str) -> list[str]:
    lines = (line.strip() for line in text.splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def _matches(path: str, patterns: list[str]) -> bool:
    name = path.rsplit("/", 1)[-1]
    return any(
        fnmatch.fnmatch(name, pattern.rstrip("/"))
        or fnmatch.fnmatch(path, pattern)
        or path.startswith(pattern.rstrip("/") + "/")
        for pattern in patterns
    )


def _is_binary(file: dict[str, Any]) -> bool:
    """Whether the first bytes of a file are no text; its last character there may be cut."""
    sample = base64.b64decode(file.get("sample", ""))
    if b"\0" in sample:
        return True
    try:
        sample.decode("utf-8")
    except UnicodeDecodeError as error:
        return error.start < len(sample) - 3
    return False
