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
)

TABLES = files("evals.facts")


def test_the_kmp_study_has_every_contrast_of_every_tissue_once_and_counts_are_found_by_both():
    facts = load_kmp()
    cells = [(figure.tissue, figure.contrast) for figure in facts.counts]
    assert len(cells) == 40
    contrasts = {figure.contrast for figure in facts.counts}
    assert set(cells) == set(product([row.tissue for row in facts.tissues], contrasts))
    known = {
        ("soleus", "KMP_baseline"): 0, ("hippocampus", "KMP_in_HU"): 1, ("soleus", "KMP_x_HU"): 8484, ("soleus", "HU"): 6425,
        ("heart", "KMP_in_HU_IR"): 2110, ("liver", "HU_x_IR"): 3210, ("hippocampus", "HU_IR"): 5510,
    }  # fmt: skip
    assert {cell: facts.count(*cell).genes for cell in known} == known
    with pytest.raises(KeyError):
        facts.count("kidney", "HU")


def test_figures_of_the_kmp_study_agree_and_only_the_one_that_stands_twice_is_doubted():
    counts = load_kmp().counts
    split = [(each.up + each.down, each.genes) for each in counts if None not in (each.up, each.down)]
    assert len(split) == 5 and all(total == genes for total, genes in split)
    doubted = {(each.tissue, each.contrast): each.genes for each in counts if each.doubt}
    assert doubted == {("liver", "HU"): 4110, ("hippocampus", "KMP_baseline"): 4110}
    signs = {"rescue": (-1, 1), "suppression": (1, -1), "KMP only": (1, 1)}
    for row in load_kmp().tissues:
        stress, kaempferol = signs[row.oxphos_pattern]
        assert row.oxphos_stress_nes * stress > 0 and row.oxphos_kmp_nes * kaempferol > 0, row.tissue
        assert bool(row.oxphos_stress_doubt) == (row.oxphos_pattern == "KMP only")


def test_enrichment_has_fifty_sets_in_each_of_nineteen_missions_and_a_mission_counts_below_five_percent():
    rows = load_enrichment()
    assert len(rows) == len({(row.tissue, row.mission, row.pathway) for row in rows}) == 950
    assert len({(row.tissue, row.mission) for row in rows}) == len({row.accession for row in rows}) == 19
    assert {row.pathway for row in rows} == set(load_hallmark())
    cases = {(2.0, None): None, (2.0, 0.05): None, (2.0, 0.0499): "UP", (-2.0, 0.0499): "DOWN", (-2.0, 0.9): None}
    row = {"tissue": "eye", "mission": "RR-1", "accession": "GLDS-100", "pathway": "X"}
    assert {case: EnrichmentRow(**row, nes=case[0], padj=case[1]).direction for case in cases} == cases


def test_mission_correlations_are_those_of_the_enrichment_table_and_levels_have_open_lower_ends():
    scores: dict[tuple[str, str], dict[str, float]] = {}
    for row in load_enrichment():
        scores.setdefault((row.tissue, row.mission), {})[row.pathway] = row.nes
    for tissue, row in load_conservation().items():
        for pair in row.pairs:
            if "TBD" not in (pair.first, pair.second):
                first, second = scores[tissue, pair.first], scores[tissue, pair.second]
                found = spearmanr([first[name] for name in first], [second[name] for name in first]).statistic
                assert found == pytest.approx(pair.r, abs=0.002), (tissue, pair)
        assert sum(pair.r for pair in row.pairs) / len(row.pairs) == pytest.approx(row.mean_r, abs=0.001)
    assert set(load_conservation()) == {"liver", "gastrocnemius", "kidney", "thymus", "skin", "eye"}
    levels = {0.5: "moderately", 0.501: "highly", 0.2: "poorly", -0.3: "poorly"}
    assert {r: conservation_level(r) for r in levels} == {r: f"{level} conserved" for r, level in levels.items()}


def test_no_name_or_synonym_belongs_to_two_gene_sets():
    names = [name.casefold() for row in load_hallmark().values() for name in (row.name, *row.synonyms)]
    assert len(load_hallmark()) == 50 and len(names) == len(set(names))
    assert all(name == name.strip() and name for name in names)


def test_every_table_names_its_source_licence_and_checksum():
    provenance = load_provenance()
    assert set(provenance) == {entry.name for entry in TABLES.iterdir() if entry.name.endswith(".csv")}
    readme = TABLES.joinpath("README.md").read_text(encoding="utf-8")
    for name, entry in provenance.items():
        assert entry.source and entry.licence and entry.checks and name in readme
        assert entry.sha256 == hashlib.sha256(TABLES.joinpath(name).read_bytes()).hexdigest(), name
