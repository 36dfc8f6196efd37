"""Pure functions, one per equation: readable beside the paper, checked against plain loops."""
