"""Peer-review concerns: read them, clean them, match them with human ones, score, merge, report.

No model lives here: whoever scores brings an encoder (`evals.concerns.encoder.Encoder`).
"""
