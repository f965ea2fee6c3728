"""Question sets as folders for other tools: fast checks of what is written, and each tool run on a scripted model."""

import json
import re
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from evals.errors import BadConfig
from evals.questions import DATASETS, conversation
from evals.questions.export import METRICS, TOOLS, export_questions, module_name
from evals.questions.sets import load_questions
from evals.report import HEADLINE, summarise
from evals.schema import CANNOT_BE_TOLD, EvalRow, Example, RubricTruth
from evals.verifiers import verify
from evals.verifiers.score import SCORED
from tests.evals.reports import TABLES
from tests.evals.tools import installed, run

SET = "codons-and-enzymes"
NAME = "assay_codons_and_enzymes"


def scripted(number: int, example: Example) -> str:
    """Return answers of every sort: right, wrong, without confidence, empty, and in free text."""
    lines = example.answer.split("\n")
    return (
        example.answer,
        f"Nobody knows.\nAnswer: {CANNOT_BE_TOLD}\nConfidence: 90%",
        "\n".join(lines[:-1]),
        "Let me think about that.",
        lines[-2].replace("Answer: ", "It is ") + ". I am 70% confident.",
    )[number % 5]


def rubric(example: Example) -> Example:
    truth = RubricTruth(items=["names a codon"])
    return example.model_copy(update={"id": f"{example.id}/rubric", "kind": "rubric", "ground_truth": truth})


# ---- what is written ------------------------------------------------------------------------


def test_an_export_compiles_asks_exactly_what_we_ask_and_is_named_after_its_set(tmp_path):
    examples = load_questions(SET)
    asked = {row.id: [message.model_dump() for message in conversation(row)] for row in examples}
    for tool in TOOLS:
        out = tmp_path / tool
        done = export_questions(examples, SET, tool, out)
        files = {path.relative_to(out).as_posix(): path.read_text() for path in out.rglob("*") if path.is_file()}
        assert set(done.files) == set(files)
        for name in (name for name in files if name.endswith(".py")):
            compile(files[name], name, "exec")
            assert "from evals" not in files[name], name
        rows = [json.loads(line) for split in done.questions for line in files[f"{NAME}/{split}.jsonl"].splitlines()]
        assert {row["id"]: row["prompt"] for row in rows} == asked
        for fact in (done.data_sha256, done.versions["verifiers"], "cc0-1.0 (60)", *done.run):
            assert fact in files["README.md"]
        assert "Apache License" in files["LICENSE"]
    names = {SET: NAME, **TABLES["questions: names of exported sets"]}
    assert {name: module_name(name) for name in names} == names


def test_the_copied_grader_judges_as_ours_and_needs_pydantic_only(tmp_path):
    """Over every kind of truth that is scored, in a process that cannot import Assay."""
    sets = (SET, "pathways-heldout", "pathways-train", "kmp-test", "kmp-train", "hallmark-train")
    by_kind: dict[str, list[Example]] = {}
    for example in (row for name in sets for row in load_questions(name)):
        by_kind.setdefault(example.ground_truth.kind, []).append(example)
    examples = [row for kind in by_kind.keys() & SCORED for row in by_kind[kind][:5]]
    unique = [row.model_copy(update={"id": str(number), "split": "test"}) for number, row in enumerate(examples)]
    export_questions(unique, "every kind", "inspect", tmp_path / "out")
    answers = {row.id: [scripted(n, row) for n in range(5)] for row in unique}
    (tmp_path / "answers.json").write_text(json.dumps(answers))
    script = """
import json, sys
sys.path.insert(0, sys.argv[1])
sys.modules["evals"] = None
from assay_every_kind.grade import grade, rows
answers = json.load(open(sys.argv[2]))
verdicts = {row["id"]: [grade(row, text).model_dump(mode="json") for text in answers[row["id"]]] for row in rows("test")}
roots = sorted({name.split(".")[0] for name in sys.modules} - set(sys.stdlib_module_names))
print(json.dumps({"verdicts": verdicts, "roots": roots}))
"""
    ran = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "out"), str(tmp_path / "answers.json")],
        capture_output=True, text=True, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    told = json.loads(ran.stdout)
    ours = {row.id: [verify(row, text).model_dump(mode="json") for text in answers[row.id]] for row in unique}
    assert told["verdicts"] == ours
    assert not {"numpy", "torch", "gradio", "datasets", "lab", "training", "hub"} & set(told["roots"])


def test_what_only_a_judge_can_grade_is_left_out_and_meanings_of_gene_sets_stand_apart(tmp_path):
    examples = load_questions(f"{SET}[test]")
    done = export_questions([*examples, *map(rubric, examples[:2])], SET, "lm-eval", tmp_path / "out")
    assert done.left_out == {"kind rubric: only a judge can grade it": 2}
    assert sum(done.questions["test"].values()) == len(examples)
    assert "Left out: 2 of kind rubric: only a judge can grade it." in (tmp_path / "out/README.md").read_text()
    export_questions(DATASETS["pathways-heldout"](), "pathways-heldout", "lm-eval", tmp_path / "sets")
    rows = map(json.loads, (tmp_path / "sets/assay_pathways_heldout/test.jsonl").read_text().splitlines())
    headline = {"direct": True, "mechanism": False, "uncertainty": True, "conservation": True}
    assert {row["kind"]: row["headline"] for row in rows} == headline
    assert "metric: accuracy_mechanism" in (tmp_path / "sets/assay_pathways_heldout.yaml").read_text()


def test_what_cannot_be_exported_is_refused_and_nothing_is_written(tmp_path):
    full, new = tmp_path / "full", tmp_path / "new"
    full.mkdir()
    (full / "mine.txt").write_text("mine")
    rows, train = load_questions(f"{SET}[test]"), load_questions(f"{SET}[train]")
    refused = [
        (list(map(rubric, rows)), "inspect", new, "16 of kind rubric, and only a judge can grade these"),
        (train, "lm-eval", new, "has train rows only, and lm-evaluation-harness measures test rows"),
        ((*rows, rows[0]), "inspect", new, f"the id {rows[0].id!r} twice"),
        (rows, "helm", new, "no export as 'helm'; choose one of lm-eval, inspect, verifiers"),
        (rows, "inspect", full, "is there already and is not empty; name a new folder"),
    ]
    for examples, tool, out, message in refused:
        with pytest.raises(BadConfig, match=re.escape(message)):
            export_questions(examples, SET, tool, out)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["full", "mine.txt"]


# ---- each tool on a scripted model ----------------------------------------------------------


@pytest.fixture
def model():
    """Serve the OpenAI protocol on this machine: `answers` by question, `asked` are the messages that came in."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            messages = [{"role": each["role"], "content": _text(each["content"])} for each in request["messages"]]
            self.server.asked.append(messages)
            is_stream = request.get("stream")
            said = {"role": "assistant", "content": self.server.answers[messages[-1]["content"]]}
            choice = {"index": 0, "finish_reason": "stop", "delta" if is_stream else "message": said}
            usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
            kind = "chat.completion.chunk" if is_stream else "chat.completion"
            whole = {"id": "1", "created": 0, "model": "scripted", "usage": usage, "object": kind, "choices": [choice]}
            text = f"data: {json.dumps(whole)}\n\ndata: [DONE]\n\n" if is_stream else json.dumps(whole)
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream" if is_stream else "application/json")
            self.send_header("Content-Length", str(len(text.encode())))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.answers, server.asked = {}, []
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def _text(content: object) -> str:
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


def by_lm_eval(folder: Path, bin: Path, url: str) -> dict[str, float]:
    asked = f"model=scripted,base_url={url}/chat/completions,num_concurrent=2"
    command = f"lm_eval --model local-chat-completions --model_args {asked} --include_path {folder.name}"
    command += f" --tasks {NAME} --apply_chat_template --output_path result"
    run(command.split(), folder.parent, bin, OPENAI_API_KEY="none")
    (result,) = (folder.parent / "result").rglob("results_*.json")
    found = json.loads(result.read_text())["results"][NAME]
    return {name: found[f"{name},none"] for name in METRICS}


def by_inspect(folder: Path, bin: Path, url: str) -> dict[str, float]:
    command = f"inspect eval {folder.name}/task.py --model openai-api/scripted/any --display plain"
    command += " --log-dir logs --log-format json"
    run(command.split(), folder.parent, bin, SCRIPTED_BASE_URL=url, SCRIPTED_API_KEY="none")
    (log,) = (folder.parent / "logs").glob("*.json")
    found = json.loads(log.read_text())["results"]["scores"]
    return {each["name"]: each["metrics"]["mean"]["value"] for each in found if each["name"] in METRICS}


def by_verifiers(folder: Path, bin: Path, url: str) -> dict[str, float]:
    run(["pip", "install", "-q", "--no-deps", "--force-reinstall", f"./{folder.name}"], folder.parent, bin)
    command = f"vf-eval {NAME.replace('_', '-')} -m scripted --client.base-url {url} --client.api-key-var NONE"
    command += " --env.taskset.split test --env.agent.runtime.type subprocess --no-rich --no-push -c 2 -o runs"
    run(command.split(), folder.parent, bin)
    (traces,) = (folder.parent / "runs").rglob("traces.jsonl")
    rows = [json.loads(line)["traces"][0] for line in traces.read_text().splitlines()]
    assert all(set(row["metrics"]) == {"accuracy", "line_share"} for row in rows)  # the tool counts a missing one as 0
    printed = run(["python", "-m", f"{NAME}.summary", str(traces)], folder.parent, bin)
    return {name: value for name, value in json.loads(printed).items() if name in METRICS}


BY = {"lm-eval": by_lm_eval, "inspect": by_inspect, "verifiers": by_verifiers}
"""Each runs its tool's own command on the folder, and returns the metrics that it reports."""


@pytest.mark.network
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("tool", TOOLS)
def test_the_tool_itself_asks_our_questions_and_reports_our_scores(tool, model, tmp_path):
    examples = load_questions(f"{SET}[test]")
    model.answers = {row.prompt: scripted(number, row) for number, row in enumerate(examples)}
    export_questions(load_questions(SET), SET, tool, tmp_path / "codons")
    url = f"http://127.0.0.1:{model.server_address[1]}/v1"

    scores = BY[tool](tmp_path / "codons", installed(tool, tmp_path), url)

    read = "answer" if tool == "verifiers" else "auto"
    rows = [
        EvalRow(
            example=row, stage="scripted", prompt=conversation(row), completion=model.answers[row.prompt],
            finish_reason="stop", verdict=verify(row, model.answers[row.prompt], read=read),
        )
        for row in examples
    ]  # fmt: skip
    (ours,) = (each.metrics for each in summarise(rows, draws=1) if each.group == HEADLINE)
    assert scores == pytest.approx({name: ours[name].value for name in METRICS})
    asked = [[message.model_dump() for message in conversation(row)] for row in examples]
    assert sorted(model.asked, key=str) == sorted(asked, key=str)
