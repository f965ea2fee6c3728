"""Published chains brought back: every file at its pin, compared before anything appears."""

import re
import shutil
import tempfile
from pathlib import Path

from huggingface_hub import HfApi
from pydantic import ValidationError

from evals.errors import ChainMismatch, LabError
from evals.schema import ChainManifest
from evals.schema.publishing import Lineage
from hub.adapters import LINEAGE
from hub.client import check_repo, explained
from hub.download import download
from hub.parcel import part_of
from hub.publish import TROUBLE, Proof, Say
from hub.runs import CHAIN, CONFIG, METRICS, RECORD, REPORTS, WEIGHTS

STAGE = re.compile(r"[A-Za-z0-9][\w.-]*")
SOURCE = re.compile(r"(?P<repo>[^@]+)(?:@(?P<revision>[\w][\w./-]*))?")


def fetch_chain(api: HfApi, source: str, folder: Path, say: Say) -> ChainManifest:
    """Put a published chain down in `folder`, bit for bit, and return its manifest.

    `source` is ORG/NAME or ORG/NAME@REVISION. Every adapter is compared with the checksums of the
    chain before the folder appears; nothing is written where one differs. LabError if `folder` is there.
    """
    match = SOURCE.fullmatch(source)
    repo = check_repo(match["repo"] if match else source)
    if folder.exists():
        raise LabError(
            f"{folder} is there already; name another folder with --name, or move it away."
        )
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".fetching-", dir=folder.parent) as place:
        manifest = _fetch(api, (repo, match["revision"] if match else None), Path(place), say)
        shutil.move(Path(place) / "chain", folder)
    return manifest


def whole(api: HfApi, prove: Proof) -> Proof:
    """Return a proof on the whole chain, put together from what was downloaded and its pinned stages."""

    def proven(downloaded: Path) -> None:
        with tempfile.TemporaryDirectory(prefix="assay-proof-") as place:
            manifest, lineage = _records(downloaded)
            target = Path(place) / "chain"
            for stage, published in zip(manifest.stages, lineage.stages, strict=True):
                for name in (WEIGHTS, CONFIG):
                    source = (
                        downloaded / name
                        if published.revision is None
                        else _download(api, published.repo, published.revision, name)
                    )
                    _put(source, target / stage.path / name)
            _put(downloaded / CHAIN, target / CHAIN)
            prove(target)

    return proven


def _fetch(api: HfApi, source: tuple[str, str | None], place: Path, say: Say) -> ChainManifest:
    repo, revision = source
    head = _resolved(api, repo, revision)
    records = place / "records"
    for name in (CHAIN, LINEAGE):
        _put(_download(api, repo, head, name), records / name)
    manifest, lineage = _records(records)
    target = place / "chain"
    for stage, published in zip(manifest.stages, lineage.stages, strict=True):
        commit = published.revision or head
        where = published.repo if published.revision else repo
        say(f"{stage.name}: {where} @ {commit}")
        for name, sha256 in ((WEIGHTS, stage.sha256), (CONFIG, stage.config_sha256)):
            file = _download(api, check_repo(where), commit, name)
            found = part_of(file).sha256
            if found != sha256:
                raise ChainMismatch(
                    f"{name} of {where} at {commit} is not the one that {repo} was published with (sha256"
                    f" {found}, expected {sha256}). Nothing was written; ask whoever published it."
                )
            _put(file, target / stage.path / name)
    _put(records / CHAIN, target / CHAIN)
    for name in _records_there(api, repo, head):
        _put(_download(api, repo, head, name), target / name)
    return manifest


def _records(folder: Path) -> tuple[ChainManifest, Lineage]:
    """Return chain.json and lineage.json of a publication; they come from outside, so paths are checked."""
    try:
        manifest = ChainManifest.model_validate_json((folder / CHAIN).read_bytes())
        lineage = Lineage.model_validate_json((folder / LINEAGE).read_bytes())
    except ValidationError as error:
        raise ChainMismatch(
            f"what was published is no chain that this version can read ({error.errors()[0]['msg']})."
        ) from None
    names = [stage.name for stage in manifest.stages]
    last = len(names) - 1
    expected = [
        "adapter" if at == last else f"stages/{name}/adapter" for at, name in enumerate(names)
    ]
    is_sound = (
        names == [stage.name for stage in lineage.stages]
        and len(set(names)) == len(names) > 0
        and all(STAGE.fullmatch(name) and ".." not in name for name in names)
        and [stage.path for stage in manifest.stages] == expected
    )
    if not is_sound:
        raise ChainMismatch(
            "chain.json and lineage.json do not belong together, or name places outside of the chain;"
            " nothing was written."
        )
    return manifest, lineage


def _resolved(api: HfApi, repo: str, revision: str | None) -> str:
    try:
        return str(api.model_info(repo, revision=revision).sha)
    except TROUBLE as error:
        raise explained(error, f"cannot find {repo}") from error


def _records_there(api: HfApi, repo: str, revision: str) -> list[str]:
    """Return the records and reports that lie beside a published adapter."""
    try:
        files = api.list_repo_files(repo, revision=revision)
    except TROUBLE as error:
        raise explained(error, f"cannot list the files of {repo}") from error
    return [
        name
        for name in files
        if name in (RECORD, METRICS) or re.fullmatch(rf"{REPORTS}/[\w.-]+\.json", name)
    ]


def _download(api: HfApi, repo: str, revision: str, name: str) -> Path:
    file = download(api, repo, revision, name)
    if file is None:
        raise ChainMismatch(
            f"{repo} at {revision} holds no {name}; it was not published by `assay publish adapter`."
        )
    return file


def _put(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
