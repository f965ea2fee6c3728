import pytest

from evals.normalize import plain


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        ("**NF-κB** falls −1.9", "nf-kb falls -1.9"),
        ("TNF-α", "tnf-alpha"),
        ("KMP×HU", "kmp x hu"),
        ("HALLMARK_E2F_TARGETS", "hallmark e2f targets"),
        ("8\u202f484", "8 484"),
        ("a\u200bb\u00adc", "abc"),
        ("two   blanks\ttab", "two blanks tab"),
        ("ＵＰ", "up"),
        ("İ", "i"),
        ("“don’t”", '"don\'t"'),
        ("~80%", "~80%"),
    ],
)
def test_text_is_what_a_reader_sees(text: str, expected: str) -> None:
    assert plain(text).text == expected


@pytest.mark.parametrize("text", ["plain", "**a** b", "αβ x", "ﬁne  words", "x\u200by", "a × b", "**", "`c`\n- _d_"])
def test_every_letter_leads_back_to_where_it_stood(text: str) -> None:
    page = plain(text + " END")
    place = page.text.index("end")
    assert text.__len__() + 1 == page.origin(place)
