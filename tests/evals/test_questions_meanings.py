"""What the gene sets stand for is taught for all of them, and gives away nothing about a tissue."""

from evals.facts import load_enrichment, load_hallmark
from evals.questions import is_held_out, kmp_test, pathway_heldout, pathway_training, set_meanings
from evals.questions.wording import ACTED, AMOUNT, LEVEL, REGULATED


def test_every_gene_set_is_explained_twice_in_different_words():
    rows = set_meanings()
    for pathway, named in load_hallmark().items():
        own = [row for row in rows if row.cluster == f"meaning/{pathway}"]
        assert len({row.prompt for row in own}) == 2
        assert all(named.name in row.prompt and named.about in row.answer for row in own)


def test_a_meaning_names_no_tissue_and_around_name_and_meaning_no_direction():
    tissues = {row.tissue for row in load_enrichment()}
    ways = {word for way in (REGULATED, LEVEL, ACTED, AMOUNT) for word in way.values()}
    for pathway, named in load_hallmark().items():
        for row in set_meanings():
            if row.cluster != f"meaning/{pathway}":
                continue
            text = f"{row.prompt} {row.answer}"
            assert not _words(text) & tissues, row.id
            frame = text.replace(named.name, "").replace(named.about, "")
            assert not _words(frame) & (ways | {"up", "down"}), row.id


def _words(text: str) -> set[str]:
    return {word.strip(".,?") for word in text.lower().split()}


def test_no_meaning_is_asked_by_a_held_out_question():
    asked = {row.prompt for row in (*pathway_training(), *pathway_heldout(), *kmp_test())}
    for row in set_meanings():
        assert row.prompt not in asked
        assert not is_held_out(row.prompt, row.id)
        assert row.split == "train"
