"""What each gene set is about, in words that a reading of a finding may use.

The lists follow the descriptions in `evals/facts/hallmark.csv`, widened by what textbooks say of the
same process. A unit is one word ("adipocyte"), words in a row ("fat_cell"), or words of one sentence
("making+bile"). A word stands for its plural too, and one with a star for the forms of its verb.
"""

from typing import NamedTuple


class Matter(NamedTuple):
    """The units that explain a set, words that may stand beside them, and units that belie it."""

    own: str
    near: str = ""
    contrary: str = ""


ON = "switch*_on turn*_on"
OFF = "switch*_off turn*_off shut_off shuts_off keep*_quiet kept_quiet"
RAS = "mapk erk raf oncogene oncogenic"
FEMALE = "female+hormone sex_hormone steroid_hormone estradiol oestradiol ovary ovarian"
DIVIDING = "cell_cycle cell_division division divide* mitosis proliferation proliferate*"

MATTERS = {
    "ADIPOGENESIS": Matter(
        "fat_cell fat_tissue adipocyte preadipocyte adipose lipid_storage fat_storage storage_cell lipid_droplet"
        " store*_lipid store*_fat pparg cebpa",
        "fat lipid storage precursor insulin leptin",
    ),
    "ALLOGRAFT_REJECTION": Matter(
        "immune_attack foreign_tissue foreign+immune foreign+antigen cytotoxic mhc t_cell lymphocyte"
        " histocompatibility alloantigen killer_cell graft+immune transplant+immune",
        "immune antigen cytokine macrophage",
    ),
    "ANDROGEN_RESPONSE": Matter(
        "male+hormone sex_hormone steroid_hormone testosterone dihydrotestosterone prostate",
        "hormone steroid receptor male reproductive",
    ),
    "ANGIOGENESIS": Matter(
        "blood_vessel vessel vascular vasculature endothelial endothelium capillary sprouting vegf vegfa",
        "blood oxygen hypoxia",
    ),
    "APICAL_JUNCTION": Matter(
        "epithelial+contact epithelial_cell+together contact+cell adhesion cadherin tight_junction"
        " adherens claudin occludin epithelium epithelia epithelial_barrier cell_barrier",
        "epithelial barrier actin polarity cytoskeleton neighbour neighbor",
    ),
    "APICAL_SURFACE": Matter(
        "epithelial_cell epithelium epithelia outward_face outer_face microvilli microvillus lumen"
        " cell_polarity polarised_cell polarized_cell",
        "epithelial protein membrane receptor polarity",
    ),
    "APOPTOSIS": Matter(
        "cell_death death dying caspase suicide bcl2 bax",
        "mitochondria mitochondrial survival p53 damage damaged dna",
    ),
    "BILE_ACID_METABOLISM": Matter(
        "making+bile synthesis+bile synthesise*+bile production+bile handling+bile"
        " transport+bile cholesterol cyp7a1 digestion_of_fat digest*_fat emulsify*",
        "liver hepatic lipid sterol steroid peroxisome fat fatty",
    ),
    "CHOLESTEROL_HOMEOSTASIS": Matter(
        "balance level_of_cholesterol sterol synthesis+cholesterol biosynthesis+cholesterol making+cholesterol uptake+cholesterol srebp srebf2 ldl"
        " ldlr hmgcr statin cell_membrane",
        "lipid steroid bile membrane",
    ),
    "COAGULATION": Matter(
        "clotting clot platelet fibrin fibrinogen thrombin thrombus thrombosis haemostasis hemostasis bleeding",
        "blood liver vessel complement wound",
    ),
    "COMPLEMENT": Matter(
        "innate_immunity innate_immune innate opsonin opsonise* opsonize* opsonisation opsonization pathogen microbe bacteria"
        " phagocytosis c3 membrane_attack",
        "immune inflammation inflammatory coagulation clotting antibody blood protein",
    ),
    "DNA_REPAIR": Matter(
        "mend* damage damaged lesion excision double_strand strand_break break_in_dna break_in_the_dna dna_break fix*+dna mutation"
        " irradiation genome_integrity genome_stability",
        "p53 replication copying radiation",
    ),
    "E2F_TARGETS": Matter(
        f"copying dna_replication dna_synthesis replication s_phase rb1 {DIVIDING}",
        "dna mitotic chromosome",
    ),
    "EPITHELIAL_MESENCHYMAL_TRANSITION": Matter(
        "matrix collagen ecm cell_identity fibroblast fibrosis motility motile migration migrate* wound scar scarring",
        "adhesion cadherin identity stroma",
    ),
    "ESTROGEN_RESPONSE_EARLY": Matter(
        f"first_gene first+react {FEMALE}",
        "hormone steroid receptor reproductive oestrogen",
        "plant after_a_delay",
    ),
    "ESTROGEN_RESPONSE_LATE": Matter(
        f"after_a_delay delay delayed {FEMALE}",
        "hormone steroid receptor reproductive oestrogen",
        "plant first_gene",
    ),
    "FATTY_ACID_METABOLISM": Matter(
        "burn* oxidation oxidise* oxidize* break*+fatty breakdown+fatty making+fatty"
        " synthesis+fatty fuel energy mitochondria mitochondrion mitochondrial carnitine",
        "lipid fat peroxisome adipose glucose",
    ),
    "G2M_CHECKPOINT": Matter(
        f"chromosome cyclin cdk1 {DIVIDING}", "dna mitotic spindle replication copying damage"
    ),
    "GLYCOLYSIS": Matter(
        "glucose lactate lactic pyruvate sugar anaerobic fermentation hexokinase",
        "energy atp mitochondria oxygen hypoxia burn* fuel",
    ),
    "HEDGEHOG_SIGNALING": Matter(
        "patterning smoothened patched gli1 gli2 gli morphogen embryo embryonic",
        "stem_cell cell_fate fate",
    ),
    "HEME_METABOLISM": Matter(
        "making+heme making+haem synthesis+heme synthesis+haem biosynthesis+heme biosynthesis+haem"
        " haemoglobin hemoglobin erythroid erythrocyte erythroblast erythropoiesis red_blood red_cell iron"
        " porphyrin globin",
        "blood oxygen",
    ),
    "HYPOXIA": Matter(
        "oxygen hif hif1 hif1a ischaemia ischemia ischaemic ischemic",
        "glycolysis glucose lactate vessel blood_vessel vascular angiogenesis vegf blood",
    ),
    "IL2_STAT5_SIGNALING": Matter(
        "lymphocyte t_cell treg regulatory_t thymocyte",
        "immune cytokine interleukin proliferation proliferate* divide* division",
    ),
    "IL6_JAK_STAT3_SIGNALING": Matter(
        "inflammatory inflammation cytokine acute_phase", "immune interleukin"
    ),
    "INFLAMMATORY_RESPONSE": Matter(
        "reaction_of_inflammation inflammatory_reaction immune_system+inflammatory cytokine chemokine"
        " neutrophil macrophage monocyte leukocyte leucocyte white_blood swelling infection",
        "immune blood interferon tnf interleukin injury bacteria",
    ),
    "INTERFERON_ALPHA_RESPONSE": Matter(
        "antiviral virus viruses viral mx1 isg15 stat1", "immune innate infection", "type_ii"
    ),
    "INTERFERON_GAMMA_RESPONSE": Matter(
        "type_ii+immune antigen mhc macrophage t_cell killer_cell virus viruses viral antiviral stat1 th1",
        "immune cytokine lymphocyte infection inflammation inflammatory bacteria",
        "type_i",
    ),
    "KRAS_SIGNALING_DN": Matter(f"{OFF} silence* {RAS}", "proliferation", ON),
    "KRAS_SIGNALING_UP": Matter(f"{ON} proliferation {RAS}", "", OFF),
    "MITOTIC_SPINDLE": Matter(
        f"chromosome microtubule tubulin kinetochore centrosome {DIVIDING}", "dna cytoskeleton"
    ),
    "MTORC1_SIGNALING": Matter(
        "nutrient ribosome ribosomal anabolic anabolism protein_synthesis autophagy amino_acid",
        "protein insulin growth mtor akt pi3k myc energy lipid",
    ),
    "MYC_TARGETS_V1": Matter(
        "ribosome ribosomal proliferation proliferate* protein_synthesis rna_processing splicing cell_growth",
        "protein nucleolus e2f oncogene divide* division",
    ),
    "MYC_TARGETS_V2": Matter(
        "second+driven smaller+driven nucleolus nucleolar ribosome ribosomal proliferation proliferate*"
        " protein_synthesis rna_processing cell_growth",
        "protein e2f oncogene divide* division",
    ),
    "MYOGENESIS": Matter(
        "muscle_cell muscle_fibre muscle_fiber muscle_formation muscle_development muscle_growth form*+muscle"
        " build*+muscle maintain*+muscle making+muscle myoblast myotube myofibre myofiber sarcomere myosin contractile contraction satellite_cell",
        "muscle calcium actin",
    ),
    "NOTCH_SIGNALING": Matter(
        "cell_fate contact_signal contact_between cell_contact lineage lateral_inhibition"
        " neighbour neighbor touch*+cell decide*+fate thymocyte t_cell",
        "fate stem stem_cell lymphocyte",
    ),
    "OXIDATIVE_PHOSPHORYLATION": Matter(
        "mitochondria mitochondrion mitochondrial energy atp respiration respiratory_chain electron_transport",
        "oxygen burn* fuel",
    ),
    "P53_PATHWAY": Matter(
        "damage damaged cell_cycle_arrest arrest tumour_suppressor tumor_suppressor senescence cell_death"
        " genome_integrity genome_stability guardian",
        "dna apoptosis death cell_cycle repair divide* division",
    ),
    "PANCREAS_BETA_CELLS": Matter(
        "insulin islet endocrine", "glucose sugar pancreatic secretion hormone"
    ),
    "PEROXISOME": Matter(
        "organelle oxidise*+fat oxidize*+fat oxidation+fat oxidation+fatty beta_oxidation long_chain"
        " peroxide catalase plasmalogen",
        "fat fatty lipid bile oxidise* oxidize* oxidation",
    ),
    "PI3K_AKT_MTOR_SIGNALING": Matter(
        "survival survive* insulin growth_factor", "mtorc1 nutrient glucose apoptosis"
    ),
    "PROTEIN_SECRETION": Matter(
        "ship* shipped shipping golgi vesicle exocytosis export* out_of_the_cell outside_the_cell endoplasmic"
        " trafficking",
        "protein membrane",
    ),
    "REACTIVE_OXYGEN_SPECIES_PATHWAY": Matter(
        "defence+oxygen defense+oxygen antioxidant redox oxidative_stress oxidative_damage peroxide"
        " superoxide free_radical glutathione",
        "mitochondria mitochondrial damage oxidation peroxisome detoxify* detoxification",
    ),
    "SPERMATOGENESIS": Matter(
        "sperm germ_cell gamete testis testes testicular meiosis spermatid spermatocyte",
        "male reproductive",
    ),
    "TGF_BETA_SIGNALING": Matter(
        "scarring scar fibrosis fibrotic smad collagen matrix wound",
        "immune fibroblast protein growth",
    ),
    "TNFA_SIGNALING_VIA_NFKB": Matter(
        "inflammatory inflammation cytokine", "immune survival infection innate bacteria"
    ),
    "UNFOLDED_PROTEIN_RESPONSE": Matter(
        "misfold* folding chaperone endoplasmic er_stress", "protein secretion"
    ),
    "UV_RESPONSE_DN": Matter(
        f"{OFF} sunlight radiation irradiation dna_damage", "dna damage damaged light skin", ON
    ),
    "UV_RESPONSE_UP": Matter(
        f"{ON} sunlight radiation irradiation dna_damage", "dna damage damaged light skin", OFF
    ),
    "WNT_BETA_CATENIN_SIGNALING": Matter(
        "cell_fate stem_cell lineage patterning",
        "fate stem proliferation cadherin adhesion embryo embryonic",
    ),
    "XENOBIOTIC_METABOLISM": Matter(
        "drug foreign_compound foreign_substance foreign_chemical toxin toxic poison detoxify*"
        " detoxification cytochrome p450",
        "liver hepatic bile",
    ),
}
TOPICS = (
    "fat protein blood lipid fatty hormone steroid plant dna brain neuron nerve bone cancer tumour tumor"
    " autoimmune disease therapy therapeutic"
)
"""Words that explain no set by themselves, and none beside a set that they do not belong to."""
