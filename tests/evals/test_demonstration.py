from collections import Counter

import pytest

from evals.errors import LabError
from evals.papers.corpus import LICENCE, demonstration, read_paper
from evals.papers.text import without_markup
from evals.review.corpus import words_of

STYLES = {"bulleted", "narrative", "digest", "numbered", "conversational"}
PAPERS = demonstration()


def text_of(paper):
    figures = [f"{each.label} {each.caption}" for each in paper.figures]
    sections = [f"{each.name} {each.text}" for each in paper.sections]
    return " ".join([paper.title, paper.abstract, *sections, *figures])


def test_there_are_forty_manuscripts_and_some_have_a_second_version():
    families = Counter(paper.family for paper in PAPERS)
    assert len(families) >= 40
    assert sum(count == 2 for count in families.values()) >= 4


def test_every_paper_says_that_it_is_made_up_and_under_which_licence():
    assert {(paper.synthetic, paper.licence) for paper in PAPERS} == {(True, LICENCE)}
    assert {paper.source for paper in PAPERS} == {f"demo-{style}" for style in STYLES}


def test_a_paper_has_the_length_the_parts_and_the_concerns_that_were_promised_and_every_planted_flaw_word_for_word():
    for paper in PAPERS:
        text = text_of(paper)
        assert 350 <= len(text.split()) <= 700 and text == without_markup(text), paper.id
        assert {"Introduction", "Methods", "Results", "Discussion"} <= {each.name for each in paper.sections}, paper.id
        assert paper.abstract and paper.figures and paper.subjects, paper.id
        assert 8 <= len(paper.concerns) <= 15 and len(paper.flaws) >= 5, paper.id
        assert [flaw.quote for flaw in paper.flaws if flaw.quote not in text] == [], paper.id


def test_the_concerns_of_a_paper_share_more_words_with_it_than_with_any_other():
    texts = [concern.concern_text for paper in PAPERS for concern in paper.concerns]
    assert len(set(texts)) == len(texts)
    words = {paper.id: words_of(text_of(paper)) for paper in PAPERS}
    family = {paper.id: paper.family for paper in PAPERS}
    for paper in PAPERS:
        said = words_of(" ".join(each.concern_text for each in paper.concerns))
        nearest = max(words, key=lambda other: len(said & words[other]) / len(words[other]) ** 0.5)
        assert family[nearest] == paper.family


def test_some_concerns_need_a_figure_and_all_categories_and_severities_occur():
    concerns = [concern for paper in PAPERS for concern in paper.concerns]
    assert sum(each.requires_figure_reading for each in concerns) >= 30
    assert len({each.category for each in concerns}) == 9
    assert {each.severity for each in concerns} == {"major", "minor", "optional"}
    assert len({flaw.kind for paper in PAPERS for flaw in paper.flaws}) >= 60


def test_versions_of_a_manuscript_lie_on_one_side_and_each_style_in_every_split():
    sides = {paper.family: set() for paper in PAPERS}
    for paper in PAPERS:
        sides[paper.family].add(paper.split)
    assert all(len(found) == 1 for found in sides.values())
    assert {(paper.source, paper.split) for paper in PAPERS} == {
        (f"demo-{style}", split) for style in STYLES for split in ("train", "dev", "test")
    }


def test_a_second_version_keeps_what_it_does_not_change():
    papers = {paper.id: paper for paper in PAPERS}
    first, second = papers["demo:soleus-spaceflight"], papers["demo:soleus-spaceflight-v2"]
    assert first.sections[0] == second.sections[0]
    assert first.sections[1] != second.sections[1]
    assert (second.revision_round, second.family) == (2, "soleus-spaceflight")


def test_a_concern_that_is_not_written_as_it_should_be_is_named(tmp_path):
    (tmp_path / "x.md").write_text("# T\ntopic: a\nstyle: b\n## Abstract\nA.\n## Concerns\n1XX Wrong.\n")
    with pytest.raises(LabError, match="'1XX Wrong"):
        read_paper(tmp_path / "x.md")
