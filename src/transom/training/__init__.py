"""Training: recipes, the loop, checkpoints, resuming, evaluation, and trained models used on text."""
