import json

import pytest

from evals.errors import BadConfig
from evals.review.corpus import (
    CORPORA,
    Recipe,
    Rules,
    assigned,
    make_corpus,
    messages_of,
    rows_of,
    select,
    statistics_of,
)
from evals.review.prompt import Budget, system_prompt
from tests.evals.reviewed import WordCounter, concern, example, prose

COUNTER = WordCounter()
A, B = CORPORA["a"], CORPORA["b"]


def recipe(rules=A, **budget):
    return Recipe(rules, Budget(**({"context": 2500, "reply_reserve": 300, "overlap": 40} | budget)), COUNTER)


def reply(made):
    return json.loads(made.row.conversations[2].value)


def test_a_row_asks_for_a_review_and_answers_with_the_concerns_most_important_first():
    paper = example(
        [("Methods", "We looked.")],
        [concern("A small thing.", 1, severity="minor"), concern("Ünder-powered design.", 2)],
    )
    (made,) = rows_of(paper, select(paper.concerns, A)[0], Budget(), COUNTER)
    assert reply(made) == [
        {"text": "Ünder-powered design.", "category": "design_flaw", "severity": "major"},
        {"text": "A small thing.", "category": "design_flaw", "severity": "minor"},
    ]
    assert "Ünder" in made.row.conversations[2].value
    assert [each["role"] for each in messages_of(made.row)] == ["system", "user", "assistant"]
    assert messages_of(made.row)[0]["content"] == system_prompt()
    assert '"from":"gpt"' in made.row.model_dump_json(by_alias=True)


def test_a_reply_is_never_cut_and_every_row_fits_its_context():
    concerns = [concern(f"Point {n}: {prose(60)}", n) for n in range(1, 15)]
    paper = example([("Methods", prose(4000, "M"))], concerns)
    rows = rows_of(paper, concerns, Budget(2500, 100, 40, 3), COUNTER)
    assert sum(len(reply(made)) for made in rows) == 14
    assert all(made.input_tokens + made.reply_tokens <= 2500 for made in rows)
    assert all(COUNTER.chat(messages_of(made.row)) == made.input_tokens + made.reply_tokens for made in rows)


def test_a_reply_that_leaves_no_room_for_the_paper_is_an_error_that_names_the_numbers():
    concerns = [concern(f"Point {n}: {prose(300)}", n) for n in range(1, 12)]
    with pytest.raises(BadConfig, match="leaves -"):
        rows_of(example([("Methods", "We looked.")]), concerns, Budget(2500, 100, 40, 3), COUNTER)


def test_each_concern_stands_with_the_part_that_it_is_about():
    parts = ["Mice were flown, n = 4 animals.", "Sclerostin rose by 32% in the cortex."]
    concerns = ["Why did sclerostin rise?", "Four animals? n = 4 is too few mice.", "Unclear aims overall."]
    assert assigned(concerns, parts) == [1, 0, 0]


DROPPED = [
    ({"category": "figure_issue"}, A, "needs a figure"),
    ({"requires_figure_reading": True}, A, "needs a figure"),
    ({"requires_figure_reading": True}, Rules("own", 0, 1, with_figures=True), None),
    ({"resolution_confidence": 0.79}, B, "confidence below 0.8"),
    ({"resolution_confidence": 0.8}, B, None),
    ({"concern_text": "THE  groups differ in age."}, A, "said twice"),
    ({"concern_text": "The groups differ in age.", "severity": "minor"}, A, None),
]


def test_what_a_corpus_drops_is_counted_by_reason():
    first = concern("The groups differ in age.")
    for change, rules, reason in DROPPED:
        kept, dropped = select([first, concern("Another point here.", 2, **change)], rules)
        assert len(kept) == (2 if reason is None else 1)
        assert dropped == ({} if reason is None else {reason: 1})


def corpus_of(*papers, how=None):
    how = how or recipe()
    return make_corpus(papers, "train", how), how


def test_papers_without_text_or_enough_concerns_are_dropped_and_other_splits_left_alone():
    good = example([("Methods", "Text.")], [concern("The groups differ.")])
    bare = example([], [concern("The groups differ.")], id="s:2", abstract="")
    none = example([("Methods", "Text.")], id="s:3")
    test = example([("Methods", "Text.")], [concern("The groups differ.")], id="s:4", split="test")
    corpus, _ = corpus_of(good, bare, none, test)
    assert [each.example.id for each in corpus.taught] == ["s:1"]
    assert corpus.articles_dropped == {"title alone": 1, "fewer than 1 usable concerns": 1}
    assert corpus.read == 3


def test_the_statistics_count_kept_papers_alone_and_audit_what_was_cut():
    short = example(
        [("Methods", "Text.")], [concern("The groups differ."), concern("See figure 1.", 2, category="figure_issue")]
    )
    long = example([("Methods", prose(9000))], [concern("Too long a text.", 1)], id="t:2", source="t", family="2")
    dropped = example([("Methods", "Text.")], [concern("In figure 2 only.", 1, category="figure_issue")], id="s:3")
    corpus, how = corpus_of(short, long, dropped, how=recipe(max_parts=2))
    found = statistics_of(corpus, how, "here", ("sft_train.jsonl", "x"))
    assert (found.concerns_before, found.concerns_after, found.concerns_dropped) == (3, 2, {"needs a figure": 1})
    assert (found.articles_kept, found.rows, found.parts) == (2, 3, {"1": 1, "2": 1})
    assert found.truncation.by_source["s"].cut == 0
    assert found.truncation.by_source["t"].share_lost > 0.5
    assert found.truncation.by_length["8k to 12k"].papers == 1
    assert found.rows_without_concerns == 1
    assert found.sources == {"s": 1, "t": 1}
    assert found.input_tokens.high <= 2500
