"""Asking a model whether an arrow matters: what it gives without it."""
