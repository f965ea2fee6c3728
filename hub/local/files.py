"""Handlers: list the files of a revision, read one, also in parts."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote

from starlette.responses import RedirectResponse, Response, StreamingResponse

from hub.local.repos import stamp
from hub.local.state import Call, Commit, Refusal, answer, git_oid, pointer, unknown_entry

PAGE, PAGE_EXPANDED = 1000, 50
"""Entries of one page of a listing, as the Hub gives them."""
PIECE = 1 << 20
RANGE = re.compile(r"bytes=(\d*)-(\d*)")


def tree(call: Call) -> Response:
    """List files and folders, page by page, the next page's address in the header Link."""
    repository = call.readable()
    commit = call.hub.repositories.commit(repository, call.parts["revision"])
    folder, query = call.parts.get("rest", "").strip("/"), call.request.query_params
    is_recursive, is_expanded = (_is_true(query.get(key)) for key in ("recursive", "expand"))
    names = sorted(_names(commit, folder, is_recursive=is_recursive))
    if folder and not names:
        raise unknown_entry(folder, commit.oid)
    start = int(query.get("cursor", 0))
    end = start + int(query.get("limit", PAGE_EXPANDED if is_expanded else PAGE))
    headers = {}
    if end < len(names):
        place = f"{call.base}{call.request.url.path}"
        flags = f"recursive={is_recursive}&expand={is_expanded}".lower()
        headers["Link"] = f'<{place}?{flags}&cursor={end}>; rel="next"'
    items = [_item(commit, name, is_expanded=is_expanded) for name in names[start:end]]
    return answer([item for item in items if item], headers=headers)


def paths(call: Call) -> Response:
    """Describe the paths named in the body (a form, or JSON); those that are not there are left out."""
    repository = call.readable()
    commit = call.hub.repositories.commit(repository, call.parts["revision"])
    if "json" in call.request.headers.get("content-type", ""):
        wanted = call.document()
        names, is_expanded = wanted.get("paths", []), bool(wanted.get("expand"))
    else:
        form = parse_qs(call.body.decode())
        names, is_expanded = form.get("paths", []), _is_true(form.get("expand", [""])[0])
    items = [_item(commit, str(name).strip("/"), is_expanded=is_expanded) for name in names]
    return answer([item for item in items if item])


def resolve(call: Call) -> Response:
    """Send a file of a revision."""
    repository = call.readable()
    commit = call.hub.repositories.commit(repository, call.parts["revision"])
    path = call.parts["rest"]
    entry = commit.tree.get(path)
    if entry is None:
        raise unknown_entry(path, commit.oid)
    headers = {
        "X-Repo-Commit": commit.oid,
        "ETag": f'"{entry.oid}"',
        "Content-Disposition": f"inline; filename*=UTF-8''{quote(path.split('/')[-1])}",
    }
    if entry.is_lfs:
        headers |= {"X-Linked-Etag": f'"{entry.sha256}"', "X-Linked-Size": str(entry.size)}
        if entry.xet:
            route = f"{call.base}/api/{repository.kind}s/{repository.id}/xet-read-token"
            headers |= {
                "X-Xet-Hash": entry.xet,
                "X-Xet-Refresh-Route": f"{route}/{commit.oid}",
            }
        if call.hub.options.redirects:
            elsewhere = call.base.replace("127.0.0.1", "localhost")
            return RedirectResponse(f"{elsewhere}/_objects/{entry.sha256}", 302, headers)
    return _content(call, call.hub.objects.path(entry.sha256), headers)


def content(call: Call) -> Response:
    """Send an object by its SHA-256: where redirected readers arrive."""
    sha256 = call.parts["sha256"]
    if not call.hub.objects.has(sha256):
        raise Refusal(404, "there is no such object")
    return _content(call, call.hub.objects.path(sha256), {"ETag": f'"{sha256}"'})


def _content(call: Call, file: Path, headers: dict[str, str]) -> Response:
    size = file.stat().st_size
    start, end, status = 0, size - 1, 200
    asked = RANGE.fullmatch(call.request.headers.get("range", ""))
    if asked and size and (asked[1] or asked[2]):
        start = int(asked[1]) if asked[1] else max(size - int(asked[2]), 0)
        end = min(int(asked[2] or end), end) if asked[1] else end
        if start > end:
            raise Refusal(416, "outside of the file", headers={"Content-Range": f"bytes */{size}"})
        status = 206
        headers = {**headers, "Content-Range": f"bytes {start}-{end}/{size}"}
    headers = {**headers, "Accept-Ranges": "bytes", "Content-Length": str(end - start + 1)}
    if call.request.method == "HEAD":
        return Response(status_code=status, headers=headers)
    return StreamingResponse(_pieces(file, start, end + 1), status, headers, "application/octet-stream")


def _pieces(file: Path, start: int, end: int) -> Iterator[bytes]:
    with file.open("rb") as source:
        source.seek(start)
        while start < end and (piece := source.read(min(PIECE, end - start))):
            start += len(piece)
            yield piece


def _names(commit: Commit, folder: str, *, is_recursive: bool) -> set[str]:
    """Return the files below a folder and the folders between."""
    start = f"{folder}/" if folder else ""
    found = set()
    for path in commit.tree:
        if not path.startswith(start):
            continue
        parts = path.removeprefix(start).split("/")
        depth = len(parts) if is_recursive else 1
        found |= {start + "/".join(parts[: each + 1]) for each in range(depth)}
    return found


def _item(commit: Commit, path: str, *, is_expanded: bool) -> dict[str, Any] | None:
    last: dict[str, Any] = {}
    if is_expanded:
        known = {"id": commit.oid, "title": commit.title, "date": stamp(commit.date)}
        last = {"lastCommit": known}
    entry = commit.tree.get(path)
    if entry is None:
        if not any(name.startswith(f"{path}/") for name in commit.tree):
            return None
        oid = git_oid("tree", path.encode())
        return {"type": "directory", "oid": oid, "size": 0, "path": path, **last}
    item = {"type": "file", "oid": entry.oid, "size": entry.size, "path": path, **last}
    if entry.is_lfs:
        length = len(pointer(entry.sha256, entry.size))
        item["lfs"] = {"oid": entry.sha256, "size": entry.size, "pointerSize": length}
    if entry.xet:
        item["xetHash"] = entry.xet
    return item


def _is_true(text: str | None) -> bool:
    return (text or "").lower() in ("true", "1")
