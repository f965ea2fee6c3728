"""A Space as the Hub would start it: the uploaded files alone, with the packages that it lists."""

import os
import re
import sys
from importlib import metadata
from pathlib import Path

GUARD = Path(__file__).parents[1] / "guarded"
RUN = "import sitecustomize, runpy; runpy.run_path('app.py', run_name='__main__')"


def unpacked(upload, folder: Path) -> Path:
    """Write a upload's files as the Hub would hold them."""
    for path, part in upload.parts.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(part.read())
    return folder


def listed(requirements: str) -> list[str]:
    """Return the names in a requirements file, and what these need in turn, as far as it is installed."""
    wanted = [re.split(r"[\[=<>~! ]", line)[0] for line in requirements.splitlines() if line.strip()]
    waiting, known = [name for name in wanted if not name.startswith("#")], {}
    while waiting:
        name = re.sub(r"[-_.]+", "-", waiting.pop()).lower()
        if name in known:
            continue
        try:
            known[name] = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            known[name] = None  # for another system, or an extra that is not wanted here
            continue
        needs = known[name].requires or ()
        waiting += [re.split(r"[\[=<>~!; (]", need)[0] for need in needs if "extra ==" not in need]
    return [name for name, found in known.items() if found is not None]


def packages(requirements: str, folder: Path, also: tuple[str, ...] = ()) -> Path:
    """Link the installed files of the listed packages into a folder, and nothing else."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in [*listed(requirements), *also]:
        distribution = metadata.distribution(name)
        place = Path(str(distribution.locate_file("")))
        tops = {Path(str(file)).parts[0] for file in distribution.files or ()}
        for top in tops - {"..", "bin", "__pycache__"}:
            source, link = place / top, folder / top
            if source.exists() and not link.exists():
                link.symlink_to(source)
    return folder


def command() -> list[str]:
    """Return the line that starts an app: -S leaves out this environment's own packages."""
    return [sys.executable, "-S", "-c", RUN]


def environment(links: Path, home: Path, **settings: str) -> dict[str, str]:
    """Return what the process sees: the folder it runs in, the linked packages, and a home of its own."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}
    return {
        **kept,
        "HOME": str(home),
        "PYTHONPATH": os.pathsep.join(("", str(links), str(GUARD))),
        "PYTHONDONTWRITEBYTECODE": "1",
        "GRADIO_ANALYTICS_ENABLED": "False",
        "GRADIO_TEMP_DIR": str(home / "gradio"),
        "HF_HOME": str(home / "hf"),
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
        "SYSTEM": "spaces",
        "SPACE_ID": "org/space",
        **settings,
    }
