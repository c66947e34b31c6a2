"""Training: the trainer adapter, checkpoints that can be trusted, selection, export."""
