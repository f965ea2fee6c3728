"""Characters are shown whole, however the tokenizer cuts them."""

import pytest

from tests.models import tiny_tokenizer
from training.models.generation import RowText


@pytest.mark.parametrize("text", ["plain", "naïve", "КМР × 😀", "日本語", "e\u0301", "👩🏽‍🔬 done"])
def test_no_piece_ever_shows_part_of_a_character(text):
    tokenizer = tiny_tokenizer()
    row = RowText(tokenizer)
    pieces = [row.add(token) for token in tokenizer.encode(text, add_special_tokens=False)]
    assert not any("\ufffd" in piece for piece in pieces)
    assert "".join(pieces) + row.rest() == text


def test_bytes_that_never_become_a_character_are_shown_at_the_end():
    tokenizer = tiny_tokenizer()
    first_byte = tokenizer.encode("😀", add_special_tokens=False)[0]
    row = RowText(tokenizer)
    assert row.add(first_byte) == ""
    assert row.rest() == "\ufffd"
