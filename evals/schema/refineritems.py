"""Rubric items for records that have items already: written by somebody else, to see what a gain is worth."""

from pydantic import Field, model_validator

from evals.schema.record import Record
from evals.schema.refining import OWN, STATIC, RubricItem, Title


class OtherItems(Record):
    """Items of another writer for one record. `record` is its id; `source` names the writer."""

    record: str = Field(min_length=1)
    source: Title
    positive_rubrics: tuple[RubricItem, ...] = ()
    negative_rubrics: tuple[RubricItem, ...] = ()

    @model_validator(mode="after")
    def _says_who_wrote_what(self) -> "OtherItems":
        if self.source in (OWN, STATIC):
            raise ValueError(f"source is {self.source!r}, which stands for items of the first set")
        items = (*self.positive_rubrics, *self.negative_rubrics)
        if not items:
            raise ValueError("there is no item; give positive_rubrics or negative_rubrics")
        if any(each.source not in (None, self.source) for each in items):
            raise ValueError("an item names another source than its row; a row has one writer")
        titles = [each.title for each in items]
        twice = next((title for title in titles if titles.count(title) > 1), None)
        if twice is not None:
            raise ValueError(
                f"two items have the title {twice!r}, so one behaviour would count twice; titles are unique"
            )
        return self
