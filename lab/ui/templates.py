"""HTML from `*.html.jinja` beside the tabs. Every value goes through `escape`; lines of a template are joined."""

import re
from functools import cache
from pathlib import Path
from typing import Any

import jinja2

from lab.ui.components import Html, escape
from lab.ui.text import say

LAB = Path(__file__).parents[1]


class _Joined(jinja2.BaseLoader):
    def get_source(self, environment: jinja2.Environment, template: str) -> tuple[str, str, None]:
        """Return a template without line ends and indentation: the page shows none."""
        file = LAB / template
        return re.sub(r"\n\s*", "", file.read_text(encoding="utf-8")), str(file), None


def _shown(value: object) -> object:
    return value if hasattr(value, "__html__") else Html(escape(value))


@cache
def _environment() -> jinja2.Environment:
    return jinja2.Environment(loader=_Joined(), autoescape=True, finalize=_shown, undefined=jinja2.StrictUndefined)


def render(template: str, part: str, **values: Any) -> Html:
    """Return one macro of a template, such as `render("review/view.html.jinja", "paper", article=...)`."""
    return Html(getattr(_environment().get_template(template, globals={"say": say}).module, part)(**values))
