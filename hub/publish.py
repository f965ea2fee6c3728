"""Publishing, one way for adapters, data sets and Spaces.

checks -> plan -> private repository -> one commit on a known parent -> verified by download -> tag ->
public if wanted -> receipt. A failure at any step leaves main as it was or complete, never half; the
same command run again goes on, and says "already there" where nothing is left to do.
"""

import json
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
from huggingface_hub.errors import EntryNotFoundError, LocalTokenNotFoundError, RepositoryNotFoundError
from huggingface_hub.hf_api import RepoFile

from evals.errors import LabError
from evals.schema.runs import Diagnostic
from hub.cards import known_front_matter
from hub.checks import MARK, Change, Part, PlannedFile, PublishPlan, Upload, check_upload, part_of
from hub.client import REPO, TROUBLE, HubTrouble, Receipt, check_repo, explain, finding, wording

VERIFIED = "assay-verify-"
NOT_OURS = frozenset((".gitattributes",))
"""Files that the Hub itself puts into a repository."""
OURS = frozenset((MARK, "lineage.json", "origin.json"))
"""Files by which a repository that Assay published is known; earlier versions had no mark."""
MOST_FILES = 100
"""Files of one commit, as the Hub advises; more go to a pull request in several commits, which is then merged."""
TITLE = 150
"""Characters of a collection's title: no limit is documented, and a collection's description may have no more."""
ATTEMPTS = 4
PAUSE_SECONDS = 1.0
"""huggingface_hub's own `http_backoff` repeats one request; here a whole step is, after the repository was looked at."""
Answer = TypeVar("Answer")
Say = Callable[[str], None]


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
    branches: tuple[str, ...] = ("main",)

    def compare(self, path: str, part: Part) -> Literal["add", "change", "same"]:
        """Return what publishing this file would do."""
        known = self.files.get(path)
        if known is None:
            return "add"
        if known.lfs is not None:
            return "same" if known.lfs.sha256 == part.sha256 else "change"
        return "same" if known.size == part.size and known.blob_id == part.git_oid() else "change"

    def left(self, upload: Upload) -> list[str]:
        """Return the files of the upload that are not there as they are."""
        return [path for path, part in upload.parts.items() if self.compare(path, part) != "same"]

    def holds(self, upload: Upload) -> bool:
        """Whether every file of the upload is there as it is."""
        return self.head is not None and not self.left(upload)


def find_info(api: HfApi, repo: str, repo_type: str = "model", revision: str | None = None) -> Any:
    """Return what the Hub tells about a repository, None if it is not there or not for this user; HubTrouble if it fails."""
    try:
        return api.repo_info(repo, repo_type=repo_type, revision=revision)
    except RepositoryNotFoundError:
        return None
    except TROUBLE as error:
        raise explain(error, f"cannot look at {repo}") from error


def look(api: HfApi, repo: str, repo_type: str, revision: str | None = None) -> Remote:
    """Return a repository as it is at a revision, main if none is named; HubTrouble if it fails."""
    if (info := find_info(api, repo, repo_type, revision)) is None:
        return Remote()
    try:
        entries = api.list_repo_tree(repo, repo_type=repo_type, revision=info.sha, recursive=True)
        files = {each.path: each for each in entries if isinstance(each, RepoFile)}
        refs = api.list_repo_refs(repo, repo_type=repo_type)
    except TROUBLE as error:
        raise explain(error, f"cannot look at {repo}") from error
    tags = {each.name: each.target_commit for each in refs.tags}
    return Remote(info.sha, bool(info.private), files, tags, info.id, tuple(each.name for each in refs.branches))


def download(api: HfApi, repo: str, revision: str, name: str, repo_type: str = "model") -> Path | None:
    """Return where a file lies once it is here, None if the commit holds none of that name; HubTrouble if it fails."""
    try:
        where: dict[str, Any] = {"repo_type": repo_type, "revision": revision}
        return Path(hf_hub_download(repo, name, **where, endpoint=api.endpoint, token=api.token))
    except EntryNotFoundError:
        return None
    except TROUBLE as error:
        raise explain(error, f"cannot download {name} of {repo}") from error


def plan(api: HfApi, upload: Upload) -> PublishPlan:
    """Return what publishing would do, every check passed, and only read. Refused or LabError if it would fail."""
    check_repo(upload.repo)
    warnings = check_upload(upload)
    remote = look(api, upload.repo, upload.repo_type)
    if upload.tag is not None:
        check_tag(upload.tag, remote)
    if upload.is_public:
        warnings += check_sources(api, upload)
    if not upload.is_pull_request:
        warnings += check_rights(api, upload, remote)
        if not (upload.replaces or remote.holds(upload)) and set(remote.files) - NOT_OURS:
            check_owner(api, upload, remote)
    return plan_of(upload, remote, api.endpoint, warnings)


NO_TAG = re.compile(
    r"""\A\Z|\A-|[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|\A/|[/.]\Z|(\A|/)\.|\.lock(/|\Z)|\A(@|HEAD|[0-9a-f]{40}|refs/.*)\Z|.{201}""",
    re.DOTALL,
)
"""What git takes for no name of a tag (`git check-ref-format`), or for something else."""


def check_tag(tag: str, remote: Remote) -> None:
    """Raise LabError for a version that git does not take, or that would stand for two things in the repository."""
    beside = (each for each in remote.tags if each.startswith(f"{tag}/") or tag.startswith(f"{each}/"))
    other = tag if tag in remote.branches else next(beside, "")
    if NO_TAG.search(tag) or other:
        raise LabError(wording("tag", tag=tag, known=other and f": {other} is there"))


def check_title(title: str | None) -> None:
    """Raise LabError for what cannot be the title of a collection; None is no collection."""
    if title is not None and not (title.strip() and title.isprintable() and len(title) <= TITLE):
        raise LabError(wording("title", title=title, most=TITLE))


def check_sources(api: HfApi, upload: Upload) -> tuple[Diagnostic, ...]:
    """Return a warning for each private data set that the card of an adapter names; LabError where rows come from one."""
    front = known_front_matter(upload.parts["README.md"].text())
    named = front.get("source_datasets" if upload.kind == "dataset" else "datasets") or ()
    names = [str(each).rpartition("|")[2] for each in ([named] if isinstance(named, str) else named)]
    known = {name: find_info(api, name, "dataset") for name in names if REPO.fullmatch(name)}
    private = [name for name, info in known.items() if info and info.private]
    if private and upload.kind == "dataset":
        raise LabError(wording("private sources", names=", ".join(private)))
    return tuple(finding("private data", "README.md", name=name) for name in private)


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
        raise explain(error, f"cannot write to {upload.repo}") from error
    token = user.get("auth", {}).get("accessToken", {})
    if token.get("role") == "read":
        raise LabError(wording("only reads", user=user["name"]))
    namespace = upload.repo.split("/")[0]
    ours = [user["name"], *(each["name"] for each in user.get("orgs", ()) if each.get("roleInOrg") != "read")]
    if remote.head is None and namespace not in ours:
        raise LabError(wording("foreign", repo=upload.repo, ours=", ".join(ours)))
    if scopes := token.get("fineGrained"):
        entries = [each for each in scopes.get("scoped", ()) if each["entity"].get("name") in (namespace, upload.repo)]
        allowed = {*scopes.get("global", ()), *(name for each in entries for name in each["permissions"])}
        needed = {"repo.write": "to write to repositories"} if remote.head is None else {}
        if len(remote.left(upload)) > MOST_FILES:
            needed["discussion.write"] = f"to open pull requests, which take the files of a commit beyond {MOST_FILES},"
        if lacking := [words for name, words in needed.items() if name not in allowed]:
            raise LabError(wording("no scope", user=user["name"], what=lacking[0], place=namespace))
    return ()


def check_owner(api: HfApi, upload: Upload, remote: Remote) -> None:
    """Raise LabError where what is there was not published by Assay, stands on another base, or has a card that was edited there."""
    if not OURS & set(remote.files):
        number = len(set(remote.files) - NOT_OURS)
        raise LabError(wording("not published here", repo=upload.repo, n=number, mark=MARK))
    card = download(api, upload.repo, str(remote.head), "README.md", upload.repo_type)
    texts = (card.read_text("utf-8") if card else "", upload.parts["README.md"].text())
    there, here = (known_front_matter(text).get("base_model") for text in texts)
    if there and there != here:
        raise LabError(wording("another base", repo=upload.repo, there=there, here=here))
    mark = download(api, upload.repo, str(remote.head), MARK, upload.repo_type)
    written = json.loads(mark.read_bytes()).get("card") if mark else None
    found = remote.files["README.md"].blob_id if card else None
    if written and found not in (None, written, upload.parts["README.md"].git_oid()):
        raise LabError(wording("card edited", repo=upload.repo))


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


def collect(
    api: HfApi, title: str, repos: Iterable[tuple[str, str]], *, is_public: bool, resource_group: str | None = None
) -> str:
    """Put repositories, as (name, type), that are there into the collection of a title, made if not there; return its address."""
    listed = list(dict.fromkeys(repos))
    try:
        owner = listed[-1][0].split("/")[0]
        where: dict[str, Any] = {"namespace": owner, "resource_group_id": resource_group}
        made = api.create_collection(title, **where, private=not is_public, exists_ok=True)
        for name, kind in (each for each in listed if api.repo_exists(each[0], repo_type=each[1])):
            api.add_collection_item(made.slug, name, cast(Any, kind), exists_ok=True)
    except TROUBLE as error:
        doing = f"published, but cannot be put into the collection {title!r}"
        raise explain(error, doing) from error
    return made.url


class _Publishing:
    """One upload on its way into its repository."""

    def __init__(self, api: HfApi, upload: Upload, say: Say, options: Mapping[str, Any]) -> None:
        self.api, self.upload, self.say, self.options = api, upload, say, options
        self.where: dict[str, Any] = {"repo_id": upload.repo, "repo_type": upload.repo_type}
        self.title = " ".join(filter(None, ("Publish", upload.repo, upload.tag, "with Assay")))

    def publish(self, planned: PublishPlan) -> Receipt:
        """Commit to main, verify, tag, and make public at last."""
        remote = self.make_repository(planned)
        is_there = remote.holds(self.upload)
        if not is_there:
            self.say(f"uploading {planned.upload_bytes:,} bytes to {self.upload.repo}")
            remote = self.commit_plan(remote)
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
        number, is_there = self.pull_request(self.look())
        revision = f"refs/pr/{number}"
        self.verify(revision)
        return self.receipt(revision, planned, is_there, number)

    def open_request(self, main: Remote) -> int | None:
        """Return the number of our open pull request that adds these files, or some of them, to `main`, None if there is none."""
        try:
            found = list(self.api.get_repo_discussions(**self.where, discussion_type="pull_request"))
            user = self.api.whoami(cache=True)["name"]
        except TROUBLE as error:
            raise explain(error, f"cannot list the pull requests of {self.upload.repo}") from error
        for each in found:
            if each.status in ("open", "draft") and each.title == self.title and each.author == user:
                there = self.look(f"refs/pr/{each.num}")
                before, after = (
                    {path: file.blob_id for path, file in at.files.items() if path not in self.upload.parts}
                    for at in (main, there)
                )
                if before == after:
                    return each.num
        return None

    def pull_request(self, main: Remote) -> tuple[int, bool]:
        """Return the number of an open pull request that adds all files to `main`, and whether it held them before.

        It is made, or completed, in commits of `MOST_FILES` files.
        """
        number, failures, commits = self.open_request(main), 0, 0
        while True:
            at = self.look(f"refs/pr/{number}") if number else main
            left = at.left(self.upload)
            if number is not None and not left:
                return number, not commits
            self.say(f"proposing {len(left)} files to {self.upload.repo}")
            try:
                done = self.commit((left or [*self.upload.parts])[:MOST_FILES], at.head, number, create_pr=not number)
                number, failures, commits = number or done.pr_num, 0, commits + 1
            except TROUBLE as error:
                trouble, failures = explain(error, f"cannot open a pull request on {self.upload.repo}"), failures + 1
                number = number or self.open_request(main)  # the answer may have been lost, not the request
                if failures == ATTEMPTS or not trouble.is_transient:
                    raise trouble from error
                time.sleep(max(PAUSE_SECONDS * failures, trouble.wait))

    def make_repository(self, planned: PublishPlan) -> Remote:
        """Return the repository, made private if it was not there; the visibility of one that was stays."""
        if planned.is_new:
            self.say(f"creating {self.upload.repo}, private")
            made: dict[str, Any] = {**self.where, **self.options, "private": True, "exist_ok": True}
            if self.upload.resource_group:
                made["resource_group_id"] = self.upload.resource_group
            if self.upload.kind == "space":
                card = known_front_matter(self.upload.parts["README.md"].text())
                made["space_sdk"] = card.get("sdk") or "gradio"
            self.attempt(f"cannot create {self.upload.repo}", lambda: self.api.create_repo(**made))
        remote = self.look()
        if remote.head is None:
            raise HubTrouble(wording("unseen", repo=self.upload.repo), is_transient=True)
        return remote

    def commit_plan(self, before: Remote) -> Remote:
        """Return the repository after one commit or merge on what was planned on; a failed answer is no failed commit."""
        doing, left = f"cannot commit to {self.upload.repo}", before.left(self.upload)
        number = self.pull_request(before)[0] if len(left) > MOST_FILES else None

        def committed() -> Remote:
            trouble = HubTrouble(wording("not committed", doing=doing), is_transient=True)
            try:
                if number is None:
                    self.commit(left, before.head)
                else:
                    self.api.merge_pull_request(**self.where, discussion_num=number)
            except TROUBLE as error:
                trouble = explain(error, doing)
            now = self.look()
            if now.holds(self.upload):
                return now
            if now.head != before.head:
                trouble = HubTrouble(wording("committed meanwhile", doing=doing, commit=now.head))
            raise trouble

        return self.attempt(doing, committed)

    def commit(
        self, paths: Iterable[str], parent: str | None, number: int | None = None, *, create_pr: bool = False
    ) -> CommitInfo:
        """Commit these files to main, to a pull request by its number, or to a new one."""
        contents = {path: self.upload.parts[path].content for path in paths}
        operations = [
            CommitOperationAdd(path, each if isinstance(each, bytes) else str(each)) for path, each in contents.items()
        ]
        place: dict[str, Any] = {"revision": f"refs/pr/{number}"} if number else {"create_pr": create_pr}
        return self.api.create_commit(
            **self.where, **place, operations=operations, commit_message=self.title, parent_commit=parent
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

    def attempt(self, doing: str, request: Callable[[], Answer], tried: int = 1) -> Answer:
        """Return what a request returns, tried again where that can help."""
        try:
            return request()
        except (HubTrouble, *TROUBLE) as error:
            trouble = error if isinstance(error, HubTrouble) else explain(error, doing)
        if not trouble.is_transient or tried == ATTEMPTS:
            raise trouble
        pause = max(PAUSE_SECONDS * tried, trouble.wait)
        self.say(f"trying again in {pause:.0f} seconds ({tried} of {ATTEMPTS - 1}): {trouble}")
        time.sleep(pause)
        return self.attempt(doing, request, tried + 1)

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
