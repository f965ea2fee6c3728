"""A chain of adapters on the Hub: its base and every stage published in order, and brought back as they were."""

import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any

from huggingface_hub import HfApi, ModelCardData
from pydantic import ValidationError

from evals.errors import ChainMismatch, LabError, first_problem
from evals.io import weights_identity, write_folder
from evals.schema import ChainManifest
from evals.schema.runs import IMPORTED, BaseOrigin, Diagnostic, Lineage, PublishedStage
from hub import adapters
from hub.adapters import CHAIN, CONFIG, LINEAGE, WEIGHTS, BaseCopy, PinnedBase, Publication, Run
from hub.cards import duty
from hub.checks import PublishPlan, Refused, Upload, inspect, part_of, size_finding
from hub.client import (
    TROUBLE,
    HubTrouble,
    Receipt,
    check_receipts,
    check_repo,
    explain,
    finding,
    read_receipt,
    wording,
    write_receipt,
)
from hub.publish import Remote, Say, check_tag, download, find_info, look, plan, publish

EMBEDDED = "embedded"
ORIGIN = "origin.json"
BASE_FILES = (
    "config.json",
    "generation_config.json",
    "model.safetensors.index.json",
    "merged.json",
    *adapters.TOKENIZER,
)
BASE_WEIGHTS = "model*.safetensors"
STAGE = re.compile(r"(?!.*\.\.)[A-Za-z0-9][\w.-]*")
SOURCE = re.compile(r"(?P<repo>[^@]+)(?:@(?P<revision>[\w][\w./-]*))?")
MORE_TEMPLATES = re.compile(r"additional_chat_templates/[\w-]+\.jinja")
NOT_YET = "0" * 40
"""Stands in a dry run for a commit that is made when what it names is published."""


def publication_of(
    folder: Path, wanted: Publication, with_base: bool | None, find_copy: Callable[[str | None], BaseCopy | None]
) -> Publication:
    """Return how the chain of a run folder is published; LabError for wishes that contradict each other.

    `with_base` None = the embedded base goes along, unless one on the Hub was named; any other base only
    when it is asked for. `find_copy` returns the base as it lies here, where that is published or
    compared; it is told which options named a base on the Hub instead, None if the copy is published.
    """
    base = adapters.read_run(folder).manifest.base
    pinned = f"@{wanted.base_revision}" if wanted.base_revision is not None else ""
    named = f"--base {wanted.base or ''}{pinned}" if wanted.base or pinned else ""
    if with_base and base.hub_id and base.revision:
        raise LabError(wording("base there", base=base.hub_id, revision=base.revision))
    if with_base and wanted.base_revision is not None:
        raise LabError(wording("two bases", revision=wanted.base_revision))
    is_embedded = base.source == EMBEDDED and base.revision is None
    goes_along = is_embedded and not named if with_base is None else with_base
    copy = find_copy(None if goes_along else named) if goes_along or (is_embedded and named) else None
    return replace(wanted, copy=copy, with_base=goes_along)


def check_wishes(api: HfApi, folder: Path, wanted: Publication, with_base: bool | None) -> None:
    """Raise LabError for what can be refused before anything is packed: name, version, a stage or a base that is not there."""
    check_repo(wanted.repo)
    check_tag(wanted.tag, Remote())
    manifest = runs_of(folder)[1][-1].manifest
    if not publication_of(folder, wanted, with_base, lambda _: None).with_base:
        base = adapters.base_of(manifest, wanted.base, wanted.base_revision)
        if find_info(api, base.name) is None and wanted.base:
            raise HubTrouble(wording("no base", name=base.name))


def runs_of(folder: Path) -> tuple[tuple[PublishedStage, ...], tuple[Run, ...]]:
    """Return the stages of a chain that are published already, and the runs after them, the named one last.

    LabError if one is not there.
    """
    last = adapters.read_run(folder)
    reports = [folder / adapters.REPORTS / name for name in last.reports]
    known: list[PublishedStage] = []
    earlier: list[Run] = []
    for number, stage in enumerate(last.earlier, 1):
        place = (folder / stage.path).resolve().parent
        if (published := _hub_place(place, stage.sha256)) and not earlier:
            known.append(published)
        elif stage.kind == IMPORTED:
            manifest = last.manifest.model_copy(update={"stages": last.manifest.stages[:number]})
            earlier.append(Run(place, None, manifest, {}, {}, place / "adapter"))
        elif (place / adapters.RECORD).is_file():
            earlier.append(adapters.read_run(place, reports))
        else:
            raise LabError(wording("stage missing", stage=stage.name, folder=folder, file=place / adapters.RECORD))
    return tuple(known), (*earlier, last)


def _hub_place(place: Path, sha256: str) -> PublishedStage | None:
    """Return where the Hub holds the stage in this folder of a chain that `fetch_chain` brought; None of another."""
    for folder in (place, *place.parents[:2]):
        if (file := folder / LINEAGE).is_file():
            lineage = Lineage.model_validate_json(file.read_bytes())
            return next((each for each in lineage.stages if each.sha256 == sha256), None)
    return None


def plan_chain(
    api: HfApi, folder: Path, wanted: Publication, keep: Callable[[Upload], object] = lambda _: None
) -> tuple[PublishPlan, ...]:
    """Return what publishing base and stages would do; only reads, so files that name pins not yet made show as new.

    `keep` is given each repository as it would be uploaded.
    """
    plans: list[PublishPlan] = []

    def plan_upload(upload: Upload, _folder: Path) -> str:
        plans.append(plan(api, upload))
        keep(upload)
        is_there = all(each.change in ("same", "remote_only") for each in plans[-1].files)
        return str(plans[-1].parent) if is_there else NOT_YET

    _each(api, *runs_of(folder), wanted, plan_upload)
    return tuple(plans)


def pack_last(folder: Path, wanted: Publication) -> Upload:
    """Return what would be published of the last stage, for its card; asks no Hub.

    The base and earlier stages are pinned as their receipts say, and not where they were never published;
    a base that is named is not compared.
    """

    def pin_by_receipt(upload: Upload, place: Path) -> str | None:
        if LINEAGE not in upload.parts and upload.kind == "adapter":
            raise Refused(upload.findings)
        return receipt.revision if (receipt := read_receipt(place, upload.repo)) else None

    return _each(None, *runs_of(folder), wanted, pin_by_receipt)


def publish_chain(api: HfApi, folder: Path, wanted: Publication, say: Say) -> tuple[Receipt, ...]:
    """Publish base and stages in order and return the receipts, which also lie in the run folders.

    Nothing is uploaded before all of it was checked and planned.
    """
    known, runs = runs_of(folder)
    check_receipts(*(run.folder for run in runs))
    for planned in plan_chain(api, folder, wanted):
        for each in planned.warnings:
            say(f"note: {planned.repo}, {each}")
    receipts: list[Receipt] = []

    def publish_upload(upload: Upload, place: Path) -> str:
        receipts.append(publish(api, upload, say))
        write_receipt(receipts[-1], place)
        return receipts[-1].revision

    _each(api, known, runs, wanted, publish_upload)
    return tuple(receipts)


def members(folder: Path, wanted: Publication, receipts: Sequence[Receipt]) -> list[tuple[str, str]]:
    """Return what belongs into one collection, as (name, type): base, data sets of the Hub, stages as published."""
    known, runs = runs_of(folder)
    base = wanted.base or runs[-1].manifest.base.hub_id
    data = [adapters.hub_dataset(each.name) for run in runs for each in run.data()]
    found = [(base, "model")] if base and not wanted.with_base else []
    found += [(each, "dataset") for each in data if each]
    return [*found, *((each.repo, "model") for each in (*known, *receipts))]


def _each(
    api: HfApi | None,
    known: Sequence[PublishedStage],
    runs: Sequence[Run],
    wanted: Publication,
    do: Callable[[Upload, Path], str | None],
) -> Upload:
    """Hand the base's and each stage's upload to `do`, which returns the commit that pins it; return the last.

    Stages that are `known` to be published stay where they are, if they are there.
    """
    manifest = runs[-1].manifest
    check_repo(wanted.repo)
    for stage in known:
        files = look(api, stage.repo, "model", stage.revision).files if api else None
        there = files.get(f"{stage.folder}/{WEIGHTS}".lstrip("/")) if files is not None else None
        if files is not None and (there is None or there.lfs is None or there.lfs.sha256 != stage.sha256):
            raise LabError(wording("stage gone", stage=stage.name, repo=stage.repo, revision=stage.revision))
    if wanted.with_base:
        if wanted.copy is None:
            raise LabError(wording("no copy"))
        origin = wanted.copy.origin
        upload = pack_base(wanted.copy, manifest, wanted)
        licence = origin.licence or manifest.base.licence
        name, revision = check_repo(upload.repo), do(upload, runs[-1].folder)
        weights = ((path, part) for path, part in upload.parts.items() if path.endswith(".safetensors"))
        numbers = sum(prod(shape) for path, part in weights for shape in inspect(part, path)[0].values())
        base = PinnedBase(name, revision, licence, origin.weights_sha256, origin.original, numbers or None)
    else:
        base = (
            find_hub_base(api, manifest, wanted)
            if api
            else adapters.base_of(manifest, wanted.base, wanted.base_revision)
        )
    unseen: list[Diagnostic] = []
    if api is not None:
        needed = {stage.repo: find_info(api, stage.repo) for stage in known}
        if not wanted.with_base:
            needed[base.name] = info = find_info(api, base.name)
            weights = info.safetensors if info else None
            base = replace(base, parameters=weights.total if weights else None)
        private = [name for name, info in needed.items() if info and info.private]
        if private and wanted.is_public:
            raise LabError(wording("private below", names=", ".join(private)))
        if wanted.is_public:
            unseen = [finding("unseen below", "README.md", name=name) for name, info in needed.items() if info is None]
        wanted = replace(wanted, gated=tuple(name for name, info in needed.items() if info and info.gated))
    places: list[PublishedStage] = [*known]
    upload = wanted.upload("adapter", {}, ())
    for run in runs:
        beside = replace(wanted, repo=f"{wanted.repo}-{run.stage.name}", is_pull_request=False)
        upload = adapters.pack_adapter(run, base, wanted if run is runs[-1] else beside, tuple(places))
        upload = replace(upload, findings=(*upload.findings, *unseen))
        check_repo(upload.repo)
        revision = do(upload, run.folder)
        lineage = Lineage.model_validate_json(upload.parts[LINEAGE].read())
        places.append(lineage.stages[-1].model_copy(update={"revision": revision}))
    return upload


def pack_base(copy: BaseCopy, manifest: ChainManifest, wanted: Publication) -> Upload:
    """Return what goes into the repository of a base: weights, configuration, tokenizer, origin, card.

    It goes to the repository that was named as the base, or to one beside the chain's. LabError if it is
    not the base that the chain stands on; what else is wrong is among the findings.
    """
    wanted = replace(wanted, repo=wanted.base or f"{wanted.repo}-base", is_pull_request=False)
    origin = copy.origin
    if origin.licence is None and manifest.base.merged:
        origin = origin.model_copy(update={"licence": manifest.base.licence})
    if origin.recorded_sha256 != manifest.base.weights_sha256:
        raise LabError(wording("other base", found=origin.recorded_sha256, expected=manifest.base.weights_sha256))
    files = sorted(copy.folder.glob(BASE_WEIGHTS))
    sizes = (size_finding(file.name, file.stat().st_size) for file in files)
    if too_large := list(filter(None, sizes)):
        return wanted.upload("model", {}, too_large)
    parts = {file.name: part_of(file) for file in files}
    findings = [each for name, part in parts.items() for each in inspect(part, name)[1]]
    if weights_identity({name: part.sha256 for name, part in parts.items()}) != origin.weights_sha256:
        findings.append(finding("base changed", BASE_WEIGHTS))
    if origin.licence is None:
        findings.append(finding("licence of base unknown", "README.md"))
    parts |= {name: part_of(copy.folder / name) for name in BASE_FILES if (copy.folder / name).is_file()}
    if copy.licence_file is not None:
        parts["LICENSE"] = part_of(copy.licence_file)
    parts[ORIGIN] = part_of((origin.model_dump_json(indent=1) + "\n").encode())
    card = _base_card(wanted.repo, wanted.tag, origin, manifest, has_licence_file="LICENSE" in parts)
    parts["README.md"] = part_of(card.encode())
    return wanted.upload("model", parts, findings)


def _base_card(repo: str, tag: str, origin: BaseOrigin, manifest: ChainManifest, *, has_licence_file: bool) -> str:
    """Return README.md of a copy of a base. To the Hub, one unpacked from a quantised model is quantised."""
    more: dict[str, Any] = {} if origin.licence else {"license_name": "not-recorded"}
    merged = manifest.base.merged
    if origin.original:
        more |= {"base_model": origin.original} | ({"base_model_relation": "quantized"} if origin.packed else {})
    elif merged and merged.base.hub_id:
        more |= {"base_model": merged.base.hub_id, "base_model_relation": "finetune"}
    front = ModelCardData(
        license=origin.licence or "other",
        library_name="transformers",
        pipeline_tag="text-generation",
        tags=["merged" if merged else "base-copy", "assay", *(["unpacked"] if origin.packed else [])],
        **more,
    )
    return adapters.model_card(
        front,
        "base.md",
        repo=repo,
        tag=tag,
        origin=origin,
        packed=origin.packed,
        identity=manifest.base,
        merged=merged,
        name=repo.split("/")[-1],
        duty=duty(origin.licence),
        has_licence_file=has_licence_file,
    )


def find_hub_base(api: HfApi, manifest: ChainManifest, wanted: Publication) -> PinnedBase:
    """Return the base that is on the Hub, recorded or named; Refused where a named one has other weights."""
    base = adapters.base_of(manifest, wanted.base, wanted.base_revision)
    if wanted.base is None and wanted.base_revision is None:
        return base
    expected = wanted.copy.origin.weights_sha256 if wanted.copy else manifest.base.weights_sha256
    revision, found = _on_the_hub(api, base)
    if found != expected:
        raise Refused([finding("base differs", base.name, revision=revision, found=found, expected=expected)])
    return replace(base, revision=revision, weights_sha256=found)


def _on_the_hub(api: HfApi, base: PinnedBase) -> tuple[str, str]:
    """Return the commit of a base and the checksum of its weights there, with nothing large fetched."""
    there = look(api, base.name, "model", base.revision)
    if there.head is None:
        raise HubTrouble(wording("no base", name=base.name))
    checksums = {}
    for path, file in there.files.items():
        if Path(path).match(BASE_WEIGHTS) and "/" not in path:
            # what the Hub keeps in git itself has only git's own checksum
            small = None if file.lfs else download(api, base.name, there.head, path)
            checksums[path] = file.lfs.sha256 if file.lfs else part_of(Path(str(small))).sha256
    if not checksums:
        raise LabError(wording("no weights", name=base.name, revision=there.head, files=BASE_WEIGHTS))
    return there.head, weights_identity(checksums)


def fetch_chain(api: HfApi, source: str, folder: Path, say: Say) -> ChainManifest:
    """Put a published chain down in `folder`, bit for bit, and return its manifest.

    `source` is ORG/NAME or ORG/NAME@REVISION. Every adapter is compared with the checksums of the
    chain before the folder appears; nothing is written where one differs. LabError if `folder` is there.
    """
    match = SOURCE.fullmatch(source)
    repo = check_repo(match["repo"] if match else source)
    if folder.exists():
        raise LabError(wording("folder there", folder=folder))
    try:
        head = str(api.model_info(repo, revision=match["revision"] if match else None).sha)
        files = api.list_repo_files(repo, revision=head)
    except TROUBLE as error:
        raise explain(error, f"cannot find {repo}") from error
    manifest, lineage = _records(*(_download(api, repo, head, name) for name in (CHAIN, LINEAGE)))
    copies: dict[str, Path] = {}
    for stage, origin in zip(manifest.stages, lineage.stages, strict=True):
        commit, where = origin.revision or head, origin.repo if origin.revision else repo
        say(f"{stage.name}: {where} @ {commit}")
        for name, sha256 in ((WEIGHTS, stage.sha256), (CONFIG, stage.config_sha256)):
            file = _download(api, check_repo(where), commit, f"{origin.folder}/{name}".lstrip("/"))
            copies[f"{stage.path}/{name}"] = file
            found = part_of(file).sha256
            if found != sha256:
                known = {"name": name, "repo": where, "commit": commit, "chain": repo}
                raise ChainMismatch(wording("other file", **known, found=found, expected=sha256))
    for name in files:
        if manifest.tokenizer and (name in adapters.TOKENIZER or MORE_TEMPLATES.fullmatch(name)):
            copies[f"{manifest.tokenizer}/{name}"] = _download(api, repo, head, name)
        if name in (CHAIN, adapters.RECORD, adapters.METRICS, *adapters.OF_STAGE) or re.fullmatch(
            rf"{adapters.REPORTS}/[\w.-]+\.json", name
        ):
            copies[name] = _download(api, repo, head, name)
    last = lineage.stages[-1].model_copy(update={"repo": repo, "revision": head})
    lineage = lineage.model_copy(update={"stages": (*lineage.stages[:-1], last)})
    with write_folder(folder) as place:
        for name, file in copies.items():
            (target := place / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, target)
        (place / LINEAGE).write_text(lineage.model_dump_json(indent=1) + "\n", encoding="utf-8")
    return manifest


def _records(chain: Path, lineage_file: Path) -> tuple[ChainManifest, Lineage]:
    """Return chain.json and lineage.json of a publication; they come from outside, so paths are checked."""
    try:
        manifest = ChainManifest.model_validate_json(chain.read_bytes())
        lineage = Lineage.model_validate_json(lineage_file.read_bytes())
    except ValidationError as error:
        raise ChainMismatch(wording("no chain", problem=first_problem(error)[1])) from None
    names = [stage.name for stage in manifest.stages]
    paths = [*(f"stages/{name}/adapter" for name in names[:-1]), "adapter"]
    is_same = names == [stage.name for stage in lineage.stages] and paths == [stage.path for stage in manifest.stages]
    is_same &= manifest.tokenizer in (None, adapters.OWN_TOKENIZER)
    if not is_same or len(set(names)) < len(names) or not all(STAGE.fullmatch(name) for name in names):
        raise ChainMismatch(wording("unsound chain"))
    return manifest, lineage


def _download(api: HfApi, repo: str, revision: str, name: str) -> Path:
    if file := download(api, repo, revision, name):
        return file
    raise ChainMismatch(wording("not ours", repo=repo, revision=revision, name=name))
