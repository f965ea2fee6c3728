"""Question sets of the Hub, for `evals.questions.sets.load_questions`. Knows nothing of torch."""

from collections.abc import Iterator, Mapping
from typing import Any

from datasets import load_dataset

from evals.errors import BadConfig


def from_hub(
    name: str, revision: str | None, config: str | None
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the rows of a data set with the name of their split; BadConfig if it cannot be fetched."""
    try:
        found = load_dataset(name, config, revision=revision)
    except (OSError, ValueError) as error:
        raise BadConfig(
            f"the data set {name} could not be fetched from the Hub ({str(error).splitlines()[0]}). Check the"
            " name, the revision, the config (hub:owner/name@revision:config) and the network; or name a file here."
        ) from None
    for split, rows in found.items():
        for row in rows:
            yield str(split), row
