"""Reproduction of the papers' tables and figures, cell by cell and resumable, beside the published values."""
