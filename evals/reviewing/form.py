"""The form of a reviewer's reply as a JSON schema, for engines that can hold a model to one."""

from evals.schema.reviews import MODEL_CATEGORIES, SEVERITIES

MOST = 25
"""Concerns of one reply at most: a model that repeats itself still comes to an end."""
SHORTEST, LONGEST = 10, 700
"""Characters of a concern. Human ones have 10 to 2,000; longer ones than this ramble."""


def concern_schema() -> dict[str, object]:
    """Return the schema of one concern: exactly three keys, in the order that replies are taught in."""
    return {
        "type": "object",
        "properties": {
            "text": {"type": "string", "minLength": SHORTEST, "maxLength": LONGEST},
            "category": {"type": "string", "enum": list(MODEL_CATEGORIES)},
            "severity": {"type": "string", "enum": list(SEVERITIES)},
        },
        "required": ["text", "category", "severity"],
        "additionalProperties": False,
    }


def array_schema() -> dict[str, object]:
    """Return the schema of a reply as it is asked for: one array of concerns, which may be empty."""
    return {"type": "array", "items": concern_schema(), "maxItems": MOST}


def object_schema() -> dict[str, object]:
    """Return the same in an object, for servers that take no other schema at the top."""
    return {
        "type": "object",
        "properties": {"concerns": array_schema()},
        "required": ["concerns"],
        "additionalProperties": False,
    }
