"""Templates: slots are filled alike on both sides, draws come from the seed, and mistakes in files are errors."""

import random
import re

import pytest
from text.outside_files import raises_misfit, write_file

from transom.text.corpora import Pair
from transom.text.templates import GENERATORS, fill_template, fill_templates, read_slots, read_templates

SLOTS = {"name": [Pair("Mary", "Marie"), Pair("Tom", "Tom")], "price": [Pair("${number}", "{number} $")]}


def test_a_slot_has_one_value_on_both_sides_and_another_number_another_value():
    for seed in range(20):
        pair = fill_template(Pair("{name}, {name2}, {name}", "{name} {name2}"), SLOTS, random.Random(seed))
        first, second, again = pair.source.split(", ")
        assert first == again != second
        french = {"Mary": "Marie", "Tom": "Tom"}
        assert pair.target == f"{french[first]} {french[second]}"


def test_a_value_may_have_slots():
    pair = fill_template(Pair("It is {price}.", "C'est {price}."), SLOTS, random.Random(3))
    number = re.fullmatch(r"It is \$(\d+)\.", pair.source)[1]
    assert pair.target == f"C'est {number} $."


def test_the_same_seed_gives_the_same_pairs():
    template = [Pair("{name} has {thousands}.", "{name} a {thousands}."), Pair("{made_up}", "{made_up}")]
    first, again, other = (list(fill_templates(template, SLOTS, 30, random.Random(seed))) for seed in (5, 5, 6))
    assert first == again != other
    assert len(first) == 30


@pytest.mark.parametrize("name", GENERATORS)
def test_every_generator_makes_text_for_both_sides(name):
    rng = random.Random(1)
    for _ in range(50):
        pair = GENERATORS[name](rng)
        assert pair.source.strip()
        assert pair.target.strip()
        assert re.sub(r"[ ,.]", "", pair.source) == re.sub(r"[ ,.]", "", pair.target)


def test_english_and_french_numbers():
    assert re.fullmatch(r"\d{1,3}(,\d{3})+", (pair := GENERATORS["thousands"](random.Random(2))).source)
    assert pair.target == pair.source.replace(",", " ")
    assert re.fullmatch(r"\d+\.\d\d", (pair := GENERATORS["decimal"](random.Random(2))).source)
    assert pair.target == pair.source.replace(".", ",")


def test_files_are_read(tmp_path):
    slots = read_slots(write_file(tmp_path, "name\tMary\tMarie\n\nname\tTom\tTom\n", "slots.tsv"))
    assert slots == {"name": [Pair("Mary", "Marie"), Pair("Tom", "Tom")]}
    templates = read_templates(write_file(tmp_path, "Hi {name}\tSalut {name}\n"), slots)
    assert templates == [Pair("Hi {name}", "Salut {name}")]


def test_mistakes_in_files_are_errors(tmp_path):
    path = write_file(tmp_path, "name\tMary\n")
    expected = "expected slot, source and target with tabs between them, but there are 2 columns; correct the line"
    raises_misfit(f"{path}, line 1: {expected}", read_slots, path)
    path = write_file(tmp_path, "Hi {name}\tSalut\n")
    raises_misfit(
        f"{path}: 'Hi {{name}}' and 'Salut' must have the same slots; correct one", read_templates, path, SLOTS
    )
    path = write_file(tmp_path, "Hi {nam}\tSalut {nam}\n")
    raises_misfit(f"{path}: there is no slot 'nam'; did you mean 'name'?", read_templates, path, SLOTS)
