"""Whose review is written at the moment, and how to end it: one at a time, for all visitors."""

import threading
from dataclasses import dataclass, field


@dataclass
class Turns:
    """`turn` is held while a review is written; each page has an event that ends its own."""

    turn: threading.Lock = field(default_factory=threading.Lock)
    _events: dict[str, threading.Event] = field(default_factory=dict)

    def begin(self, owner: str) -> threading.Event:
        """Return what ends the review of a page; an earlier one of the same page is ended."""
        self.stop(owner)
        self._events[owner] = threading.Event()
        return self._events[owner]

    def stop(self, owner: str) -> None:
        """End what a page is having reviewed; what was found stays."""
        if owner in self._events:
            self._events[owner].set()

    def end(self, owner: str, event: threading.Event) -> None:
        """Forget a review that is over; one that the same page has begun since stays."""
        if self._events.get(owner) is event:
            del self._events[owner]
