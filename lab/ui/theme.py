"""The look of the lab: one calm theme, light and dark, with fonts that come from our own server."""

from pathlib import Path

import gradio as gr
from gradio.themes.utils import fonts, sizes

ASSETS = Path(__file__).parent / "assets"
ROUTE = "lab-assets"

SANS = (fonts.Font("Source Sans 3"), fonts.Font("ui-sans-serif"), fonts.Font("system-ui"))
MONO = (fonts.Font("ui-monospace"), fonts.Font("Menlo"), fonts.Font("monospace"))

INK = gr.themes.Color(
    name="ink",
    c50="#f7f6f3",
    c100="#efede8",
    c200="#e1ded6",
    c300="#cbc7bd",
    c400="#8f929a",
    c500="#666b75",
    c600="#4b505a",
    c700="#33383f",
    c800="#1d2125",
    c900="#16191c",
    c950="#101214",
)
TEAL = gr.themes.Color(
    name="teal",
    c50="#eef6f5",
    c100="#dcecea",
    c200="#b6d8d4",
    c300="#86beb8",
    c400="#5fb3aa",
    c500="#1c7a73",
    c600="#0f625d",
    c700="#0c4f4b",
    c800="#0b3f3c",
    c900="#0a3230",
    c950="#061f1e",
)

PAIRS: dict[str, tuple[str, str]] = {
    "body_background_fill": ("*neutral_50", "*neutral_900"),
    "body_text_color": ("*neutral_800", "#e6e4df"),
    "body_text_color_subdued": ("*neutral_500", "#a3a8b0"),
    "background_fill_primary": ("white", "*neutral_800"),
    "background_fill_secondary": ("*neutral_50", "*neutral_900"),
    "border_color_primary": ("*neutral_200", "#343a41"),
    "block_background_fill": ("transparent", "transparent"),
    "block_label_background_fill": ("transparent", "transparent"),
    "block_label_text_color": ("*neutral_500", "#a3a8b0"),
    "block_title_text_color": ("*neutral_700", "#d2d3d0"),
    "block_info_text_color": ("*neutral_500", "#a3a8b0"),
    "input_background_fill": ("white", "*neutral_800"),
    "input_border_color": ("*neutral_300", "#434a52"),
    "input_border_color_focus": ("*primary_500", "*primary_400"),
    "input_placeholder_color": ("#767b84", "#8d939b"),
    "button_primary_background_fill": ("*primary_600", "*primary_400"),
    "button_primary_background_fill_hover": ("*primary_700", "*primary_300"),
    "button_primary_text_color": ("white", "*neutral_950"),
    "button_secondary_background_fill": ("white", "*neutral_800"),
    "button_secondary_background_fill_hover": ("*primary_50", "#262b31"),
    "button_secondary_border_color": ("*neutral_300", "#434a52"),
    "button_secondary_border_color_hover": ("*primary_500", "*primary_400"),
    "button_secondary_text_color": ("*neutral_800", "#e6e4df"),
    "slider_color": ("*primary_500", "*primary_400"),
    "checkbox_background_color_selected": ("*primary_600", "*primary_400"),
    "checkbox_label_background_fill_selected": ("*primary_50", "#23302f"),
    "checkbox_label_text_color_selected": ("*neutral_800", "#e6e4df"),
    "link_text_color": ("*primary_600", "*primary_400"),
}
"""Gradio's names of colours: what each is in light, and in dark."""

BOTH: dict[str, str] = {
    "block_border_width": "0px",
    "block_padding": "0px",
    "block_shadow": "none",
    "block_title_text_weight": "600",
    "input_border_width": "1px",
    "input_shadow": "none",
    "input_shadow_focus": "none",
    "button_border_width": "1px",
    "button_large_text_weight": "600",
    "button_transition": "background-color .15s, border-color .15s",
    "loader_color": "*primary_500",
}
"""What is the same in light and dark."""


class Theme(gr.themes.Base):
    """Paper and ink with one green accent. Colours of our own classes stand in lab.css."""

    def __init__(self) -> None:
        super().__init__(
            primary_hue=TEAL,
            secondary_hue=TEAL,
            neutral_hue=INK,
            spacing_size=sizes.spacing_md,
            radius_size=sizes.radius_md,
            text_size=sizes.text_md,
            font=SANS,
            font_mono=MONO,
        )
        self.name = "assay"
        light = {name: colour for name, (colour, _) in PAIRS.items()}
        dark = {f"{name}_dark": colour for name, (_, colour) in PAIRS.items()}
        super().set(**light, **dark, **BOTH)
