"""Cards: Jinja templates filled in from records, front matter by huggingface_hub."""

import os
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path

import jinja2

TEMPLATES = Path(__file__).parent / "templates"


def address() -> str | None:
    """Return where Assay is published: ASSAY_URL, else the first Project-URL of the installed package; None if unknown."""
    if named := os.environ.get("ASSAY_URL"):
        return named
    with suppress(PackageNotFoundError):  # a Space holds the files, and no package is installed there
        return next((each.split(", ")[1] for each in metadata("assay").get_all("Project-URL") or ()), None)
    return None


@cache
def environment() -> jinja2.Environment:
    """Return where templates are looked for and kept compiled; a place without a value is an error."""
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,
    )
    made.filters |= {"cell": cell, "repr": repr}
    return made


def render(template: str, **values: object) -> str:
    """Return a template filled in; a place without a value is an error, as it is none for `RepoCard.from_template`."""
    return environment().get_template(template).render(address=address(), **values)


def cell(text: object) -> str:
    """Return something as it can stand in a Markdown table."""
    return " ".join(str(text).split()).replace("|", "\\|")
