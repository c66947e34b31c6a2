"""Corpora and labelled tasks: a registry that maps names to local files or hub data sets, and the readers of these."""
