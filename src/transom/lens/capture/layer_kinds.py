"""What the names of classes and of their parts say: projections to queries, keys and values; layers of other kinds."""

import re
from collections.abc import Container
from functools import lru_cache

from torch import nn

# What modules call the linear maps of queries, keys and values.
ROLES = {
    "q": {"q", "query", "queries", "wq"},
    "k": {"k", "key", "keys", "wk"},
    "v": {"v", "value", "values", "wv"},
    "kv": {"kv", "wkv"},
    "qkv": {"qkv", "wqkv"},
}
NO_PROJECTION = {"norm", "layernorm", "rmsnorm", "ln", "bias", "embed", "embedding", "embeddings", "pos", "global"}
# Layers that mix tokens without a softmax over keys; each is listed, and is no error.
OTHER_KINDS = {
    "an approximation of attention": r"(?i:nystrom|skyformer|mraself)",
    "an autocorrelation": r"(?i:autoformerattention|autocorrelation)",
    "linear attention": r"(?i:linear_?att|lightning|deltanet|delta_?rule|delta_?att|retention|retnet|cosformer"
    r"|performer|favor|gatedlinearatt|rwkv|yoso|separable(?:self)?att|hgrn|aft(?:full|simple|local)|attentionfree)|(?:^|_)GLA(?:$|[A-Z_])",
    "a state space": r"(?i:mamba|bamba|falconh1mixer|rglru|recurrentblock)|SSM|Ssm(?:$|[A-Z])"
    r"|S4D?(?:Layer|Block|Kernel)|S5(?:Layer|Block)",
    "a convolution or a Fourier transform": r"(?i:hyena|fnet|fourier|longconv|shortconv|gfnet)",
    "a recurrence": r"(?i:[ms]lstm|xlstm|griffin|minlstm|mingru)",
}
# Parts of such layers, and layers of such models, that do not mix tokens.
PARTS = (
    r"embed|norm|output|intermediate|pooler|feed_?forward|mlp|activation|head|dropout|rotary|expert|router|cache"
    r"|moe(?:block|layer|gate$|$)"
)


@lru_cache(maxsize=4096)
def projection_role(name: str) -> str | None:
    """q, k, v, kv or qkv if a child of that name projects to queries, keys or values."""
    words = set(re.findall(r"[a-z]+", name.lower()))
    if words & NO_PROJECTION:
        return None
    roles = [role for role, known in ROLES.items() if words & known]
    if {"q", "k", "v"} <= set(roles):
        return "qkv"
    return roles[-1] if roles else None


@lru_cache(maxsize=4096)
def other_kind(class_name: str) -> str | None:
    """What a layer of that class does instead of softmax attention, if its name is known."""
    if re.search(PARTS, class_name, re.IGNORECASE):
        return None
    kinds = OTHER_KINDS.items()
    return next((kind for kind, pattern in kinds if re.search(pattern, class_name)), None)


def is_linear_like(module: nn.Module) -> bool:
    """Whether a module has a matrix among its parameters."""
    return any(parameter.dim() >= 2 for parameter in module.parameters())


def has_projections(module: nn.Module, ran: Container[nn.Module]) -> bool:
    """Whether maps to queries, keys and values are children of a module, and ran."""
    roles = children_roles(tuple(module._modules.keys())) if module._modules else None
    if not roles:
        return False
    children = ((module._modules[name], parts) for name, parts in roles)
    used = [parts for child, parts in children if child is not None and child in ran and is_linear_like(child)]
    return {role for parts in used for role in parts} >= set("qkv")


@lru_cache(maxsize=4096)
def children_roles(names: tuple[str, ...]) -> list[tuple[str, str]]:
    """Those of the names of a module's children that project to queries, keys or values, and to which; none, if they
    do not project to all three."""
    roles = [(name, role) for name in names if (role := projection_role(name)) is not None]
    return roles if {role for _, parts in roles for role in parts} >= set("qkv") else []


def value_projections(module: nn.Module) -> list[nn.Module]:
    """The children of a module that project to values; some have one more, for tokens that all others see."""
    names = ((name.replace("_global", ""), child) for name, child in module.named_children())
    return [child for name, child in names if projection_role(name) == "v" and is_linear_like(child)]
