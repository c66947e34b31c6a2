"""The papers' tables and figures: what is in each cell, how it is made, what was published; cell by cell, resumable."""
