"""The papers' tables and figures: what is in each cell, how it is made, and what was published; made cell by cell, resumable."""
