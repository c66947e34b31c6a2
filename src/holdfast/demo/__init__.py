"""The embedded demo: its texts, its text noise, its stages from training to the report."""
