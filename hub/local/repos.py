"""Handlers: Spaces and jobs, as far as a client can tell: what was asked for is kept, nothing runs."""

import hashlib
import re
from typing import Any

import yaml
from starlette.responses import Response

from hub.cards.lint import FrontMatterError, read_front_matter
from hub.local.state import MAIN, Call, Commit, Kind, NewCommit, Refusal, Repository, answer, pointer

NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}")
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
    return answer(
        {
            "type": "user",
            "id": user,
            "name": user,
            "fullname": user,
            "avatarUrl": "/avatar.svg",
            "email": f"{user}@example.org",
            "emailVerified": True,
            "isPro": False,
            "canPay": False,
            "orgs": organisations,
            "auth": {
                "type": "access_token",
                "accessToken": {
                    "displayName": "local",
                    "role": "write",
                    "createdAt": call.hub.now().isoformat(),
                },
            },
        }
    )


def harnesses(call: Call) -> Response:
    """Answer the client's daily question with nothing."""
    return answer({"harnesses": []})


def create(call: Call) -> Response:
    """Make a repository with a first commit; 409, with its address, if it is there."""
    user, wanted = call.known_user, call.document()
    kind: Kind = wanted.get("type") or "model"
    name = f"{wanted.get('organization') or user}/{wanted.get('name')}"
    if not NAME.fullmatch(name) or name.endswith((".git", ".ipynb")) or re.search(r"--|\.\.", name):
        raise Refusal(400, f"Invalid repo name: {name}")
    if not call.hub.may_write(user, name):
        raise Refusal(403, f"{user} may not create a {kind} in {name.split('/')[0]}")
    known = call.hub.repositories.find(kind, name)
    if known is not None:
        url = f"{call.base}/{known.path}"
        return answer({"error": f"You already created this {kind} repo", "url": url}, 409)
    now = call.hub.now()
    repository = Repository(
        kind=kind,
        id=name,
        private=wanted.get("visibility") == "private" or bool(wanted.get("private")),
        created_at=now,
        changed_at=now,
        sdk=wanted.get("sdk"),
        hardware=wanted.get("hardware"),
        secrets=tuple(each["key"] for each in wanted.get("secrets") or ()),
        variables={each["key"]: each["value"] for each in wanted.get("variables") or ()},
    )
    first = NewCommit(
        ref=MAIN,
        title="initial commit",
        author=user,
        tree={".gitattributes": call.hub.objects.add(ATTRIBUTES.encode())},
    )
    call.hub.repositories.add(repository, first)
    return answer({"url": f"{call.base}/{repository.path}", "id": name, "name": name})


def delete(call: Call) -> Response:
    """Delete a repository."""
    wanted = call.document()
    name = f"{wanted.get('organization') or call.known_user}/{wanted.get('name')}"
    repository = call.hub.writable(wanted.get("type") or "model", name, call.user)
    call.hub.repositories.remove(repository)
    return answer({})


def move(call: Call) -> Response:
    """Rename a repository."""
    wanted = call.document()
    kind: Kind = wanted.get("type") or "model"
    repository = call.hub.writable(kind, wanted["fromRepo"], call.user)
    if not call.hub.may_write(call.user, wanted["toRepo"]):
        raise Refusal(403, f"{call.user} may not write to {wanted['toRepo']}")
    if call.hub.repositories.find(kind, wanted["toRepo"]):
        raise Refusal(409, f"there is a {kind} {wanted['toRepo']} already")
    call.hub.repositories.move(repository, wanted["toRepo"])
    return answer({})


def settings(call: Call) -> Response:
    """Change who may see or read a repository."""
    repository, wanted = call.writable(), call.document()
    changes: dict[str, object] = {}
    if "visibility" in wanted or "private" in wanted:
        changes["private"] = wanted.get("visibility") == "private" or bool(wanted.get("private"))
    if "gated" in wanted:
        changes["gated"] = wanted["gated"]
    call.hub.repositories.save(repository.model_copy(update=changes))
    return answer({})


def check_access(call: Call) -> Response:
    """Answer 200 if the user may read; with /write at the end, if the user may write."""
    call.readable()
    if call.parts.get("rest") == "write":
        call.writable()
    return answer({})


def listing(call: Call) -> Response:
    """List the repositories of a kind that the user may see."""
    query = call.request.query_params
    found = [
        described(call, repository, call.hub.repositories.commit(repository, "main"))
        for repository in call.hub.repositories
        if repository.kind == call.kind
        and (not repository.private or call.hub.may_write(call.user, repository.id))
        and query.get("author", repository.id.split("/")[0]) == repository.id.split("/")[0]
        and query.get("search", "").lower() in repository.id.lower()
    ]
    return answer(found[: int(query.get("limit", len(found) or 1))])


def about(call: Call) -> Response:
    """Describe a repository at a revision, main if none is named."""
    repository = call.seen()
    commit = call.hub.repositories.commit(repository, call.parts.get("revision", "main"))
    return answer(described(call, repository, commit))


def described(call: Call, repository: Repository, commit: Commit) -> dict[str, Any]:
    """Return what the Hub says about a repository at a commit."""
    card = _card(call, commit)
    document: dict[str, Any] = {
        "_id": hashlib.sha1(repository.path.encode()).hexdigest()[:24],
        "id": repository.id,
        "author": repository.id.split("/")[0],
        "sha": commit.oid,
        "lastModified": stamp(repository.changed_at),
        "createdAt": stamp(repository.created_at),
        "private": repository.private,
        "gated": repository.gated,
        "disabled": False,
        "downloads": 0,
        "likes": 0,
        "tags": _tags(card, commit),
        "cardData": card,
        "siblings": _siblings(commit, "blobs" in call.request.query_params),
        "usedStorage": sum(entry.size for entry in commit.tree.values()),
    }
    if repository.kind == "model":
        keys = ("pipeline_tag", "library_name", "model-index")
        document |= {"modelId": repository.id, "config": {}} | {key: card.get(key) for key in keys}
    if repository.kind == "space":
        document |= {"sdk": repository.sdk}
    return document


def stamp(moment: Any) -> str:
    """Return a time as the Hub writes it."""
    return moment.strftime("%Y-%m-%dT%H:%M:%S.000Z")


def _card(call: Call, commit: Commit) -> dict[str, Any]:
    entry = commit.tree.get("README.md")
    if entry is None:
        return {}
    text = call.hub.objects.read(entry.sha256).decode("utf-8", "replace")
    try:
        return read_front_matter(text) or {}
    except (FrontMatterError, yaml.YAMLError):
        return {}


def _tags(card: dict[str, Any], commit: Commit) -> list[str]:
    tags = [str(tag) for tag in card.get("tags") or ()]
    bases = card.get("base_model") or ()
    relation = card.get("base_model_relation") or "finetune"
    for base in [bases] if isinstance(bases, str) else bases:
        tags += [f"base_model:{base}", f"base_model:{relation}:{base}"]
    if any(path.endswith(".safetensors") for path in commit.tree):
        tags.append("safetensors")
    return tags


def _siblings(commit: Commit, with_sizes: bool) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for path, entry in sorted(commit.tree.items()):
        one: dict[str, Any] = {"rfilename": path}
        if with_sizes:
            one |= {"size": entry.size, "blobId": entry.oid}
        if with_sizes and entry.is_lfs:
            length = len(pointer(entry.sha256, entry.size))
            one["lfs"] = {"sha256": entry.sha256, "size": entry.size, "pointerSize": length}
        found.append(one)
    return found


def runtime(call: Call) -> Response:
    """Describe a Space's machine."""
    repository = call.seen()
    files = call.hub.repositories.commit(repository, "main").tree
    return answer(
        {
            "stage": "BUILDING" if "app.py" in files else "NO_APP_FILE",
            "hardware": {"current": None, "requested": repository.hardware or "cpu-basic"},
            "storage": None,
            "gcTimeout": None,
            "replicas": {"requested": 1},
        }
    )


def set_hardware(call: Call) -> Response:
    """Ask for another machine."""
    repository = call.writable()
    wanted = call.document().get("flavor")
    call.hub.repositories.save(repository.model_copy(update={"hardware": wanted}))
    return runtime(call)


def set_variable(call: Call) -> Response:
    """Set a variable of a Space."""
    repository, wanted = call.writable(), call.document()
    variables = {**repository.variables, str(wanted["key"]): str(wanted["value"])}
    call.hub.repositories.save(repository.model_copy(update={"variables": variables}))
    return answer(_values(variables))


def variables(call: Call) -> Response:
    """List the variables of a Space."""
    return answer(_values(call.writable().variables))


def set_secret(call: Call) -> Response:
    """Remember that a Space has a secret of this name; its value is not kept."""
    repository, wanted = call.writable(), call.document()
    secrets = tuple(sorted({*repository.secrets, str(wanted["key"])}))
    call.hub.repositories.save(repository.model_copy(update={"secrets": secrets}))
    return answer({key: {} for key in secrets})


def secrets(call: Call) -> Response:
    """List the names of a Space's secrets."""
    return answer({key: {} for key in call.writable().secrets})


def submit_job(call: Call) -> Response:
    """Take a job down; it is never run."""
    namespace, wanted = call.parts["org"], call.document()
    if not call.hub.may_write(call.known_user, f"{namespace}/job"):
        raise Refusal(403, f"{call.known_user} may not start jobs in {namespace}")
    job = {
        "id": f"local{len(call.hub.jobs):019d}",
        "createdAt": stamp(call.hub.now()),
        "owner": {"id": namespace, "name": namespace, "type": "user"},
        "status": {"stage": "RUNNING", "message": None},
        **{key: value for key, value in wanted.items() if key != "secrets"},
        "secrets": sorted(wanted.get("secrets") or ()),
    }
    call.hub.jobs.append(job)
    return answer(job)


def list_jobs(call: Call) -> Response:
    """List the jobs that were taken down."""
    namespace = call.parts["org"]
    if not call.hub.may_write(call.known_user, f"{namespace}/job"):
        raise Refusal(403, f"{call.known_user} may not see the jobs of {namespace}")
    return answer([job for job in call.hub.jobs if job["owner"]["name"] == namespace])


def _values(variables: dict[str, str]) -> dict[str, dict[str, str]]:
    return {key: {"key": key, "value": value} for key, value in variables.items()}
