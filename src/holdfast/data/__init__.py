"""Corpora and labelled tasks: a registry from name to local file or hub data set, and the readers behind it."""
