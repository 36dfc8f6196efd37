"""Choosing a model and a run on the page, in a real browser."""

import re

import pytest
from model_folders import of_transom
from serve.browsing import expect
from serve.client import small_trace

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def server(start_server, tmp_path_factory):
    """A trace, and two models to type into."""
    folder = tmp_path_factory.mktemp("choice")
    small_trace(["a", "b", "c"]).save(folder / "run.safetensors")
    models = [of_transom(kind, folder / kind) for kind in ("decoder", "encoder_decoder")]
    return start_server(folder / "run.safetensors", "--model", models[0], "--model", models[1])


def test_models_and_runs_are_chosen_by_mouse_and_by_keyboard(page, server):
    page.click("#tab-see")
    expect(page.locator("svg .at .word")).to_have_text(["a", "b", "c"])
    page.get_by_text("arrows can be seen, but not knocked out").wait_for()
    expect(page.locator("#model option")).to_have_count(2)
    page.fill("#text", "the cat sat")
    page.fill("#more", "3")
    with page.expect_response(re.compile("/telling$")):
        page.click("button[type=submit]")
    page.wait_for_selector("#attention option:text-is('layer 0')", state="attached")
    page.focus("#model")
    page.keyboard.press("ArrowDown")
    page.wait_for_selector("#target", state="attached")
    expect(page.locator("#text")).to_have_value("the cat sat")  # what was typed stays
    with page.expect_response(re.compile("/telling$")):
        page.click("button[type=submit]")
    page.wait_for_selector("#attention option:has-text('cross-attention')", state="attached")
    expect(page.locator("#run option")).to_have_count(3)
    page.select_option("#run", "1")
    page.wait_for_selector("svg .at .word:nth-child(3):last-child")
    page.get_by_text("arrows can be seen, but not knocked out").wait_for()
    page.focus("#run")
    page.keyboard.press("ArrowDown")
    page.wait_for_selector("svg .at .word:nth-child(4)")
    page.get_by_text("Choose an arrow to knock it out alone").wait_for()
    page.fill("#text", "not run yet")
    page.select_option("#run", "3")
    page.wait_for_selector("#attention option:has-text('cross-attention')", state="attached")
    expect(page.locator("#text")).to_have_value("not run yet")  # a run that opens leaves what is being typed
