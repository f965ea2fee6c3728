"""Handlers: what will be uploaded how, commits, pull requests, tags and the history."""

import base64
import fnmatch
import json
from datetime import UTC, datetime
from typing import Any

from starlette.responses import JSONResponse, Response

from hub.cards.lint import front_matter_findings
from hub.local.state import HEADS, MAIN, PULLS, TAGS, Call, Commit, Discussion, Kind, Refusal, Tree, stamp

LARGE_BYTES = 10 * 1024 * 1024
"""Files above this go to LFS whatever their name."""


def validate(call: Call) -> Response:
    """Say what is wrong with a card's front matter."""
    wanted = call.document()
    found = front_matter_findings(str(wanted.get("content", "")), wanted.get("repoType") or "model")
    errors = [{"message": each.problem} for each in found if each.is_error]
    warnings = [{"message": each.problem} for each in found if not each.is_error]
    return JSONResponse({"errors": errors, "warnings": warnings}, 400 if errors else 200)


def preupload(call: Call) -> Response:
    """Say of each file how it shall be uploaded, whether it is ignored, and what is there now."""
    repository = call.repository("read" if call.is_pull_request else "write")
    commit = call.hub.repositories.commit(repository, call.parts["revision"])
    wanted = call.document()
    ignored = [line.strip() for line in wanted.get("gitIgnore", "").splitlines() if line.strip()]
    entry = commit.tree.get(".gitattributes")
    attributes = call.hub.objects.read(entry.sha256).decode() if entry else ""
    large = [line.split()[0] for line in attributes.splitlines() if "filter=lfs" in line]
    files = []
    for file in wanted["files"]:
        path, entry = file["path"], commit.tree.get(file["path"])
        is_large = file["size"] > LARGE_BYTES or _matches(path, large) or _is_binary(file)
        mode = "lfs" if is_large else "regular"
        one = {"path": path, "uploadMode": mode, "shouldIgnore": _matches(path, ignored)}
        if entry is not None:
            one["oid"] = entry.sha256 if entry.is_lfs else entry.oid
        files.append(one)
    return JSONResponse({"files": files, "commitOid": commit.oid})


def commit(call: Call) -> Response:
    """Make one commit of all changes, on a branch or as a pull request."""
    repository = call.repository("read" if call.is_pull_request else "write")
    user, revision = call.known_user, call.parts["revision"]
    head = call.hub.repositories.commit(repository, revision)
    header, tree = _changed(call, repository.kind, head)
    title, message = header["summary"], header.get("description") or ""
    number = len(repository.discussions) + 1
    ref = revision if revision in repository.refs else HEADS + revision
    if not call.is_pull_request and ref not in repository.refs:
        raise Refusal(400, f"cannot commit to {revision}: it is no branch")
    if call.is_pull_request:
        ref, opened = (
            f"{PULLS}{number}",
            Discussion(number=number, title=title, author=user, created_at=datetime.now(UTC)),
        )
        discussions, refs = (*repository.discussions, opened), {**repository.refs, ref: head.oid}
        repository = repository.model_copy(update={"discussions": discussions, "refs": refs})
    repository, made = call.hub.repositories.add(repository, ref, title, user, tree, message)
    url = f"{call.base}/{repository.path}"
    document = {"success": True, "commitOid": made.oid, "commitUrl": f"{url}/commit/{made.oid}"}
    if call.is_pull_request:
        document["pullRequestUrl"] = f"{url}/discussions/{number}"
    return JSONResponse(document)


def history(call: Call) -> Response:
    """List the commits up to a revision, newest first."""
    repository = call.repository("see")
    head = call.hub.repositories.commit(repository, call.parts["revision"])
    found = [
        {"id": each.oid, "title": each.title, "message": each.message, "date": stamp(each.date), "authors": []}
        for each in call.hub.repositories.history(repository, head)
    ]
    return JSONResponse(found)


def references(call: Call) -> Response:
    """List branches, tags and, if asked, pull requests."""
    repository = call.repository("see")
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
    return JSONResponse(document)


def make_tag(call: Call) -> Response:
    """Make a tag at a revision; 409 if it is there: a tag never moves."""
    repository, name = call.repository("write"), str(call.document().get("tag"))
    if TAGS + name in repository.refs:
        raise Refusal(409, f"Reference already exists: {name}")
    target = call.hub.repositories.commit(repository, call.parts["revision"]).oid
    call.hub.repositories.save(repository.model_copy(update={"refs": {**repository.refs, TAGS + name: target}}))
    return JSONResponse({})


def merge(call: Call) -> Response:
    """Put a pull request's files on main; 409 if main went on meanwhile."""
    repository, number = call.repository("write"), int(call.parts["number"])
    found = next((each for each in repository.discussions if each.number == number), None)
    if found is None or found.status != "open":
        raise Refusal(409, f"#{number} is no open pull request")
    commit = call.hub.repositories.commit(repository, f"{PULLS}{number}")
    if repository.refs[MAIN] not in {each.oid for each in call.hub.repositories.history(repository, commit)}:
        raise Refusal(409, "main has changed since the pull request was opened")
    title = f"{found.title} (#{number})"
    repository, _ = call.hub.repositories.add(repository, MAIN, title, call.known_user, commit.tree)
    merged = found.model_copy(update={"status": "merged"})
    discussions = tuple(merged if each is found else each for each in repository.discussions)
    call.hub.repositories.save(repository.model_copy(update={"discussions": discussions}))
    return JSONResponse({})


def _changed(call: Call, kind: Kind, head: Commit) -> tuple[dict[str, Any], Tree]:
    """Return the header of a commit and the files after it; nothing is kept if any line is wrong."""
    first, *items = [json.loads(line) for line in call.body.splitlines() if line.strip()]
    header, tree = first["value"], dict(head.tree)
    if not str(header.get("summary", "")).strip():
        raise Refusal(400, "the summary of the commit is empty")
    if not head.oid.startswith(header.get("parentCommit") or ""):
        raise Refusal(412, "A commit has happened since. Please refresh and try again.")
    for item in items:
        _apply(call, kind, item["key"], item["value"], tree)
    return header, tree


def _apply(call: Call, kind: Kind, key: str, value: dict[str, Any], tree: Tree) -> None:
    path = str(value["path"])
    if path.startswith("/") or {"..", ".git", ""} & set(path.rstrip("/").split("/")):
        raise Refusal(400, f"Invalid path: {path}")
    if key == "file":
        content = base64.b64decode(value["content"])
        if path == "README.md":
            found = front_matter_findings(content.decode("utf-8", "replace"), kind)
            if errors := [each.problem for each in found if each.is_error]:
                raise Refusal(400, "\n- ".join(["Invalid metadata in README.md.", *errors]))
        tree[path] = call.hub.objects.add(content)
    elif key == "lfsFile":
        sha256 = value["oid"]
        if not call.hub.objects.has(sha256):
            raise Refusal(400, f"LFS pointer pointed to a file that does not exist: {path}")
        tree[path] = call.hub.objects.large(sha256)
    elif key in ("deletedFile", "deletedFolder"):
        gone = [name for name in tree if name == path or name.startswith(path.rstrip("/") + "/")]
        if not gone:
            raise Refusal(404, f"there is no {path} to delete", "EntryNotFound")
        for name in gone:
            del tree[name]
    else:
        raise Refusal(400, f"unknown change {key!r}")


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
