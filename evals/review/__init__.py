"""Peer review: prompts and training rows, concerns read, cleaned, matched with human ones, scored, merged, reported.

No model lives here: whoever scores brings an encoder (`evals.review.match.Encoder`).
"""
