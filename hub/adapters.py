"""A run folder as it is published: an allow-list of files, the card, where each stage lies."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from evals.errors import LabError
from evals.schema import ChainManifest
from evals.schema.publishing import Finding, Lineage, PublishedStage
from hub.cards.adapter import AdapterCard, adapter_card, licence_findings
from hub.cards.figures import measured
from hub.checks import PICKLES, STATE, Limits, fit_findings, inspect, size_finding
from hub.plan import Parcel, Part, part_of
from hub.runs import CHAIN, CONFIG, METRICS, RECORD, REPORTS, WEIGHTS, Base, Run

TOKENIZER = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "chat_template.jinja",
    "vocab.json",
    "merges.txt",
)
BESIDE = (RECORD, METRICS, "LICENSE", "NOTICE")
LINEAGE = "lineage.json"


@dataclass(frozen=True)
class Wishes:
    """What the person publishing chose: repository, tag, base by its Hub id, licence, limits."""

    repo: str
    tag: str = "v1.0"
    base: str | None = None
    base_revision: str | None = None
    licence: str | None = None
    limits: Limits = field(default_factory=Limits)


def pack_adapter(run: Run, base: Base, wishes: Wishes, earlier: tuple[PublishedStage, ...]) -> Parcel:
    """Return everything that goes into the adapter's repository, each file read once.

    `earlier` says where the stages before it lie. What is wrong is among the parcel's findings.
    """
    too_large = size_finding(WEIGHTS, _size(run.adapter / WEIGHTS), wishes.limits)
    if too_large:
        return Parcel("adapter", wishes.repo, {}, (too_large,))
    weights = inspect(run.adapter / WEIGHTS, WEIGHTS)
    config, settings = _config(run, base)
    findings = [*weights.findings, *_foreign(run), *_identity(run, base, weights.sha256, settings)]
    if weights.tensors:
        findings += fit_findings(WEIGHTS, weights.tensors, settings)
    own = PublishedStage(
        name=run.stage.name,
        repo=wishes.repo,
        revision=None,
        sha256=weights.sha256,
        config_sha256=config.sha256,
    )
    lineage = Lineage(base=base.name, base_revision=base.revision, stages=(*earlier, own))
    parts = {
        WEIGHTS: Part(run.adapter / WEIGHTS, weights.sha256, weights.size),
        CONFIG: config,
        CHAIN: part_of(_json(published_manifest(run.manifest, lineage, base))),
        LINEAGE: part_of(_json(lineage)),
        **_beside(run),
    }
    tables, figures = measured(run.reports, run.stage.name)
    parts |= {name: part_of(image) for name, image in figures.items()}
    card = AdapterCard(
        run=run,
        base=base,
        lineage=lineage,
        tag=wishes.tag,
        measured=(*tables, *(each.table for each in run.graded)),
        files=parts,
        licence=wishes.licence,
    )
    findings += licence_findings(card)
    parts["README.md"] = part_of(adapter_card(card).encode())
    return Parcel("adapter", wishes.repo, parts, tuple(findings))


def published_manifest(manifest: ChainManifest, lineage: Lineage, base: Base) -> ChainManifest:
    """Return chain.json as `assay chain add` puts it down: each stage in a folder of its own below."""
    last = len(manifest.stages) - 1
    stages = tuple(
        stage.model_copy(
            update={
                "path": "adapter" if at == last else f"stages/{stage.name}/adapter",
                "config_sha256": place.config_sha256,
            }
        )
        for at, (stage, place) in enumerate(zip(manifest.stages, lineage.stages, strict=True))
    )
    changes: dict[str, object] = {"stages": stages}
    if manifest.base.hub_id is None or base.weights_sha256 is not None:
        named = {"source": base.name, "hub_id": base.name, "revision": base.revision}
        changes["base"] = manifest.base.model_copy(update=named | _weights(manifest, base))
    return manifest.model_copy(update=changes)


def _weights(manifest: ChainManifest, base: Base) -> dict[str, str]:
    """Return how the base's weights are known on the Hub, where that was found out."""
    recorded = manifest.base.weights_sha256
    if base.weights_sha256 is None or base.weights_sha256 == recorded:
        return {}
    return {"weights_sha256": base.weights_sha256, "packed_sha256": recorded}


def _size(file: Path) -> int:
    if not file.is_file():
        extra = ""
        if any(file.parent.glob("adapter_model.bin")):
            extra = " It holds a pickle (adapter_model.bin), which can run code and is not published."
        raise LabError(
            f"{file.parent} holds no {file.name}, so there is no adapter to publish.{extra} Save it with"
            " save_pretrained, which writes safetensors."
        )
    return file.stat().st_size


def _config(run: Run, base: Base) -> tuple[Part, dict[str, Any]]:
    """Return adapter_config.json with the base's Hub id and revision in it, and what it says."""
    file = run.adapter / CONFIG
    try:
        settings = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise LabError(f"{file} cannot be read; it belongs to the adapter. Save the adapter again.") from None
    named = {"base_model_name_or_path": base.name, "revision": base.revision}
    if settings | named == settings:
        return part_of(file), settings
    text = json.dumps(settings | named, indent=2, sort_keys=True)
    return part_of(text.encode()), settings


def _identity(run: Run, base: Base, sha256: str, settings: dict[str, Any]) -> Iterator[Finding]:
    """Yield where adapter, chain and base are not the ones that belong together."""
    if sha256 and sha256 != run.stage.sha256:
        yield Finding(
            check="chain",
            path=WEIGHTS,
            problem="is not the adapter that chain.json describes (another checksum)",
            remedy="put the right adapter back, or train the stage again",
        )
    named = str(settings.get("base_model_name_or_path") or "")
    known = (base.name, run.manifest.base.hub_id, run.manifest.base.source)
    is_path = named.startswith((".", "/", "~")) or "/" not in named
    if named and not is_path and named not in known:
        yield Finding(
            check="base",
            path=CONFIG,
            problem=f"says that the adapter was trained on {named}, but the chain stands on {base.name}",
            remedy="publish adapter and chain of one run; --base names the base they were trained on",
        )
    if settings.get("peft_type") != "LORA":
        yield Finding(
            check="weights",
            path=CONFIG,
            problem=f"is an adapter of type {settings.get('peft_type')!r}; only LoRA is published",
            remedy="train the stage with LoRA",
        )
    if base.revision is None:
        yield Finding(
            check="base",
            path="README.md",
            problem=f"the training record does not tell which revision of {base.name} was used, so the"
            " card cannot pin it",
            remedy="name it with --base-revision, if you know it",
            is_error=False,
        )


def _foreign(run: Run) -> Iterator[Finding]:
    """Yield pickles and training state in the adapter's folder: it is not what a run leaves there."""
    for file in sorted(run.adapter.iterdir()):
        if file.suffix.lower() in PICKLES or file.name in STATE:
            yield Finding(
                check="weights",
                path=file.name,
                problem="lies beside the adapter and can run code when it is loaded",
                remedy="remove it: save_pretrained writes all that is needed as safetensors",
            )


def _beside(run: Run) -> dict[str, Part]:
    """Return the other files on the allow-list that are there."""
    found = [run.folder / name for name in BESIDE] + [run.adapter / name for name in TOKENIZER]
    parts = {file.name: part_of(file) for file in found if file.is_file()}
    for name, report in run.reports.items():
        file = run.folder / REPORTS / name
        content = file if file.is_file() else (report.model_dump_json(indent=1) + "\n").encode()
        parts[f"{REPORTS}/{name}"] = part_of(content)
    return parts | {f"{REPORTS}/{each.file.name}": part_of(each.file) for each in run.graded}


def _json(record: ChainManifest | Lineage) -> bytes:
    return (record.model_dump_json(indent=1) + "\n").encode()


def stage_wishes(wishes: Wishes, name: str) -> Wishes:
    """Return the wishes for an earlier stage of the same chain: a repository beside, of its name."""
    return replace(wishes, repo=f"{wishes.repo}-{name}")
