"""The banks of questions: exact counts, nothing of a held-out fact in training, answers as the figures say."""

import json
import re
import subprocess
import sys
from collections import Counter
from itertools import combinations

import pytest

from evals.errors import BadConfig, BadRow, LabError
from evals.facts import load_enrichment, load_hallmark, load_kmp, pathway_names
from evals.questions import (
    DATASETS,
    SYSTEM_PROMPT,
    data_sha256,
    find,
    is_held_out,
    kmp_test,
    kmp_training,
    lone_missions,
    lone_missions_parted,
    pathway_halves,
    pathway_heldout,
    pathway_training,
    read_examples,
    set_meanings,
    write_examples,
)
from evals.questions.kmp import kmp_rewordings, kmp_wordings, wrong_figure
from evals.questions.pathways import pathway_tissues, succession
from evals.schema import AbstainTruth, CountTruth, DirectTruth, LabelTruth, UncertaintyTruth
from evals.verifiers import verify

STANDARD = ("eye", "thymus")
CONFIDENCE = re.compile(r"\nConfidence: (\d{1,2})%\Z")
WORDS = {"UP": r"\b(upregulated|goes up|higher|activated)\b", "DOWN": r"\b(downregulated|goes down|lower|suppressed)\b"}
EVERYTHING = pathway_training(held_out=())
WORDINGS = kmp_wordings()


def kinds(rows) -> Counter:
    return Counter(row.kind for row in rows)


# ---- all banks --------------------------------------------------------------------------------


def test_the_named_data_sets_are_the_standard_ones_and_another_process_makes_the_same(pytestconfig):
    sizes = {"pathways-heldout": 107, "kmp-test": 20, "kmp-rewordings": 169, "kmp-train": 562, "pathways-train": 144}
    sizes |= {"hallmark-train": 100, "missions-train": 55, "missions-parted-train": 55}
    assert {name: len(rows()) for name, rows in DATASETS.items()} == sizes
    script = (
        "from evals.questions import DATASETS as d, data_sha256 as s; print({n: s(rows()) for n, rows in d.items()})"
    )
    env = {"PYTHONPATH": ".", "PYTHONHASHSEED": "77"}
    run = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=pytestconfig.rootpath, env=env
    )
    assert run.stdout.strip() == str({name: data_sha256(rows()) for name, rows in DATASETS.items()})
    assert len(SYSTEM_PROMPT.split()) < 40
    assert SYSTEM_PROMPT.splitlines()[-2] == "Answer: {answer}" and "Confidence: N%" in SYSTEM_PROMPT.splitlines()[-1]


def test_rows_come_back_as_they_were_written_and_a_bad_line_is_named_with_its_number_and_field(tmp_path):
    path = tmp_path / "rows.jsonl"
    for rows in (make() for make in DATASETS.values()):
        write_examples(path, rows)
        before = path.read_bytes()
        assert read_examples(path) == rows
        write_examples(path, rows[::-1])
        assert data_sha256(read_examples(path)) == data_sha256(rows) != data_sha256(rows[1:])
        write_examples(path, rows)
        assert path.read_bytes() == before
    row = kmp_test()[0].model_copy(update={"prompt": "one\u2028two\x85three"})
    write_examples(path, [row])
    assert read_examples(path) == (row,)
    with pytest.raises(LabError, match="cannot write"):
        write_examples(path / "below" / "rows.jsonl", kmp_test())
    assert list(tmp_path.iterdir()) == [path]
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


def test_answers_are_short_and_end_with_their_line_and_the_confidence_of_their_row():
    wrong = []
    for row in (*EVERYTHING, *WORDINGS, *kmp_test()):
        match = CONFIDENCE.search(row.answer)
        text = row.answer[: match.start()] if match else ""
        limit = 75 if row.kind in {"chain_of_thought", "multi_hop"} else 60 if row in EVERYTHING else 55
        good = match and int(match[1]) == round(100 * row.confidence) and len(text.split()) <= limit
        good = good and text.splitlines()[-1].startswith("Answer: ")
        good = good and (row in EVERYTHING or len(text.splitlines()) == 1 + (row.ground_truth.kind != "facts"))
        wrong += [] if good and not re.search(r"[{}_]|None|\bnan\b", row.prompt + row.answer) else [row.id]
    assert not wrong


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
    assert len({row.prompt for row in rows}) == len({row.id for row in rows}) == len(rows)
    assert {row.split for row in rows} == {"train"}
    assert len({" ".join(row.prompt.casefold().split()) for row in WORDINGS}) == len(WORDINGS)
    first, second = kmp_training(seed=3), kmp_training(seed=4)
    assert first == kmp_training(seed=3) and {row.prompt for row in first} != {row.prompt for row in second}
    assert {fact for row in first for fact in row.facts} == {fact for row in second for fact in row.facts}
    by_id = {row.id: row for row in WORDINGS}
    assert all(by_id[row.id] == row for row in (*rows, *first))
    thrice = kmp_training(drill=3)
    assert len({row.id for row in thrice}) == 3 * len(rows) and set(Counter(x.prompt for x in thrice).values()) == {3}
    for drill in (-1, 0, 21):
        with pytest.raises(LabError, match=rf"drill is {drill}; it takes 1"):
            kmp_training(drill=drill)
    asked = Counter(row.facts[0] for row in rows if row.kind in {"count", "type", "pattern"})
    assert [figure.id for figure in load_kmp().counts if asked[figure.id] < 4] == []
    assert {asked[f"kmp/{what}/{row.tissue}"] for row in load_kmp().tissues for what in ("class", "oxphos")} == {5}


def test_kmp_answers_state_the_right_figure_or_label_and_no_other():
    def has(text: str, name: str) -> bool:
        return re.search(rf"(?<!\w){re.escape(name.casefold())}(?!\w)", text) is not None

    wrong = []
    for row in (*WORDINGS, *kmp_test()):
        truth, text = row.ground_truth, row.answer.casefold()
        if isinstance(truth, CountTruth) and row.split == "train":
            good = re.search(rf"(?<![\d,]){truth.value:,} deg", text) and row.tissue and row.tissue in text
        elif isinstance(truth, LabelTruth):
            good = any(has(text, name) for name in (truth.value, *truth.accept))
            good = good and not any(has(text, name) for name in truth.others)
        else:
            is_unknown = isinstance(truth, AbstainTruth) and row.split == "train"
            good = not is_unknown or row.answer.startswith("The data cannot answer this: ")
        wrong += [] if good else [row.id]
    unknown = {row.facts for row in WORDINGS if isinstance(row.ground_truth, AbstainTruth)}
    assert not wrong and len(unknown) >= 25
    known_errors = re.compile(r"hippocampus[^.]*Type A|all other tissues|moderate|\bN/A\b")
    assert [row.id for row in (*WORDINGS, *kmp_test()) if known_errors.search(row.answer)] == []


def test_a_correction_quotes_a_wrong_figure_and_does_not_repeat_it():
    rows = [row for row in WORDINGS if row.kind == "error_correction"]
    assert len({row.facts for row in rows}) >= 40
    for row in rows:
        if not row.facts[0].startswith("kmp/deg/") or row.id.startswith("kmp/error_correction/soleus_baseline"):
            continue
        figure = load_kmp().count(*row.facts[0].split("/")[2:4])
        wrong = wrong_figure(figure)
        assert wrong != figure.genes and f"{wrong:,} DEG" in row.prompt, row.id
        assert not re.search(rf"(?<![\d,]){wrong:,}(?![\d,])", row.answer), row.id


def test_confidence_follows_the_evidence_and_is_no_surer_than_a_doubted_figure():
    levels = {
        "deg/liver/HU": 0.70, "deg/hippocampus/KMP_baseline": 0.70, "nes_stress/hippocampus": 0.60,
        "class/hippocampus": 0.80, "deg/heart/HU_IR/up": 0.85, "deg/soleus/KMP_x_HU": 0.95, "class/liver": 0.95,
        "derived/additivity/soleus": 0.90, "derived/additivity/liver": 0.70, "limit/kidney": 0.90,
    }  # fmt: skip
    found = {fact: {row.confidence for row in WORDINGS if row.facts[0] == f"kmp/{fact}"} for fact in levels}
    assert found == {fact: {level} for fact, level in levels.items()}
    doubted = {figure.id for figure in load_kmp().counts if figure.doubt}
    leaning = [row.confidence for row in WORDINGS if doubted & set(row.support)]
    assert len(leaning) > 20 and set(leaning) == {0.70}


def test_the_kmp_test_asks_what_follows_from_the_figures_and_rewordings_stand_in_no_training_row():
    rows, again, trained = kmp_test(), kmp_rewordings(), kmp_training()
    assert [row.kind for row in rows] == ["factual"] * 10 + ["reasoning"] * 5 + ["abstain"] * 5
    assert {row.split for row in rows} == {"test"} and len({row.id for row in rows}) == 20
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


def test_holding_out_tissues_leaves_the_counted_questions():
    test, train = pathway_heldout(STANDARD), pathway_training(STANDARD)
    trained = {"direct": 50, "mechanism": 50, "uncertainty": 39, "conservation": 4, "comparison": 1}
    assert kinds(train) == trained
    assert kinds(test) == {"direct": 48, "mechanism": 48, "uncertainty": 9, "conservation": 2}
    assert Counter(row.tissue for row in test) == {"thymus": 82, "eye": 25}
    assert ({row.split for row in test}, {row.split for row in train}) == ({"test"}, {"train"})
    assert kinds(row for row in EVERYTHING if row.tissue not in STANDARD) == trained | {"comparison": 26}
    assert (pathway_heldout(()), len(EVERYTHING), pathway_training(pathway_tissues())) == ((), 276, ())
    for function in (pathway_training, pathway_heldout):
        for name in ("Eye", "lung", "", "multi"):
            with pytest.raises(BadConfig, match=rf"{name!r}.*known are liver, .*eye"):
                function(("thymus", name))


def test_no_training_row_names_a_held_out_tissue_or_shares_anything_with_a_test_row():
    wrong = []
    for held_out in (*((one,) for one in pathway_tissues()), *combinations(pathway_tissues(), 2), pathway_tissues()):
        named = re.compile(rf"(?<![a-z])({'|'.join(held_out)})(?![a-z])")
        train, test = pathway_training(held_out), pathway_heldout(held_out)
        wrong += [(held_out, row.id) for row in train if named.search(row.model_dump_json().casefold())]
        for key in ("id", "cluster", "prompt", "facts"):
            wrong += [(held_out, key)] * bool({getattr(x, key) for x in train} & {getattr(x, key) for x in test})
    assert not wrong
    ids = {row.id for row in EVERYTHING}
    assert len(ids) == len({row.prompt for row in EVERYTHING}) == len(EVERYTHING)
    assert "genelab/direct/thymus/HALLMARK_E2F_TARGETS" in ids


def test_answers_name_set_tissue_direction_and_missions_as_the_truth_has_them():
    supported, named, clusters = [], [], {}
    for row in EVERYTHING:
        clusters.setdefault(row.cluster, set()).add(row.kind)
        truth = row.ground_truth
        name = pathway_names()[truth.pathway][0] if hasattr(truth, "pathway") else ""
        if isinstance(truth, UncertaintyTruth):
            assert truth.missions_up and truth.missions_down
            assert "disagree" in row.answer and "single direction" in row.answer
            found = [m.replace("_", " ") in row.answer for m in (*truth.missions_up, *truth.missions_down)]
            assert all(found) or (not any(found) and "in some and down in" in row.answer), row.id
            named.append(all(found))
        elif row.kind == "mechanism":
            assert re.search(WORDS[truth.direction], row.prompt.replace(name, "")), row.prompt
        elif isinstance(truth, DirectTruth):
            assert name in row.answer and name in row.prompt and truth.tissue in row.answer
            text, asked = row.answer.replace(name, ""), row.prompt.replace(name, "")
            found = {way for way, words in WORDS.items() if re.search(words, text)}
            assert found == {truth.direction}, row.answer
            for pair in (("upregulated", "downregulated"), ("raise", "lower"), ("higher", "lower"), ("up or", "down?")):
                assert (pair[0] in asked) <= (pair[1] in asked), row.prompt  # both directions or none
            signs = [1 if one.nes > 0 else -1 for one in truth.missions.values() if one.padj < 0.05]
            sign = 1 if truth.direction == "UP" else -1
            supported.append(f"in {signs.count(sign)} of {len(truth.missions)} missions" in row.answer)
            assert ("missions" in row.answer) == supported[-1]
            assert ("against)" in row.answer) == (supported[-1] and -sign in signs)
    assert 0.4 < sum(supported) / len(supported) < 0.6 and 0.3 < sum(named) / len(named) < 0.7
    assert clusters["thymus/HALLMARK_OXIDATIVE_PHOSPHORYLATION"] == {"direct", "mechanism", "uncertainty"}
    assert all("direct" in found for found in clusters.values() if "mechanism" in found)


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
    for agreeing in (3, -1):
        with pytest.raises(ValueError, match=f"{agreeing} of 2"):
            succession(agreeing, 2)
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
    assert set(counted) == {(kind, way) for kind in ("direct", "mechanism") for way in ("UP", "DOWN")}
    assert all(13 <= count <= 15 for count in counted.values()), counted
    asked = {row.id: row for row in rows}
    assert all(asked[row.id] == row for row in parted if row.kind == "direct")


def test_what_a_finding_means_is_answered_in_the_words_of_its_set_and_no_other():
    rows = [row for row in lone_missions_parted() if row.kind == "mechanism"]
    about = {name: named.about for name, named in load_hallmark().items()}
    consensus = {row.ground_truth.pathway for row in pathway_training() if row.kind == "mechanism"}
    assert len({row.ground_truth.pathway for row in rows} - consensus) >= 5
    swapped = 0
    for row, other in zip(rows, rows[1:] + rows[:1], strict=True):
        (mission,), (own, another) = row.ground_truth.missions, (x.ground_truth.pathway for x in (row, other))
        assert mission.replace("_", " ") in row.prompt and row.ground_truth.tissue in row.prompt
        assert find(row.prompt) == row and not is_held_out(row.prompt, row.id) and row.split == "train"
        assert verify(row, row.answer).verdict == "correct", row.answer
        if own != another:
            swapped += 1
            assert verify(row, row.answer.replace(about[own], about[another])).verdict != "correct", row.answer
    assert swapped > 20


def test_every_gene_set_is_explained_twice_without_tissue_or_direction_and_asked_by_no_held_out_question():
    rows = set_meanings()
    assert not {row.prompt for row in rows} & {x.prompt for x in (*pathway_training(), *pathway_heldout(), *kmp_test())}
    assert {row.split for row in rows} == {"train"} and not any(is_held_out(row.prompt, row.id) for row in rows)
    tissues = {row.tissue for row in load_enrichment()}
    ways = {"upregulated", "downregulated", "up", "down", "higher", "lower", "activated", "suppressed", "more", "less"}

    def words(text: str) -> set[str]:
        return {word.strip(".,?") for word in text.lower().split()}

    for pathway, named in load_hallmark().items():
        own = [row for row in rows if row.cluster == f"meaning/{pathway}"]
        assert len({row.prompt for row in own}) == 2
        for row in own:
            text = f"{row.prompt} {row.answer}"
            assert named.name in row.prompt and named.about in row.answer and not words(text) & tissues, row.id
            assert not words(text.replace(named.name, "").replace(named.about, "")) & ways, row.id
