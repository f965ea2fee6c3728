"""Bytes of a text file as text, or a message that says why they are none."""

import codecs
import re

from evals.errors import UnreadableArticle

MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
"""Byte order marks; those of UTF-32 stand first, because UTF-16's are how they begin."""
CONTROL = re.compile(r"[\x00-\x08\x0b\x0e-\x1f\x7f]")
MOST_CONTROLS = 0.01
"""Share of control characters above which a file is no text."""


def decoded(data: bytes, name: str) -> str:
    """Return the text of a file in UTF-8, or in UTF-16 or 32 with a byte order mark, lines ended by line feeds.

    UnreadableArticle for another encoding (a wrong guess would turn µ and ± into other signs
    without a word), for a file that is no text, and for one that is empty.
    """
    encoding = next((known for mark, known in MARKS if data.startswith(mark)), "utf-8")
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        raise UnreadableArticle(
            f"{name} is not {encoding.removesuffix('-sig').upper()}: byte {error.start} is"
            f" 0x{data[error.start]:02x}. Save it as UTF-8 (in an editor: Save with encoding; or"
            " `iconv -f WINDOWS-1252 -t UTF-8`) and give it again."
        ) from None
    if len(CONTROL.findall(text)) > MOST_CONTROLS * len(text):
        raise UnreadableArticle(
            f"{name} holds control characters throughout and is no text; accepted are PDF, JATS XML,"
            " Markdown and plain text."
        )
    if not text.strip():
        raise UnreadableArticle(f"{name} is empty; give a file that holds the text of a paper.")
    return CONTROL.sub("", text.replace("\r\n", "\n").replace("\r", "\n").replace("\x0c", "\n\n"))
