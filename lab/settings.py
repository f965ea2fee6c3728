"""What the lab is told from outside: where it keeps things and which chain it shows."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from platformdirs import user_cache_path, user_data_path

EMBEDDED = "embedded"


@dataclass(frozen=True)
class Settings:
    """Everything the lab needs to know before it starts.

    `cache` holds what can be made again (the unpacked base model), the database what cannot.
    `chain` is "embedded", a run folder or a chain.json.
    """

    cache: Path
    database_url: str
    chain: str = EMBEDDED
    dtype: Literal["bfloat16", "float32"] = "bfloat16"


def from_environment(environment: Mapping[str, str] = os.environ) -> Settings:
    """Return the settings of ASSAY_CACHE, ASSAY_DATABASE_URL and ASSAY_CHAIN, or their defaults."""
    named = environment.get("ASSAY_CACHE")
    cache = Path(named).expanduser() if named else user_cache_path("assay", appauthor=False)
    return Settings(
        cache=cache,
        database_url=environment.get("ASSAY_DATABASE_URL") or default_database_url(),
        chain=environment.get("ASSAY_CHAIN") or EMBEDDED,
    )


def default_database_url() -> str:
    """Return the SQLite file in the user's data folder."""
    return f"sqlite:///{user_data_path('assay', appauthor=False) / 'assay.db'}"
