"""A page that was taken away, in a real browser that is offline: looked around in like the page itself."""

import pytest
from serve.browsing import now
from serve.browsing import watched as opening
from serve.watched import watched
from show.hostile import PAYLOADS

from transom.cli.any_model import opened
from transom.serve.fields import AskRun
from transom.serve.record import Head
from transom.serve.studio import Studio
from transom.serve.taken import page, page_of
from transom.show.visible import visible

pytestmark = pytest.mark.slow


@pytest.fixture
def offline(browser, tmp_path):
    """Opens a page from a file, without a network."""
    with opening(browser, "file:", offline=True) as found:

        def open_page(html):
            (tmp_path / "page.html").write_text(html, encoding="utf-8")
            found.goto((tmp_path / "page.html").as_uri())
            return found

        yield open_page


def test_a_copy_is_looked_around_in_without_a_server(offline):
    studio = Studio(opened())
    run = studio.look(AskRun(text="Where is she?"))
    there = offline(page(studio, run, Head(4, 3)).html)
    there.wait_for_selector("svg .arrow")
    assert there.locator(".written").inner_text() == run.said["output"]
    assert there.get_by_role("tab").all_inner_texts() == ["See", "Walk", "Map", "Heads"]
    weights = run.attention(4)[1].weights(batch=0, head=3)
    there.click("#from-2")
    drawn = sorted(there.locator("svg .number").all_text_contents())
    assert drawn == sorted(f"{weight:.2f}" for weight in weights[2].tolist() if weight >= 0.005)
    there.keyboard.press("ArrowUp")
    there.keyboard.press("Enter")
    there.wait_for_selector("text=and what each was for")
    there.click("summary")
    assert there.locator("details td.word").count() > 0
    there.click("#tab-walk")
    there.wait_for_selector("text=step 1 of")
    there.click("#tab-map")
    row, key = divmod(int(weights.argmax()), weights.shape[1])
    there.wait_for_selector("transom-map .list button")
    there.focus("canvas")
    there.evaluate(
        "([row, key]) => Object.assign(document.querySelector('transom-map'), { x: key, y: row })", [row, key]
    )
    there.keyboard.press("Enter")
    assert there.locator("#spoken").inner_text().endswith(f"weight {weights.max().item():.4f}")
    there.click("#tab-heads")
    there.wait_for_selector("text=All heads at a glance")
    there.get_by_role("button", name="open encoder.blocks.1.attention, head 2", exact=True).click()
    assert (now(there)["attention"], now(there)["head"]) == ("1", "2")
    there.wait_for_selector("svg .arrow")
    assert there.locator("#trouble").is_hidden()
    there.click("#tab-walk")
    there.wait_for_selector("text=this was not taken along.")


def test_hostile_text_runs_nothing_in_a_copy_nor_in_the_frame_of_a_notebook(offline):
    found = page_of(watched(PAYLOADS[:61]), "<img src=x onerror=alert(1)>")
    there = offline(found.html)
    there.wait_for_selector("svg .arrow")
    assert there.locator("svg .at .word").first.text_content() == visible(PAYLOADS[0])[:23] + "…"
    there = offline(f"<title>a notebook, in an encoding that nobody said</title>{found._repr_html_()}")
    inside = there.frames[1]
    inside.wait_for_selector("svg .arrow")
    for view in ("walk", "map", "heads"):
        inside.click(f"#tab-{view}")
        inside.wait_for_selector({"walk": "text=step 1 of", "map": ".list button", "heads": "text=All heads"}[view])
        assert inside.locator("#trouble").is_hidden()
