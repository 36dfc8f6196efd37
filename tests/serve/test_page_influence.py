"""What is read or what mattered, one switch in all views, in a real browser."""

import pytest
from serve.browsing import address_fields, checked_page, expect, fetch_json, run_text
from serve.client import small_trace

pytestmark = pytest.mark.slow
DRAWN = """() => [...document.querySelectorAll("transom-arrows svg .arrow.mattered")]
    .map((one) => [Number(one.dataset.row), Number(one.dataset.key), Number(one.getAttribute("stroke-width"))])"""


def test_arrows_are_as_wide_as_what_mattered(page):
    run_text(page)
    page.locator("transom-arrows").get_by_role("button", name="what mattered").click()
    page.wait_for_selector("transom-arrows svg .arrow.mattered:not([display])")
    fields = address_fields(page)
    path = f"/api/runs/{fields['run']}/{fields['attention']}"
    assert fields["by"] == "influence"
    found = fetch_json(page, f"{path}/strongest?head={fields['head']}&count=5&by=influence")
    drawn = page.evaluate(DRAWN)
    assert [[edge["query"], edge["key"]] for edge in found["edges"]] == [edge[:2] for edge in drawn[::-1][:5]]
    most = found["edges"][0]["estimate"]
    widths = {(row, key): width for row, key, width in drawn}
    for edge in found["edges"]:
        assert widths[edge["query"], edge["key"]] == pytest.approx(max(0.6, 11 * edge["estimate"] / most), abs=0.006)
    page.get_by_role("button", name="what is read").click()
    page.wait_for_selector("transom-arrows svg .arrow:not(.mattered):not([display])")
    assert page.evaluate(DRAWN) == []


def test_the_choice_holds_in_the_other_views(page):
    run_text(page)
    page.locator("transom-arrows").get_by_role("button", name="what mattered").click()
    page.wait_for_selector("transom-arrows svg .arrow.mattered:not([display])")
    fields = address_fields(page)
    path = f"/api/runs/{fields['run']}"
    page.click("#tab-heads")
    page.wait_for_selector("transom-heads table")
    expect(page.locator("transom-heads")).to_contain_text("which were knocked out truly")
    ranked = sorted(fetch_json(page, f"{path}/ranking?refine=6")["rows"], key=lambda row: -row["estimate"])
    shown = page.locator("transom-heads tbody tr td:nth-child(2)").all_inner_texts()
    assert [int(text) for text in shown[:8]] == [row["head"] for row in ranked[:8]]
    page.click("#tab-map")
    listed = page.locator("transom-map li button")
    expect(page.locator("transom-map")).to_contain_text("By estimate")
    edge = fetch_json(page, f"{path}/{fields['attention']}/strongest?head={fields['head']}&by=influence")["edges"][0]
    expect(listed.first).to_contain_text(f"({edge['query']}) → ")
    expect(listed.first).to_contain_text(f"({edge['key']})")


def test_a_trace_without_its_model_says_why_there_are_weights_alone(browser, start_server, tmp_path):
    small_trace(["a", "b", "c"]).save(tmp_path / "run.safetensors")
    server = start_server(tmp_path / "run.safetensors")
    with checked_page(browser, server.root) as page:
        page.goto(server.address)
        page.click("#tab-see")
        page.wait_for_selector("transom-arrows svg .arrow:not([display])")
        expect(page.locator("transom-arrows .by-switch button").nth(1)).to_be_disabled()
        expect(page.locator("transom-arrows")).to_contain_text("this run is a trace without its model")
