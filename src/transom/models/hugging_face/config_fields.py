"""The fields of a Hugging Face config, read strictly: one that might change the result and is not known is an error."""

from collections.abc import Iterable, Mapping
from typing import Any

from transom.names import Misfit

# Fields of any config that change no number of a forward pass in evaluation mode.
NEUTRAL = {
    "_attn_implementation",
    "_attn_implementation_autoset",
    "_commit_hash",
    "_model_name_or_path",
    "_name_or_path",
    "_num_labels",
    "architectures",
    "bos_token_id",
    "chunk_size_feed_forward",
    "classifier_dropout",
    "cls_token_id",
    "decoder_start_token_id",
    "dtype",
    "eos_token_id",
    "finetuning_task",
    "gradient_checkpointing",
    "id2label",
    "init_std",
    "initializer_factor",
    "initializer_range",
    "is_encoder_decoder",
    "keys_to_ignore_at_inference",
    "label2id",
    "mask_token_id",
    "max_length",
    "model_type",
    "num_hidden_layers",
    "num_labels",
    "output_attentions",
    "output_hidden_states",
    "output_past",
    "prefix",
    "problem_type",
    "return_dict",
    "sep_token_id",
    "task_specific_params",
    "tokenizer_class",
    "torch_dtype",
    "torchscript",
    "transformers.js_config",
    "transformers_version",
    "unk_token_id",
    "use_cache",
    "use_return_dict",
}
# Fields of any config that must have this value, if they are there at all.
FIXED: dict[str, object] = {
    "add_cross_attention": False,
    "cross_attention_hidden_size": None,
    "is_decoder": False,
    "pruned_heads": {},
    "quantization_config": None,
    "tie_encoder_decoder": False,
}


class ConfigFields:
    """The fields of one config; each must be taken, be required to have one value, or be neutral."""

    def __init__(self, settings: Mapping[str, Any], defaults: Mapping[str, Any], where: str) -> None:
        self.settings, self.defaults, self.where = settings, defaults, where
        self.known: set[str] = set()
        for name, value in FIXED.items():
            self.require(name, value, default=value)

    def take(self, name: str) -> Any:
        """The value of a field, or Hugging Face's default if it is not there."""
        self.known.add(name)
        return self.settings.get(name, self.defaults.get(name))

    def take_number(self, name: str) -> float:
        """The value of a field that must be a number."""
        value = self.take(name)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise Misfit(f"{self.where} has {name}={value!r:.60}, but it must be a number; correct its config.json")
        return value

    def require(self, name: str, *allowed: object, default: object = None) -> None:
        """Raise an error unless a field has one of these values."""
        self.known.add(name)
        value = self.settings.get(name, self.defaults.get(name, default))
        if value not in allowed:
            choices = " or ".join(map(repr, allowed))
            raise Misfit(
                f"{self.where} has {name}={value!r:.60}, but Transom's model computes what {name}={choices} does;"
                " take another model"
            )

    def choose(self, name: str, table: Mapping[str, Any]) -> Any:
        """What a table has for the value of a field."""
        value = self.take(name)
        if value not in table:
            raise Misfit(
                f"{self.where} has {name}={value!r:.60}, but Transom knows {', '.join(table)}; take another model"
            )
        return table[value]

    def read_labels(self) -> tuple[str, ...]:
        """The names of the classes, in the order of their numbers."""
        names = self.take("id2label") or {number: f"LABEL_{number}" for number in range(self.take("num_labels") or 2)}
        by_number = {int(number): str(name) for number, name in names.items()}
        if sorted(by_number) != list(range(len(by_number))):
            raise Misfit(f"{self.where} should number its labels from 0, but it has {sorted(by_number)[:5]}; renumber")
        return tuple(by_number[number] for number in range(len(by_number)))

    @property
    def class_name(self) -> str:
        """The class that the config names."""
        return str((self.settings.get("architectures") or [""])[0])

    def check_all_known(self, neutral: Iterable[str]) -> None:
        """Raise an error for a field that nothing has asked for."""
        known = self.known | NEUTRAL | set(neutral)
        for name, value in self.settings.items():
            if name not in known and value is not None:
                raise Misfit(
                    f"{self.where} has a field {name!r} ({value!r:.60}) that Transom does not know, and it might change"
                    " the result; leave it out if it does not"
                )
