"""The parts of a model, a config or a lesson as boxes, with sizes and parameter counts."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from transom.names import Misfit
from transom.show.panels.block_diagram import BlockDiagram, Box, Tower
from transom.show.picture import Picture, Source, Table

ADD_AND_NORM = {"post_norm": "add, then norm", "pre_norm": "norm before, add after", "no_skip": "add, then norm"}


def architecture(thing: Any, *, model: str = "") -> Picture:
    """An encoder, a decoder or both, from the input upwards; each part with its size and its parameters.

    thing   a model of Transom, its config, its folder, or a lesson with parameters
    """
    from transom.lessons import Lesson
    from transom.models import MODELS, Config, Model, from_pretrained

    if isinstance(thing, str | Path):
        thing, model = from_pretrained(thing), model or str(thing)
    if isinstance(thing, Config):
        thing = build_on_meta(thing, MODELS)
    if isinstance(thing, Model):
        towers, total = model_towers(thing), count_parameters([thing])
        title = f"{type(thing).__name__}: {total:,} parameters"
        notes = shared_notes(towers, total)
    elif isinstance(thing, Lesson):
        towers, notes = lesson_towers(thing), []
        title = f"{thing.title}: {sum(tower_parameters(tower) for tower in towers):,} parameters"
    else:
        kind = type(thing).__name__
        raise Misfit(
            f"an architecture is drawn of a model of Transom, its config or a lesson, but got {kind}; give one"
        )
    rows = [
        (tower.title, box.words, box.size, box.parameters, tower.times if box in tower.block else 1)
        for tower in towers
        for box in tower.boxes()
    ]
    return Picture(
        view="architecture",
        title=title,
        panels=(BlockDiagram(towers=tuple(towers)),),
        source=Source(model=model),
        notes=("A block's parameters are counted once; × says how many blocks there are.", *notes),
        table=Table(("part of", "part", "size", "parameters", "times"), tuple(rows)),
    )


def build_on_meta(config: Any, models: dict[str, Any]) -> Any:
    """The model of a config without memory for its numbers."""
    import torch

    with torch.device("meta"):
        return next(kind for kind in models.values() if kind.config_class is type(config))(config)


def count_parameters(modules: Iterable[Any]) -> int:
    """All numbers that are learned; what two parts share counts once."""
    found = {id(p): p.numel() for module in modules if module is not None for p in module.parameters()}
    return sum(found.values())


def tower_parameters(tower: Tower) -> int:
    """Of all blocks together, and of what is around them."""
    once = sum(box.parameters or 0 for box in (*tower.before, *tower.after))
    return once + tower.times * sum(box.parameters or 0 for box in tower.block)


def shared_notes(towers: list[Tower], total: int) -> list[str]:
    shared = sum(map(tower_parameters, towers)) - total
    return [f"{shared:,} parameters are shared between parts, and counted once in the title."] if shared else []


def model_towers(model: Any) -> list[Tower]:
    """The encoder and the decoder of a model, or the one that it has."""
    config, sizes = model.config, {"vocabulary": model.config.vocabulary}
    if hasattr(model, "source_embedding"):
        source = config.source_vocabulary or config.vocabulary
        towers = [
            stack_tower("encoder", model.source_embedding, model.encoder, config, source, False),
            stack_tower("decoder", model.target_embedding, model.decoder, config, config.vocabulary, True),
        ]
        return [towers[0], add_output(towers[1], model, config)]
    causal = getattr(config, "causal", False)
    title = "decoder" if model.kind == "decoder" else "encoder"
    tower = stack_tower(title, model.embedding, model.stack, config, sizes["vocabulary"], causal)
    return [add_output(tower, model, config) if model.kind == "decoder" else add_labels(tower, model, config)]


def stack_tower(title: str, embedding: Any, stack: Any, config: Any, vocabulary: int, causal: bool) -> Tower:
    """An embedding, positions, and the blocks of a stack."""
    block = stack.blocks[0]
    vectors = Box("embedding", f"{vocabulary:,} × {config.d_model}", vocabulary * config.d_model, "vectors")
    others = count_parameters([embedding]) - vocabulary * config.d_model
    positions = Box(f"positions: {config.positions}", "", others or None, "vectors")
    closing = count_parameters([stack.closing])
    return Tower(
        title=title,
        before=(vectors, positions),
        block=tuple(block_boxes(block, config, causal)),
        times=len(stack.blocks),
        after=(Box("norm", str(config.d_model), closing),) if closing else (),
    )


def block_boxes(block: Any, config: Any, causal: bool) -> Iterable[Box]:
    """The parts of one block, in order."""
    words = ADD_AND_NORM[config.arrangement]
    for name in ("attention", "cross", "feed_forward"):
        part = getattr(block, name)
        if part is None:
            continue
        if name == "feed_forward":
            size = f"{config.d_model} → {config.d_hidden} → {config.d_model}, {config.feed_forward}"
            yield Box("feed-forward", size, count_parameters([part]), "feed_forward")
        else:
            kind = "cross-attention" if name == "cross" else "masked self-attention" if causal else "self-attention"
            yield Box(kind, head_size(part), count_parameters([part]), name)
        norm = getattr(block, f"norm_{name}", None)
        if norm is not None:
            yield Box(words, str(config.d_model), count_parameters([norm]))


def head_size(attention: Any) -> str:
    shared = f", {attention.kv_heads} of keys" if attention.kv_heads != attention.heads else ""
    return f"{attention.heads} heads of {attention.d_head}{shared}"


def add_output(tower: Tower, model: Any, config: Any) -> Tower:
    """The tower with the logits at its top."""
    size = f"{config.d_model} × {config.vocabulary:,}"
    own = getattr(model, "output", None)
    box = Box(
        "logits and softmax", size + (", tied" if own is None else ""), None if own is None else own.numel(), "vectors"
    )
    return with_top(tower, box)


def add_labels(tower: Tower, model: Any, config: Any) -> Tower:
    """The tower of an encoder with its classes, if it has some."""
    if not config.labels:
        return tower
    known = [model.embedding, model.stack]
    count = count_parameters([model]) - count_parameters(known)
    return with_top(
        tower, Box(f"{config.pooling} and classes", f"{config.d_model} × {len(config.labels)}", count, "vectors")
    )


def with_top(tower: Tower, box: Box) -> Tower:
    return Tower(
        title=tower.title, before=tower.before, block=tower.block, times=tower.times, after=(*tower.after, box)
    )


def lesson_towers(lesson: Any) -> list[Tower]:
    """The same of a lesson that starts from embeddings."""
    setup = lesson.cases[""].setup
    if setup is None or "embedding" not in setup.start:
        raise Misfit(f"an architecture needs embeddings and parameters, but {lesson.name} has none; draw another view")
    looks = setup.at is not None
    towers = [] if setup.encoder is None else [setup_tower("encoder", setup.encoder)]
    name = "decoder" if looks or setup.vocabulary is not None else "encoder"
    return [*towers, setup_tower(name, setup)]


def setup_tower(title: str, setup: Any) -> Tower:
    width = setup.start["embedding"].shape[1]
    before = [Box("embedding", f"{len(setup.tokens)} tokens × {width}", None, "vectors")]
    if "positions" in setup.start or setup.places:
        before.append(Box(f"positions{f': {setup.places}' if setup.places else ''}", "", None, "vectors"))
    after = ()
    if setup.vocabulary is not None:
        vectors = setup.vocabulary.vectors
        size = f"{vectors.shape[1]} × {vectors.shape[0]}"
        after = (Box("logits and softmax", size, int(vectors.size), "vectors"),)
    same = [layer for layer in setup.layers if sizes_of(layer) == sizes_of(setup.layers[0])]
    boxes = tuple(layer_boxes(setup.layers[0], setup))
    return Tower(title=title, before=tuple(before), block=boxes, times=len(same), after=after)


def sizes_of(layer: Any) -> list[Any]:
    return [(name, values.shape) for name, values in layer.parameters.items()]


PROJECTIONS = ("W_Q", "W_K", "W_V", "W_O", "b_Q", "b_K", "b_V", "b_O", "V_down", "w")


def layer_boxes(layer: Any, setup: Any) -> Iterable[Box]:
    """The parts of one layer of a lesson, in order."""
    block = layer.block
    words = " and ".join(word for word, has in (("add", block.residual), ("norm", block.norm != "none")) if has)
    around = words and block.around == "both"
    looks_over = layer.cross is None and setup.at is not None
    name = "cross-attention" if looks_over else "self-attention"
    masked = "masked " if layer.attention.allowed is not None else ""
    yield attention_box(masked + name, layer, "cross" if looks_over else "attention")
    if around:
        yield Box(words, "", norm_count(layer, ""))
    if layer.cross is not None:
        yield attention_box("cross-attention", layer.cross, "cross")
        if around:
            yield Box(words, "", norm_count(layer.cross, ""))
    if "W_1" in layer.parameters:
        rows, columns = layer.parameters["W_1"].shape
        count = sum(int(layer.parameters[key].size) for key in ("W_1", "b_1", "W_2", "b_2") if key in layer.parameters)
        yield Box("feed-forward", f"{rows} → {columns} → {rows}, {block.activation}", count, "feed_forward")
        if words:
            yield Box(words, "", norm_count(layer, "_2"))


def attention_box(words: str, layer: Any, kind: str) -> Box:
    count = sum(int(layer.parameters[name].size) for name in PROJECTIONS if name in layer.parameters)
    heads, d_head = layer.attention.heads, layer.parameters["W_Q"].shape[2]
    return Box(words, f"{heads} head{'s' * (heads != 1)} of {d_head}", count, kind)


def norm_count(layer: Any, suffix: str) -> int | None:
    names = (f"gain{suffix}", f"bias{suffix}")
    return sum(int(layer.parameters[name].size) for name in names if name in layer.parameters) or None
