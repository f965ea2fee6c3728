"""Publishing, one way for adapters, data sets and Spaces.

checks -> plan -> private repository -> one commit on a known parent -> verified by download -> tag ->
public if wanted -> receipt. A failure at any step leaves main as it was or complete, never half; the
same command run again goes on, and says "already there" where nothing is left to do.
"""

import re
import shutil
import tempfile
import time
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, TypeVar, cast

from filelock import FileLock, Timeout
from huggingface_hub import CommitInfo, CommitOperationAdd, HfApi, hf_hub_download, snapshot_download
from huggingface_hub.errors import EntryNotFoundError, GatedRepoError, LocalTokenNotFoundError, RepositoryNotFoundError
from huggingface_hub.hf_api import RepoFile
from pydantic import ValidationError

from evals.errors import LabError
from evals.io import write_whole
from evals.schema.publishing import Change, Diagnostic, PlannedFile, PublishPlan, Receipt, Removal
from hub.cards.lint import known_front_matter
from hub.checks import Part, Upload, check_upload, part_of
from hub.client import TROUBLE, HubTrouble, check_repo, explained, finding, wording

VERIFIED = "assay-verify-"
NOT_OURS = frozenset((".gitattributes",))
"""Files that the Hub itself puts into a repository."""
OURS = re.compile(r"Publish .* with Assay\b")
"""The title of our commits."""
ATTEMPTS = 4
PAUSE_SECONDS = 1.0
"""huggingface_hub's own `http_backoff` repeats one request; here a whole step is, after the repository was looked at."""
Answer = TypeVar("Answer")
Say = Callable[[str], None]


def write_receipt(done: Receipt | Removal, folder: Path) -> Path:
    """Keep a receipt in `folder` and return its file: below published/, or of a removal named after its commit too."""
    name = done.repo.replace("/", "--")
    is_removal = isinstance(done, Removal)
    file = folder / f"{name}-{str(done.revision)[:12]}.json" if is_removal else folder / "published" / f"{name}.json"
    write_whole(file, done.model_dump_json(indent=1) + "\n")
    return file


def check_receipts(*folders: Path) -> None:
    """Raise LabError for a folder in which no receipt can be kept: to be asked before anything is uploaded."""
    for folder in folders:
        try:
            (place := folder / "published").mkdir(exist_ok=True)
            with tempfile.TemporaryFile(dir=place):
                pass
        except OSError as error:
            raise LabError(wording("no place", folder=folder, reason=error.strerror)) from None


def read_receipt(folder: Path, repo: str) -> Receipt | None:
    """Return the receipt of what was published from `folder` to a repository, None if there is none."""
    file = folder / "published" / f"{repo.replace('/', '--')}.json"
    try:
        return Receipt.model_validate_json(file.read_bytes()) if file.is_file() else None
    except ValidationError:
        raise LabError(wording("no receipt", file=file)) from None


@contextmanager
def fresh_folder(prefix: str) -> Generator[Path]:
    """Yield a temporary folder that is locked while it is used; those that killed processes left are removed first."""
    for left in Path(tempfile.gettempdir()).glob(f"{prefix}*/.lock"):
        lock = FileLock(left, blocking=False)
        with suppress(Timeout, OSError), lock:
            shutil.rmtree(left.parent)
    with tempfile.TemporaryDirectory(prefix=prefix) as name, FileLock(Path(name) / ".lock"):
        yield Path(name)


@dataclass(frozen=True)
class Remote:
    """A repository as it is: `head` None = it is not there, or not for this user."""

    head: str | None = None
    is_private: bool = True
    files: dict[str, RepoFile] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    name: str = ""

    def compare(self, path: str, part: Part) -> Literal["add", "change", "same"]:
        """Return what publishing this file would do."""
        known = self.files.get(path)
        if known is None:
            return "add"
        if known.lfs is not None:
            return "same" if known.lfs.sha256 == part.sha256 else "change"
        return "same" if known.size == part.size and known.blob_id == part.git_oid() else "change"

    def holds(self, upload: Upload) -> bool:
        """Whether every file of the upload is there as it is."""
        return self.head is not None and all(self.compare(path, part) == "same" for path, part in upload.parts.items())


def look(api: HfApi, repo: str, repo_type: str, revision: str | None = None) -> Remote:
    """Return a repository as it is at a revision, main if none is named; HubTrouble if it fails."""
    try:
        info = api.repo_info(repo, repo_type=repo_type, revision=revision)
        entries = api.list_repo_tree(repo, repo_type=repo_type, revision=info.sha, recursive=True)
        files = {each.path: each for each in entries if isinstance(each, RepoFile)}
        refs = api.list_repo_refs(repo, repo_type=repo_type)
    except TROUBLE as error:
        if isinstance(error, RepositoryNotFoundError) and not isinstance(error, GatedRepoError):
            return Remote()
        raise explained(error, f"cannot look at {repo}") from error
    return Remote(info.sha, bool(info.private), files, {each.name: each.target_commit for each in refs.tags}, info.id)


def download(api: HfApi, repo: str, revision: str, name: str, repo_type: str = "model") -> Path | None:
    """Return where a file lies once it is here, None if the commit holds none of that name; HubTrouble if it fails."""
    try:
        where: dict[str, Any] = {"repo_type": repo_type, "revision": revision}
        return Path(hf_hub_download(repo, name, **where, endpoint=api.endpoint, token=api.token))
    except EntryNotFoundError:
        return None
    except TROUBLE as error:
        raise explained(error, f"cannot download {name} of {repo}") from error


def plan(api: HfApi, upload: Upload) -> PublishPlan:
    """Return what publishing would do, every check passed, and only read. Refused or LabError if it would fail."""
    check_repo(upload.repo)
    warnings = check_upload(upload)
    remote = look(api, upload.repo, upload.repo_type)
    if not upload.is_pull_request:
        warnings += check_rights(api, upload, remote)
        if not (upload.replaces or remote.holds(upload)) and set(remote.files) - NOT_OURS:
            check_owner(api, upload, remote)
    return plan_of(upload, remote, api.endpoint, warnings)


def check_rights(api: HfApi, upload: Upload, remote: Remote) -> tuple[Diagnostic, ...]:
    """Raise LabError where the token may only read, the namespace is somebody else's, or the name leads elsewhere.

    Return what cannot be known without a token.
    """
    if remote.head is not None and remote.name != upload.repo:
        raise LabError(wording("renamed", repo=upload.repo, name=remote.name))
    try:
        user = api.whoami(cache=True)
        if remote.head is not None:
            api.auth_check(upload.repo, repo_type=upload.repo_type, write=True)
    except LocalTokenNotFoundError:
        return (finding("no token", upload.repo),)
    except TROUBLE as error:
        raise explained(error, f"cannot write to {upload.repo}") from error
    if user.get("auth", {}).get("accessToken", {}).get("role") == "read":
        raise LabError(wording("only reads", user=user["name"]))
    ours = [user["name"], *(each["name"] for each in user.get("orgs", ()) if each.get("roleInOrg") != "read")]
    if remote.head is None and upload.repo.split("/")[0] not in ours:
        raise LabError(wording("foreign", repo=upload.repo, ours=", ".join(ours)))
    return ()


def check_owner(api: HfApi, upload: Upload, remote: Remote) -> None:
    """Raise LabError where what is there was not published by Assay, or stands on another base."""
    where: dict[str, Any] = {"repo_id": upload.repo, "repo_type": upload.repo_type}
    try:
        titles = [each.title for each in api.list_repo_commits(**where, revision=remote.head)]
    except TROUBLE as error:
        raise explained(error, f"cannot read the history of {upload.repo}") from error
    told = {"repo": upload.repo, "n": len(set(remote.files) - NOT_OURS), "title": titles[0] if titles else ""}
    if not any(OURS.match(title) for title in titles):
        raise LabError(wording("not published here", **told))
    card = download(api, upload.repo, str(remote.head), "README.md", upload.repo_type)
    texts = (card.read_text("utf-8") if card else "", upload.parts["README.md"].text())
    there, here = (known_front_matter(text).get("base_model") for text in texts)
    if there and there != here:
        raise LabError(wording("another base", **told, there=there, here=here))


def plan_of(upload: Upload, remote: Remote, endpoint: str, warnings: tuple[Diagnostic, ...]) -> PublishPlan:
    """Return what would be done; LabError where the repository as it is speaks against it."""
    is_public_now = remote.head is not None and not remote.is_private
    tagged = remote.tags.get(upload.tag or "")
    if upload.is_pull_request:
        if remote.head is None:
            raise HubTrouble(wording("no repository", kind=upload.repo_type, repo=upload.repo))
    elif is_public_now and not upload.is_public and not remote.holds(upload):
        raise LabError(wording("public", repo=upload.repo))
    elif tagged and not (tagged == remote.head and remote.holds(upload)):
        raise LabError(wording("version there", repo=upload.repo, tag=upload.tag, commit=tagged))
    changes: dict[str, tuple[Change, int]] = {
        path: ("remote_only", file.size) for path, file in remote.files.items() if path not in NOT_OURS
    }
    changes |= {path: (remote.compare(path, part), part.size) for path, part in upload.parts.items()}
    files = [PlannedFile(path=path, change=change, size=size) for path, (change, size) in sorted(changes.items())]
    will_be_public = is_public_now or (upload.is_public and not upload.is_pull_request)
    return PublishPlan(
        kind=upload.kind,
        endpoint=endpoint,
        repo=upload.repo,
        tag=upload.tag,
        is_new=remote.head is None,
        is_pull_request=upload.is_pull_request,
        visibility="public" if will_be_public else "private",
        parent=remote.head,
        files=tuple(files),
        upload_bytes=sum(each.size for each in files if each.change in ("add", "change")),
        warnings=warnings,
    )


def publish(
    api: HfApi, upload: Upload, say: Say = lambda words: None, options: Mapping[str, Any] | None = None
) -> Receipt:
    """Publish and return the receipt; LabError, with main whole, if something is in the way.

    `options` go to `HfApi.create_repo`, where the repository is new.
    """
    running = _Publishing(api, upload, say, options or {})
    planned = plan(api, upload)
    return running.propose(planned) if upload.is_pull_request else running.publish(planned)


def collect(api: HfApi, title: str, repos: Iterable[tuple[str, str]], *, is_public: bool) -> str:
    """Put repositories, as (name, type), that are there into the collection of a title, made if not there; return its address."""
    listed = list(dict.fromkeys(repos))
    try:
        owner = listed[-1][0].split("/")[0]
        made = api.create_collection(title, namespace=owner, private=not is_public, exists_ok=True)
        for name, kind in (each for each in listed if api.repo_exists(each[0], repo_type=each[1])):
            api.add_collection_item(made.slug, name, cast(Any, kind), exists_ok=True)
    except TROUBLE as error:
        doing = f"published, but cannot be put into the collection {title!r}"
        raise explained(error, doing) from error
    return made.url


class _Publishing:
    """One upload on its way into its repository."""

    def __init__(self, api: HfApi, upload: Upload, say: Say, options: Mapping[str, Any]) -> None:
        self.api, self.upload, self.say, self.options = api, upload, say, options
        self.where: dict[str, Any] = {"repo_id": upload.repo, "repo_type": upload.repo_type}
        self.title = " ".join(filter(None, ("Publish", upload.repo, upload.tag, "with Assay")))

    def publish(self, planned: PublishPlan) -> Receipt:
        """Commit to main, verify, tag, and make public at last."""
        remote = self.made(planned)
        is_there = remote.holds(self.upload)
        if not is_there:
            self.say(f"uploading {planned.upload_bytes:,} bytes to {self.upload.repo}")
            remote = self.committed(remote)
        revision = str(remote.head)
        self.verify(revision)
        tag = self.upload.tag
        if tag and remote.tags.get(tag) != revision:
            self.say(f"tagging {tag}")
            named: dict[str, Any] = {**self.where, "tag": tag, "revision": revision, "exist_ok": True}
            self.attempt(f"cannot tag {tag}", lambda: self.api.create_tag(**named))
            tagged = self.look().tags.get(tag)
            if tagged != revision:
                raise LabError(wording("version moved", repo=self.upload.repo, tag=tag, commit=tagged))
        if self.upload.is_public and remote.is_private:
            self.say("making it public")
            seen: dict[str, Any] = {**self.where, "visibility": "public"}
            self.attempt("cannot make it public", lambda: self.api.update_repo_settings(**seen))
        return self.receipt(revision, planned, is_there)

    def propose(self, planned: PublishPlan) -> Receipt:
        """Open a pull request with one commit, unless one with the same files is open."""
        number = self.open_request()
        is_there = number is not None
        if number is None:
            self.say(f"proposing {planned.upload_bytes:,} bytes to {self.upload.repo}")
            try:
                number = self.commit(planned.parent, create_pr=True).pr_num
            except TROUBLE as error:
                number = self.open_request()  # the answer may have been lost, not the request
                if number is None:
                    raise explained(error, f"cannot open a pull request on {self.upload.repo}") from error
        revision = f"refs/pr/{number}"
        self.verify(revision)
        return self.receipt(revision, planned, is_there, number)

    def open_request(self) -> int | None:
        """Return the number of an open pull request with exactly these files, None if there is none."""
        try:
            found = list(self.api.get_repo_discussions(**self.where, discussion_type="pull_request"))
        except TROUBLE as error:
            raise explained(error, f"cannot list the pull requests of {self.upload.repo}") from error
        alike = (each.num for each in found if each.status in ("open", "draft") and each.title == self.title)
        return next((number for number in alike if self.look(f"refs/pr/{number}").holds(self.upload)), None)

    def made(self, planned: PublishPlan) -> Remote:
        """Return the repository, made private if it was not there; the visibility of one that was stays."""
        if planned.is_new:
            self.say(f"creating {self.upload.repo}, private")
            made: dict[str, Any] = {**self.where, **self.options, "private": True, "exist_ok": True}
            if self.upload.kind == "space":
                card = known_front_matter(self.upload.parts["README.md"].text())
                made["space_sdk"] = card.get("sdk") or "gradio"
            self.attempt(f"cannot create {self.upload.repo}", lambda: self.api.create_repo(**made))
        remote = self.look()
        if remote.head is None:
            raise HubTrouble(wording("unseen", repo=self.upload.repo), is_transient=True)
        return remote

    def committed(self, before: Remote) -> Remote:
        """Return the repository after one commit on what was planned on; a failed answer is no failed commit."""
        doing = f"cannot commit to {self.upload.repo}"
        for attempt in range(1, ATTEMPTS + 1):
            trouble: HubTrouble | None = None
            try:
                self.commit(before.head)
            except TROUBLE as error:
                trouble = explained(error, doing)
            now = self.look()
            if now.holds(self.upload):
                return now
            if now.head != before.head:
                raise HubTrouble(wording("committed meanwhile", doing=doing, commit=now.head))
            if trouble is not None and (not trouble.is_transient or attempt == ATTEMPTS):
                raise trouble
            self.say(f"trying again ({attempt} of {ATTEMPTS - 1}): {trouble}")
            time.sleep(max(PAUSE_SECONDS * attempt, trouble.wait if trouble else 0))
        raise HubTrouble(wording("not committed", doing=doing))

    def commit(self, parent: str | None, *, create_pr: bool = False) -> CommitInfo:
        operations = [
            CommitOperationAdd(path, part.content if isinstance(part.content, bytes) else str(part.content))
            for path, part in self.upload.parts.items()
        ]
        return self.api.create_commit(
            **self.where, operations=operations, commit_message=self.title, parent_commit=parent, create_pr=create_pr
        )

    def verify(self, revision: str) -> None:
        """Download everything again into a fresh folder and compare."""
        self.say("verifying by download")
        with fresh_folder(VERIFIED) as place:
            wanted: dict[str, Any] = {
                **self.where,
                "revision": revision,
                "local_dir": place / "files",
                "cache_dir": place / "cache",
                "allow_patterns": list(self.upload.parts),
                "endpoint": self.api.endpoint,
                "token": self.api.token,
            }
            doing = f"cannot download {self.upload.repo} to verify it"
            fetched = Path(self.attempt(doing, lambda: snapshot_download(**wanted)))
            found = {path: part_of(fetched / path).sha256 for path in self.upload.parts if (fetched / path).is_file()}
            if different := [path for path, part in self.upload.parts.items() if found.get(path) != part.sha256]:
                raise LabError(wording("other bytes", repo=self.upload.repo, files=", ".join(different[:5])))

    def look(self, revision: str | None = None) -> Remote:
        return self.attempt("", lambda: look(self.api, self.upload.repo, self.upload.repo_type, revision))

    def attempt(self, doing: str, request: Callable[[], Answer]) -> Answer:
        """Return what a request returns, tried again where that can help."""
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return request()
            except (HubTrouble, *TROUBLE) as error:
                trouble = error if isinstance(error, HubTrouble) else explained(error, doing)
            if not trouble.is_transient or attempt == ATTEMPTS:
                raise trouble
            if trouble.wait:
                self.say(f"waiting {trouble.wait:.0f} seconds, as the Hub asks")
            time.sleep(max(PAUSE_SECONDS * attempt, trouble.wait))
        raise AssertionError("not reached")

    def receipt(self, revision: str, planned: PublishPlan, is_there: bool, pull_request: int | None = None) -> Receipt:
        return Receipt(
            kind=self.upload.kind,
            endpoint=self.api.endpoint,
            repo=self.upload.repo,
            revision=revision,
            tag=None if pull_request else self.upload.tag,
            pull_request=pull_request,
            visibility=planned.visibility,
            outcome="already there" if is_there else "published",
            files={path: part.sha256 for path, part in self.upload.parts.items()},
            finished_at=datetime.now(UTC),
        )
