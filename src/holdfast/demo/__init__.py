"""The demo: its texts, its text noise, and its stages from training to the report."""
