"""Captures the attentions of a model while they run."""
