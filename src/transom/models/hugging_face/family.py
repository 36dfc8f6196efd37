"""A family of Hugging Face's models: its names of tensors, and its config beside ours."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from transom.models.config import Config
from transom.models.hugging_face.config_fields import ConfigFields
from transom.models.hugging_face.tensor_names import NameTable, TensorSource

ACTIVATIONS = {
    "relu": "relu",
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "silu": "silu",
    "swish": "silu",
}


def activation_name(feed_forward: str) -> str:
    """Hugging Face's name of the activation of a feed-forward; "relu" for one that has none of these."""
    return {"gelu": "gelu", "gelu_tanh": "gelu_new", "silu": "silu"}.get(feed_forward, "relu")


@dataclass(frozen=True, kw_only=True)
class Family:
    """How the models of one `model_type` are Transom's, and back.

    kind          of our model
    classes       Hugging Face's classes, by the head of our model: "logits", "labels", "masked_tokens" or "none"
    names         where each of our parameters lies
    head_names    the same of the parameters whose place depends on the head
    prefix        of the tensors that a class without a head names without it
    defaults      of the config's fields that are not always written
    neutral       fields that change nothing
    read          our config, from theirs; it may look at the tensors
    write         their fields, from our config
    copies        tensors that repeat another one, if the config ties them
    unused        endings of tensors that are no parameters: buffers of masks and positions
    keeps_bias    its maps always have a bias, so that a model without any gets zeros
    """

    name: str
    kind: str
    classes: Mapping[str, str]
    names: NameTable
    head_names: Mapping[str, NameTable] = field(default_factory=dict)
    prefix: str = ""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    neutral: frozenset[str] = frozenset()
    read: Callable[[ConfigFields, TensorSource], Config]
    write: Callable[[Any], dict[str, Any]]
    copies: Mapping[str, str] = field(default_factory=dict)
    unused: tuple[str, ...] = ()
    keeps_bias: bool = False

    def read_config(self, settings: Mapping[str, Any], tensors: TensorSource) -> Config:
        """Our config; an unknown field of theirs, or a value we do not have, is an error that names it."""
        fields = ConfigFields(settings, self.defaults, tensors.where)
        config = self.read(fields, tensors)
        fields.check_all_known(self.neutral)
        return config

    def head(self, config: Any) -> str:
        """The head of a model: a key of `classes`."""
        if self.kind != "encoder":
            return "logits"
        return "labels" if config.labels else "masked_tokens" if config.masked_tokens else "none"

    def class_name(self, config: Any) -> str:
        """The class of Hugging Face's that has the head of a model."""
        return self.classes[self.head(config)]

    def all_names(self, config: Any) -> NameTable:
        """Where each parameter of a model with this config lies."""
        return {**self.names, **self.head_names.get(self.head(config), {})}
