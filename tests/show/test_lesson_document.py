"""A lesson on paper: matrices stay on one page, and pictures have the size of the text around them."""

import pytest

from transom.lessons.lesson_file import load_shipped
from transom.show import lesson_document
from transom.show.lesson_document import TEXT_WIDTH, place_picture, render_lesson_pdf


def test_a_picture_has_the_size_of_the_text_unless_it_is_too_wide():
    assert (
        place_picture("a.svg", '<svg viewBox="0 0 400 9" width="400">', TEXT_WIDTH) == '#image("a.svg", width: 300.0pt)'
    )
    assert place_picture("a.svg", '<svg width="1028">', TEXT_WIDTH) == '#image("a.svg", width: 481.9pt)'


def test_matrices_are_not_cut_and_a_picture_follows_its_sentence(monkeypatch):
    sources = []
    monkeypatch.setattr(lesson_document, "compile_typst", lambda files, kind: sources.append((files, kind)) or b"")
    render_lesson_pdf(load_shipped("three-tokens"))
    ((files, kind),) = sources
    text = files["main.typ"].decode()
    assert kind == "pdf"
    assert "#show raw.where(block: true): set block(breakable: false)" in text
    sentence = '#block(sticky: true, par("Queries send scores to keys; values send weights to the sum."))\n\n#image('
    assert sentence in text
    assert text.count("#image(") == len(files) - 1 == 4
    assert '#block(sticky: true, par("A score is a dot product: multiply number by number, and add up."))' in text
    assert text.count('#block(sticky: true, stroke: (left: 3pt + rgb("#0072b2"))') == 3  # questions, before matrices
    assert text.count('#block(sticky: true, stroke: (left: 3pt + rgb("#d55e00"))') == 2  # numbers to change
    assert text.split("\n\n")[-2].startswith('#block(sticky: true, par("Scores come before the softmax')


def test_typst_takes_it():
    pytest.importorskip("typst", reason="the extra `export` is not installed")
    assert render_lesson_pdf(load_shipped("soft-hash-table")).startswith(b"%PDF-")
