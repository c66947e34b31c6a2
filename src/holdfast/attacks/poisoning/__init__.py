"""Poisoning of a corpus: passages that are made to be among the nearest documents of many queries."""
