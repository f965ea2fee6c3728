"""The escapes of JSON strings, undone as far as they are escapes."""

import re

_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_SIMPLE = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "\n": "\n"}
_KEPT = frozenset("\"'\\/`")


def unescaped(written: str) -> str:
    r"""Return a string with its escapes undone; a backslash that escapes nothing stays.

    unescaped(r"a \"b\" \alpha")  ->  'a "b" \\alpha'
    """
    if "\\" not in written:
        return written
    plain = _ESCAPE.sub(_undone, written)
    return plain.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _undone(escape: re.Match[str]) -> str:
    code, mark = escape.groups()
    if code is not None:
        return chr(int(code, 16))
    if mark in _SIMPLE:
        return _SIMPLE[mark]
    return mark if mark in _KEPT else escape[0]
