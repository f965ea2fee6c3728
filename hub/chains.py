"""Published chains brought back: every file at its pin, compared before anything appears."""

import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from huggingface_hub import HfApi
from pydantic import ValidationError

from evals.errors import ChainMismatch, LabError
from evals.schema import ChainManifest
from evals.schema.publishing import Lineage, PublishedStage, PublishPlan, Receipt
from hub.adapters import LINEAGE, Wishes, pack_adapter, stage_wishes
from hub.bases import BaseCopy, pack_base, pinned, published
from hub.checks import Refused
from hub.client import check_repo, explained
from hub.plan import Parcel, Target, part_of
from hub.publish import TROUBLE, Proof, Say, Steps, download, plan, publish, read_receipt, write_receipt
from hub.runs import CHAIN, CONFIG, METRICS, RECORD, REPORTS, WEIGHTS, Base, Run, base_of, read_run

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
        raise LabError(f"{folder} is there already; name another folder with --name, or move it away.")
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
    for stage, origin in zip(manifest.stages, lineage.stages, strict=True):
        commit = origin.revision or head
        where = origin.repo if origin.revision else repo
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
    expected = ["adapter" if at == last else f"stages/{name}/adapter" for at, name in enumerate(names)]
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
    return [name for name in files if name in (RECORD, METRICS) or re.fullmatch(rf"{REPORTS}/[\w.-]+\.json", name)]


def _download(api: HfApi, repo: str, revision: str, name: str) -> Path:
    file = download(api, repo, revision, name)
    if file is None:
        raise ChainMismatch(f"{repo} at {revision} holds no {name}; it was not published by `assay publish adapter`.")
    return file


def _put(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)


NOT_YET = "0" * 40
"""Stands in a dry run for a commit that is made when what it names is published."""


@dataclass(frozen=True)
class Publication:
    """How a chain is published: the wishes, and where it shall be seen.

    `copy` is its base as it lies here, where the Hub does not hold it; `with_base` publishes that too,
    else it only tells which checksum a base on the Hub must have.
    """

    wishes: Wishes
    is_public: bool = False
    is_pull_request: bool = False
    copy: BaseCopy | None = None
    with_base: bool = False


def runs_of(folder: Path) -> tuple[Run, ...]:
    """Return the runs of a chain in order, the named one last; LabError if one is not there."""
    last = read_run(folder)
    reports = [folder / REPORTS / name for name in last.reports]
    earlier = []
    for stage in last.earlier:
        place = last.folder_of(stage)
        if not (place / RECORD).is_file():
            raise LabError(
                f"the stage {stage.name!r} that {folder} stands on is not here with its records (no"
                f" {place / RECORD}); a chain is published whole. Put its run folder back."
            )
        earlier.append(read_run(place, reports))
    return (*earlier, last)


def plan_chain(api: HfApi, folder: Path, publication: Publication) -> tuple[PublishPlan, ...]:
    """Return what publishing the base, where it goes too, and each stage would do. Only reads.

    Pins of what is not published yet are not known, so the files that name them show as new.
    """
    runs = runs_of(folder)
    plans, places = [], []
    base_parcel = _base_parcel(runs[-1], publication)
    if base_parcel:
        plans.append(plan(api, *base_parcel, publication.wishes.limits))
        base = _published(runs[-1], publication, _pin(plans[-1]))
    else:
        base = pinned(api, runs[-1].manifest, publication.wishes, publication.copy)
    for parcel, target in _parcels(runs, base, publication, places):
        plans.append(plan(api, parcel, target, publication.wishes.limits))
        places.append(_place(parcel, _pin(plans[-1])))
    return tuple(plans)


def pack_last(folder: Path, publication: Publication) -> Parcel:
    """Return what would be published of the last stage, for its card; asks no Hub.

    The base and earlier stages are pinned as their receipts say, and by zeros where they were never
    published; a base that is named is not compared.
    """
    runs = runs_of(folder)
    places: list[PublishedStage] = []
    base_parcel = _base_parcel(runs[-1], publication)
    if base_parcel:
        receipt = read_receipt(runs[-1].folder, base_parcel[1].repo)
        base = _published(runs[-1], publication, receipt.revision if receipt else NOT_YET)
    else:
        wishes = publication.wishes
        base = base_of(runs[-1].manifest, wishes.base, wishes.base_revision)
    parcel: Parcel | None = None
    for parcel, target in _parcels(runs, base, publication, places):
        _refuse_unpacked(parcel)
        receipt = read_receipt(runs[len(places)].folder, target.repo)
        places.append(_place(parcel, receipt.revision if receipt else NOT_YET))
    if parcel is None:
        raise LabError(f"{folder} holds no adapter.")
    return parcel


def publish_chain(
    api: HfApi, folder: Path, publication: Publication, say: Say, prove: Proof | None = None
) -> tuple[Receipt, ...]:
    """Publish base and stages in order and return the receipts, which also lie in the run folders.

    Nothing is uploaded before all of it was checked and planned. `prove` is given a folder in which the
    whole chain was put back together.
    """
    runs = runs_of(folder)
    if len(runs) > 1 or publication.with_base:
        plan_chain(api, folder, publication)
    limits = publication.wishes.limits
    receipts: list[Receipt] = []
    base_parcel = _base_parcel(runs[-1], publication)
    if base_parcel:
        receipts.append(publish(api, *base_parcel, limits, Steps(say)))
        write_receipt(receipts[-1], runs[-1].folder)
        base = _published(runs[-1], publication, receipts[-1].revision)
    else:
        base = pinned(api, runs[-1].manifest, publication.wishes, publication.copy)
    places: list[PublishedStage] = []
    for parcel, target in _parcels(runs, base, publication, places):
        run = runs[len(places)]
        steps = Steps(say, whole(api, prove) if prove and run is runs[-1] else None)
        receipts.append(publish(api, parcel, target, limits, steps))
        write_receipt(receipts[-1], run.folder)
        places.append(_place(parcel, receipts[-1].revision))
    return tuple(receipts)


def _base_parcel(last: Run, publication: Publication) -> tuple[Parcel, Target] | None:
    """Return the copy of the base with its target; None if the base is not published too."""
    if not publication.with_base:
        return None
    if publication.copy is None:
        raise LabError("there is no copy of the base here to publish; name one on the Hub with --base.")
    parcel = pack_base(publication.copy, last.manifest, publication.wishes)
    repo = check_repo(parcel.title)
    return parcel, Target(repo, publication.wishes.tag, publication.is_public)


def _published(last: Run, publication: Publication, revision: str) -> Base:
    assert publication.copy is not None, "a base that was packed is a copy"
    return published(publication.copy, last.manifest, publication.wishes, revision)


def _parcels(
    runs: Sequence[Run], base: Base, publication: Publication, places: Sequence[PublishedStage]
) -> Iterator[tuple[Parcel, Target]]:
    """Yield each stage's parcel; `places` grows as the stages before it are published."""
    wishes = publication.wishes
    for run in runs:
        is_last = run is runs[-1]
        own = wishes if is_last else stage_wishes(wishes, run.stage.name)
        check_repo(own.repo)
        target = Target(
            own.repo,
            own.tag,
            publication.is_public,
            publication.is_pull_request and is_last,
        )
        yield pack_adapter(run, base, own, tuple(places)), target


def _pin(planned: PublishPlan) -> str:
    """Return the commit that a publication is at, if it is complete there already."""
    is_there = all(each.change in ("same", "remote_only") for each in planned.files)
    return str(planned.parent) if is_there else NOT_YET


def _place(parcel: Parcel, revision: str) -> PublishedStage:
    lineage = Lineage.model_validate_json(parcel.parts[LINEAGE].read())
    return lineage.stages[-1].model_copy(update={"revision": revision})


def _refuse_unpacked(parcel: Parcel) -> None:
    """Raise Refused if the parcel could not be packed at all."""
    if LINEAGE not in parcel.parts:
        raise Refused(parcel.findings)
