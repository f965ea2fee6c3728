"""Handlers: list the files of a revision, read one, also in parts."""

from typing import Any
from urllib.parse import parse_qs, quote

from starlette.responses import FileResponse, JSONResponse, RedirectResponse, Response

from hub.local.state import Call, Commit, Refusal, git_oid, pointer

PAGE = 1000
"""Entries of one page of a listing, as the Hub gives them."""


def tree(call: Call) -> Response:
    """List files and folders, page by page, the next page's address in the header Link."""
    commit = call.hub.repositories.commit(call.repository("read"), call.parts["revision"])
    folder, query = call.parts.get("rest", "").strip("/"), call.request.query_params
    is_recursive = query.get("recursive", "").lower() in ("true", "1")
    start = f"{folder}/" if folder else ""
    names = set()
    for path in commit.tree:
        if path.startswith(start):
            parts = path.removeprefix(start).split("/")
            names |= {start + "/".join(parts[: n + 1]) for n in range(len(parts) if is_recursive else 1)}
    if folder and not names:
        raise _unknown_entry(folder, commit)
    first = int(query.get("cursor", 0))
    end = first + int(query.get("limit", PAGE))
    headers = {}
    if end < len(names):
        following = call.request.url.include_query_params(cursor=end)
        headers["Link"] = f'<{following}>; rel="next"'
    items = [_item(commit, name) for name in sorted(names)[first:end]]
    return JSONResponse(items, headers=headers)


def paths(call: Call) -> Response:
    """Describe the paths named in the form; those that are not there are left out."""
    commit = call.hub.repositories.commit(call.repository("read"), call.parts["revision"])
    form = parse_qs(call.body.decode())
    items = [_item(commit, name.strip("/")) for name in form.get("paths", [])]
    return JSONResponse([item for item in items if item])


def resolve(call: Call) -> Response:
    """Send a file of a revision."""
    repository = call.repository("read")
    commit = call.hub.repositories.commit(repository, call.parts["revision"])
    path = call.parts["rest"]
    entry = commit.tree.get(path)
    if entry is None:
        raise _unknown_entry(path, commit)
    headers = {
        "X-Repo-Commit": commit.oid,
        "ETag": f'"{entry.oid}"',
        "Content-Disposition": f"inline; filename*=UTF-8''{quote(path.split('/')[-1])}",
    }
    if entry.is_lfs:
        headers |= {"X-Linked-Etag": f'"{entry.sha256}"', "X-Linked-Size": str(entry.size)}
        if call.hub.options.redirects:
            elsewhere = call.base.replace("127.0.0.1", "localhost")
            return RedirectResponse(f"{elsewhere}/_objects/{entry.sha256}", 302, headers)
    return FileResponse(call.hub.objects.path(entry.sha256), headers=headers, media_type="application/octet-stream")


def content(call: Call) -> Response:
    """Send an object by its SHA-256: where redirected readers arrive."""
    sha256 = call.parts["sha256"]
    if not call.hub.objects.has(sha256):
        raise Refusal(404, "there is no such object")
    return FileResponse(call.hub.objects.path(sha256), headers={"ETag": f'"{sha256}"'})


def _unknown_entry(path: str, commit: Commit) -> Refusal:
    return Refusal(404, f"there is no {path} in commit {commit.oid}", "EntryNotFound", {"X-Repo-Commit": commit.oid})


def _item(commit: Commit, path: str) -> dict[str, Any] | None:
    entry = commit.tree.get(path)
    if entry is None:
        if not any(name.startswith(f"{path}/") for name in commit.tree):
            return None
        return {"type": "directory", "oid": git_oid("tree", path.encode()), "size": 0, "path": path}
    item = {"type": "file", "oid": entry.oid, "size": entry.size, "path": path}
    if entry.is_lfs:
        item["lfs"] = {"oid": entry.sha256, "size": entry.size, "pointerSize": len(pointer(entry.sha256, entry.size))}
    return item
