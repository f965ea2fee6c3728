"""What identifies a base model: hashes of its weights, its tokenizer and its chat template.

An adapter is only right on the weights and the token numbers it was trained with; these are the
values that a chain stores and compares.
"""

import json
import re
from pathlib import Path

from transformers import PreTrainedTokenizerBase

from evals.errors import MissingModel
from evals.weights import weights_identity
from training.files import sha256_of, sha256_of_text

BLOB_NAME = re.compile(r"[0-9a-f]{64}")
"""The Hub's cache names a large file after its SHA-256."""


def weights_sha256(folder: Path) -> str:
    """Return the SHA-256 of a model's safetensors files; of several, over their names and hashes.

    Raises MissingModel if the folder holds none.
    """
    files = sorted(folder.glob("model*.safetensors"))
    if not files:
        raise MissingModel(
            f"{folder} holds no model*.safetensors file; only safetensors weights are loaded, because"
            " other formats can run code. Save the model with `save_pretrained`, or name another one."
        )
    return weights_identity({file.name: _sha256(file) for file in files})


def tokenizer_sha256(tokenizer: PreTrainedTokenizerBase) -> str:
    """Return a hash of all that turns text into token numbers, special tokens included.

    Padding and truncation are left out: they are settings of a call, and using a tokenizer
    changes them.
    """
    if tokenizer.is_fast:
        rules = json.loads(tokenizer.backend_tokenizer.to_str())
        rules.pop("padding", None)
        rules.pop("truncation", None)
    else:
        rules = {"vocabulary": tokenizer.get_vocab()}
    identity = {
        "class_is_fast": tokenizer.is_fast,
        "rules": rules,
        "special": {name: str(token) for name, token in tokenizer.special_tokens_map.items()},
    }
    return sha256_of_text(json.dumps(identity, sort_keys=True, ensure_ascii=True))


def template_sha256(tokenizer: PreTrainedTokenizerBase) -> str:
    """Return a hash of the chat template, which `training.base.load_tokenizer` sees to that there is."""
    return sha256_of_text(tokenizer.get_chat_template())


def _sha256(file: Path) -> str:
    target = file.resolve()
    return target.name if BLOB_NAME.fullmatch(target.name) else sha256_of(target)
