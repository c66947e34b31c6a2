"""Measurement of encoders: fast encoding of many sentences, and semantic textual similarity as the papers report it."""
