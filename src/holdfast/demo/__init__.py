"""The embedded demo: its corpus, its graded pairs, its text noise."""
