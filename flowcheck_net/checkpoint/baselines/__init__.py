"""Ways to checkpoint, side by side on one model: what each costs the trainer, and what a failure costs with each."""
