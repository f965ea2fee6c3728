"""Tables of cases, one YAML file each."""

from pathlib import Path
from typing import Any

import yaml


def cases(name: str) -> Any:
    """Return the table of this name."""
    return yaml.safe_load(Path(__file__).with_name(f"{name}.yaml").read_text(encoding="utf-8"))
