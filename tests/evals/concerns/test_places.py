"""Words of a concern found in the paper, literally or not at all."""

import pytest

from evals.review.places import Map
from evals.schema import Article, Section, TextOrigin
from evals.schema.reviewruns import ABSTRACT


def article(text: str) -> Article:
    return Article(
        id="a",
        source="s",
        title="T",
        abstract="A quiet abstract of few words.",
        sections=(Section(name="Methods", text=text),),
        origin=TextOrigin(format="plain"),
    )


PLACES = [
    ('It says "Twelve  mice" only.', "twelve mice", True),
    ("The mice were kept in pairs without any enrichment.", "kept in pairs without any", False),
    ('"a quiet abstract" is not enough', "A quiet abstract", True),
    ("Nothing here is of the paper.", None, False),
    ("It was of the and to be in the", None, False),
]


@pytest.mark.parametrize(("concern", "quote", "is_quoted"), PLACES)
def test_words_of_a_concern_are_found_where_they_stand(concern, quote, is_quoted):
    place = Map(article("All twelve mice were kept in pairs without any noise. It was of the and to be.")).place(
        concern
    )
    if quote is None:
        assert place is None
    else:
        assert place is not None and place.is_quoted == is_quoted
        assert quote in place.quote
        assert (place.section == ABSTRACT) == ("abstract" in quote)
