"""HTML from `*.html.jinja` beside the tabs. Every value goes through `escape`; lines of a template are joined."""

import re
from functools import cache
from html import escape as _escape
from pathlib import Path
from typing import Any

import jinja2
from markdown_it import MarkdownIt

from lab.ui.text import say

LAB = Path(__file__).parents[1]


class Html(str):
    """Text that is markup already; any other string is escaped before it is shown."""

    __slots__ = ()

    def __html__(self) -> str:
        """Return the text as it is: templates ask whether it is markup."""
        return self


def escape(text: object) -> str:
    """Return text that shows as itself, also where a template would read `{{` or `${` in it."""
    escaped = _escape(str(text), quote=True)
    return escaped.replace("{", "&#123;").replace("}", "&#125;").replace("$", "&#36;")


def shown(text: object) -> Html:
    """Return `text` as it may stand in a page: `<b>` becomes `&lt;b&gt;`, Html stays as it is."""
    return text if isinstance(text, Html) else Html(escape(text))


def markdown(text: str) -> Html:
    """Return what somebody wrote in Markdown, as HTML: of its own markup only folds, no pictures, no formulas."""
    made = MarkdownIt("commonmark", {"html": False}).enable("table").disable("image").render(text)
    made = re.sub("&lt;(/?(?:details|summary))&gt;", r"<\1>", made)
    return Html(made.replace("{", "&#123;").replace("}", "&#125;").replace("$", "&#36;"))


class _Joined(jinja2.BaseLoader):
    def get_source(self, environment: jinja2.Environment, template: str) -> tuple[str, str, None]:
        """Return a template without line ends and indentation: the page shows none."""
        file = LAB / template
        return re.sub(r"\n\s*", "", file.read_text(encoding="utf-8")), str(file), None


@cache
def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=_Joined(),
        autoescape=True,
        finalize=lambda value: value if hasattr(value, "__html__") else shown(value),
        undefined=jinja2.StrictUndefined,
    )


def render(template: str, part: str, **values: Any) -> Html:
    """Return one macro of a template, such as `render("review/view.html.jinja", "paper", article=...)`."""
    return Html(getattr(_environment().get_template(template, globals={"say": say}).module, part)(**values))
