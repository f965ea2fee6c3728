"""Papers of our own with planted flaws and the concerns of five kinds of reviewer, for tests and demonstration.

None of it is real: no animal, patient or reader stands behind any figure. README.md beside this file says
how a paper is written down.
"""

from evals.papers.corpus.reading import LICENCE, demonstration, read_paper

__all__ = ["LICENCE", "demonstration", "read_paper"]
