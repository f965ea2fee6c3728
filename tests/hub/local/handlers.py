"""What the local Hub answers to each request: users, repositories, files, commits, large files."""

import base64
import fnmatch
import hashlib
import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qs, quote

from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, RedirectResponse, Response

from hub.checks import front_matter_findings
from tests.hub.local import state, xet
from tests.hub.local.state import Commit, Hub, Kind, Refusal, Repository, Right, Tree

KINDS: dict[str, Kind] = {"models": "model", "datasets": "dataset", "spaces": "space"}
LARGE = (
    "7z arrow bin bz2 ckpt ftz gz h5 joblib model mlmodel msgpack npy npz onnx ot parquet pb pickle pkl"
    " pt pth rar safetensors tflite tgz wasm xz zip zst gguf png jpg mp4 wav"
)
ATTRIBUTES = "".join(f"*.{end} filter=lfs diff=lfs merge=lfs -text\n" for end in LARGE.split())
LARGE_BYTES, MOST_FILES = 10 * 1024 * 1024, 100
"""Files above the first go to LFS whatever their name; files of one commit: what the Hub advises, as more may take longer than its 60 seconds."""


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
    def token(self) -> str:
        """The token of whoever asks, empty without one."""
        return self.request.headers.get("authorization", "").removeprefix("Bearer ").strip()

    @property
    def user(self) -> str | None:
        """Who asks, None without a token; Refusal for a token that is not known."""
        if self.token and self.token not in self.hub.tokens:
            raise Refusal(401, "Invalid credentials in Authorization header")
        return self.hub.tokens.get(self.token)

    @property
    def known_user(self) -> str:
        """Who asks; Refusal for nobody."""
        if self.user is None:
            raise Refusal(401, "Invalid username or password.")
        return self.user

    def check_token(self) -> None:
        """Refuse a token that may only read."""
        if self.token in self.hub.readers:
            raise Refusal(403, "Forbidden: your token may only read; you need one with write access")

    @property
    def is_pull_request(self) -> bool:
        """Whether what is asked shall become a pull request, which needs no right to write."""
        return self.request.query_params.get("create_pr") == "1"

    def allows(self, permission: str, name: str) -> bool:
        """Whether the token, if it is a fine-grained one, has this permission for ORG/NAME."""
        scopes = self.hub.scopes.get(self.token)
        entries = [] if scopes is None else scopes["scoped"]
        names = (name, name.split("/")[0])
        given = {each for entry in entries if entry["entity"]["name"] in names for each in entry["permissions"]}
        return scopes is None or permission in given | set(scopes.get("global", ()))

    def document(self) -> dict[str, Any]:
        """Return the JSON object of the body."""
        return json.loads(self.body or b"{}")

    def repository(self, right: Right) -> Repository:
        """Return the repository of the address, if this user has this right to it; a redirect to its name of today."""
        name = f"{self.parts['org']}/{self.parts['name'].removesuffix('.git')}"
        found = self.hub.allowed(KINDS[self.parts.get("kind", "models")], name, self.user, right)
        if right == "write":
            self.check_token()
            if not self.allows("repo.write", found.id):
                raise Refusal(403, f"Forbidden: this token has no write access to {found.id}")
        if found.id != name:
            place = self.request.scope["raw_path"].decode().split("?")[0].replace(f"/{name}", f"/{found.id}", 1)
            location = f"{self.base}{place}?{self.request.url.query}".rstrip("?")
            raise Refusal(307, f"{name} is {found.id} now", headers={"Location": location})
        return found

    def commit(self, right: Right = "read") -> tuple[Repository, Commit]:
        """Return the repository of the address, and the commit of its revision, main if none is named."""
        repository = self.repository(right)
        return repository, self.hub.commit(repository, self.parts.get("revision", "main"))


def stamp(moment: datetime) -> str:
    """Return a time as the Hub writes it."""
    return moment.strftime("%Y-%m-%dT%H:%M:%S.000Z")


def whoami(call: Call) -> Response:
    """Answer with the user of the token."""

    def named(name: str, kind: str) -> dict[str, Any]:
        return {"type": kind, "name": name, "id": name, "fullname": name}

    organisations = [{**named(name, "org"), "roleInOrg": "admin"} for name in call.hub.organisations or ()]
    role = "read" if call.token in call.hub.readers else "write"
    token: dict[str, Any] = {"role": role, "displayName": "local", "createdAt": stamp(datetime.now(UTC))}
    if scopes := call.hub.scopes.get(call.token):
        token |= {"role": "fineGrained", "fineGrained": scopes}
    told = {"isPro": False, "orgs": organisations, "auth": {"type": "access_token", "accessToken": token}}
    return JSONResponse({**named(call.known_user, "user"), **told})


def create(call: Call) -> Response:
    """Make a repository with a first commit; 409, with its address, if it is there."""
    user, wanted = call.known_user, call.document()
    kind: Kind = wanted.get("type") or "model"
    name = f"{wanted.get('organization') or user}/{wanted.get('name')}"
    if not call.hub.may_write(user, name):
        raise Refusal(403, f"{user} may not create a {kind} in {name.split('/')[0]}")
    if not call.allows("repo.write", name):
        raise Refusal(403, f"You don't have the rights to create a {kind} under the namespace {name.split('/')[0]!r}")
    if name.split("/")[0] in call.hub.grouped and not wanted.get("resourceGroupId"):
        raise Refusal(403, "You need to choose a resource group to create a repository in this organization")
    if known := call.hub.find(kind, name):
        url = f"{call.base}/{known.path}"
        return JSONResponse({"error": f"You already created this {kind} repo", "url": url}, 409)
    made: dict[str, Any] = dict.fromkeys(("created_at", "changed_at"), datetime.now(UTC))
    asked = {key: wanted[key] for key in ("hardware", "secrets", "variables", "volumes") if wanted.get(key)}
    call.hub.spaces |= {name: asked} if kind == "space" else {}
    repository = Repository(kind=kind, id=name, private=_is_private(wanted), sdk=wanted.get("sdk"), **made)
    call.hub.add(repository, state.MAIN, "initial commit", user, {".gitattributes": call.hub.keep(ATTRIBUTES.encode())})
    return JSONResponse({"url": f"{call.base}/{repository.path}", "id": name, "name": name})


def make_collection(call: Call) -> Response:
    """Make an empty collection; 409, with its slug, if its owner has one of this title."""
    user, wanted = call.known_user, call.document()
    owner, title = str(wanted.get("namespace") or user), str(wanted["title"])
    if not call.hub.may_write(user, owner):
        raise Refusal(403, f"{user} may not create a collection in {owner}")
    words = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")
    slug = f"{owner}/{words}-{hashlib.sha256(title.encode()).hexdigest()[:24]}"
    if slug in call.hub.collections:
        return JSONResponse({"error": "You already created this collection", "slug": slug}, 409)
    told = {"slug": slug, "title": title, "owner": {"name": owner}, "private": bool(wanted.get("private"))}
    shown = {"lastUpdated": stamp(datetime.now(UTC)), "items": [], "position": 0, "theme": "blue", "upvotes": 0}
    call.hub.collections[slug] = {**told, **shown}
    return JSONResponse(call.hub.collections[slug])


def collection(call: Call) -> Response:
    """Answer with a collection, or put a repository into it (409 if it is in it); one of others is not there to write to."""
    found = call.hub.collections.get(slug := f"{call.parts['org']}/{call.parts['name']}")
    is_write = call.request.method == "POST"
    if found is None or ((found["private"] or is_write) and not call.hub.may_write(call.user, slug)):
        raise Refusal(404, "Collection not found")
    if not is_write:
        return JSONResponse(found)
    item = call.document()["item"]
    call.hub.allowed(item["type"], item["id"], call.user, "see")
    if any((each["id"], each["type"]) == (item["id"], item["type"]) for each in found["items"]):
        return JSONResponse({"error": "Item already in collection"}, 409)
    added = {"_id": f"{len(found['items']):024}", "position": len(found["items"]), **item}
    found["items"].append(added)
    return JSONResponse(found)


def set_up(call: Call) -> Response:
    """Note what a Space is given: variables, secrets by name, volumes, hardware. Nothing is built here."""
    repository, wanted, what = call.repository("write"), call.document(), call.parts["what"]
    given = {**wanted, "value": "…"} if what == "secrets" else wanted
    call.hub.spaces.setdefault(repository.id, {}).setdefault(what, []).append(given)
    return JSONResponse({"stage": "PAUSED"} if what == "hardware" else {})


def delete(call: Call) -> Response:
    """Delete a repository."""
    wanted = call.document()
    name = f"{wanted.get('organization') or call.known_user}/{wanted.get('name')}"
    call.hub.remove(call.hub.allowed(wanted.get("type") or "model", name, call.user, "write"))
    return JSONResponse({})


def _is_private(wanted: dict[str, Any], before: bool = False) -> bool:
    visibility = wanted.get("visibility") or ("private" if wanted.get("private", before) else "public")
    return visibility == "private"


def move(call: Call) -> Response:
    """Rename a repository."""
    wanted = call.document()
    kind, name = wanted.get("type") or "model", str(wanted["toRepo"])
    repository = call.hub.allowed(kind, wanted["fromRepo"], call.user, "write")
    call.hub.move(repository, name)
    return JSONResponse({})


def check_access(call: Call) -> Response:
    """Say whether this user may read, or write."""
    call.repository("write" if call.parts.get("right") == "write" else "read")
    return JSONResponse({})


def settings(call: Call) -> Response:
    """Change who may see or read a repository."""
    repository, wanted = call.repository("write"), call.document()
    changes = {"private": _is_private(wanted, repository.private), "gated": wanted.get("gated", repository.gated)}
    call.hub.save(repository.model_copy(update=changes))
    return JSONResponse({})


def about(call: Call) -> Response:
    """Describe a repository at a revision, main if none is named."""
    repository, commit = call.commit("see")
    named = {"_id": hashlib.sha1(repository.path.encode()).hexdigest()[:24], "author": repository.id.split("/")[0]}
    dates = {"lastModified": stamp(repository.changed_at), "createdAt": stamp(repository.created_at)}
    files = {"sha": commit.oid, "tags": [], "siblings": [{"rfilename": path} for path in sorted(commit.tree)]}
    seen = repository.model_dump(include={"id", "private", "gated", "sdk"})
    return JSONResponse({**named, **dates, **files, **seen})


def discussions(call: Call) -> Response:
    """List a repository's pull requests."""
    repository = call.repository("see")
    about = {"isPullRequest": True, "repo": {"name": repository.id, "type": repository.kind}, "repoOwner": {}}
    found = []
    for each in repository.discussions:
        told = {"num": each.number, "title": each.title, "status": each.status}
        found.append({**about, **told, "author": {"name": each.author}, "createdAt": stamp(each.created_at)})
    return JSONResponse({"discussions": found, "count": len(found), "start": 0})


def merge(call: Call) -> Response:
    """Put a pull request's files on main; 409 if main went on meanwhile."""
    repository, number = call.repository("write"), int(call.parts["number"])
    found = next((each for each in repository.discussions if each.number == number), None)
    if found is None or found.status != "open":
        raise Refusal(409, f"#{number} is no open pull request")
    history = list(call.hub.history(repository, f"{state.PULLS}{number}"))
    if repository.refs[state.MAIN] not in {each.oid for each in history}:
        raise Refusal(409, "main has changed since the pull request was opened")
    title, merged = f"{found.title} (#{number})", found.model_copy(update={"status": "merged"})
    repository, _ = call.hub.add(repository, state.MAIN, title, call.known_user, history[0].tree)
    discussions = tuple(merged if each is found else each for each in repository.discussions)
    call.hub.save(repository.model_copy(update={"discussions": discussions}))
    return JSONResponse({})


def tree(call: Call) -> Response:
    """List files and folders, all on one page."""
    _, commit = call.commit()
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
    return JSONResponse([_item(commit, name) for name in sorted(names)])


def paths(call: Call) -> Response:
    """Describe the paths named in the form; those that are not there are left out."""
    _, commit = call.commit()
    items = [_item(commit, name.strip("/")) for name in parse_qs(call.body.decode()).get("paths", [])]
    return JSONResponse([item for item in items if item])


def resolve(call: Call) -> Response:
    """Send a file of a revision."""
    repository, commit = call.commit()
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
        if known := call.hub.in_xet(entry.sha256):
            token = f"{call.base}/api/{repository.kind}s/{repository.id}/xet-read-token/{commit.oid}"
            headers |= {"X-Xet-Hash": known.xet, "X-Xet-Refresh-Route": token}
        if call.hub.redirects:
            elsewhere = call.base.replace("127.0.0.1", "localhost")
            return RedirectResponse(f"{elsewhere}/_objects/{entry.sha256}", 302, headers)
    return FileResponse(call.hub.contents / entry.sha256, headers=headers, media_type="application/octet-stream")


def content(call: Call) -> Response:
    """Send an object by its SHA-256: where redirected readers arrive."""
    path = call.hub.content(call.parts["sha256"])
    if path is None:
        raise Refusal(404, "there is no such object")
    return FileResponse(path, headers={"ETag": f'"{path.name}"'})


def _unknown_entry(path: str, commit: Commit) -> Refusal:
    return Refusal(404, f"there is no {path} in commit {commit.oid}", "EntryNotFound", {"X-Repo-Commit": commit.oid})


def _item(commit: Commit, path: str) -> dict[str, Any] | None:
    entry = commit.tree.get(path)
    if entry is None:
        is_folder = any(name.startswith(f"{path}/") for name in commit.tree)
        found = {"type": "directory", "oid": state.git_oid("tree", path.encode()), "size": 0, "path": path}
        return found if is_folder else None
    size = {"size": entry.size}
    lfs = {"lfs": {"oid": entry.sha256, **size, "pointerSize": len(state.pointer(entry.sha256, entry.size))}}
    return {"type": "file", "oid": entry.oid, "path": path, **size, **(lfs if entry.is_lfs else {})}


def validate(call: Call) -> Response:
    """Say what is wrong with a card's front matter."""
    wanted, told = call.document(), {"errors": list[Any](), "warnings": list[Any]()}
    for each in front_matter_findings(str(wanted.get("content", "")), wanted.get("repoType") or "model"):
        told["errors" if each.is_error else "warnings"].append({"message": each.problem})
    return JSONResponse(told, 400 if told["errors"] else 200)


def preupload(call: Call) -> Response:
    """Say of each file how it shall be uploaded, whether it is ignored, and what is there now."""
    _, commit = call.commit("read" if call.is_pull_request else "write")
    wanted, entry = call.document(), commit.tree.get(".gitattributes")
    ignored = [line.strip() for line in wanted.get("gitIgnore", "").splitlines() if line.strip()]
    attributes = (call.hub.contents / entry.sha256).read_text() if entry else ""
    large = [line.split()[0] for line in attributes.splitlines() if "filter=lfs" in line]
    files = []
    for file in wanted["files"]:
        path, entry = file["path"], commit.tree.get(file["path"])
        is_binary = _is_binary(base64.b64decode(file.get("sample", "")))
        is_large = file["size"] > LARGE_BYTES or _matches(path, large) or is_binary
        one = {"path": path, "uploadMode": "lfs" if is_large else "regular", "shouldIgnore": _matches(path, ignored)}
        if entry is not None:
            one["oid"] = entry.sha256 if entry.is_lfs else entry.oid
        files.append(one)
    return JSONResponse({"files": files, "commitOid": commit.oid})


def commit(call: Call) -> Response:
    """Make one commit of all changes, on a branch or as a pull request; nothing is kept if any line is wrong."""
    user, revision = call.known_user, call.parts["revision"]
    repository, head = call.commit("read" if call.is_pull_request else "write")
    first, *changes = [json.loads(line) for line in call.body.splitlines() if line.strip()]
    header, tree = first["value"], dict(head.tree)
    title = str(header.get("summary", ""))
    if not title.strip():
        raise Refusal(400, "the summary of the commit is empty")
    if not head.oid.startswith(header.get("parentCommit") or ""):
        raise Refusal(412, "A commit has happened since. Please refresh and try again.")
    if len(changes) > MOST_FILES:
        raise Refusal(504, f"Gateway time-out: a commit of {len(changes)} files takes too long; make several")
    for each in changes:
        _apply(call, repository.kind, each["key"], each["value"], tree)
    number = len(repository.discussions) + 1
    ref = revision if revision in repository.refs else state.HEADS + revision
    if call.is_pull_request:
        if not call.allows("discussion.write", repository.id):
            raise Refusal(403, "Forbidden: this token may not open pull requests")
        ref = f"{state.PULLS}{number}"
        opened = state.Discussion(number=number, title=title, author=user, created_at=datetime.now(UTC))
        known = {"discussions": (*repository.discussions, opened), "refs": {**repository.refs, ref: head.oid}}
        repository = repository.model_copy(update=known)
    elif ref not in repository.refs:
        raise Refusal(400, f"cannot commit to {revision}: it is no branch")
    repository, made = call.hub.add(repository, ref, title, user, tree, header.get("description") or "")
    url = f"{call.base}/{repository.path}"
    document = {"success": True, "commitOid": made.oid, "commitUrl": f"{url}/commit/{made.oid}"}
    if call.is_pull_request:
        document["pullRequestUrl"] = f"{url}/discussions/{number}"
    return JSONResponse(document)


def _apply(call: Call, kind: Kind, key: str, value: dict[str, Any], tree: Tree) -> None:
    path = str(value["path"])
    if key == "file":
        content = base64.b64decode(value["content"])
        if path == "README.md":
            found = front_matter_findings(content.decode("utf-8", "replace"), kind)
            if errors := [each.problem for each in found if each.is_error]:
                raise Refusal(400, "\n- ".join(["Invalid metadata in README.md.", *errors]))
        tree[path] = call.hub.keep(content)
    elif key == "lfsFile":
        place = call.hub.content(sha256 := value["oid"])
        assert place is not None, path
        oid = state.git_oid("blob", state.pointer(sha256, size := place.stat().st_size))
        tree[path] = state.Entry(sha256=sha256, size=size, oid=oid, is_lfs=True)
    else:  # deletedFile, deletedFolder
        gone = [name for name in tree if name == path or name.startswith(path.rstrip("/") + "/")]
        for name in gone:
            del tree[name]


def _matches(path: str, patterns: list[str]) -> bool:
    names, bare = (path, path.rsplit("/", 1)[-1]), [each.rstrip("/") for each in patterns]
    return any(path.startswith(f"{each}/") or any(fnmatch.fnmatch(name, each) for name in names) for each in bare)


def _is_binary(sample: bytes) -> bool:
    """Whether the first bytes of a file are no text; its last character there may be cut."""
    try:
        sample.decode("utf-8")
    except UnicodeDecodeError as error:
        return error.start < len(sample) - 3
    return b"\0" in sample


def history(call: Call) -> Response:
    """List the commits up to a revision, newest first."""
    found = call.hub.history(call.repository("see"), call.parts["revision"])
    told = ({"id": one.oid, "title": one.title, "message": one.message, "date": stamp(one.date)} for one in found)
    return JSONResponse([{**each, "authors": []} for each in told])


def references(call: Call) -> Response:
    """List branches, tags and, if asked, pull requests."""
    repository, named = call.repository("see"), {"branches": state.HEADS, "tags": state.TAGS}
    if call.request.query_params.get("include_prs") == "1":
        named["pullRequests"] = state.PULLS

    def below(start: str) -> list[dict[str, str]]:
        refs = ((ref, oid) for ref, oid in repository.refs.items() if ref.startswith(start))
        return [{"name": ref.removeprefix(start), "ref": ref, "targetCommit": oid} for ref, oid in refs]

    return JSONResponse({"converts": [], **{group: below(start) for group, start in named.items()}})


def make_tag(call: Call) -> Response:
    """Make a tag at a revision; 409 if it is there: a tag never moves."""
    (repository, target), name = call.commit("write"), str(call.document().get("tag"))
    if state.TAGS + name in repository.refs:
        raise Refusal(409, f"Reference already exists: {name}")
    call.hub.save(repository.model_copy(update={"refs": {**repository.refs, state.TAGS + name: target.oid}}))
    return JSONResponse({})


def xet_token(call: Call) -> Response:
    """Say where Xet storage is; a pull request of others needs no right to write."""
    call.repository("write" if call.parts["right"] == "write" and not call.is_pull_request else "read")
    told, headers = xet.connection(call.hub.xet)
    return JSONResponse(told, headers=headers)


def squash(call: Call) -> Response:
    """Make one commit of the history of main."""
    call.hub.squash(call.repository("write"), str(call.document().get("message") or "Super-squash"), call.known_user)
    return JSONResponse({})


def batch(call: Call) -> Response:
    """Say where each large file goes; one that is here gets no address, so nobody sends it again."""
    wanted = call.document()
    is_write = wanted.get("operation") == "upload" and "ref" in wanted  # without a ref it is for a pull request
    call.repository("write" if is_write else "read")
    objects = []
    for each in wanted.get("objects", []):
        one = {"oid": each["oid"], "size": each["size"], "authenticated": True}
        if call.hub.content(each["oid"]) is None:
            one["actions"] = {"upload": {"href": f"{call.base}/_lfs/{each['oid']}", "header": {}}}
        objects.append(one)
    return JSONResponse({"transfer": "basic", "objects": objects})


async def receive(call: Call) -> Response:
    """Keep an object as it is sent, never whole in memory; Refusal if it is not what was announced."""
    sha256, unfinished, digest = call.parts["sha256"], call.hub.unfinished(), hashlib.sha256()
    try:
        with unfinished.open("wb") as file:
            async for chunk in call.request.stream():
                digest.update(chunk)
                file.write(chunk)
        if sha256 != digest.hexdigest():
            raise Refusal(400, f"the content's sha256 is {digest.hexdigest()}, not {sha256}")
        unfinished.replace(call.hub.contents / sha256)
    finally:
        unfinished.unlink(missing_ok=True)
    return Response(headers={"ETag": f'"{sha256}"'})
