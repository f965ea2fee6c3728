"""Attacks on the verifiers: answers that try to earn more than they deserve, and what stops them.

python -m tests.evals.attacks        every policy on the held-out and the kaempferol questions
"""
