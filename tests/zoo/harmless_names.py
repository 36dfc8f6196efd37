"""More harmless layers: those whose names only are like those of attention's parts."""

from torch import Tensor, nn
from zoo.harmless import LAYERS, NOTED, WIDTH

NOTED["a norm whose class is named after attention"] = "its class is named after attention"


class Named(nn.Module):
    """One module under an attribute and a class name of one's choice."""

    def __init__(self, attribute: str, module: nn.Module) -> None:
        super().__init__()
        self.attribute = attribute
        setattr(self, attribute, module)

    def forward(self, x: Tensor) -> Tensor:
        return getattr(self, self.attribute)(x)


def subclass(name: str, module: nn.Module) -> nn.Module:
    """The same module as an instance of a subclass of that name."""
    module.__class__ = type(name, (type(module),), {})
    return module


class FirstOfLSTM(nn.LSTM):
    def forward(self, x):
        return super().forward(x)[0]


class FirstOfGRU(nn.GRU):
    def forward(self, x):
        return super().forward(x)[0]


LAYERS |= {
    "attn_norm": lambda: Named("attn_norm", nn.LayerNorm(WIDTH)),
    "attention_norm": lambda: Named("attention_norm", nn.RMSNorm(WIDTH)),
    "a norm whose class is named after attention": lambda: Named(
        "norm", subclass("AttentionNorm", nn.LayerNorm(WIDTH))
    ),
    "attn_dropout": lambda: Named("attn_dropout", nn.Dropout(0.1)),
    "attention_output": lambda: Named("attention_output", nn.Linear(WIDTH, WIDTH)),
    "q_norm": lambda: Named("q_norm", nn.LayerNorm(WIDTH)),
    "post_attention_layernorm": lambda: Named("post_attention_layernorm", nn.LayerNorm(WIDTH)),
    "key and value memory of a feed-forward": lambda: nn.Sequential(
        nn.Linear(WIDTH, 23), nn.ReLU(), nn.Linear(23, WIDTH)
    ),
    "query embedding": lambda: Named("query_embed", nn.Linear(WIDTH, WIDTH)),
    "gate of a mixer": lambda: subclass(
        "GptOssMLP", nn.Sequential(nn.Linear(WIDTH, 23), nn.GELU(), nn.Linear(23, WIDTH))
    ),
    "feed-forward of a seamless model": lambda: subclass(
        "SeamlessM4TFeedForward", nn.Sequential(nn.Linear(WIDTH, WIDTH))
    ),
    "norm of a state space model": lambda: Named("norm", subclass("MambaRMSNorm", nn.RMSNorm(WIDTH))),
    "LSTM": lambda: FirstOfLSTM(WIDTH, 9, batch_first=True),
    "GRU": lambda: FirstOfGRU(WIDTH, 9, batch_first=True),
    "softmax as a module": lambda: nn.Sequential(nn.Linear(WIDTH, 7), nn.Softmax(-1)),
}
