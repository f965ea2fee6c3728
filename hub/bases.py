"""The base below a chain: a copy that is published with it, or one on the Hub that is held to its checksum."""

from dataclasses import dataclass, replace
from pathlib import Path

from huggingface_hub import HfApi

from evals.errors import LabError
from evals.io import weights_identity
from evals.schema import ChainManifest
from evals.schema.publishing import BaseOrigin, Finding
from hub.adapters import TOKENIZER, Wishes
from hub.cards.adapter import BaseCard, base_card
from hub.checks import Refused, inspect, size_finding
from hub.client import HubTrouble
from hub.plan import Parcel, Part, look, part_of
from hub.publish import download
from hub.runs import Base, base_of

MODEL_FILES = ("config.json", "generation_config.json", "model.safetensors.index.json")
WEIGHTS = "model*.safetensors"
ORIGIN = "origin.json"


@dataclass(frozen=True)
class BaseCopy:
    """A base model that lies on this machine, and what is known about where it comes from."""

    folder: Path
    origin: BaseOrigin
    licence_file: Path | None = None


def base_repo(wishes: Wishes) -> str:
    """Return the repository that a copy of the base goes to: the one named, or one beside the chain's."""
    return wishes.base or f"{wishes.repo}-base"


def published(copy: BaseCopy, manifest: ChainManifest, wishes: Wishes, revision: str) -> Base:
    """Return the copy as the chain's base, pinned to the commit that it was published with."""
    return Base(
        name=base_repo(wishes),
        revision=revision,
        licence=copy.origin.licence or manifest.base.licence,
        weights_sha256=copy.origin.weights_sha256,
        original=copy.origin.original,
    )


def pack_base(copy: BaseCopy, manifest: ChainManifest, wishes: Wishes) -> Parcel:
    """Return what goes into the repository of a base: weights, configuration, tokenizer, origin, card.

    LabError if it is not the base that the chain stands on; what else is wrong is among the findings.
    """
    if copy.origin.recorded_sha256 != manifest.base.weights_sha256:
        raise LabError(
            f"the base here has weights {copy.origin.recorded_sha256[:12]}…, and the chain was trained on"
            f" {manifest.base.weights_sha256[:12]}…: a copy of it would make the adapters answer wrongly."
            " Put the right base there, or name one that is on the Hub with --base."
        )
    weights = sorted(copy.folder.glob(WEIGHTS))
    too_large = [found for file in weights if (found := size_finding(file.name, file.stat().st_size, wishes.limits))]
    if too_large:
        return Parcel("model", base_repo(wishes), {}, tuple(too_large))
    parts, findings = _weights(weights)
    findings += _identity(copy, {name: part.sha256 for name, part in parts.items()})
    findings += _licence(copy)
    beside = [copy.folder / name for name in (*MODEL_FILES, *TOKENIZER)]
    parts |= {file.name: part_of(file) for file in beside if file.is_file()}
    if copy.licence_file is not None:
        parts["LICENSE"] = part_of(copy.licence_file)
    parts[ORIGIN] = part_of((copy.origin.model_dump_json(indent=1) + "\n").encode())
    card = BaseCard(base_repo(wishes), wishes.tag, copy.origin, manifest.base, parts)
    parts["README.md"] = part_of(base_card(card).encode())
    return Parcel("model", base_repo(wishes), parts, tuple(findings))


def pinned(api: HfApi, manifest: ChainManifest, wishes: Wishes, copy: BaseCopy | None = None) -> Base:
    """Return the base that is on the Hub already: the recorded one, or the one that was named.

    What was named is held to the chain: its weights must have the same checksum, or Refused. Without
    a revision the commit that is there now is pinned. `copy` is the base as it lies here.
    """
    base = base_of(manifest, wishes.base, wishes.base_revision)
    if wishes.base is None and wishes.base_revision is None:
        return base
    expected = copy.origin.weights_sha256 if copy else manifest.base.weights_sha256
    revision, found = _on_the_hub(api, base)
    if found != expected:
        raise Refused(
            [
                Finding(
                    check="base",
                    path=base.name,
                    problem=f"holds other weights at {revision[:12]} than the chain was trained on (checksum"
                    f" {found[:12]}…, expected {expected[:12]}…), so the adapters would answer wrongly on it",
                    remedy="name the base that it was trained on, or publish that one with --with-base",
                )
            ]
        )
    return replace(base, revision=revision, weights_sha256=found)


def _on_the_hub(api: HfApi, base: Base) -> tuple[str, str]:
    """Return the commit of a base and the checksum of its weights there, with nothing large fetched."""
    there = look(api, base.name, "model", base.revision)
    if there.head is None:
        raise HubTrouble(
            f"there is no model {base.name} on the Hub, or your token may not see it. Check the name given"
            " with --base, or publish the base there too with --with-base."
        )
    checksums = {
        path: file.lfs.sha256 if file.lfs else _sha256(api, base.name, there.head, path)
        for path, file in there.files.items()
        if Path(path).match(WEIGHTS) and "/" not in path
    }
    if not checksums:
        raise LabError(
            f"{base.name} at {there.head[:12]} holds no {WEIGHTS}, so its weights cannot be compared with"
            " those that the chain was trained on. Name another base with --base."
        )
    return there.head, weights_identity(checksums)


def _sha256(api: HfApi, repo: str, revision: str, path: str) -> str:
    """Return the checksum of a file that the Hub keeps in git itself, which has only git's own."""
    file = download(api, repo, revision, path)
    if file is None:
        raise HubTrouble(f"{path} of {repo} was there a moment ago; run it again.", is_transient=True)
    return part_of(file).sha256


def _weights(files: list[Path]) -> tuple[dict[str, Part], list[Finding]]:
    """Return the files of weights, each read once, and what is wrong in them."""
    parts, findings = {}, []
    for file in files:
        found = inspect(file, file.name)
        parts[file.name] = Part(file, found.sha256, found.size)
        findings += found.findings
    return parts, findings


def _identity(copy: BaseCopy, checksums: dict[str, str]) -> list[Finding]:
    if checksums and weights_identity(checksums) == copy.origin.weights_sha256:
        return []
    return [
        Finding(
            check="base",
            path=WEIGHTS,
            problem="are not the weights that were found a moment ago (another checksum)",
            remedy="let nobody write there while you publish, and run the command again",
        )
    ]


def _licence(copy: BaseCopy) -> list[Finding]:
    if copy.origin.licence is not None:
        return []
    return [
        Finding(
            check="licence",
            path="README.md",
            problem="nobody has recorded the licence of the base, and whoever publishes a copy needs one that"
            " allows it; the card says license: other",
            remedy="find it out before you publish",
            is_error=False,
        )
    ]
