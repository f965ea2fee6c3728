"""The calibration plot as an image file: share correct against stated confidence, bin by bin.

Drawn from the bins of `evals.calibration`, with their intervals and counts; no browser, no plotting
library.
"""

import io
from collections.abc import Sequence

from PIL import Image, ImageDraw, ImageFont

from evals.reliability import Bin

WIDTH, HEIGHT = 720, 560
LEFT, TOP, SIDE = 90, 60, 420
LEGEND = (
    ("upwards: share correct", "#1f2937"),
    ("line: 95 % interval", "#1f2937"),
    ("grey line: calibrated", "#6b7280"),
    ("bars: number of answers", "#4f46e5"),
)
SCALE = 2
"""Drawn so many times larger and made smaller, for smooth lines."""
INK, PALE, LINE, FILL = "#1f2937", "#9ca3af", "#4f46e5", "#a5b4fc"


def reliability_png(bins: Sequence[Bin], title: str) -> bytes:
    """Return a PNG; bins without a row are not drawn.

    The diagonal is what a calibrated model would show. A bin's dot lies at its mean confidence and
    share correct, the line through it is the 95 % interval, and the bars below count its rows.
    """
    image = Image.new("RGB", (WIDTH * SCALE, HEIGHT * SCALE), "white")
    draw = ImageDraw.Draw(image)
    _axes(draw, title)
    used = [one for one in bins if one.n and one.confidence is not None]
    most = max((one.n for one in used), default=1)
    for one in used:
        _bin(draw, one, most)
    small = image.resize((WIDTH, HEIGHT), Image.Resampling.LANCZOS)
    file = io.BytesIO()
    small.save(file, "PNG", optimize=True)
    return file.getvalue()


def _axes(draw: ImageDraw.ImageDraw, title: str) -> None:
    _text(draw, (LEFT, 20), title, INK, 18)
    draw.rectangle(_scaled(LEFT, TOP, LEFT + SIDE, TOP + SIDE), outline=PALE, width=SCALE)
    draw.line(_scaled(*_place(0, 0), *_place(1, 1)), fill=PALE, width=SCALE)
    for tick in range(0, 101, 20):
        x, y = _place(tick / 100, 0)
        _text(draw, (x - 12, y + 8), f"{tick} %", INK, 13)
        x, y = _place(0, tick / 100)
        _text(draw, (x - 48, y - 8), f"{tick} %", INK, 13)
    _text(draw, (LEFT + 120, TOP + SIDE + 34), "stated confidence", INK, 15)
    for at, (words, colour) in enumerate(LEGEND):
        _text(draw, (LEFT + SIDE + 20, TOP + 24 * at), words, colour, 14)


def _bin(draw: ImageDraw.ImageDraw, one: Bin, most: int) -> None:
    height = 0.25 * one.n / most
    low, high = _place(one.lower + 0.01, height), _place(one.upper - 0.01, 0)
    draw.rectangle(_scaled(*low, *high), fill=FILL)
    _text(draw, (low[0] + 4, low[1] - 16), str(one.n), LINE, 12)
    if one.accuracy is None or one.confidence is None:
        return
    x, y = _place(one.confidence, one.accuracy)
    if one.interval is not None:
        (_, bottom), (_, top) = (_place(one.confidence, each) for each in one.interval)
        draw.line(_scaled(x, bottom, x, top), fill=INK, width=2 * SCALE)
    draw.ellipse(_scaled(x - 5, y - 5, x + 5, y + 5), fill=LINE)


def _place(confidence: float, accuracy: float) -> tuple[float, float]:
    return LEFT + SIDE * confidence, TOP + SIDE * (1 - accuracy)


def _scaled(*values: float) -> tuple[float, ...]:
    return tuple(SCALE * value for value in values)


def _text(
    draw: ImageDraw.ImageDraw, place: tuple[float, float], text: str, colour: str, size: int
) -> None:
    font = ImageFont.load_default(size * SCALE)
    x, y = place
    draw.text((SCALE * x, SCALE * y), text, fill=colour, font=font)
