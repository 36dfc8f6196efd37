"""Models of Hugging Face's as Transom's, and back: the same numbers under other names."""

from collections.abc import Callable, Mapping
from inspect import signature
from typing import Any

import msgspec
import torch
from torch import Tensor, nn

from transom.files.strict_settings import check_choice
from transom.models.config import Config, EncoderConfig
from transom.models.config_match import check_config_match
from transom.models.decoder import Decoder
from transom.models.encoder import Encoder
from transom.models.encoder_decoder import EncoderDecoder
from transom.models.hugging_face.equivalents import equivalent_model
from transom.models.hugging_face.families import FAMILIES
from transom.models.hugging_face.family import Family
from transom.models.hugging_face.generation_settings import read_generation, write_generation
from transom.models.hugging_face.sources import read_pooling, read_source, with_prefix
from transom.models.hugging_face.tensor_names import TensorSource, check_places, find_places, join_parts
from transom.models.model import Model
from transom.names import Misfit

KINDS: dict[str, type[Model]] = {kind.kind: kind for kind in (Encoder, Decoder, EncoderDecoder)}
OnTensor = Callable[[int, int], object]  # called with the number of parameters that are read, and of all
OF_TRAINING = {"dropout", "attention_dropout", "hidden_dropout", "initial"}  # settings that a family need not have


def from_hugging_face(
    model_or_folder: Any, dtype: torch.dtype = torch.float32, on_tensor: OnTensor | None = None
) -> Model:
    """A model of Hugging Face's as one of Transom's, which gives the same logits.

    model_or_folder   a model of `transformers`, or a folder with config.json and safetensors; nothing is downloaded,
                      and a folder's code is never run
    dtype             of the parameters
    on_tensor         called with the number of parameters that are read, and of all
    """
    tensors, settings, generation = read_source(model_or_folder)
    return convert_tensors(tensors, settings, generation, read_pooling(model_or_folder), dtype, on_tensor)


def convert_tensors(
    tensors: TensorSource,
    settings: Mapping[str, Any],
    generation: Mapping[str, Any],
    pooling: str | None = None,
    dtype: torch.dtype = torch.float32,
    on_tensor: OnTensor | None = None,
) -> Model:
    """Tensors, a config and generation settings in Hugging Face's words as a model of Transom's."""
    family = find_family(settings, tensors.where)
    tensors = with_prefix(tensors, family.prefix)
    config = family.read_config(settings, tensors)
    if pooling is not None and isinstance(config, EncoderConfig) and not config.labels:
        config = msgspec.structs.replace(config, pooling=pooling, pooler="none")
    kind = KINDS[family.kind]
    with torch.device("meta"):  # a config that promises more than the file holds must not cost anything
        model = kind(config)
    shapes = {name: parameter.shape for name, parameter in model.named_parameters()}
    places = find_places(family.all_names(config), shapes)
    check_places(places, shapes, tensors)
    check_all_used(family, {place.name for place in places.values()}, tensors)
    allocate(model, dtype)
    with torch.no_grad():
        for number, (name, parameter) in enumerate(model.named_parameters(), 1):
            parameter.copy_(places[name].extract(tensors[places[name].name]))
            if on_tensor is not None:
                on_tensor(number, len(shapes))
    if model.generation is not None:
        model.generation = read_generation(generation, settings, tensors.where)
    return model.eval()


def allocate(model: Model, dtype: torch.dtype) -> None:
    """Give a model on "meta" memory for its parameters, with no values yet; one that two parts share stays one."""
    new: dict[nn.Parameter, nn.Parameter] = {}
    for module in model.modules():
        for name, parameter in list(module.named_parameters(recurse=False)):
            if parameter not in new:
                new[parameter] = nn.Parameter(torch.empty(parameter.shape, dtype=dtype))
            setattr(module, name, new[parameter])


def find_family(settings: Mapping[str, Any], where: str) -> Family:
    """The family of a config, which must have the class that the config names."""
    check_choice(f"the model_type of {where}", str(settings.get("model_type")), FAMILIES)
    family = FAMILIES[str(settings["model_type"])]
    architectures = settings.get("architectures") or [family.classes.get("logits", family.classes.get("none"))]
    known = list(family.classes.values())
    if architectures[0] not in known:
        raise Misfit(
            f"{where} is a {architectures[0]!r:.60}, but of {family.name} Transom has {', '.join(known)}; load it as"
            " one of these first"
        )
    return family


def check_all_used(family: Family, used: set[str], tensors: TensorSource) -> None:
    """Raise an error for a tensor that our model has no place for; copies must equal what they repeat."""
    for name in tensors:
        if name in used or name.endswith(family.unused):
            continue
        original = family.copies.get(name)
        if original is None:
            raise Misfit(f"{tensors.where} holds {name!r}, which Transom's model has no place for; leave it out")
        if original in tensors and not torch.equal(tensors[name], tensors[original]):
            raise Misfit(
                f"{tensors.where} holds {name!r}, which its config ties to {original!r}, but the two differ;"
                " set tie_word_embeddings to false"
            )


def to_hugging_face(model: Model, family: str | None = None) -> Any:
    """A model of Transom's as one of `transformers`, which gives the same logits.

    family   the model_type; by default the first of `FAMILIES` that has all of the model's parts
    """
    library = import_library()
    check_config_match(model)
    chosen, config, parameters = choose_family(model, family)
    tensors = join_tensors(chosen, config, parameters)
    if chosen.head(config) == "none":
        tensors = {name.removeprefix(chosen.prefix): tensor for name, tensor in tensors.items()}
    fields = chosen.write(config) | write_labels(config) | write_tokens(model)
    settings = library.AutoConfig.for_model(chosen.name, **fields)
    theirs = build_theirs(getattr(library, chosen.class_name(config)), settings, config)
    # Tied tensors come once, and buffers of positions not at all.
    missing = theirs.load_state_dict(tensors, strict=False)
    theirs.tie_weights()
    unset = [name for name in missing.missing_keys if name not in chosen.copies and not name.endswith(chosen.unused)]
    assert not [*missing.unexpected_keys, *unset], missing
    if model.generation is not None:
        theirs.generation_config = library.GenerationConfig(**write_generation(model.generation))
    return theirs.to(next(model.parameters()).dtype).eval()


def build_theirs(kind: Any, settings: Any, config: Any) -> Any:
    """A new model of transformers; one without a pooler if ours has none."""
    can_leave_it_out = "add_pooling_layer" in signature(kind).parameters
    if can_leave_it_out and getattr(config, "pooler", None) == "none":
        return kind(settings, add_pooling_layer=False)
    return kind(settings)


def import_library() -> Any:
    try:
        import transformers
    except ImportError as error:
        raise Misfit("to_hugging_face needs the extra hf; install it with pip install 'transom[hf]'") from error
    return transformers


def choose_family(model: Model, name: str | None) -> tuple[Family, Config, dict[str, Tensor]]:
    """The family that has all parts of a model, with an equivalent config and parameters in its layout."""
    if name is not None:
        check_choice("family", name, FAMILIES)
    reasons: dict[str, list[str]] = {}
    for family in FAMILIES.values() if name is None else [FAMILIES[name]]:
        if family.kind != model.kind:
            reasons[family.name] = [f"its models are {family.kind}s, not {model.kind}s"]
            continue
        config, parameters = equivalent_model(model, family)
        reasons[family.name] = differing_settings(family, config, parameters)
        if not reasons[family.name]:
            return family, config, parameters
    candidates = reasons if name is not None else [one for one in reasons if FAMILIES[one].kind == model.kind]
    nearest = min(candidates, key=lambda one: len(reasons[one]))
    raise Misfit(
        f"no model of Hugging Face's has all parts of this one; {nearest} comes nearest, but there"
        f" {reasons[nearest][0]}; build the model with what it has"
    )


def join_tensors(family: Family, config: Config, parameters: dict[str, Tensor]) -> dict[str, Tensor]:
    """Our parameters as the tensors of a family."""
    return dict(join_parts(find_places(family.all_names(config), parameters), parameters))


def differing_settings(family: Family, config: Config, parameters: dict[str, Tensor]) -> list[str]:
    """What would be lost: settings that come back otherwise after they are written as Hugging Face's."""
    no_place, tensors = list[str](), WrittenTensors({})
    try:
        tensors = WrittenTensors(join_tensors(family, config, parameters))
    except Misfit as misfit:
        no_place = [str(misfit)]
    try:
        fields = family.write(config) | write_labels(config) | {"architectures": [family.class_name(config)]}
        again = family.read_config(fields, tensors)
    except Misfit as misfit:
        return [str(misfit), *no_place]
    ours, theirs = (msgspec.structs.asdict(one) for one in (normal_form(config), normal_form(again)))
    names = (name for name in ours if name not in OF_TRAINING and ours[name] != theirs[name])
    return [*(f"{name} would be {theirs[name]!r} instead of {ours[name]!r}" for name in names), *no_place]


def normal_form(config: Config) -> Config:
    """The config with derived settings written out, so that equal models have equal configs."""
    return msgspec.structs.replace(
        config,
        kv_heads=config.kv_heads or config.heads,
        d_head=config.d_head or config.d_model // config.heads,
        qkv_bias=config.bias if config.qkv_bias is None else config.qkv_bias,
        output_bias=config.bias if config.output_bias is None else config.output_bias,
        hidden_bias=config.bias if config.hidden_bias is None else config.hidden_bias,
        bias=config.bias and config.norm == "layer",
        **forget_unused(config),
    )


def forget_unused(config: Config) -> dict[str, Any]:
    """Settings that have no effect beside the others, at one value each."""
    forgotten: dict[str, Any] = {}
    if config.positions not in ("rotary", "sinusoidal"):
        forgotten |= {"position_base": 10_000.0, "position_halves": False}
    if config.positions != "rotary":
        forgotten["rotary_scaling"] = None
    if config.positions != "buckets":
        forgotten |= {"buckets": 32, "farthest": 128}
    if isinstance(config, EncoderConfig) and not config.labels and config.pooler == "none":
        forgotten["pooling"] = "first"  # a class without a head has a vector for each token
    if getattr(config, "source_vocabulary", None) is not None and config.source_vocabulary == config.vocabulary:  # pyright: ignore
        forgotten["source_vocabulary"] = None
    return forgotten


class WrittenTensors(TensorSource):
    """Tensors that are read again at once, to see what is lost."""

    def __init__(self, tensors: dict[str, Tensor]) -> None:
        self.where, self.tensors = "the model", tensors
        self.shapes = {name: tuple(tensor.shape) for name, tensor in tensors.items()}

    def __getitem__(self, name: str) -> Tensor:
        return self.tensors[name]


def write_tokens(model: Model) -> dict[str, Any]:
    """The special tokens of a model that can generate; some libraries read them from config.json."""
    if model.generation is None:
        return {}
    names = ["eos_token_id", "forced_bos_token_id", "forced_eos_token_id"]
    names += ["decoder_start_token_id"] if model.kind == "encoder_decoder" else []
    return {name: write_generation(model.generation).get(name) for name in names}


def write_labels(config: Config) -> dict[str, Any]:
    """The fields of the labels of an encoder."""
    labels = getattr(config, "labels", ())
    if not labels:
        return {}
    return {"id2label": dict(enumerate(labels)), "label2id": {label: number for number, label in enumerate(labels)}}
