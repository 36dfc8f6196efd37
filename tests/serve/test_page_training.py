"""A training replayed on the page, in a real browser: update by update, beside the loss."""

import pytest
import torch
from serve.browsing import checked_page, expect

from transom.lens.replay import Replay

pytestmark = pytest.mark.slow
UPDATES = (0, 5, 7)


@pytest.fixture(scope="module")
def weights():
    torch.manual_seed(31)
    return {update: torch.rand(2, 3, 3).softmax(dim=-1) for update in UPDATES}


@pytest.fixture(scope="module")
def server(start_server, tmp_path_factory, weights):
    replay = Replay([["a", "b", "c"]], None, {"layer.0": [1, 3]})
    for update, frame in weights.items():
        replay.add(update, {"layer.0": frame})
        replay.losses.add(update, 3.0 / (1 + update))
    path = tmp_path_factory.mktemp("replay") / "replay.safetensors"
    replay.save(path)
    return start_server(path)


def test_a_training_is_replayed_by_slider_and_by_play(browser, server, weights):
    with checked_page(browser, server.root) as page:
        page.goto(server.address)
        page.wait_for_selector("td.cell")
        assert page.locator("#tab-learning").get_attribute("aria-selected") == "true"
        status = page.locator("transom-training-replay [role=status]")
        expect(status).to_have_text("after update 7, loss 0.375")
        assert page.locator("polyline").get_attribute("points").count(",") == len(UPDATES)
        page.locator("#update").press("Home")
        expect(status).to_have_text("after update 0, loss 3.000")
        numbers = [float(text) for text in page.locator("td.cell").all_inner_texts()]
        assert numbers == [round(weight, 2) for weight in weights[0][0].flatten().tolist()]
        page.select_option("select[aria-label=Head]", "3")
        page.wait_for_function(
            "text => document.querySelector('td.cell').textContent === text", arg=f"{weights[0][1][0, 0]:.2f}"
        )
        page.get_by_role("button", name="Play").click()
        page.wait_for_function("() => document.getElementById('announcer').textContent.startsWith('after update 7')")
