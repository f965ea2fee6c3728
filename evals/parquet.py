"""Rows of Parquet files."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet

from evals.errors import BadConfig

ROWS_AT_ONCE = 1000


def parquet_rows(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the rows of a Parquet file; BadConfig if it cannot be read as one."""
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(ROWS_AT_ONCE):
                yield from batch.to_pylist()
    except (OSError, pyarrow.ArrowException) as error:
        raise BadConfig(f"{path} cannot be read as parquet ({str(error).splitlines()[0]}); check the path.") from None
