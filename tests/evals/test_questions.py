"""The banks of questions: exact counts, nothing of a held-out fact in training, answers as the figures say."""

import json
import re
from collections import Counter
from itertools import combinations
from pathlib import Path

import pytest
import yaml
from pydantic import TypeAdapter

from evals.errors import BadConfig, BadRow, LabError
from evals.facts import load_enrichment, load_hallmark, load_kmp
from evals.questions import (
    DATASETS,
    data_sha256,
    find,
    is_held_out,
    kmp,
    kmp_test,
    kmp_training,
    lone_missions,
    lone_missions_parted,
    pathway_halves,
    pathway_heldout,
    pathway_training,
    set_meanings,
)
from evals.questions.kmp import kmp_rewordings, kmp_wordings
from evals.questions.pathways import succession
from evals.questions.prompt import SYSTEM_PROMPT, conversation
from evals.questions.sets import normalise_question, question_row, to_example
from evals.questions.task import BASELINES, baseline_answers
from evals.schema import CANNOT_BE_TOLD, DirectTruth, Example, GroundTruth
from evals.verifiers import verify
from evals.verifiers.line import read_lines
from tests.evals.reports import TABLES
from tests.examples import read_examples, write_examples

STANDARD = ("eye", "thymus")
WORDS = {"UP": r"\b(upregulated|goes up|higher|activated)\b", "DOWN": r"\b(downregulated|goes down|lower|suppressed)\b"}
EVERYTHING = pathway_training(held_out=())
WORDINGS = kmp_wordings()
TISSUES = tuple(dict.fromkeys(row.tissue for row in load_enrichment()))


def kinds(rows) -> Counter:
    return Counter(row.kind for row in rows)


# ---- all banks --------------------------------------------------------------------------------


def test_rows_come_back_as_they_were_written_and_a_bad_line_is_named_with_its_number_and_field(tmp_path):
    path = tmp_path / "rows.jsonl"
    odd = kmp_test()[0].model_copy(update={"prompt": "one\u2028two\x85three"})
    for rows in (*(make() for make in DATASETS.values()), (odd,)):
        write_examples(path, rows)
        before = path.read_bytes()
        assert read_examples(path) == rows
        write_examples(path, rows[::-1])
        assert data_sha256(read_examples(path)) == data_sha256(rows) != data_sha256(rows[1:])
        write_examples(path, rows)
        assert path.read_bytes() == before
    good, count = json.loads(path.read_text(encoding="utf-8")), {"kind": "count", "value": 3, "subject": "x"}
    spoilt = {
        "confidence": {"confidence": 80}, "ground_truth": {"ground_truth": {"kind": "oracle"}}, "split": {"split": "validation"},
        "ground_truth.count.value": {"ground_truth": count | {"value": -3}}, "id": {},
        "ground_truth.count.subject": {"ground_truth": count | {"subject": " "}},
    }  # fmt: skip
    for field, change in spoilt.items():
        path.write_text(f"{json.dumps(good)}\n{json.dumps(good | {'id': 'b' if change else good['id']} | change)}\n")
        with pytest.raises(BadRow, match=f"line 2, field '{field}'"):
            read_examples(path)


def test_every_question_is_found_by_its_wording_whatever_its_case_and_white_space():
    rows = (*pathway_training(), *pathway_heldout(), *lone_missions(), *WORDINGS, *kmp_test())
    assert [row.id for row in rows if find(row.prompt) != row] == []
    assert [row.id for row in EVERYTHING if find(row.prompt).ground_truth != row.ground_truth] == []
    row = kmp_test()[3]
    assert find(row.prompt.upper()) == find(f"  {row.prompt.replace(' ', '  ')}\n") == row
    assert find("Who painted the ceiling?") is find("") is None


# ---- KMP --------------------------------------------------------------------------------------


def test_kmp_training_has_every_fact_in_wordings_of_its_own_and_a_seed_chooses_wordings_only():
    rows = kmp_training()
    assert {row.split for row in rows} == {"train"}
    for each in (rows, WORDINGS):
        prompts = {" ".join(row.prompt.casefold().split()) for row in each}
        assert len(prompts) == len({row.id for row in each}) == len(each)
    first, second = kmp_training(seed=3), kmp_training(seed=4)
    assert {row.prompt for row in first} != {row.prompt for row in second}
    assert {fact for row in first for fact in row.facts} == {fact for row in second for fact in row.facts}
    by_id = {row.id: row for row in WORDINGS}
    assert all(by_id[row.id] == row for row in (*rows, *first))
    for drill in (-1, 0, 21):
        with pytest.raises(LabError, match=rf"drill is {drill}; it takes 1"):
            kmp_training(drill=drill)
    asked = Counter(row.facts[0] for row in rows if row.kind in {"count", "type", "pattern"})
    assert [figure.id for figure in load_kmp().counts if asked[figure.id] < 4] == []
    assert {asked[f"kmp/{what}/{row.tissue}"] for row in load_kmp().tissues for what in ("class", "oxphos")} == {5}


def follows(row: dict, genes: dict[str, int]) -> bool:
    """Return whether truth and words of a KMP row are what the figures say."""
    words, value = row.get("words", {}), row.get("truth", {}).get("value")
    own, figures = genes.get(f"kmp/deg/{row.get('figure')}"), [genes[name] for name in row["support"] if name in genes]
    most = max((name for name in row["support"] if name in genes), key=genes.get, default="").split("/")
    least = min((name for name in row["support"] if name in genes), key=genes.get, default="").split("/")
    tissue = load_kmp().tissue(row["class_of"]) if "class_of" in row else None
    match row["template"]:
        case "count" | "quoted" | "count_hop":
            return value == genes[row["support"][-1]]
        case "wrong_count":
            wrong = int(words["wrong"].split()[0].replace(",", ""))
            return value == own and abs(wrong - own) > 1 and wrong >= 10
        case "order":
            return value == most[2] and [words["less"], words["more"]] == sorted(figures)
        case "extreme":
            return value == (most if words["rank"] == "largest" else least)[2] and len(figures) == 4
        case "above":
            side = "above" if value == "yes" else "below"
            return (value == "yes") == (own > words["limit"]) and words["side"] == side
        case "outnumber":
            return (value == "yes") == (figures[0] > figures[1]) and words["other"] == figures[1]
        case "additivity":
            hu, ir, both = figures
            return value == f"{'more' if both > hu + ir else 'less'} than additive" and words["total"] == hu + ir
        case "dominant_stressor":
            return value == most[3] and words["less"] == min(figures)
        case "baseline_or_stress":
            return (value == "baseline") == (figures[0] > figures[1]) and words["more"] == max(figures)
        case "prevailing":
            figure = load_kmp().count(*row["figure"].split("/"))
            return value == ("up" if figure.up > figure.down else "down") and words["total"] == figure.up + figure.down
        case "class" | "class_hop" | "wrong_class":
            return value == f"Type {tissue.letter}" and tissue.name in row["truth"]["accept"]
        case "pattern" | "pattern_hop" | "wrong_pattern":
            return value == tissue.oxphos_pattern and words.get("wrong") != value
        case "split":
            return value == getattr(load_kmp().count(*row["figure"].split("/")), words["way"])
    return row["template"] in ("nes_stress", "nes_kaempferol")  # whose figure the template takes from the table


def test_what_the_kmp_rows_say_follows_from_the_figures():
    rows = (Path(kmp.__file__).parent / "kmp_rows.jsonl").read_text(encoding="utf-8").splitlines()
    genes = {figure.id: figure.genes for figure in load_kmp().counts}
    assert [line for line in rows if not follows(json.loads(line), genes)] == []


def test_a_correction_does_not_repeat_the_wrong_figure_that_it_quotes():
    rows = [row for row in WORDINGS if row.kind == "error_correction" and row.facts[0].startswith("kmp/deg/")]
    rows = [row for row in rows if not row.id.startswith("kmp/error_correction/soleus_baseline")]
    assert len({row.facts for row in rows}) >= 30
    for row in rows:
        wrong = re.search(r"([\d,]+) DEG", row.prompt)[1]
        assert not re.search(rf"(?<![\d,]){wrong}(?![\d,])", row.answer), row.id


def test_no_answer_is_surer_than_a_doubted_figure_that_it_rests_on():
    doubted = {figure.id for figure in load_kmp().counts if figure.doubt}
    leaning = [row.confidence for row in WORDINGS if doubted & set(row.support)]
    assert len(leaning) > 20 and set(leaning) == {0.70}


def test_the_kmp_test_asks_what_follows_from_the_figures_and_rewordings_stand_in_no_training_row():
    rows, again, trained = kmp_test(), kmp_rewordings(), kmp_training()
    genes = {figure.id.removeprefix("kmp/deg/"): figure.genes for figure in load_kmp().counts}
    truths = {row.id.removeprefix("kmp/test/"): row.ground_truth.value for row in rows if row.kind != "abstain"}
    for name in ("largest/KMP_x_HU", "smallest/HU_x_IR", "largest/KMP_in_HU_IR", "largest/HU_x_IR"):
        rank, contrast = name.split("/")
        by_tissue = {tissue: genes[f"{tissue}/{contrast}"] for tissue in ("heart", "hippocampus", "liver", "soleus")}
        assert truths[name] == (max if rank == "largest" else min)(by_tissue, key=by_tissue.get)
    assert truths["additive_sum/heart"] == genes["heart/HU"] + genes["heart/IR"]
    assert truths["gain/hippocampus"] == genes["hippocampus/HU_IR"] - genes["hippocampus/HU"]
    for name in ("heart", "hippocampus"):
        assert truths[f"dominant_stressor/{name}"] == max(("HU", "IR"), key=lambda each: genes[f"{name}/{each}"])
    is_more = genes["hippocampus/HU_IR"] > genes["hippocampus/HU"] + genes["hippocampus/IR"]
    assert truths["additivity/hippocampus"] == f"{'more' if is_more else 'less'} than additive"
    assert (truths["above_5000/liver/KMP_x_HU"] == "yes") == (genes["liver/KMP_x_HU"] > 5000)
    longer = genes["soleus/KMP_x_HU"] > genes["soleus/HU"]
    assert (truths["interaction_over_effect/soleus/KMP_x_HU"] == "yes") == longer
    assert len(again) >= 150 and {row.split for row in again} == {"test"}
    assert not {row.prompt for row in again} & {row.prompt for row in trained}
    assert {row.cluster for row in again} <= {row.cluster for row in trained}
    assert len({row.cluster for row in again}) == len(again)


# ---- pathways ---------------------------------------------------------------------------------


def test_tissues_are_held_out_by_name():
    assert (pathway_heldout(()), pathway_training(TISSUES)) == ((), ())
    for function in (pathway_training, pathway_heldout):
        for name in ("Eye", "lung", "", "multi"):
            with pytest.raises(BadConfig, match=rf"{name!r}.*known are liver, .*eye"):
                function(("thymus", name))


def test_no_training_row_names_a_held_out_tissue_or_shares_anything_with_a_test_row():
    wrong = []
    for held_out in (*((one,) for one in TISSUES), *combinations(TISSUES, 2), TISSUES):
        named = re.compile(rf"(?<![a-z])({'|'.join(held_out)})(?![a-z])")
        train, test = pathway_training(held_out), pathway_heldout(held_out)
        wrong += [(held_out, row.id) for row in train if named.search(row.model_dump_json().casefold())]
        for key in ("id", "cluster", "prompt", "facts"):
            wrong += [(held_out, key)] * bool({getattr(x, key) for x in train} & {getattr(x, key) for x in test})
    assert not wrong
    ids = {row.id for row in EVERYTHING}
    assert len(ids) == len({row.prompt for row in EVERYTHING}) == len(EVERYTHING)
    assert "genelab/direct/thymus/HALLMARK_E2F_TARGETS" in ids


def test_a_question_names_both_directions_or_none_and_its_answer_the_one_that_the_truth_has():
    for row in EVERYTHING:
        if row.kind != "mechanism" and isinstance(truth := row.ground_truth, DirectTruth):
            name = load_hallmark()[truth.pathway].name
            text, asked = row.answer.replace(name, ""), row.prompt.replace(name, "")
            assert name in row.answer and name in row.prompt and truth.tissue in row.answer
            assert {way for way, words in WORDS.items() if re.search(words, text)} == {truth.direction}, row.answer
            for pair in (("upregulated", "downregulated"), ("raise", "lower"), ("higher", "lower"), ("up or", "down?")):
                assert (pair[0] in asked) <= (pair[1] in asked), row.prompt


def test_consensus_disagreement_and_lone_missions_follow_the_rules_recounted_from_the_table():
    votes: dict[tuple[str, str], list[int]] = {}
    missions: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for row in load_enrichment():
        sign = 0 if row.padj is None or row.padj >= 0.05 else (1 if row.nes > 0 else -1)
        votes.setdefault((row.tissue, row.pathway), []).append(sign)
        if sign:
            missions.setdefault((row.tissue, row.pathway), []).append((row.mission, "UP" if sign > 0 else "DOWN"))
    agreed, disputed = {}, set()
    for key, signs in votes.items():
        up, down = signs.count(1), signs.count(-1)
        if max(up, down) >= 2 and up != down:
            agreed[key] = "UP" if up > down else "DOWN"
        disputed |= {key} if up and down else set()
    truths = [(row.kind, row.ground_truth) for row in EVERYTHING]
    assert {(t.tissue, t.pathway): t.direction for kind, t in truths if kind == "direct"} == agreed
    assert {(t.tissue, t.pathway) for kind, t in truths if kind == "uncertainty"} == disputed
    alone = {key: found[0] for key, found in missions.items() if len(found) == 1 and key[0] not in STANDARD}
    lone = [row.ground_truth for row in lone_missions()]
    assert {(t.tissue, t.pathway): (*t.missions, t.direction) for t in lone} == alone and len(lone) == 55


def test_confidence_is_the_rule_of_succession_in_steps_of_five_and_differs_in_every_kind():
    cases = {(0, 0): 50, (2, 6): 40, (2, 2): 75, (3, 3): 80, (2, 3): 60, (3, 6): 50, (1, 1): 65, (0, 3): 20}
    assert {counts: succession(*counts) for counts in cases} == cases
    for kind in ("direct", "mechanism", "uncertainty", "comparison"):
        assert len({row.confidence for row in EVERYTHING if row.kind == kind}) >= 4, kind


def test_halves_keep_clusters_whole_and_share_kinds_and_directions_whatever_the_order():
    rows = pathway_training()
    first, second = halves = pathway_halves(rows)
    assert sorted(row.id for row in (*first, *second)) == sorted(row.id for row in rows)
    assert {row.cluster for row in first}.isdisjoint(row.cluster for row in second)
    for kind in ("direct", "mechanism", "uncertainty", "conservation"):
        assert abs(kinds(first)[kind] - kinds(second)[kind]) <= 2
    ups = [sum(getattr(r.ground_truth, "direction", "") == "UP" for r in h if r.kind == "direct") for h in halves]
    assert abs(ups[0] - ups[1]) <= 2
    assert [{row.id for row in half} for half in pathway_halves(rows[::-1])] == [{r.id for r in h} for h in halves]


# ---- single missions, and what gene sets stand for --------------------------------------------

OTHER_WAY = (("upregulated", "downregulated"), ("goes up", "goes down"), ("is higher", "is lower"))


def test_questions_on_single_missions_give_nothing_away_and_no_constant_answer_pays():
    rows, parted = lone_missions(), lone_missions_parted()
    assert not {row.cluster for row in rows} & {row.cluster for row in (*pathway_training(), *pathway_heldout())}
    ways = Counter(row.ground_truth.direction for row in rows)
    assert abs(ways["UP"] - ways["DOWN"]) <= 5
    assert {row.split for row in rows} == {"train"} and not any(is_held_out(row.prompt, row.id) for row in rows)
    for row in rows:
        text, line, confidence = row.answer.split("\n")
        (said, other) = next(pair for p in OTHER_WAY for pair in (p[::-1], p) if pair[0] in text)
        turned = (text.replace(said, other), "Answer: up" if line == "Answer: down" else "Answer: down", confidence)
        found = [verify(row, answer).verdict for answer in (row.answer, "\n".join(turned))]
        assert found == ["correct", "incorrect"], row.answer
    assert [row.cluster for row in parted] == [row.cluster for row in rows]  # each finding is asked one way only
    counted = Counter((row.kind, row.ground_truth.direction) for row in parted)
    assert len(counted) == 4 and all(13 <= count <= 15 for count in counted.values()), counted
    asked = {row.id: row for row in rows}
    assert all(asked[row.id] == row for row in parted if row.kind == "direct")


def test_every_gene_set_is_explained_twice_without_tissue_or_direction_and_asked_by_no_held_out_question():
    rows = set_meanings()
    assert not {row.prompt for row in rows} & {x.prompt for x in (*pathway_training(), *pathway_heldout(), *kmp_test())}
    assert {row.split for row in rows} == {"train"} and not any(is_held_out(row.prompt, row.id) for row in rows)
    banned = {row.tissue for row in load_enrichment()}
    banned |= set(re.findall(r"\w+", "upregulated downregulated up down higher lower activated suppressed more less"))
    for pathway, named in load_hallmark().items():
        own = [row for row in rows if row.cluster == f"meaning/{pathway}"]
        assert len({row.prompt for row in own}) == 2
        for row in own:
            assert named.name in row.prompt and named.about in row.answer, row.id
            text = f"{row.prompt} {row.answer}".replace(named.name, "").replace(named.about, "").lower()
            assert not {word.strip(".,?") for word in text.split()} & banned, row.id


# ---- nothing that the KMP test asks for stands in training, in any wording that any seed can choose ----

LEAKS = yaml.safe_load((Path(__file__).parent / "cases" / "kmp_leaks.yaml").read_text(encoding="utf-8"))
SPAN = 8
SINGLE_FIGURE = "kmp/test/above_5000/liver/KMP_x_HU"
"""Asked about one trained figure: only its comparison with the threshold is held out."""


def words_of(text: str) -> str:
    return " ".join(re.findall(r"[a-z0-9]+", normalise_question(text)))


def spans(text: str) -> set[str]:
    words = words_of(text).split()
    return {" ".join(words[start : start + SPAN]) for start in range(len(words) - SPAN + 1)}


def gives_away(row_id: str, text: str) -> bool:
    patterns = LEAKS[row_id.removeprefix("kmp/test/")]["patterns"]
    return all(re.search(pattern, text, re.IGNORECASE) for pattern in patterns)


def test_no_tested_fact_is_asked_for_in_training_and_no_wording_or_eight_words_of_the_test_stand_there():
    tested = {fact for row in kmp_test() for fact in row.facts}
    assert len(tested) == 20 and tested.isdisjoint(fact for row in WORDINGS for fact in row.facts)
    assert {words_of(row.prompt) for row in kmp_test()}.isdisjoint(words_of(row.prompt) for row in WORDINGS)
    trained = {span for row in WORDINGS for text in (row.prompt, row.answer) for span in spans(text)}
    assert trained & {span for row in kmp_test() for span in spans(row.prompt)} == set()


def test_no_training_row_puts_all_figures_of_a_test_question_together():
    for row in kmp_test():
        needed = set(row.support)
        if row.kind == "abstain" or row.id == SINGLE_FIGURE:
            assert len(needed) == (row.kind != "abstain"), row.id
        else:
            assert len(needed) >= 2, row.id
            assert [other.id for other in WORDINGS if needed <= set(other.support)] == [], row.id


def test_no_training_row_states_the_answer_to_a_test_question():
    found = []
    for row in kmp_test():
        for other in WORDINGS:
            is_asked = other.prompt.endswith("?") and row.kind != "abstain"
            stated = [other.answer] if is_asked else [other.answer, other.prompt]
            found += [(row.id, other.id, text) for text in stated if gives_away(row.id, text)]
    assert found == []
    leaks = {row.id: LEAKS[row.id.removeprefix("kmp/test/")]["leak"] for row in kmp_test()}
    assert [name for name, leak in leaks.items() if not gives_away(name, leak)] == []


# ---- answers that need no model: what each is right on, and that a trick earns nothing ---------

HELD_OUT = pathway_heldout()
ANSWERS = baseline_answers(HELD_OUT, DATASETS["pathways-train"]())


def test_every_baseline_answers_the_held_out_questions_and_says_nothing_where_it_has_nothing_to_say():
    assert list(ANSWERS) == list(BASELINES)
    for data in sorted(DATASETS):
        examples = DATASETS[data]()
        assert {len(answers) for answers in baseline_answers(examples).values()} == {len(examples)}
    kmp = baseline_answers(DATASETS["kmp-test"]())
    assert not {"always up, 60%", "tissue majority, 80%", "most frequent in training, 60%"} & kmp.keys()


def test_saying_nothing_earns_nothing():
    idle = ("echo the question, 62%", "echo as a statement, 62%", "all options listed, 60%")
    for examples in (HELD_OUT, DATASETS["kmp-test"]()):
        answers = baseline_answers(examples)
        for name in (*idle, "only a confidence, 50%", "empty answer"):
            pairs = zip(examples, answers.get(name, []), strict=False)
            assert {verify(x, text, read="answer").reward for x, text in pairs} <= {0.0}, name


def test_baselines_have_something_to_say_to_a_set_of_ones_own():
    asked, told = TABLES["questions: what baselines say"].values()
    leu = asked["Does CUU code for Leu or Phe?"]

    def row(prompt: str, truth: dict[str, object], split: str = "test") -> Example:
        given = {"id": prompt, "prompt": prompt, "truth": truth, "group": prompt, "split": split}
        return to_example(question_row(given), "mine")

    train = row("What does UCU code for?", leu | {"value": "Ser"}, "train")
    answers = baseline_answers([row(*each) for each in asked.items()], [train])
    said = told | {"echo the question, 62%": list(asked), "always abstain, 60%": [CANNOT_BE_TOLD] * 5}
    assert {name: [read_lines(text).answer for text in answers[name]] for name in said} == said
    assert "always up, 60%" not in answers


def test_options_that_the_system_prompt_has_no_place_for_stand_behind_the_question():
    """As for imported chains: with options in the system prompt, or in the question, nothing is added."""

    heldout, wrong = pathway_heldout(), []
    for prompt, truth, template, behind in TABLES["questions: options behind the question"]:
        truth = TypeAdapter(GroundTruth).validate_python(truth)
        example = heldout[0].model_copy(update={"prompt": prompt, "ground_truth": truth})
        asked = conversation(example, SYSTEM_PROMPT if template is None else template)[-1].content
        wrong += [] if asked == prompt + behind else [(prompt, template, asked)]
    assert wrong == []
    asked = conversation(next(each for each in heldout if each.ground_truth.kind == "direct"), "")
    assert [each.role for each in asked] == ["user"] and "up / down / missions disagree" in asked[0].content
