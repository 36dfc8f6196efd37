"""What is read or what mattered, one switch in all views, in a real browser."""

import pytest
from serve.browsing import address_fields, checked_page, expect, fetch_json, run_text
from serve.client import small_trace

pytestmark = pytest.mark.slow
DRAWN = """() => [...document.querySelectorAll("transom-arrows svg .arrow.mattered")]
    .map((one) => [Number(one.dataset.row), Number(one.dataset.key), Number(one.getAttribute("stroke-width")),
      one.classList.contains("hinders")])"""
# The colour of the cell in the middle of the map, beside its number.
MIDDLE = """() => {
  const canvas = document.querySelector("transom-map canvas");
  const [left, top, density] = [canvas.clientWidth < 480 ? 64 : 92, 58, devicePixelRatio];
  const [x, y] = [left + (canvas.clientWidth - left) / 2, top + (canvas.clientHeight - top) / 2 - 14];
  const copy = new OffscreenCanvas(1, 1).getContext("2d");
  copy.drawImage(canvas, x * density, y * density, 1, 1, 0, 0, 1, 1);
  return [...copy.getImageData(0, 0, 1, 1).data].slice(0, 3);
}"""


def show_what_mattered(page):
    """Arrows by influence; the row whose next token they explain: that of which the model is least sure."""
    run_text(page)
    page.locator("transom-arrows").get_by_role("button", name="what mattered").click()
    page.wait_for_selector("transom-arrows svg .arrow.mattered:not([display])")
    fields = address_fields(page)
    run = fetch_json(page, f"/api/runs/{fields['run']}")
    chances = [likely[0]["probability"] for likely in run["likely"]]
    return run, chances.index(min(chances)), f"/api/runs/{fields['run']}/{fields['attention']}", fields["head"]


def test_arrows_have_the_size_and_the_sign_of_what_mattered(page):
    run, token, path, head = show_what_mattered(page)
    assert address_fields(page)["by"] == "influence"
    found = fetch_json(page, f"{path}/strongest?head={head}&count=5&by=influence&token={token}")
    drawn = page.evaluate(DRAWN)
    assert [[edge["query"], edge["key"]] for edge in found["edges"]] == [edge[:2] for edge in drawn[::-1][:5]]
    most = abs(found["edges"][0]["estimate"])
    known = {(row, key): (width, hinders) for row, key, width, hinders in drawn}
    for edge in found["edges"]:
        width, hinders = known[edge["query"], edge["key"]]
        assert width == pytest.approx(max(0.6, 11 * abs(edge["estimate"]) / most), abs=0.006)
        assert hinders == (edge["estimate"] > 0)
    view, name = page.locator("transom-arrows"), run["written"][token].strip()
    expect(view).to_contain_text(f"What mattered for “{name}”, which comes after")
    expect(view).to_contain_text(f"helps “{name}”: without it, “{name}” is less likely")
    expect(view).to_contain_text("Agreement: 16 random arrows of all heads were knocked out truly", timeout=60_000)
    page.get_by_role("button", name="what is read").click()
    page.wait_for_selector("transom-arrows svg .arrow:not(.mattered):not([display])")
    assert page.evaluate(DRAWN) == []
    expect(view).not_to_contain_text("Agreement")


def test_another_row_is_another_prediction(page):
    run, token, *_ = show_what_mattered(page)
    other = 0 if token else 1
    page.locator(f"#from-{other}").click()
    expect(page.locator("transom-arrows")).to_contain_text(f"What mattered for “{run['written'][other].strip()}”, ")


def test_the_map_has_the_signs_of_what_mattered(page):
    run, token, path, head = show_what_mattered(page)
    page.click("#tab-map")
    view, name = page.locator("transom-map"), run["written"][token].strip()
    expect(view).to_contain_text(f"What mattered for “{name}”, which comes after")
    expect(view).to_contain_text("Agreement: ", timeout=60_000)
    edges = fetch_json(page, f"{path}/strongest?head={head}&by=influence&token={token}")["edges"]
    listed = view.locator("li button").first
    expect(listed).to_contain_text("helps" if edges[0]["estimate"] < 0 else "hinders")
    expect(view.locator(".legend.influence")).to_have_attribute(
        "aria-label", "amber helps, white is nothing, violet hinders"
    )
    for edge in (edges[0], next(one for one in edges if one["estimate"] * edges[0]["estimate"] < 0)):
        page.locator("transom-map li button", has_text=f"({edge['query']}) → ").filter(
            has_text=f"({edge['key']})  "
        ).first.click()
        page.wait_for_timeout(400)
        red, green, blue = page.evaluate(MIDDLE)
        assert (red > blue) == (edge["estimate"] < 0), "amber helps, violet hinders"
        assert min(red, green, blue) < 252, "no white where something mattered"
        page.locator("transom-map canvas").press("Enter")
        verb = "helps" if edge["estimate"] < 0 else "hinders"
        expect(view.locator("p.hint").filter(has_text="influence ")).to_contain_text(f"{verb} “{name}”")
    other = 0 if token else 1
    view.get_by_label("The row whose next token is explained").fill(str(other))
    view.get_by_label("The row whose next token is explained").press("Enter")
    expect(view).to_contain_text(f"What mattered for “{run['written'][other].strip()}”, ")
    page.get_by_role("button", name="what is read").click()
    expect(view.locator(".legend.weights")).to_be_visible()


def test_the_choice_holds_in_the_other_views(page):
    _, token, path, head = show_what_mattered(page)
    page.click("#tab-heads")
    page.wait_for_selector("transom-heads table")
    expect(page.locator("transom-heads")).to_contain_text("which were knocked out truly")
    ranking = fetch_json(page, f"{path.rpartition('/')[0]}/ranking?refine=6")["rows"]
    ranked = sorted(ranking, key=lambda row: -row["estimate"])
    shown = page.locator("transom-heads tbody tr td:nth-child(2)").all_inner_texts()
    assert [int(text) for text in shown[:8]] == [row["head"] for row in ranked[:8]]
    page.click("#tab-map")
    listed = page.locator("transom-map li button")
    expect(page.locator("transom-map")).to_contain_text("By estimate")
    edge = fetch_json(page, f"{path}/strongest?head={head}&by=influence&token={token}")["edges"][0]
    expect(listed.first).to_contain_text(f"({edge['query']}) → ")
    expect(listed.first).to_contain_text(f"({edge['key']})")
    page.click("#tab-stage")
    expect(page.locator("transom-stage .reading")).to_contain_text("Agreement: 16 random arrows", timeout=60_000)


def test_a_trace_without_its_model_says_why_there_are_weights_alone(browser, start_server, tmp_path):
    small_trace(["a", "b", "c"]).save(tmp_path / "run.safetensors")
    server = start_server(tmp_path / "run.safetensors")
    with checked_page(browser, server.root) as page:
        page.goto(server.address)
        page.click("#tab-see")
        page.wait_for_selector("transom-arrows svg .arrow:not([display])")
        expect(page.locator("transom-arrows .by-switch button").nth(1)).to_be_disabled()
        expect(page.locator("transom-arrows")).to_contain_text("this run is a trace without its model")
