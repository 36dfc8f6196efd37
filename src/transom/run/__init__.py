"""Training, going on after a stop, judging."""
