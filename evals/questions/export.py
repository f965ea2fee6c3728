"""Question sets for other people's tools: a folder that the tool's own command runs, with our grader inside.

    lm-eval      a task of lm-evaluation-harness    NAME.yaml, lm_eval_functions.py
    inspect      a task of Inspect                  task.py
    verifiers    an environment of verifiers        pyproject.toml, NAME/__init__.py

Beside these lie a README and the package NAME: the rows by split, and a copy of the modules of `evals` that
grade an answer. The folder needs the tool and pydantic, not Assay, and grades the same when Assay has changed.
What is written for which tool stands in templates/tools.toml.
"""

import json
import re
import shlex
import tomllib
from collections import Counter
from collections.abc import Sequence
from hashlib import sha256
from importlib.metadata import distribution
from pathlib import Path
from string import Template
from typing import Any

from evals.errors import BadConfig, LabError
from evals.io import jsonl_text, notice_text, write_folder
from evals.questions.prompt import conversation
from evals.questions.sets import SPLITS, SUFFIXES
from evals.questions.task import DIRECTIONS, MEANINGS
from evals.schema import Example, Record
from evals.verifiers import VERSION
from evals.verifiers.score import SCORED

METRICS = ("accuracy", "reward", "brier", "line_share")
ASIDE = ", without questions on what a gene set stands for, which have a figure of their own"
EVALS = Path(__file__).parents[1]
TEMPLATES = Path(__file__).parent / "templates"
TOOLS: dict[str, dict[str, Any]] = tomllib.loads((TEMPLATES / "tools.toml").read_text(encoding="utf-8"))
"""Of each tool its title, the splits it uses, files by path with their templates, and commands; texts take $words, Python none."""
GRADER = ("__init__.py", "errors.py", "wording.py", "wording.toml", "facts", "schema", "verifiers")
"""Files and folders of `evals` whose copy grades an answer."""
PACKAGE = re.compile(r"\bquestion_set\b")
OURS = re.compile(r"\bevals(?=\.\w| import\b)")


class ExportedTask(Record):
    """What was written: questions by split and kind, what was left out and why, and the commands that run it."""

    name: str
    tool: str
    questions: dict[str, dict[str, int]]
    left_out: dict[str, int]
    data_sha256: str
    versions: dict[str, str]
    run: tuple[str, ...]
    files: tuple[str, ...]


def export_questions(examples: Sequence[Example], set_name: str, tool: str, out: Path) -> ExportedTask:
    """Write a question set as the folder `out` for `tool`, whole or not at all, and return what it holds.

    BadConfig where the set holds nothing that the tool could use, or an id twice, or `out` is not empty.
    """
    if tool not in TOOLS:
        raise BadConfig(f"there is no export as {tool!r}; choose one of {', '.join(TOOLS)}")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise BadConfig(f"{out} is there already and is not empty; name a new folder")
    twice = [name for name, n in Counter(example.id for example in examples).items() if n > 1]
    if twice:
        raise BadConfig(f"{set_name} holds the id {twice[0]!r} twice; give every question an id of its own")
    usable = [example for example in examples if example.ground_truth.kind in SCORED]
    left_out = Counter[str](each.ground_truth.kind for each in examples if each.ground_truth.kind not in SCORED)
    if not usable:
        kinds = ", ".join(f"{n} of kind {kind}" for kind, n in left_out.items()) or "nothing"
        raise BadConfig(
            f"{set_name} holds {kinds}, and only a judge can grade these; an export needs questions of another"
            f" kind: {', '.join(sorted(SCORED))}"
        )
    if not any(example.split in TOOLS[tool]["splits"] for example in usable):
        has = ", ".join(sorted({example.split for example in usable}))
        raise BadConfig(
            f"{set_name} has {has} rows only, and {TOOLS[tool]['title']} measures test rows; add some, or name a set"
            " that has them beside it: SET,SET"
        )
    by_split = {split: found for split in SPLITS if (found := [row for row in usable if row.split == split])}
    rows = {split: _lines(found) for split, found in by_split.items()}
    questions = {split: dict(Counter[str](row.ground_truth.kind for row in found)) for split, found in by_split.items()}
    metrics = (*METRICS, *sorted({f"accuracy_{row.ground_truth.kind}" for row in usable}))
    counts = [(split, kind, n) for split, kinds in questions.items() for kind, n in kinds.items()]
    sources, licences = Counter(row.source for row in usable), Counter(row.licence or "not given" for row in usable)
    why = {f"kind {kind}: only a judge can grade it": n for kind, n in left_out.items()}
    sha256_of_rows, version = sha256("".join(rows.values()).encode()).hexdigest(), distribution("assay").version
    name = module_name(set_name)
    is_split = any('"headline": false' in text for text in rows.values())
    words = {
        "name": name,
        "dashed": name.replace("_", "-"),
        "split": next(iter(questions)),
        "version": version,
        "verifiers": VERSION,
        "metric_list": "\n".join(
            f"  - metric: {metric}\n    aggregation: mean\n    higher_is_better: {str(metric != 'brier').lower()}"
            for metric in metrics
        ),
        "few_shot": "training_split: train\nfewshot_split: train\n" if "train" in questions else "",
        "count": f"{len(usable)} questions",
        "table": "\n".join(f"| {split} | {kind} | {n} |" for split, kind, n in counts),
        "left_out": "; ".join(f"{n} of {reason}" for reason, n in why.items()) or "nothing",
        "source": ", ".join(f"{each} ({n})" for each, n in sources.most_common()),
        "licence": ", ".join(f"{each} ({n})" for each, n in licences.most_common()),
        "data_sha256": sha256_of_rows,
        "set": re.sub(r"[^\w .,:/@\[\]-]", "_", set_name),  # stands in YAML and TOML
        "folder": shlex.quote(f"./{out.resolve().name}"),
        "title": TOOLS[tool]["title"],
        "aside": ASIDE if is_split else "",
    }
    run = tuple(Template(line).substitute(words) for line in TOOLS[tool]["run"])
    words |= {"run": "\n".join(run), "notes": Template(TOOLS[tool]["notes"]).substitute(words).strip()}
    templates = {"README.md": "readme.txt", "$name/grade.py": "grade.py", **TOOLS[tool]["files"]}
    written = {Template(path).substitute(words): _fill(TEMPLATES / file, words) for path, file in templates.items()}
    about = {"metrics": metrics, "split": words["split"], "everywhere": [] if is_split else ["accuracy", "line_share"]}
    written[f"{name}/about.json"] = json.dumps(about)
    written.setdefault(f"{name}/__init__.py", "")
    written |= {f"{name}/{split}.jsonl": text for split, text in rows.items()}
    written |= {f"{name}/grader/{path}": text for path, text in grader_files(f"{name}.grader").items()}
    written |= {path: notice_text(path) for path in ("LICENSE", "THIRD-PARTY.md")}
    try:
        with write_folder(out) as whole:
            for place, text in written.items():
                path = whole / place
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8", newline="")
    except OSError as error:
        raise LabError(f"cannot write {out}: {error.strerror}; name a folder that you may write to") from error
    return ExportedTask(
        name=name,
        tool=tool,
        questions=questions,
        left_out=why,
        data_sha256=sha256_of_rows,
        versions={"assay": version, "verifiers": VERSION},
        run=run,
        files=tuple(sorted(written)),
    )


def _fill(template: Path, words: dict[str, str]) -> str:
    """Return a template with its $words; Python holds none but the name of the package that it belongs to."""
    text = template.read_text(encoding="utf-8")
    return PACKAGE.sub(words["name"], text) if template.suffix == ".py" else Template(text).substitute(words)


def module_name(set_name: str) -> str:
    """Return what tools call a set: "sets/Codon table.csv" -> assay_codon_table."""
    parts = (re.sub(r"\[\w+\]$", "", part.strip()) for part in set_name.split(","))
    stems = (Path(part).stem if Path(part).suffix in SUFFIXES else Path(part).name for part in parts)
    slug = re.sub(r"\W+", "_", "_".join(stems), flags=re.ASCII).strip("_").lower()
    return f"assay_{slug or 'questions'}"


def grader_files(package: str) -> dict[str, str]:
    """Return the modules that grade an answer, and their data, as files of the package `package`."""
    paths = (path for name in GRADER for path in (EVALS / name, *sorted((EVALS / name).rglob("*"))) if path.is_file())
    found = {path.relative_to(EVALS).as_posix(): path for path in paths if path.suffix != ".pyc"}
    texts = {name: path.read_text(encoding="utf-8") for name, path in found.items()}
    return {name: OURS.sub(package, text) if name.endswith(".py") else text for name, text in texts.items()}


def _lines(examples: Sequence[Example]) -> str:
    """Return the rows of one split as JSONL. Truths are JSON in JSON: their fields differ by kind."""
    aside = MEANINGS if DIRECTIONS & {example.ground_truth.kind for example in examples} else frozenset()
    rows = (
        {
            "id": example.id,
            "kind": example.ground_truth.kind,
            "headline": example.ground_truth.kind not in aside,
            "cluster": example.cluster,
            "prompt": [message.model_dump() for message in conversation(example)],
            "answer": example.answer,
            "truth": example.ground_truth.model_dump_json(),
            "source": example.source,
            "licence": example.licence or "",
            "tags": list(example.tags),
        }
        for example in examples
    )
    return jsonl_text(rows)
