"""The offline page in a real browser without a network: it works like the page itself."""

import re

import pytest
from serve.browsing import address_fields, checked_page, expect
from serve.client import small_trace
from show.hostile import PAYLOADS

from transom.runner import load_text_model
from transom.serve.offline_answers import HeadIndex
from transom.serve.offline_page import build_page, page_of
from transom.serve.request_fields import RunRequest
from transom.serve.session import Session
from transom.show.formatting import make_visible

pytestmark = pytest.mark.slow


@pytest.fixture
def offline(browser, tmp_path):
    """Opens a page from a file, without a network."""
    with checked_page(browser, "file:", offline=True) as page:

        def open_page(html):
            (tmp_path / "page.html").write_text(html, encoding="utf-8")
            page.goto((tmp_path / "page.html").as_uri())
            return page

        yield open_page


def test_every_view_works_without_a_server(offline):
    session = Session(load_text_model())
    run = session.run_text(RunRequest(text="Where is she?"))
    page = offline(build_page(session, run, HeadIndex(4, 3)).html)
    expect(page.locator(".output")).to_have_text(run.info["output"])
    assert page.get_by_role("tab").all_inner_texts() == ["Model", "Arrows", "Steps", "Map", "Heads"]
    expect(page.locator(".stage-token")).to_have_count(len(run.info["tokens"]) + len(run.info["targets"]))
    page.locator(".stage-token.target").last.click()
    expect(page.locator(".stage-bars .chosen .token")).to_have_text("</s>")
    assert page.locator("#error").is_hidden()
    page.click("#tab-see")
    page.wait_for_selector("svg .arrow:not([display])")
    weights = run.attention(4)[1].weights(batch=0, head=3)
    page.click("#from-2")
    drawn = sorted(page.locator("svg .numbers:not([display]) text").all_text_contents())
    assert drawn == sorted(f"{weight:.2f}" for weight in weights[2].tolist() if weight >= 0.005)
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    page.wait_for_selector("text=and what each contributes")
    page.click("summary")
    expect(page.locator("details td.word").first).to_be_visible()
    page.click("#tab-walk")
    page.wait_for_selector("text=step 1 of")
    page.click("#tab-map")
    row, key = divmod(int(weights.argmax()), weights.shape[1])
    page.wait_for_selector("transom-map .list button")
    page.focus("canvas")
    page.evaluate(
        "([row, key]) => Object.assign(document.querySelector('transom-map').viewport, { x: key, y: row })", [row, key]
    )
    page.keyboard.press("Enter")
    expect(page.locator("#announcer")).to_have_text(re.compile(rf"weight {weights.max().item():.4f}$"))
    page.click("#tab-heads")
    page.wait_for_selector("text=All heads at a glance")
    page.get_by_role("button", name="open encoder 1, self-attention, head 2", exact=True).click()
    assert (address_fields(page)["attention"], address_fields(page)["head"]) == ("1", "2")
    page.wait_for_selector("svg .arrow:not([display])")
    assert page.locator("#error").is_hidden()
    page.click("#tab-walk")
    page.wait_for_selector("text=this copy does not contain it.")


def test_hostile_text_has_no_effect_in_a_copy_nor_in_the_frame_of_a_notebook(offline):
    hostile = page_of(small_trace(PAYLOADS[:61]), "<img src=x onerror=alert(1)>")
    page = offline(hostile.html)
    page.wait_for_selector("transom-stage .stage-token")
    page.click("#tab-see")
    page.wait_for_selector("svg .arrow:not([display])")
    assert page.locator("svg .at .word").first.text_content() == make_visible(PAYLOADS[0])[:23] + "…"
    page = offline(f"<title>a notebook that does not state its encoding</title>{hostile._repr_html_()}")
    frame = page.frames[1]
    frame.click("#tab-see")
    frame.wait_for_selector("svg .arrow:not([display])")
    for view in ("walk", "map", "heads"):
        frame.click(f"#tab-{view}")
        frame.wait_for_selector({"walk": "text=step 1 of", "map": ".list button", "heads": "text=All heads"}[view])
        assert frame.locator("#error").is_hidden()
