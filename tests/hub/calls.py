"""What the tests of the local Hub do in the client's process, with the real huggingface_hub."""

from pathlib import Path
from typing import Any


def api(token: str | None = None) -> Any:
    from huggingface_hub import HfApi

    return HfApi(token=token)


def attempt(function: Any, *words: Any, **named: Any) -> tuple[str, int | None]:
    """Return the name of the error that a call of this module raises, and its status."""
    try:
        function(*words, **named)
    except Exception as error:
        response = getattr(error, "response", None)
        return type(error).__name__, getattr(response, "status_code", None)
    return "nothing", None


def whoami(token: str | None = None) -> str:
    return api(token).whoami()["name"]


def create(name: str, kind: str = "model", token: str | None = None, **named: Any) -> str:
    return api(token).create_repo(name, repo_type=kind, exist_ok=True, **named).repo_id


def commit(name: str, files: dict[str, bytes], kind: str = "model", **named: Any) -> Any:
    from huggingface_hub import CommitOperationAdd

    operations = [CommitOperationAdd(path, content) for path, content in files.items()]
    token = named.pop("token", None)
    return api(token).create_commit(name, operations, commit_message="a change", repo_type=kind, **named)


def upload_folder(name: str, folder: Path) -> str:
    api().create_repo(name, exist_ok=True)
    return api().upload_folder(repo_id=name, folder_path=folder).oid


def snapshot(name: str, target: Path, kind: str = "model", **named: Any) -> dict[str, bytes]:
    from huggingface_hub import snapshot_download

    folder = Path(snapshot_download(name, repo_type=kind, local_dir=target, **named))
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and ".cache" not in path.parts
    }


def fetch(name: str, path: str, token: str | bool | None = None) -> bytes:
    from huggingface_hub import hf_hub_download

    return Path(hf_hub_download(name, path, token=token)).read_bytes()


def piece(name: str, path: str, first: int, last: int) -> tuple[int, bytes]:
    from huggingface_hub import get_session, hf_hub_url

    answer = get_session().get(
        hf_hub_url(name, path), headers={"Range": f"bytes={first}-{last}"}, follow_redirects=True
    )
    return answer.status_code, answer.content


def files(name: str, kind: str = "model", **named: Any) -> list[str]:
    return sorted(api().list_repo_files(name, repo_type=kind, **named))


def pull_request_story(name: str) -> tuple[list[str], list[str], list[str]]:
    """Return the files on main before, on the pull request, and on main after the merge."""
    made = commit(name, {"new.txt": b"new"}, create_pr=True)
    before = files(name)
    proposed = files(name, revision=f"refs/pr/{made.pr_num}")
    api().merge_pull_request(name, made.pr_num)
    return before, proposed, files(name)


def tag_story(name: str) -> tuple[str, str, list[str]]:
    oid = commit(name, {"a.txt": b"1"}).oid
    api().create_tag(name, tag="v1", revision=oid)
    commit(name, {"a.txt": b"2"})
    refs = [ref.name for ref in api().list_repo_refs(name).tags]
    return oid, api().model_info(name, revision="v1").sha, refs


def make_tag_twice(name: str) -> None:
    for _ in range(2):
        api().create_tag(name, tag="again")


def change_settings(name: str, **named: Any) -> None:
    api().update_repo_settings(name, **named)


def info(name: str, token: str | bool | None = None) -> str:
    return api(token).model_info(name).id


def card_problems(text: str, kind: str = "model") -> str | None:
    from huggingface_hub import ModelCard

    try:
        ModelCard(text).validate(repo_type=kind)
    except ValueError as error:
        return str(error)
    return None


def checksums(name: str, folder: Path) -> tuple[int, int]:
    found = api().verify_repo_checksums(name, local_dir=folder)
    return found.checked_count, len(found.mismatches)


def head(name: str) -> str:
    return api().model_info(name).sha


def history(name: str) -> list[str]:
    return [each.title for each in api().list_repo_commits(name)]
