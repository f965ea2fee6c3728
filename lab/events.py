"""How the page's events run, where several tabs want the same."""

from typing import Any

AT_ONCE = 40
"""How many visitors may wait for the model at one button; a thread is held for each."""

ANSWERING: dict[str, Any] = {
    "show_progress": "hidden",
    "trigger_mode": "once",
    "concurrency_limit": AT_ONCE,
}
"""An event that waits for the model: the page shows how far it is, and a second click waits."""

QUIET: dict[str, Any] = {"show_progress": "hidden", "queue": False}
"""An event that answers at once."""
