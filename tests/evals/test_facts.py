"""The fact tables are complete, agree with themselves and say where they come from."""

import hashlib
from importlib.resources import files
from itertools import product

import pytest
from scipy.stats import spearmanr

from evals.facts import (
    EnrichmentRow,
    conservation_level,
    load_conservation,
    load_enrichment,
    load_hallmark,
    load_kmp,
    load_provenance,
    pathway_names,
)

TABLES = files("evals.facts")


def test_the_kmp_study_has_every_contrast_of_every_tissue_once():
    facts = load_kmp()
    cells = [(figure.tissue, figure.contrast) for figure in facts.counts]
    contrasts = {figure.contrast for figure in facts.counts}
    assert len(cells) == 40
    assert set(cells) == set(product([row.tissue for row in facts.tissues], contrasts))


@pytest.mark.parametrize(
    ("tissue", "contrast", "genes"),
    [
        ("soleus", "KMP_baseline", 0),
        ("hippocampus", "KMP_in_HU", 1),
        ("soleus", "KMP_x_HU", 8484),
        ("soleus", "HU", 6425),
        ("heart", "KMP_in_HU_IR", 2110),
        ("liver", "HU_x_IR", 3210),
        ("hippocampus", "HU_IR", 5510),
    ],
)
def test_counts_are_found_by_tissue_and_contrast(tissue, contrast, genes):
    assert load_kmp().count(tissue, contrast).genes == genes


def test_a_cell_that_does_not_exist_is_an_error():
    with pytest.raises(KeyError):
        load_kmp().count("kidney", "HU")


def test_up_and_down_add_up_to_all_genes_wherever_both_are_given():
    split = [
        (figure.up + figure.down, figure.genes)
        for figure in load_kmp().counts
        if figure.up is not None and figure.down is not None
    ]
    assert len(split) == 5
    assert all(total == genes for total, genes in split)


def test_only_the_figure_that_stands_twice_is_doubted():
    doubted = {(f.tissue, f.contrast): f.genes for f in load_kmp().counts if f.doubt}
    assert doubted == {("liver", "HU"): 4110, ("hippocampus", "KMP_baseline"): 4110}


def test_the_sign_of_every_oxphos_score_fits_its_pattern():
    signs = {"rescue": (-1, 1), "suppression": (1, -1), "KMP only": (1, 1)}
    for row in load_kmp().tissues:
        stress, kaempferol = signs[row.oxphos_pattern]
        assert row.oxphos_stress_nes * stress > 0, row.tissue
        assert row.oxphos_kmp_nes * kaempferol > 0, row.tissue
        assert bool(row.oxphos_stress_doubt) == (row.oxphos_pattern == "KMP only")


def test_enrichment_has_fifty_sets_in_each_of_nineteen_missions():
    rows = load_enrichment()
    keys = {(row.tissue, row.mission, row.pathway) for row in rows}
    assert len(rows) == len(keys) == 950
    assert len({(row.tissue, row.mission) for row in rows}) == 19
    assert len({row.accession for row in rows}) == 19
    assert {row.pathway for row in rows} == set(load_hallmark())


@pytest.mark.parametrize(
    ("nes", "padj", "direction"),
    [
        (2.0, None, None),
        (2.0, 0.05, None),
        (2.0, 0.0499, "UP"),
        (-2.0, 0.0499, "DOWN"),
        (-2.0, 0.9, None),
    ],
)
def test_a_mission_counts_only_below_five_percent(nes, padj, direction):
    row = EnrichmentRow(tissue="eye", mission="RR-1", accession="GLDS-100", pathway="X", nes=nes, padj=padj)
    assert row.direction == direction


@pytest.mark.parametrize("tissue", ["liver", "gastrocnemius", "kidney", "thymus", "skin", "eye"])
def test_mission_correlations_are_those_of_the_enrichment_table(tissue):
    scores: dict[str, dict[str, float]] = {}
    for row in load_enrichment():
        if row.tissue == tissue:
            scores.setdefault(row.mission, {})[row.pathway] = row.nes
    row = load_conservation()[tissue]
    for pair in row.pairs:
        if "TBD" in (pair.first, pair.second):
            continue
        pathways = sorted(scores[pair.first])
        found = spearmanr(
            [scores[pair.first][name] for name in pathways],
            [scores[pair.second][name] for name in pathways],
        ).statistic
        assert found == pytest.approx(pair.r, abs=0.002)
    mean = sum(pair.r for pair in row.pairs) / len(row.pairs)
    assert mean == pytest.approx(row.mean_r, abs=0.001)


@pytest.mark.parametrize(
    ("r", "level"),
    [
        (0.5, "moderately conserved"),
        (0.501, "highly conserved"),
        (0.2, "poorly conserved"),
        (-0.3, "poorly conserved"),
    ],
)
def test_conservation_levels_have_open_lower_ends(r, level):
    assert conservation_level(r) == level


def test_no_name_or_synonym_belongs_to_two_gene_sets():
    names = [name.casefold() for row in pathway_names().values() for name in row]
    assert len(pathway_names()) == 50
    assert len(names) == len(set(names))
    assert all(name == name.strip() and name for name in names)


def test_every_table_names_its_source_licence_and_checksum():
    tables = {entry.name for entry in TABLES.iterdir() if entry.name.endswith(".csv")}
    provenance = load_provenance()
    assert set(provenance) == tables
    readme = TABLES.joinpath("README.md").read_text(encoding="utf-8")
    for name, entry in provenance.items():
        assert entry.source and entry.licence and entry.checks
        assert entry.sha256 == hashlib.sha256(TABLES.joinpath(name).read_bytes()).hexdigest(), name
        assert name in readme
