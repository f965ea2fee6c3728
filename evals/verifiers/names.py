"""How an answer may name a gene set or a tissue."""

import re
from functools import lru_cache

from evals.facts import pathway_names
from evals.plain import plain
from evals.verifiers.place import MUSCLES

WORD = re.compile(r"[^\W_]+")
OTHER_NAMES = {
    "HALLMARK_ADIPOGENESIS": "adipogenic; adipocyte differentiation; adipocyte formation; fat cell formation",
    "HALLMARK_ALLOGRAFT_REJECTION": "graft rejection; allograft",
    "HALLMARK_ANDROGEN_RESPONSE": "androgen signaling; androgen signalling; androgen receptor signaling; androgen",
    "HALLMARK_ANGIOGENESIS": "angiogenic; neovascularization; neovascularisation; new blood vessel formation",
    "HALLMARK_APICAL_JUNCTION": "apical junction complex",
    "HALLMARK_APICAL_SURFACE": "apical cell surface",
    "HALLMARK_APOPTOSIS": "apoptotic; apoptotic genes; apoptotic signaling",
    "HALLMARK_BILE_ACID_METABOLISM": "bile acid; bile acid synthesis; bile metabolism",
    "HALLMARK_CHOLESTEROL_HOMEOSTASIS": "cholesterol; cholesterol metabolism; cholesterol biosynthesis",
    "HALLMARK_COAGULATION": "clotting; coagulation cascade; blood coagulation cascade",
    "HALLMARK_COMPLEMENT": "complement activation; complement pathway",
    "HALLMARK_DNA_REPAIR": "dna damage repair; repair of dna damage",
    "HALLMARK_E2F_TARGETS": "e2f target; targets of e2f; e2f target set",
    "HALLMARK_EPITHELIAL_MESENCHYMAL_TRANSITION": "emt programme; emt program; epithelial to mesenchymal transformation",
    "HALLMARK_ESTROGEN_RESPONSE_EARLY": "estrogen response early; oestrogen response early; early response to estrogen",
    "HALLMARK_ESTROGEN_RESPONSE_LATE": "estrogen response late; oestrogen response late; late response to estrogen",
    "HALLMARK_FATTY_ACID_METABOLISM": "fatty acid; fatty acid oxidation; fatty acid beta oxidation; fao; lipid metabolism",
    "HALLMARK_G2M_CHECKPOINT": "g2 m checkpoint; g2m; g2 m; g2 m transition; g2m transition",
    "HALLMARK_GLYCOLYSIS": "glycolytic; glycolytic pathway; aerobic glycolysis",
    "HALLMARK_HEDGEHOG_SIGNALING": "hedgehog; shh signaling; shh signalling; sonic hedgehog; sonic hedgehog signaling",
    "HALLMARK_HEME_METABOLISM": "heme; haem; heme biosynthesis; haem biosynthesis; heme synthesis",
    "HALLMARK_HYPOXIA": "hypoxic; hypoxic response; response to hypoxia; hif signaling; hypoxia signaling; hypoxia signalling",
    "HALLMARK_IL2_STAT5_SIGNALING": "il2; il 2; il 2 signaling; il2 signaling; interleukin 2 signaling; interleukin 2 stat5 signaling; il2 stat5;"
    " il2 stat5 signalling; il 2 stat5",
    "HALLMARK_IL6_JAK_STAT3_SIGNALING": "il6; il 6; il6 signaling; il 6 signaling; interleukin 6 signaling; jak stat3;"
    " jak stat3 signaling; jak stat3 signalling; il6 jak stat3 signalling; il6 stat3; il 6 jak stat3",
    "HALLMARK_INFLAMMATORY_RESPONSE": "inflammatory; inflammatory signaling; inflammatory signalling; inflammatory genes",
    "HALLMARK_INTERFERON_ALPHA_RESPONSE": "interferon alpha; ifn alpha; ifna; ifn a; ifnalpha; ifna response; ifn a response;"
    " ifnalpha response; interferon alpha signaling; type i interferon; type 1 interferon; type i interferon signaling;"
    " type 1 interferon response; ifn alpha signaling",
    "HALLMARK_INTERFERON_GAMMA_RESPONSE": "interferon gamma; ifn gamma; ifng; ifn g; ifngamma; ifng response; ifn g response;"
    " ifngamma response; interferon gamma signaling; type ii interferon; type 2 interferon; type ii interferon signaling;"
    " type 2 interferon response; ifn gamma signaling; response to interferon gamma",
    "HALLMARK_KRAS_SIGNALING_DN": "kras signalling dn; kras signalling down; kras signalling down genes; kras down;"
    " kras dn; genes downregulated by kras; kras repressed",
    "HALLMARK_KRAS_SIGNALING_UP": "kras signalling up; kras signalling up genes; kras up; genes upregulated by kras; kras induced",
    "HALLMARK_MITOTIC_SPINDLE": "spindle; mitotic spindle assembly",
    "HALLMARK_MTORC1_SIGNALING": "mtorc1 pathway; mtorc 1 signaling; mtorc 1 signalling; mtor complex 1 signaling;"
    " mtor complex 1 signalling; mtor complex 1",
    "HALLMARK_MYC_TARGETS_V1": "myc targets 1; myc v1; myc target genes v1; myc targets set 1; c myc targets v1",
    "HALLMARK_MYC_TARGETS_V2": "myc targets 2; myc v2; myc target genes v2; myc targets set 2; c myc targets v2",
    "HALLMARK_MYOGENESIS": "myogenic; myogenic differentiation; muscle cell differentiation; myogenic programme",
    "HALLMARK_NOTCH_SIGNALING": "notch; notch1 signaling; notch signal",
    "HALLMARK_OXIDATIVE_PHOSPHORYLATION": "ox phos; oxphos genes; mitochondrial oxidative phosphorylation; respiratory chain",
    "HALLMARK_P53_PATHWAY": "p53 signalling; tp53; tp53 pathway; trp53; trp53 pathway; tp53 signaling; p53 targets",
    "HALLMARK_PANCREAS_BETA_CELLS": "pancreas beta cell; pancreatic beta cell; beta cells; beta cell; islet beta cells",
    "HALLMARK_PEROXISOME": "peroxisomal; peroxisomal function; peroxisome function",
    "HALLMARK_PI3K_AKT_MTOR_SIGNALING": "pi3k akt mtor; pi3k akt; pi3k akt signaling; pi3k akt signalling; pi3k signaling;"
    " akt signaling; pi3k akt mtor signalling; pi3k akt mtor pathway",
    "HALLMARK_PROTEIN_SECRETION": "secretion; secretion of proteins; secretory",
    "HALLMARK_REACTIVE_OXYGEN_SPECIES_PATHWAY": "reactive oxygen; ros signaling; ros signalling; ros response; ros genes",
    "HALLMARK_SPERMATOGENESIS": "spermatogenic; sperm formation; sperm production",
    "HALLMARK_TGF_BETA_SIGNALING": "tgf beta; tgfb; tgf b; tgfbeta; tgfbeta signaling; tgfbeta signalling; tgfb signalling;"
    " tgf b signaling; tgf b signalling; tgf beta pathway; transforming growth factor beta; transforming growth factor beta signaling",
    "HALLMARK_TNFA_SIGNALING_VIA_NFKB": "tnfalpha signaling via nfkb; tnfalpha via nfkb; tnfalpha via nf kb; tnfalpha;"
    " tnfalpha signaling via nf kb; tnfalpha signalling via nf kb; tnf alpha via nf kb; tnfa via nfkb; tnfa via nf kb; tnf via nfkb;"
    " tnfa signalling via nfkb; tnf alpha signalling via nf kb; tnf alpha signaling; tnf alpha; tnfa; tnfa signaling;"
    " tnf signaling; tnf signalling; tnf; nf kb signalling; nf kb pathway; nfkb signaling; nfkb signalling; nfkappab; nf kappa b;"
    " nf kappab; tnf nfkb; tnfalpha nfkb; tnfalpha nf kb; tnfa nfkb; tnf alpha signaling via nf kappa b",
    "HALLMARK_UNFOLDED_PROTEIN_RESPONSE": "er stress; er stress response; unfolded proteins; misfolded protein response",
    "HALLMARK_UV_RESPONSE_DN": "uv response dn; uv down; uv dn; uv repressed; genes downregulated by uv; ultraviolet response down",
    "HALLMARK_UV_RESPONSE_UP": "uv response up; uv up; uv induced; genes upregulated by uv; ultraviolet response up",
    "HALLMARK_WNT_BETA_CATENIN_SIGNALING": "wnt; wnt signalling; wnt pathway; beta catenin; beta catenin signaling; beta catenin signalling;"
    " wnt beta catenin; wnt beta catenin pathway; canonical wnt signaling; wnt b catenin",
    "HALLMARK_XENOBIOTIC_METABOLISM": "xenobiotic; xenobiotics; xenobiotic response; detoxification; drug detoxification",
    "HALLMARK_ESTROGEN_RESPONSE": "estrogen response; oestrogen response; estrogen signaling; response to estrogen",
    "HALLMARK_KRAS_SIGNALING": "kras signaling; kras signalling; kras; kras pathway",
    "HALLMARK_MYC_TARGETS": "myc targets; myc target genes; targets of myc; myc; c myc",
    "HALLMARK_UV_RESPONSE": "uv response; ultraviolet response; uv; response to uv",
    "HALLMARK_INTERFERON": "interferon response; interferon signaling; interferon signalling; interferon; interferons; ifn response",
}
"""Names beyond those of the questions, and, last, names that a family of sets shares.

A family's id is the beginning of its members' ids; naming it means the member that was asked about.
"""


def pathway_phrases() -> list[tuple[tuple[str, ...], str]]:
    """Return (words, Hallmark id or its family's) for ids, readable names, synonyms and other names."""
    shared = [
        (tuple(name.split()), pathway)
        for pathway, listed in OTHER_NAMES.items()
        for name in listed.split(";")
    ]
    own = [
        (words(name), pathway)
        for pathway, names in pathway_names().items()
        for name in (pathway.removeprefix("HALLMARK_"), *names)
    ]
    return [*shared, *own]


@lru_cache(maxsize=256)
def words(name: str) -> tuple[str, ...]:
    """Return the words of a name as they come out of an answer: "NF-κB" -> ("nf", "kb")."""
    return tuple(WORD.findall(plain(name).text))


@lru_cache(maxsize=256)
def readable(pathway: str) -> str:
    """Return the name people know a gene set by; an id that we do not hold is spelled out."""
    known = pathway_names().get(pathway)
    return known[0] if known else pathway.removeprefix("HALLMARK_").replace("_", " ").lower()


def same_pathway(named: str, asked: str) -> bool:
    """Say whether a gene set, or a family of them, means the one that was asked about."""
    return named == asked or (asked.startswith(named) and asked[len(named)] == "_")


def same_tissue(named: str, asked: str) -> bool:
    """Say whether a tissue named in an answer means the one that was asked about."""
    return named == asked.lower() or (named == "muscle" and asked.lower() in MUSCLES)
