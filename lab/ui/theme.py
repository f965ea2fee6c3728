"""The look of the lab: one calm theme, light and dark, with fonts that come from our own server."""

import json
from pathlib import Path

import gradio as gr
from gradio.themes.utils import fonts, sizes

ASSETS = Path(__file__).parent / "assets"
ROUTE = "lab-assets"


class Theme(gr.themes.Base):
    """Paper and ink with one green accent, from assets/theme.json. Colours of our own classes stand in lab.css."""

    def __init__(self) -> None:
        given = json.loads((ASSETS / "theme.json").read_text(encoding="utf-8"))
        ink, teal = (gr.themes.Color(*given[name], name=name) for name in ("ink", "teal"))
        super().__init__(
            primary_hue=teal,
            secondary_hue=teal,
            neutral_hue=ink,
            spacing_size=sizes.spacing_md,
            radius_size=sizes.radius_md,
            text_size=sizes.Size("11px", "12px", "13px", "15px", "16px", "22px", "26px"),
            font=tuple(map(fonts.Font, ("Source Sans 3", "ui-sans-serif", "system-ui"))),
            font_mono=tuple(map(fonts.Font, ("ui-monospace", "Menlo", "monospace"))),
        )
        self.name = "assay"
        pairs = given["light and dark"]
        dark = {f"{name}_dark": colours[1] for name, colours in pairs.items()}
        super().set(**{name: colours[0] for name, colours in pairs.items()}, **dark, **given["both"])


def script(function: str, *values: object) -> str:
    """Return what an event calls of assets/lab.js: a function, with these values before its own."""
    return f"{function}.bind({', '.join(map(json.dumps, (None, *values)))})"


def clicks(tab: str) -> str:
    """Return the script that tells the lab of clicks on a tab's cards; focus stays where it was."""
    return (ASSETS / f"{tab}-clicks.js").read_text(encoding="utf-8")
