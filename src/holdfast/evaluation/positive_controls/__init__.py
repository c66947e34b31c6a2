"""Positive controls: does a training method lower its own objective on held-out sentences, more than SimCSE does?"""
