"""Acceptance: a trainer, faults on every part of the way to a checkpoint, and a comparison with the trainer."""
