"""A YAML document as plain values, each key once: a key that stands twice is a slip, not a change of mind."""

from collections.abc import Hashable
from typing import Any

import yaml
from yaml.constructor import ConstructorError

from evals.errors import BadConfig


class _EachKeyOnce(yaml.SafeLoader):
    """YAML's safe loader, which would take the last of equal keys without a word."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        """Return a mapping; ConstructorError for a key that it holds more than once."""
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value in seen:
                raise ConstructorError(
                    problem=f"the key {key.value!r} stands more than once; keep one",
                    problem_mark=key.start_mark,
                )
            seen.add(str(key.value))
        return super().construct_mapping(node, deep)


def document_of(content: bytes, source: str) -> object:
    """Return what a YAML file holds; BadConfig, naming `source`, if it is not YAML or repeats a key."""
    try:
        return yaml.load(content.decode("utf-8-sig"), Loader=_EachKeyOnce)
    except UnicodeDecodeError as error:
        raise BadConfig(f"{source} is not UTF-8 at byte {error.start}; save it as UTF-8.") from None
    except (
        yaml.YAMLError,
        ValueError,
        RecursionError,
    ) as error:  # ValueError: no such date or number
        raise BadConfig(f"{source} is not YAML: {' '.join(str(error).split())}") from None
