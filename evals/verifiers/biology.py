"""Words that tell something about the biology of a gene set, as the reading of a finding must.

"fewer precursors mature into storage cells"     precursors, mature, storage, cells
"it likes bananas", "a key finding in the field" none

A word counts if it belongs to the asked set (its names, its description, KIN), or begins with one of STEMS: processes, structures, molecules, and the cautions of a careful reader. Words
that describe only other sets do not count, nor do names of fields ("immunology"); and one word at
least must belong to the asked set, so that no sentence fits every question. Nor does what lists THEMES
of others ("fat, protein, DNA and muscle genes") or describes another set better than the asked one.
"""

from collections import Counter
from functools import lru_cache

from evals.facts import load_hallmark
from evals.verifiers.grammar import neutral_words
from evals.verifiers.names import OTHER_NAMES, words
from evals.verifiers.tokens import word_set

STEM = 5
"""So many first letters make two words akin ("adipogenesis", "adipocytes")."""
CAUTIONS = word_set("cause causes causal proof prove proves mechanism mechanisms expression")
STEMS = word_set(
    "adapt adhes adipo aerob aging aldehyd allel amino anabol angio antibod antigen antiox antivir apopto arrest"
    " arter atroph autophag axon bacter barrier bile biogen biolog biosynth blood bone calcium capillar carbohyd"
    " carcin cardi cartilage caspase catabol cataly cell chaperon chemok cholest chondr chromat chromos circad clot"
    " collagen confound corticost cortis cortex cycl cytok cytoplasm cytoskel damag death decay"
    " defens defic degener degrad dehydrat deplet develop diet differenti diges disease dna drug dysfun"
    " electron embry endocr endoplasm endothel energ enzym epider epigen epithel erythr estrog excret exocyt"
    " extracell fat fatt ferment fibro flux fluid folding food form genom germ gland glial gluco glyco"
    " gravit growth haem heal heme hepat histon homeost hormon hydrol hypoth hypox immun infect inflam inhib"
    " injur innate insulin interfer involut iron ischem keratin kidney kinase lactat lens lesion leuko ligand lipid"
    " lipol lymph lyso macroph matrix matur mechan membran mesench metabol methyl microb migrat mito mitos"
    " mitoch molecul morphol motil muscle mutat myel myo necro nerve neur neutro nitr nuclea nucleus nutri"
    " oncogen organel oscill osteo oxid oxyg peptid perfus peroxi phago phenot phosph photorec pigment"
    " plasma plastic platelet polymer preadip precurs progenit prolif prote quiesc radia radic receptor redox"
    " regenerat remodel repair replic respir retina ribos scar secret senesc sensor skelet"
    " spindle splic stem steroid storage store stroma sugar surviv synap synthes tendon tension"
    " therap thymocyt thyroid toler toxi traffic transloc transpl transport tubul tumor tumour"
    " turnover ubiquit uptake vascul vesic vessel viral virus vitamin wound"
)
SHORTEST, LONGEST = min(map(len, STEMS)), max(map(len, STEMS))
IDLE = word_set(
    "key finding findings field new first best known other different general whole kind things process gene genes"
    " control controls response pathway signaling signalling signal targets target set sets tissue tissues making"
    " keeping building breaking driven typical"
)
"""Words of names and descriptions that tell nothing by themselves."""
CELLS = word_set("cell cells")
"""Small words elsewhere, but a reading that speaks of cells tells something."""

MATTER = word_set("cell cells protein proteins")
"""What every set is made of: its own only where its name or KIN holds them."""
FEW_THEMES = 2
MANY_THEMES = 5
"""So many themes of others, and more than words of the asked set, or so many at all, are a list of everything."""
LOOSE = 1
"""So many more words of any biology than of the asked set may stand in a reading; more fit every set."""
ANOTHER = 2
"""From so many words of another set's description on, and more than of the asked set, that set is explained."""
THEMES = (
    "fat fats fatty lipid adipo",
    "prote pepti foldi misfo",
    "dna genom mutat genet",
    "immun infla cytok lymph leuko antig antib macro neutr innat viral virus antiv",
    "muscl myosi sarco contr",
    "blood eryth heme haem clott plate vesse vascu angio",
    "hormo estro andro thyro insul stero testo corti",
    "divis divid mitos mitot spind chrom cycle proli",
    "energ atp mitoc respi gluco sugar glyco",
    "bone bones osteo skele",
    "nerve nerves neuro brain",
    "bile chole liver diges",
    "oxyge hypox redox oxida",
    "sperm germ repro testi",
    "matri colla fibro scar scars scarr wound",
    "death dying apopt survi",
    "drug drugs toxic xenob detox",
    "ultra light radia",
)
"""How the words of one theme begin."""
THEME_OF = {stem: place for place, listed in enumerate(THEMES) for stem in listed.split()}


KIN = {
    "ADIPOGENESIS": "lipid adipo pparg cebpa precu matur insul lepti drop thymi invol",
    "ALLOGRAFT_REJECTION": "immun trans lymph cytot antig mhc killer toler",
    "ANDROGEN_RESPONSE": "testo hormo recep prost stero",
    "ANGIOGENESIS": "endot vascu vegf capil perfu oxyge",
    "APICAL_JUNCTION": "barri adhes epith cytos actin cadhe polar",
    "APICAL_SURFACE": "epith polar membr recep",
    "APOPTOSIS": "caspa survi bcl2 mitoc thymo",
    "BILE_ACID_METABOLISM": "chole hepat diges stero lipid perox",
    "CHOLESTEROL_HOMEOSTASIS": "stero lipid srebp membr ldl",
    "COAGULATION": "plate throm fibri compl hepat",
    "COMPLEMENT": "immun opson innat patho infla",
    "DNA_REPAIR": "damag radia genom lesio excis mutat",
    "E2F_TARGETS": "proli repli cycle cycli divis synth rb1 mitos",
    "EPITHELIAL_MESENCHYMAL_TRANSITION": "colla fibro extra wound scar strom adhes ecm",
    "ESTROGEN_RESPONSE_EARLY": "hormo recep estra nucle stero",
    "ESTROGEN_RESPONSE_LATE": "hormo recep estra nucle stero",
    "FATTY_ACID_METABOLISM": "lipid oxida mitoc perox energ fuel",
    "G2M_CHECKPOINT": "proli mitos mitot cycle cycli chrom divis cdk1",
    "GLYCOLYSIS": "gluco lacta pyruv energ sugar anaer",
    "HEDGEHOG_SIGNALING": "smoot gli1 gli2 devel morph",
    "HEME_METABOLISM": "eryth iron porph globi oxyge blood",
    "HYPOXIA": "oxyge hif1a vascu glyco angio ische",
    "IL2_STAT5_SIGNALING": "lymph immun cytok regul",
    "IL6_JAK_STAT3_SIGNALING": "cytok infla immun acute",
    "INFLAMMATORY_RESPONSE": "cytok immun macro neutr leuko infla chemo",
    "INTERFERON_ALPHA_RESPONSE": "viral virus innat immun stat1 antiv",
    "INTERFERON_GAMMA_RESPONSE": "immun antig mhc macro stat1 lymph viral",
    "KRAS_SIGNALING_DN": "mapk growt onco oncog proli ras",
    "KRAS_SIGNALING_UP": "mapk growt onco oncog proli ras",
    "MITOTIC_SPINDLE": "micro tubul kinet mitos divis proli centr",
    "MTORC1_SIGNALING": "nutri growt trans synth anabo prote ribos amino",
    "MYC_TARGETS_V1": "ribos trans proli growt anabo prote",
    "MYC_TARGETS_V2": "ribos trans proli growt anabo nucle",
    "MYOGENESIS": "muscl contr sarco myosi atrop fibre fiber",
    "NOTCH_SIGNALING": "devel stem linea thymo ligan",
    "OXIDATIVE_PHOSPHORYLATION": "mitoc respi atp elect energ oxyge",
    "P53_PATHWAY": "damag arres apopt senes genom tumor tumou stres",
    "PANCREAS_BETA_CELLS": "insul gluco islet endoc",
    "PEROXISOME": "lipid oxida react bile fatty",
    "PI3K_AKT_MTOR_SIGNALING": "growt survi insul nutri kinas",
    "PROTEIN_SECRETION": "golgi vesic endop traff excre",
    "REACTIVE_OXYGEN_SPECIES_PATHWAY": "redox oxida antio mitoc gluta damag",
    "SPERMATOGENESIS": "germ testi meios sperm repro",
    "TGF_BETA_SIGNALING": "fibro smad colla scar matri immun",
    "TNFA_SIGNALING_VIA_NFKB": "cytok infla immun survi tnf nfkb",
    "UNFOLDED_PROTEIN_RESPONSE": "chape endop foldi stres secre er",
    "UV_RESPONSE_DN": "radia damag dna skin photo",
    "UV_RESPONSE_UP": "radia damag dna skin photo",
    "WNT_BETA_CATENIN_SIGNALING": "devel stem proli morph caten",
    "XENOBIOTIC_METABOLISM": "hepat cytoc detox p450 toxic drug",
}
"""How words begin that belong to a gene set though neither its names nor its description holds them."""


def told_of(pathway: str, said: set[str]) -> set[str]:
    """Return those of the words that tell biology of a gene set; none if none is of the set itself."""
    own = _stems(pathway)
    telling = {word for word in said if _tells(word) or (_is_word(word) and word[:STEM] in own)}
    rare = _rare_elsewhere(pathway)
    telling = {word for word in telling if word[:STEM] not in rare or word in CAUTIONS}
    own_told = {word[:STEM] for word in telling - CELLS if word[:STEM] in own}
    stems = {word[:STEM] for word in said if _is_word(word)}
    others = {word[:STEM] for word in telling - CELLS - CAUTIONS} - own
    if not own_told or len(others) > len(own_told) + LOOSE:
        return set()
    if _lists_all(stems, own, len(own_told)):
        return set()
    return set() if _describes_another(stems - own, len(own_told)) else telling


def _lists_all(stems: set[str], own: frozenset[str], n_own: int) -> bool:
    """Say whether words touch so many themes of other sets that they explain none."""
    ours = {THEME_OF[stem] for stem in own if stem in THEME_OF}
    themes = {THEME_OF[stem] for stem in stems if stem in THEME_OF} - ours
    return len(themes) >= MANY_THEMES or (len(themes) >= FEW_THEMES and len(themes) > n_own)


def _describes_another(stems: set[str], n_own: int) -> bool:
    """Say whether words describe a set that was not asked about better than the one that was."""
    most = max((len(stems & listed) for listed in _described()), default=0)
    return most >= ANOTHER and most > n_own


@lru_cache(maxsize=256)
def _stems(pathway: str) -> frozenset[str]:
    """Return the beginnings of the words that name or describe a gene set."""
    row = load_hallmark().get(pathway)
    if row is None:
        return frozenset(word[:STEM] for word in words(pathway) if word not in IDLE)
    own = (*row.synonyms, *OTHER_NAMES.get(pathway, "").split(";"), row.name)
    named = {word for name in own for word in words(name) if _is_word(word)}
    about = {word for word in words(row.about) if _is_word(word) and word not in MATTER}
    kin = KIN.get(pathway.removeprefix("HALLMARK_"), "").split()
    return frozenset((*(word[:STEM] for word in named | about), *kin))


@lru_cache(maxsize=256)
def _rare_elsewhere(pathway: str) -> frozenset[str]:
    """Return the beginnings of words that describe one other set only."""
    return _rare() - _stems(pathway)


@lru_cache(maxsize=1)
def _described() -> tuple[frozenset[str], ...]:
    """Return, for each gene set, the beginnings of the words that describe it."""
    return tuple(
        frozenset(word[:STEM] for word in words(row.about) if _is_word(word))
        for row in load_hallmark().values()
    )


@lru_cache(maxsize=1)
def _rare() -> frozenset[str]:
    """Return the beginnings of words that describe one set only: those of more belong to none."""
    counts = Counter(stem for stems in _described() for stem in stems)
    return frozenset(stem for stem, count in counts.items() if count == 1)


@lru_cache(maxsize=65536)
def _is_word(word: str) -> bool:
    return word in CELLS or (
        word not in IDLE and word not in neutral_words() and not word.endswith("ology")
    )


@lru_cache(maxsize=65536)
def _tells(word: str) -> bool:
    if word in CAUTIONS:
        return True
    return _is_word(word) and any(
        word[:n] in STEMS for n in range(SHORTEST, min(LONGEST, len(word)) + 1)
    )
