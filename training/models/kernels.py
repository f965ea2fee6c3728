"""Kernels that linear attention and state-space layers of a base are computed fast with. Knows nothing of torch."""

import json
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

KERNELS = {"fla": "flash-linear-attention", "causal_conv1d": "causal-conv1d", "mamba_ssm": "mamba-ssm"}
"""Packages whose kernels transformers takes for linear attention and state-space layers, by what they are installed as."""


def is_installed(package: str) -> bool:
    """Whether a package can be imported."""
    return find_spec(package) is not None


def missing_kernels(config: Mapping[str, Any], has: Callable[[str], bool] | None = None) -> tuple[str, ...]:
    """Return what to install for the linear attention or state-space layers of a base, by its configuration.

    Read from transformers' own code of the model; empty for a base without such layers, or with all that it wants.
    """
    told = config.get("text_config") or config
    kinds = told.get("layer_types") or told.get("layers_block_type") or ["linear_attention"]
    if not any(recurrent_kind(str(each)) for each in kinds):
        return ()
    family, spec = str(told.get("model_type", "")).removesuffix("_text"), find_spec("transformers")
    file = Path(str(spec and spec.origin)).parent / "models" / family / f"modeling_{family}.py"
    code = file.read_text(encoding="utf-8") if file.is_file() else ""
    return tuple(
        name for package, name in KERNELS.items() if f'"{package}"' in code and not (has or is_installed)(package)
    )


def kernel_notes(folder: Path) -> tuple[str, ...]:
    """Return what to install for a base in a folder that would be computed slowly without; empty for most."""
    file = folder / "config.json"
    lacking = missing_kernels(json.loads(file.read_text(encoding="utf-8"))) if file.is_file() else ()
    if not lacking:
        return ()
    return (
        f"the base has linear attention or state-space layers, which PyTorch computes slowly without the kernels of"
        f" {' and '.join(lacking)}; on a machine with a GPU: pip install {' '.join(lacking)}.",
    )


def recurrent_kind(kind: str) -> bool:
    """Whether layers of a kind, as configurations name them, pass a state from token to token."""
    return kind == "linear_attention" or "attention" not in kind
