"""Measuring encoders: encoding many sentences fast, and semantic textual similarity as the papers report it."""
