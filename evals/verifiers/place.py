"""The names of where something was seen: tissues, missions, and the factors of the stressor study."""

from evals.verifiers.tokens import word_set

TISSUES = {
    "liver": "liver; livers; hepatic; hepatocyte; hepatocytes",
    "kidney": "kidney; kidneys; renal; nephric",
    "thymus": "thymus; thymuses; thymic; thymi; thymocyte; thymocytes",
    "skin": "skin; dermal; cutaneous; epidermal; dermis; epidermis",
    "eye": "eye; eyes; ocular; ophthalmic; eyeball; eyeballs; retina; retinas; retinal",
    "gastrocnemius": "gastrocnemius; gastrocnemii; calf muscle; calf muscles; gastroc; gastrocs; gastroc muscle",
    "soleus": "soleus",
    "heart": "heart; hearts; cardiac; myocardium; myocardial; ventricle; ventricular",
    "hippocampus": "hippocampus; hippocampal; hippocampi",
    "muscle": "muscle; muscles; skeletal muscle",
    "brain": "brain; brains; cerebral",
    "lung": "lung; lungs; pulmonary",
    "spleen": "spleen; splenic; spleens",
    "bone": "bone; bones; skeletal; femur",
    "blood": "blood; plasma; serum",
    "adrenal": "adrenal; adrenals; adrenal gland",
    "colon": "colon; gut; intestine; intestinal",
    "tibialis": "tibialis; tibialis anterior",
    "quadriceps": "quadriceps",
    "edl": "edl; extensor digitorum longus",
    "adipose": "adipose tissue; white adipose tissue; brown adipose tissue; fat tissue",
    "mammary": "mammary; mammary gland; breast",
}
ORGANS = word_set(
    "hypothalamus hypothalamic testis testes testicular ovary ovaries ovarian pancreas pancreatic cerebellum cerebellar thyroid"
    " parathyroid thymoma thymomas aorta aortic tongue placenta placental bladder stomach gastric cartilage prostate uterus uterine"
    " pituitary esophagus oesophagus trachea tracheal larynx ileum ileal jejunum jejunal duodenum duodenal cecum caecum rectum"
    " diaphragm cornea corneal lens choroid cochlea tendon tendons ligament synovium pbmc pbmcs leukocytes erythrocytes neurons"
    " astrocytes microglia cortex cortical amygdala striatum brainstem spinal tonsil tonsils appendix gallbladder cervix vagina"
    " oviduct epididymis urethra ureter artery arteries vein veins carotid tooth teeth molar hair nail plantaris diaphragmatic triceps"
    " biceps masseter vertebra vertebrae tibia humerus skull calvaria islets"
)
"""Organs that no question is about: one that opens a clause is where the clause is."""
SPECIES = word_set(
    "human humans rat rats monkey monkeys macaque macaques primate primates dog dogs pig pigs sheep cow cows cattle rabbit rabbits hamster"
    " hamsters zebrafish fish medaka frog frogs fly flies drosophila worm worms chicken chickens quail quails patient patients people man"
    " men woman women child children astronaut astronauts cosmonaut cosmonauts volunteer volunteers donors cats horses yeast plants"
)
STATES = word_set(
    "tumour tumours tumor tumors cancer cancers carcinoma carcinomas lymphoma lymphomas sarcoma sarcomas metastasis metastases organoid"
    " organoids graft grafts transplant transplants xenograft xenografts culture cultures explant explants adenoma adenomas"
)
"""Right behind a tissue, these make it another one."""
MUSCLES = frozenset({"gastrocnemius", "soleus", "tibialis", "quadriceps", "edl"})
"""Where one of these is asked about, a plain "muscle" means it."""

ONE_MISSION = (
    "one mission; one of the missions; one of three missions; one of two missions; one of the three missions;"
    " one of the two missions; a single mission; another mission; another; other missions; the other mission;"
    " the other missions; the other; the others; others; some missions; some of the missions; some; several missions;"
    " certain missions; the remaining mission; the remaining missions; the rest; one study; some studies;"
    " other studies; another study; one flight; some flights; other flights; another flight; one dataset;"
    " another dataset; some datasets; other datasets; the third mission; the third; one experiment;"
    " some experiments; other experiments; a few missions; half of the missions; half the missions; the second;"
    " two missions; two flights; two of the missions; one is; one goes; one shows; two are; two go; two show"
)

MOST_MISSIONS = (
    "two of three; two of the three; two out of three; 2 of 3; 2 of the 3; 2 out of 3; three of four; three of five;"
    " four of six; three of six; five of six; four of five; most missions; most of the missions; most flights;"
    " majority; the majority of missions; a majority of missions;"
    " overall; consensus; across missions; across the missions; in general; generally; on the whole"
)
ALL_MISSIONS = (
    "all missions; all three missions; all two missions; all six missions; both missions; every mission; each mission;"
    " consistently; all of them; all three; both; throughout; every one; all flights; all studies; all datasets"
)

FACTORS = {
    "HU": "hu; hindlimb unloading; hind limb unloading; unloading; unloaded; hindlimb suspension",
    "IR": "ir; ionizing radiation; ionising radiation; radiation; irradiation; irradiated",
    "KMP": "kmp; kaempferol",
    "HU+IR": "both stressors; combined stress; combined stressors; the two stressors; both stresses; huir;"
    " dual stress; the combination of stressors",
    "interaction": "interaction; interactions; interaction term; interacting; interacts",
    "HU+IR+interaction": "hu x ir; huxir; ir x hu; irxhu; hu by ir; hu ir interaction; interaction of hu and ir;"
    " interaction of hindlimb unloading and radiation; hindlimb unloading x radiation",
    "KMP+HU+interaction": "kmp x hu; kmpxhu; hu x kmp; huxkmp; kmp by hu; kmp hu interaction;"
    " kaempferol x unloading; kaempferol x hindlimb unloading; kaempferol x hu",
    "KMP+IR+interaction": "kmp x ir; kmpxir; ir x kmp; irxkmp; kmp by ir; kmp ir interaction;"
    " kaempferol x radiation; kaempferol x ionizing radiation; kaempferol x ir",
    "baseline": "baseline; unstressed; without stress; at rest; no stress; without any stressor; no stressor;"
    " without stressors; without a stressor",
}
