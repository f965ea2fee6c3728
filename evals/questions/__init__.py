"""Questions made from the figures, KMP (gene counts) and pathways (directions), and question sets of one's own."""

from evals.io import data_sha256
from evals.questions.kmp import kmp_test, kmp_training
from evals.questions.pathways import (
    lone_missions,
    lone_missions_parted,
    pathway_halves,
    pathway_heldout,
    pathway_training,
    set_meanings,
)
from evals.questions.prompt import SYSTEM_PROMPT, answer_form, conversation, system_prompt
from evals.questions.sets import DATASETS, find, is_held_out, load_questions, register, system_prompt_for
