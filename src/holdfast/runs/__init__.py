"""The folder, checkpoints, log, progress and state of a run: shared by everything that takes long."""
