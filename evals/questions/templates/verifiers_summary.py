"""Print every metric, averaged over the answers that it applies to: python -m question_set.summary runs/.../traces.jsonl."""

import json
import sys
from pathlib import Path

from question_set.grade import METRICS


def summary(traces: str) -> dict[str, float]:
    """Return the mean of each metric over the answers in a file of traces that have it."""
    lines = [json.loads(line) for line in Path(traces).read_text("utf-8").split("\n") if line]
    rows = [trace["info"]["measures"] for line in lines for trace in line["traces"] if "measures" in trace["info"]]
    values = {name: [row[name] for row in rows if name in row] for name in METRICS}
    return {name: sum(found) / len(found) for name, found in values.items() if found}


if __name__ == "__main__":
    print(json.dumps(summary(sys.argv[1]), indent=1))
