"""Judges behind one interface: an LLM on any OpenAI-compatible server, word overlap, a table. No torch."""
