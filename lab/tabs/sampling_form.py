"""Seed, length and temperature of an answer, as every tab that has a model write asks for them."""

from dataclasses import dataclass

import gradio as gr

from lab.answers import HIGHEST_TEMPERATURE, LONGEST_ANSWER, SHORTEST_ANSWER
from lab.wording import say

Sampled = tuple[gr.Number, gr.Slider, gr.Slider]


@dataclass(frozen=True)
class Range:
    """What may be chosen; `about` says what the length is that of."""

    shortest: int = SHORTEST_ANSWER
    longest: int = LONGEST_ANSWER
    step: int = 8
    hottest: float = HIGHEST_TEMPERATURE
    about: str = "ask.length.info"


def sampling_fields(
    seed: int, max_new_tokens: int, temperature: float, choices: Range | None = None
) -> Sampled:
    """Lay out the three widgets, with these values at first, and return them."""
    within = choices or Range()
    number = gr.Number(
        seed, label=say("ask.seed"), info=say("ask.seed.info"), precision=0, minimum=0
    )
    length = gr.Slider(
        within.shortest,
        within.longest,
        max_new_tokens,
        step=within.step,
        label=say("ask.length"),
        info=say(within.about),
    )
    heat = gr.Slider(
        0,
        within.hottest,
        temperature,
        step=0.1,
        label=say("ask.temperature"),
        info=say("ask.temperature.info"),
    )
    return number, length, heat
