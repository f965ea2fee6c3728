"""What the names of figures mean: one list of definitions, which every name of a figure in the texts has a line of."""

import re

from evals.stats.agreement import NAMES, WEIGHTED_NAMES
from lab.ui.components import Column, grid, meaning, term, tiles
from lab.ui.text import lines

FIGURES = re.compile(
    r"metric\.(?!constant|higher|lower)\w+|calibration\.(row|chart)\.\w+|leaderboard\.(forest|name|against|step)"
    r"|train\.(metric|chart)\.(?!means)[\w/]+|train\.fact\.(?!command|base|chain|data|measured|error|stopped|ended|kept)\w+"
    r"|refine\.(column\.(?!answer)|part\.)\w+|preferences\.(votes|usable|ties|both_bad|raters|withdrawn)"
    r"|home\.figure\.\w+|ratings\.votes|verdict\.(?!read|unknown)\w+|confidence\.(missing|invalid)|questions\.n"
)
"""Lines that are names of figures. Those of tables are in tests/browser/undefined.js, on the pages."""


def test_every_name_of_a_figure_has_a_definition_in_plain_words():
    names = {text for key, text in lines().items() if FIGURES.fullmatch(key)} | {*NAMES.values()}
    columns = (
        lines()["annotate.raters.columns"].split(" | ")[2:],
        lines()["questions.scores.columns"].split(" | ")[1:],
    )
    names |= {*WEIGHTED_NAMES.values(), *columns[0], *columns[1]}
    assert len(names) > 80
    assert [name for name in names if not meaning(name)] == []
    told = {key.removeprefix("means."): text for key, text in lines().items() if key.startswith("means.")}
    assert {key for key in told if key != key.lower()} == set(), "these are never found"
    assert [key for key, text in told.items() if not re.fullmatch(r"[A-Z0-9].{12,240}\.", text)] == []


def test_a_name_with_a_definition_is_a_stop_of_the_tab_key_and_one_without_stays_as_it_is():
    table = grid(
        "Each with its [95 % interval] [x]", ("Stage", Column("ECE ↓", href="?order=ece"), "V1 answer"), [("a", 1, 2)]
    )
    assert 'its <dfn tabindex="0" data-means="The range' in table and "[x]</caption>" in table
    assert '<th scope="col">Stage</th>' in table and 'Order by ECE ↓">ECE ↓</a></th>' in table
    assert term("Stage") == "Stage" and term("train, checksum 1", "train") != "train, checksum 1"
    assert term(term("ECE")) == term("ECE") and "<dt><dfn" in tiles([("Votes", 3)])
