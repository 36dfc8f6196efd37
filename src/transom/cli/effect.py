"""`transom effect`: knock single edges or one head out of a model, and say what changes."""

from typing import Annotated, Any

import typer

from transom.cli.cli_io import AnyModel, AsJson, print_json, print_note, print_text, progress_bar, warn_unknown_words
from transom.cli.see_analysis import as_progress
from transom.names import Misfit

EdgeOption = Annotated[
    list[str] | None,
    typer.Option("--edge", metavar="LAYER,HEAD,FROM,AT", help="An edge, by numbers; can be repeated."),
]
HeadOption = Annotated[
    str | None, typer.Option("--head", metavar="LAYER,HEAD", help="A whole head instead: what changes without it.")
]
HowOption = Annotated[str, typer.Option(help="Knocked out before the softmax, or after it.")]


def run(
    text: Annotated[str, typer.Argument(help="What the model reads.")],
    model: AnyModel = None,
    edge: EdgeOption = None,
    head: HeadOption = None,
    how: HowOption = "before",
    strongest: Annotated[int, typer.Option(min=1, help="Without --edge: how many edges, by estimate.")] = 8,
    as_json: AsJson = False,
) -> None:
    """Knock edges out of a model, one at a time, and print how its answer changes.

    Example: transom effect "The cat sat." --edge decoder.blocks.1.cross,0,-1,2
    """
    from transom.runner import load_text_model

    loaded = load_text_model(model, text)
    warn_unknown_words(loaded, [text])
    encoded = loaded.encode_text(text)
    labels = {"tokens": encoded.tokens, "targets": encoded.targets or None, "how": how}
    if head is not None and edge:
        raise Misfit("--edge names edges and --head a whole head, but both were given; leave one of the two out")
    if head is not None:
        table = head_effect(loaded.model, encoded.inputs, parse_place(head, 2, "--head"), labels)
    elif edge:
        table = edge_effects(loaded, encoded.inputs, [parse_place(one, 4, "--edge") for one in edge], labels)
    else:
        table = strongest_edges(loaded.model, encoded.inputs, strongest, labels)
    if as_json:
        print_json({"model": loaded.name, "text": text, **table.to_dict()})
    else:
        print_text(str(table))


def parse_place(place: str, parts: int, option: str) -> tuple[Any, ...]:
    """A layer and numbers, separated by commas; a layer may be a number too."""
    layer, *numbers = place.rsplit(",", parts - 1)
    if len(numbers) != parts - 1 or not all(number.strip().lstrip("-").isdigit() for number in numbers):
        wanted = "LAYER,HEAD,FROM,AT" if parts == 4 else "LAYER,HEAD"
        raise Misfit(f"{option} takes {wanted}, but got {place!r:.60}; as in 0,2{',5,3' if parts == 4 else ''}")
    return (int(layer) if layer.isdigit() else layer, *map(int, numbers))


def edge_effects(loaded: Any, inputs: Any, edges: list[tuple[Any, ...]], labels: dict[str, Any]) -> Any:
    """The edges as they were named, each with everything that `effect` measures."""
    from transom.lens import effect

    with progress_bar(len(edges), "edges") as advance:
        return effect(loaded.model, inputs, edges, spell=loaded.token_strings, progress=as_progress(advance), **labels)


def head_effect(model: Any, inputs: Any, place: tuple[Any, ...], labels: dict[str, Any]) -> Any:
    """One head: the estimate, and the run without it."""
    from transom.lens import Edge, influence
    from transom.lens.attribution.influence_table import HeadInfluence, InfluenceTable
    from transom.lens.trace import layer_matches, suggest_names
    from transom.names import check_index

    found = influence(model, inputs, **labels)
    names = [name for name in found.names if layer_matches(place[0], name)]
    if len(names) != 1:
        raise Misfit(
            f"layer {place[0]!r} should name one attention, but {len(names)} ran there;"
            f" {suggest_names(str(place[0]), found.names)}"
        )
    head = check_index(place[1], "heads", found[names[0]].sight.shape[1])
    (change,) = found.measure([[Edge(names[0], head)]])
    estimate = float(found[names[0]].per_head()[0, head])
    return InfluenceTable([HeadInfluence(names[0], head, estimate, change)], found.describe_unit())


def strongest_edges(model: Any, inputs: Any, count: int, labels: dict[str, Any]) -> Any:
    """The edges with the largest estimates, at once, then each knocked out."""
    from transom.lens import influence

    found = influence(model, inputs, **labels)
    print_note(f"{len(found)} attentions judged by one backward pass; {count} edges are now knocked out")
    with progress_bar(count, "edges") as advance:
        return found.strongest(count, refine=count, progress=as_progress(advance))
