"""Small real PDF files for tests: text placed line by line, in whatever order the case needs.

data = pdf([[Put(72, 720, "A title", 18, bold=True), Put(72, 690, "Some text.")]])
"""

import textwrap
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

WIDTH, HEIGHT = 595, 842
LEFT, LINE = 50, 12
"""Where a column begins, and the distance of lines, in points."""


@dataclass(frozen=True)
class Put:
    """A text at a place, in points from the lower left corner."""

    x: float
    y: float
    text: str
    size: float = 9
    bold: bool = False


def pdf(pages: Sequence[Sequence[Put]]) -> bytes:
    """Return a PDF 1.4 of A4 pages with these texts; a page without any shows a grey box, as a scan does."""
    kids = " ".join(f"{5 + 2 * n} 0 R" for n in range(len(pages)))
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>".encode(),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica-Bold /Encoding /WinAnsiEncoding >>",
    ]
    for n, puts in enumerate(pages):
        stream = zlib.compress("\n".join(map(_drawn, puts)).encode("cp1252") or b"0.5 g 50 50 400 700 re f")
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 {WIDTH} {HEIGHT}] /Contents {6 + 2 * n} 0 R"
            f" /Resources << /Font << /F1 3 0 R /F2 4 0 R >> >> >>".encode()
        )
        head = f"<< /Length {len(stream)} /Filter /FlateDecode >>\nstream\n".encode()
        objects.append(head + stream + b"\nendstream")
    return _file(objects)


def column(text: str, x: float, y: float, width: int = 46, size: float = 9) -> list[Put]:
    """Return a text as lines of a column; blank lines in it part paragraphs, ## begins a heading."""
    puts = []
    for paragraph in text.strip().split("\n\n"):
        is_heading = paragraph.startswith("## ")
        for line in textwrap.wrap(paragraph.removeprefix("## "), width):
            puts.append(Put(x, y, line, size + 1.5 if is_heading else size, bold=is_heading))
            y -= LINE
        y -= LINE * 0.8
    return puts


def _drawn(put: Put) -> str:
    text = put.text.replace("\\", r"\\").replace("(", r"\(").replace(")", r"\)")
    return f"q BT /F{2 if put.bold else 1} {put.size} Tf 1 0 0 1 {put.x} {put.y} Tm ({text}) Tj ET Q"


def _file(objects: Sequence[bytes]) -> bytes:
    data, places = b"%PDF-1.4\n", []
    for number, content in enumerate(objects, start=1):
        places.append(len(data))
        data += f"{number} 0 obj\n".encode() + content + b"\nendobj\n"
    table = "".join(f"{place:010d} 00000 n \n" for place in places)
    head = f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}"
    tail = f"trailer\n<< /Size {len(objects) + 1} /Root 1 0 R >>\nstartxref\n{len(data)}\n%%EOF\n"
    return data + (head + tail).encode()
