"""Where answers, votes and all that people make is kept."""

from contextvars import ContextVar

ACTION: ContextVar[list[str]] = ContextVar("action")
"""The key of what a page asked for, while nothing of it is kept (`lab.middleware.Once`); a list, for threads to empty."""
