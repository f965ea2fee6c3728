"""Handlers: the user, repositories and their settings, discussions; jobs are noted down and never run."""

import hashlib
import re
from datetime import UTC, datetime
from typing import Any

from starlette.responses import JSONResponse, Response

from hub.local.state import MAIN, Call, Kind, Refusal, Repository, stamp

NAME = re.compile(r"(?!.*(--|\.\.|\.git$|\.ipynb$))[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}", re.ASCII)
LARGE = (
    "7z arrow bin bz2 ckpt ftz gz h5 joblib model mlmodel msgpack npy npz onnx ot parquet pb pickle pkl"
    " pt pth rar safetensors tflite tgz wasm xz zip zst gguf png jpg mp4 wav"
)
ATTRIBUTES = "".join(f"*.{end} filter=lfs diff=lfs merge=lfs -text\n" for end in LARGE.split())


def whoami(call: Call) -> Response:
    """Answer with the user of the token."""
    user = call.known_user
    organisations = [
        {"type": "org", "name": name, "id": name, "fullname": name, "roleInOrg": "admin"}
        for name in call.hub.options.organisations or ()
    ]
    token = {"displayName": "local", "role": "write", "createdAt": stamp(datetime.now(UTC))}
    auth = {"type": "access_token", "accessToken": token}
    known = {"type": "user", "id": user, "name": user, "fullname": user, "isPro": False}
    return JSONResponse({**known, "orgs": organisations, "auth": auth})


def harnesses(call: Call) -> Response:
    """Answer the client's daily question with nothing."""
    return JSONResponse({"harnesses": []})


def create(call: Call) -> Response:
    """Make a repository with a first commit; 409, with its address, if it is there."""
    user, wanted = call.known_user, call.document()
    kind: Kind = wanted.get("type") or "model"
    name = f"{wanted.get('organization') or user}/{wanted.get('name')}"
    if not NAME.fullmatch(name):
        raise Refusal(400, f"Invalid repo name: {name}")
    if not call.hub.may_write(user, name):
        raise Refusal(403, f"{user} may not create a {kind} in {name.split('/')[0]}")
    known = call.hub.repositories.find(kind, name)
    if known is not None:
        url = f"{call.base}/{known.path}"
        return JSONResponse({"error": f"You already created this {kind} repo", "url": url}, 409)
    now, is_private = datetime.now(UTC), wanted.get("visibility") == "private" or bool(wanted.get("private"))
    repository = Repository(
        kind=kind, id=name, private=is_private, created_at=now, changed_at=now, sdk=wanted.get("sdk")
    )
    attributes = {".gitattributes": call.hub.objects.add(ATTRIBUTES.encode())}
    call.hub.repositories.add(repository, MAIN, "initial commit", user, attributes)
    return JSONResponse({"url": f"{call.base}/{repository.path}", "id": name, "name": name})


def delete(call: Call) -> Response:
    """Delete a repository."""
    wanted = call.document()
    name = f"{wanted.get('organization') or call.known_user}/{wanted.get('name')}"
    call.hub.repositories.remove(call.hub.find(wanted.get("type") or "model", name, call.user, "write"))
    return JSONResponse({})


def settings(call: Call) -> Response:
    """Change who may see or read a repository."""
    repository, wanted = call.repository("write"), call.document()
    changes: dict[str, object] = {}
    if "visibility" in wanted:
        if wanted["visibility"] not in ("private", "public"):
            raise Refusal(400, f"a visibility is private or public, found {wanted['visibility']!r}")
        changes["private"] = wanted["visibility"] == "private"
    elif "private" in wanted:
        changes["private"] = bool(wanted["private"])
    if "gated" in wanted:
        changes["gated"] = wanted["gated"]
    call.hub.repositories.save(repository.model_copy(update=changes))
    return JSONResponse({})


def about(call: Call) -> Response:
    """Describe a repository at a revision, main if none is named."""
    repository = call.repository("see")
    commit = call.hub.repositories.commit(repository, call.parts.get("revision", "main"))
    document: dict[str, Any] = {
        "_id": hashlib.sha1(repository.path.encode()).hexdigest()[:24],
        "id": repository.id,
        "author": repository.id.split("/")[0],
        "sha": commit.oid,
        "lastModified": stamp(repository.changed_at),
        "createdAt": stamp(repository.created_at),
        "private": repository.private,
        "gated": repository.gated,
        "sdk": repository.sdk,
        "tags": [],
        "siblings": [{"rfilename": path} for path in sorted(commit.tree)],
    }
    return JSONResponse(document)


def discussions(call: Call) -> Response:
    """List a repository's pull requests."""
    repository = call.repository("see")
    found = [
        {
            "num": each.number,
            "title": each.title,
            "author": {"name": each.author},
            "createdAt": stamp(each.created_at),
            "status": each.status,
            "isPullRequest": True,
            "repo": {"name": repository.id, "type": repository.kind},
            "repoOwner": {},
        }
        for each in repository.discussions
    ]
    return JSONResponse({"discussions": found, "count": len(found), "start": 0})


def submit_job(call: Call) -> Response:
    """Note a job down; it is never run."""
    namespace, wanted = call.parts["org"], call.document()
    if not call.hub.may_write(call.known_user, f"{namespace}/job"):
        raise Refusal(403, f"{call.known_user} may not start jobs in {namespace}")
    job = {
        **wanted,
        "id": f"local{len(call.hub.jobs):019d}",
        "createdAt": stamp(datetime.now(UTC)),
        "owner": {"id": namespace, "name": namespace, "type": "user"},
        "status": {"stage": "RUNNING", "message": None},
        "secrets": sorted(wanted.get("secrets") or ()),
    }
    call.hub.jobs.append(job)
    return JSONResponse(job)
