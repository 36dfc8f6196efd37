"""The training pairs of a recipe with those that its section [augment] adds, and without those that it excludes."""

import random
from collections.abc import Callable

from msgspec.structs import asdict

from transom.names import Misfit
from transom.text.augmentation import (
    AUGMENTATIONS,
    Material,
    augment_pairs,
    exclude_sources,
    find_frame_values,
    find_proper_words,
)
from transom.text.corpora import Pair, read_tsv
from transom.text.everyday import read_everyday
from transom.text.templates import Slots, fill_templates, read_slots, read_templates
from transom.training.recipe import AugmentSettings, Recipe, list_files


def augment_training_pairs(recipe: Recipe, pairs: list[Pair], note: Callable[[str], None]) -> list[Pair]:
    """The pairs and the added ones, without any whose source is in `data.everyday`."""
    everyday = [sentence.source for path in list_files(recipe.data.everyday) for sentence in read_everyday(path)]
    kept = exclude_sources(pairs, everyday)
    if everyday:
        note(f"{len(pairs) - len(kept)} training pairs are left out, because data.everyday has their sources")
    if recipe.augment is None:
        return kept
    added = exclude_sources(added_pairs(recipe.augment, kept, recipe.seed), everyday)
    note(f"{len(added)} training pairs are added by [augment]")
    return kept + added


def added_pairs(settings: AugmentSettings, pairs: list[Pair], seed: int) -> list[Pair]:
    """The pairs that [augment] adds: from files, from templates, and from the pairs there are."""
    slots = {} if settings.slots is None else read_slots(settings.slots)
    check_swapped(settings, slots)
    added = [pair for path in list_files(settings.pairs) for pair in read_tsv(path, [0, 1], Pair)] * settings.times
    if settings.templates is not None:
        templates = read_templates(settings.templates, slots)
        added += fill_templates(templates, slots, settings.filled, random.Random(f"{seed} templates"))
    shares = {name: share for name, share in asdict(settings).items() if name in AUGMENTATIONS and share}
    proper = find_proper_words(pairs)
    values = find_frame_values(pairs, proper) if settings.framed else {}
    material = Material(pairs, slots | values, tuple(settings.swapped), proper)
    return added + augment_pairs(material, shares, seed)


def check_swapped(settings: AugmentSettings, slots: Slots) -> None:
    for name in settings.swapped:
        if name not in slots:
            raise Misfit(f"augment.swapped names the slot {name!r}, but augment.slots has no such row; add one")
    if settings.names and not settings.swapped:
        raise Misfit("augment.names needs names to swap, but augment.swapped is empty; name slots of augment.slots")
    if settings.filled and settings.templates is None:
        raise Misfit(f"augment.filled={settings.filled} needs augment.templates, but there are none; name a file")
