"""A Space as the Hub would hold it: the uploaded files, and the packages that it lists."""

import re
from importlib import metadata
from pathlib import Path


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
