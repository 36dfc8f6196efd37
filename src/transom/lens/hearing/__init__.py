"""How a model's own attentions are heard while they run, and kept."""
