"""Models that generate varied tokens, and settings to generate with."""

import torch
from models import small

WAYS = {
    "greedy": {},
    "penalties": {"repetition_penalty": 1.3, "no_repeat_ngram_size": 2, "min_new_tokens": 4},
    "sampling": {"do_sample": True, "temperature": 0.9, "top_k": 17, "top_p": 0.95, "min_p": 0.01, "seed": [3, 5, 7]},
    "beams": {"num_beams": 3, "num_return_sequences": 2},
    "penalised beams": {"num_beams": 3, "no_repeat_ngram_size": 2, "repetition_penalty": 1.2, "length_penalty": 0.7},
}
ENDS = (2, 7, 11)


def varied(build):
    """A model with large random parameters and an untied output: others repeat one token."""

    def build_varied(**parts):
        model = build(**{"tying": "none"} | parts)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(2.0 if parameter.dim() == 2 else 1.0)
        return model

    build_varied.__name__ = build.__name__
    return build_varied


decoder, encoder_decoder = varied(small.decoder), varied(small.encoder_decoder)
