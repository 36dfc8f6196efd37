"""The model without some attention edges: what changes then, and which edges and heads matter."""
