"""The stage in a real browser: the whole model, in and out, the story, knock-outs, narrow, without motion."""

import itertools
import re

import pytest
from serve.accessibility import find_violations
from serve.browsing import SENTENCE, address_fields, expect, fetch_json

from transom.serve.offline_stage import RAILS_OF_PAIR

pytestmark = pytest.mark.slow


def show_stage(page, text=SENTENCE):
    """Run a text on the stage, and return the run."""
    before = address_fields(page).get("run")
    page.fill("#text", text)
    page.click("button[type=submit]")
    page.wait_for_function("before => new URLSearchParams(location.hash.slice(1)).get('run') !== before", arg=before)
    page.wait_for_selector(".stage-bars .chosen")
    return fetch_json(page, f"/api/runs/{address_fields(page)['run']}")


def layer_name(run, index):
    return run["attentions"][index]["name"]


def wait_level(page, level):
    page.wait_for_selector(f".stage-area[data-level='{level}'] .level:only-child")


def test_the_whole_model_is_the_first_view(page):
    run = show_stage(page)
    heads = sum(attention["heads"] for attention in run["attentions"])
    expect(page.locator(".head-buttons .pane")).to_have_count(heads)
    expect(page.locator(".stage-token.source")).to_have_count(min(RAILS_OF_PAIR, len(run["tokens"])))
    expect(page.locator(".stage-token.target")).to_have_count(min(RAILS_OF_PAIR, len(run["targets"])))
    row = int(page.locator(".stage-token.target[aria-pressed=true]").get_attribute("data-token").split("-")[1])
    likely = run["likely"][row]
    assert likely[0]["probability"] == min(one[0]["probability"] for one in run["likely"]), "where it was least sure"
    shares = page.locator(".stage-bars .share").all_inner_texts()
    assert len(shares) == len(likely) + 1
    assert sum(float(share.rstrip(" %")) for share in shares) == pytest.approx(100, abs=3), "with all others"
    painted = page.evaluate(
        "() => { const c = document.querySelector('.stage-canvas'), pen = c.getContext('2d');"
        " const { data } = pen.getImageData(0, 0, c.width, c.height);"
        " return data.filter((one, i) => i % 4 === 3 && one).length; }"
    )
    assert painted > 20_000


def test_a_click_goes_in_down_to_the_arithmetic_and_escape_goes_out(page):
    run = show_stage(page)
    cross = max(one["index"] for one in run["attentions"] if one["role"] == "cross")
    page.locator(f".pane[data-index='{cross}'][data-head='3']").click()
    wait_level(page, 3)
    assert (address_fields(page)["attention"], address_fields(page)["head"]) == (str(cross), "3")
    page.locator(".head-level .opener").nth(2).click()
    wait_level(page, 4)
    weights = fetch_json(page, f"/api/runs/{run['run']}/{cross}/weights?head=3&first_row=2&rows=1")["weights"][0]
    shown = page.locator(".row-level text.figure").all_text_contents()
    assert [0.0 if text == "<0.001" else float(text) for text in shown[1::2]] == pytest.approx(weights, abs=6e-4)
    page.locator(".row-level .opener").nth(1).press("Enter")
    wait_level(page, 5)
    expect(page.locator(".number-level .final")).to_have_text(f"{weights[1]:.4f}")
    score = fetch_json(page, f"/api/runs/{run['run']}/{cross}/weights?head=3&first_row=2&rows=1")["scores"][0][1]
    figures = page.locator(".number-level .large").all_text_contents()
    assert float(figures[1].replace("−", "-")) == pytest.approx(score, abs=6e-3)
    for level in (4, 3, 2, 1):
        page.keyboard.press("Escape")
        wait_level(page, level)
    expect(page.locator(".stage-token.target")).to_have_count(min(RAILS_OF_PAIR, len(run["targets"])))


IN_PART = "&part=feed_forward"


def shown_number(text):
    return float(text.replace("−", "-").replace("+", ""))


def test_a_feed_forward_part_opens_from_its_block_down_to_a_unit(page):
    run = show_stage(page)
    cross = max(one["index"] for one in run["attentions"] if one["role"] == "cross")
    page.evaluate(
        "hash => { location.hash = hash; }", f"#view=stage&run={run['run']}&attention={cross}&level=2&token=2"
    )
    wait_level(page, 2)
    page.locator(".feed-forward-card").click()
    page.wait_for_selector(".feed-forward-level .opener")
    index = int(address_fields(page)["attention"])
    found = fetch_json(page, f"/api/runs/{run['run']}/{index}/feed_forward?query=2&explained=2")
    names = page.locator(".feed-forward-level .opener .token").all_text_contents()
    assert names == [f"unit {one['unit']}" for one in found["units"]]
    figures = page.locator(".feed-forward-level .opener text:is(.figure)").all_text_contents()
    assert list(map(shown_number, figures[0::3])) == pytest.approx(
        [x["gate"]["value"] for x in found["units"]], abs=6e-3
    )
    assert list(map(shown_number, figures[1::3])) == pytest.approx([one["hidden"] for one in found["units"]], abs=6e-3)
    worths = [one["effect"] for one in found["units"]]
    assert list(map(shown_number, figures[2::3])) == pytest.approx(worths, abs=6e-3)
    rows = page.locator(".reading table tbody tr").all_text_contents()
    assert rows[-1].startswith("the whole part")
    page.locator(".feed-forward-level .opener").nth(1).press("Enter")
    wait_level(page, 4)
    unit = found["units"][1]
    assert address_fields(page)["unit"] == str(unit["unit"])
    large = page.locator(".unit-level .large").all_text_contents()
    assert shown_number(large[0]) == pytest.approx(unit["gate"]["value"], abs=6e-3)
    page.get_by_role("button", name="One step on").click()
    page.wait_for_function("() => new URLSearchParams(location.hash.slice(1)).get('row') === '3'")
    path = f"/api/runs/{run['run']}/{index}/feed_forward?query=3&explained=3&unit={unit['unit']}"
    beside = fetch_json(page, path)["asked"]
    expect(page.locator(".unit-level .large").first).to_have_text(f"{beside['gate']['value']:.2f}".replace("-", "−"))
    page.keyboard.press("Escape")
    wait_level(page, 3)
    assert "unit" not in address_fields(page)
    page.keyboard.press("Escape")
    wait_level(page, 2)
    assert "part" not in address_fields(page)


def test_the_address_leads_back_to_the_place(page):
    run = show_stage(page)
    page.evaluate(
        "run => { location.hash = `#view=stage&run=${run}&attention=1&head=2&row=1&key=0&level=5&token=1`; }",
        run["run"],
    )
    wait_level(page, 5)
    link = page.url
    page.goto("about:blank")
    page.wrong.clear()
    page.goto(link)
    wait_level(page, 5)
    crumbs = page.locator(".crumbs").inner_text()
    assert "head 2" in crumbs
    assert "key 0" in crumbs
    page.evaluate("() => { location.hash = '#view=stage&attention=999&level=5&row=4&key=7'; }")
    wait_level(page, 1)


def test_a_late_answer_offers_and_changes_nothing(page):
    show_stage(page)
    page.evaluate("() => { location.hash += '&attention=0&head=5&level=3'; }")
    wait_level(page, 3)
    with page.expect_response(re.compile("/telling$")):
        page.reload()
    chip = page.locator(".reading .chip")
    chip.wait_for()
    expect(chip).to_contain_text("most, by estimate")
    assert (address_fields(page)["attention"], address_fields(page)["head"]) == ("0", "5")
    chip.click()
    page.wait_for_function("() => new URLSearchParams(location.hash.slice(1)).get('attention') !== '0'")


def test_the_scenes_of_the_story_advance(page):
    run = show_stage(page)
    page.get_by_role("button", name="Start here").click()
    total = int(re.search("of ([0-9]+)", page.locator(".scene-place").inner_text())[1])
    assert 8 <= total <= 12
    sentences = []
    for number in range(1, total + 1):
        expect(page.locator(".scene-place")).to_have_text(f"Scene {number} of {total}")
        assert address_fields(page)["scene"] == str(number)
        sentences.append(page.locator("h2.scene").inner_text())
        if number == 4:
            page.locator(".choices button").first.click()
            expect(page.locator(".scene-try [role=status]")).to_contain_text("largest score")
        if number < total:
            page.keyboard.press("]")
    assert len(set(sentences)) == total
    assert sentences[0] == f"The model sees {len(run['tokens'])} pieces, not words."
    page.get_by_role("button", name="Explore", exact=True).click()
    expect(page.locator(".scene-place")).to_have_count(0)


def test_a_knock_out_on_the_stage_changes_the_bars(page):
    run = show_stage(page)
    cross = max(one["index"] for one in run["attentions"] if one["role"] == "cross")
    page.locator(f".pane[data-index='{cross}'][data-head='0']").click()
    wait_level(page, 3)
    with page.expect_response(re.compile("/knock_out$")) as response:
        page.get_by_role("button", name="Switch off head 0").click()
    found = response.value.json()
    page.wait_for_selector(".changed .next-bar.after")
    expect(page.locator(".changed [role=status]")).to_contain_text("Without it the probability of")
    page.keyboard.press("Escape")
    page.keyboard.press("Escape")
    wait_level(page, 1)
    token = int(page.locator(".stage-token.target[aria-pressed=true]").get_attribute("data-token").split("-")[1])
    after = next(
        one["after"] for one in found["rows"][token]["words"] if one["token"] == run["likely"][token][0]["token"]
    )
    shown = page.locator(".stage-bars .share").first.inner_text().split("→")[1]
    assert float(shown.strip(" %")) == pytest.approx(100 * after, abs=0.51)
    page.get_by_role("button", name="Give it back").click()
    expect(page.locator(".stage-bars .next-bar.after")).to_have_count(0)


def test_heads_are_reached_by_keyboard_alone(page):
    show_stage(page)
    page.locator(".pane[tabindex='0']").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    head = page.evaluate("[document.activeElement.dataset.index, document.activeElement.dataset.head]")
    expect(page.locator(".reading .peek")).to_contain_text(f"head {head[1]}")
    page.keyboard.press("Enter")
    wait_level(page, 3)
    assert (address_fields(page)["attention"], address_fields(page)["head"]) == tuple(head)
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.className") == "stage-search"


def test_a_narrow_page_runs_downwards_and_fits(page):
    page.set_viewport_size({"width": 390, "height": 844})
    run = show_stage(page)
    expect(page.locator(".block-button.whole")).to_have_count(
        len({one["name"].rsplit(".", 1)[0] for one in run["attentions"]})
    )
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    predicted = page.locator(".stage-next .token").all_inner_texts()
    assert predicted == [likely[0]["token"].strip() for likely in run["likely"]][: len(predicted)]
    assert len(predicted) >= 5
    start = page.get_by_role("button", name="Start here")
    assert start.bounding_box()["y"] < 500, "the story is offered on the first screen"
    start.click()
    expect(page.locator(".scene-place")).to_contain_text("Scene 1")
    expect(start).to_be_hidden()
    page.get_by_role("button", name="Leave the story").click()
    page.locator(".block-button.whole").first.click()
    wait_level(page, 2)
    page.keyboard.press("Escape")
    wait_level(page, 1)
    boxes = [one.bounding_box() for one in page.locator(".stage-token.source").all()]
    places = sorted(box["x"] for box in boxes)
    assert min(after - before for before, after in itertools.pairwise(places)) >= 12, "labels do not overlap"
    page.locator(".block-button.whole").first.click()
    wait_level(page, 2)
    smallest = page.evaluate(
        "Math.min(...[...document.querySelectorAll('.head-card')].map((one) => one.getBoundingClientRect().width))"
    )
    assert smallest >= 44


def test_with_motion_it_starts_still_and_plays_when_asked(browser, server):
    page = browser.new_context(viewport={"width": 1280, "height": 800}, reduced_motion="no-preference").new_page()
    try:
        page.goto(server.address)
        page.wait_for_selector(".stage-bars .chosen")
        page.wait_for_timeout(500)
        assert page.locator(".transport input").input_value() == "1000"
        assert page.locator(".transport .play").bounding_box()["y"] < 760, "Play is seen without scrolling"
        page.locator(".transport .play").click()
        expect(page.locator(".transport .play")).to_have_text("Pause")
        page.evaluate(
            "() => { const one = document.querySelector('.transport input'); one.value = 300;"
            " one.dispatchEvent(new Event('input')); }"
        )
        expect(page.locator(".transport .play")).to_have_text("Play")
        expect(page.locator(".stage-bars")).to_have_class(re.compile("waiting"))
    finally:
        page.context.close()


def test_without_motion_end_states_are_shown(page):
    show_stage(page)
    assert page.locator(".transport input").input_value() == "1000"
    assert page.evaluate("document.getAnimations().filter((one) => one.playState === 'running').length") == 0
    page.get_by_role("button", name="One step back").click()
    expect(page.locator(".stage-bars")).not_to_have_class(re.compile("waiting"))


def test_every_level_is_accessible(page):
    run = show_stage(page)
    where = f"run={run['run']}&attention={len(run['attentions']) - 1}&head=1&row=1&key=0"
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        for level, part in (*((level, "") for level in (1, 2, 3, 4, 5)), (3, IN_PART), (4, f"{IN_PART}&unit=7")):
            page.evaluate("hash => { location.hash = hash; }", f"#view=stage&{where}&level={level}{part}")
            wait_level(page, level)
            page.wait_for_timeout(300)
            assert find_violations(page) == {}, level


def test_two_runs_stand_side_by_side(page):
    show_stage(page)
    show_stage(page, "We are here.")
    page.click("#tab-compare")
    expect(page.locator(".two-models .stage-canvas")).to_have_count(2)
    page.wait_for_selector(".two-models .pane")
    page.locator("table tbody tr").first.wait_for()
    other = page.locator("#other-run").input_value()
    page.locator(".two-models section").last.locator(".pane").first.click()
    wait_level(page, 3)
    assert address_fields(page)["run"] == other


def test_the_map_of_a_short_text_after_a_long_one_is_not_blank(page):
    """The address keeps the place on the map; another run has another size."""
    first = show_stage(page)
    show_stage(page, " ".join(["The old man lives in the house."] * 6))
    page.click("#tab-map")
    page.wait_for_function("() => Number(new URLSearchParams(location.hash.slice(1)).get('x')) > 8")
    page.select_option("#run", first["run"])
    page.wait_for_selector("transom-map canvas")
    keys = first["attentions"][int(address_fields(page)["attention"])]["keys"]
    page.wait_for_function(
        "keys => { const { x, keys: all } = document.querySelector('transom-map').viewport;"
        " return all === keys && x === keys / 2; }",
        arg=keys,
    )


def test_one_token_is_chosen_in_all_views(page):
    """In the picture, at the end of its rail, in Arrows, Steps, the sentence above and the suggestion."""
    run = show_stage(page)
    page.locator(".stage-next").nth(3).click()
    expect(page.locator(".stage-token.target[aria-pressed=true]")).to_have_attribute("data-token", "target-3")
    read, written = run["targets"][3].strip(), run["written"][3].strip()
    expect(page.locator(".reading h2")).to_contain_text(f"“{read}” predicts “{written}”")
    influence = fetch_json(page, f"/api/runs/{run['run']}/influence?row=3&count=1")["heads"]
    worth = {(index, head): -value for index, heads in enumerate(influence) for head, value in enumerate(heads)}
    best, head = max(worth, key=lambda place: worth[place])
    expect(page.locator(".reading .chip")).to_contain_text(f"head {head}: it")
    expect(page.locator(".reading .chip")).to_contain_text(f"“{written}” most, by estimate")
    page.locator(".reading .chip").click()
    wait_level(page, 3)
    assert (address_fields(page)["attention"], address_fields(page)["head"]) == (str(best), str(head))
    cross = max(one["index"] for one in run["attentions"] if one["role"] == "cross")
    page.evaluate(f"() => {{ location.hash += '&attention={cross}&head=2'; }}")
    expect(page.locator(".head-level .opener.now")).to_have_attribute("aria-label", re.compile(f"^row 3, {read}"))
    page.click("#tab-see")
    page.wait_for_selector("#from-3[aria-pressed=true]")
    expect(page.locator(".head-words")).to_contain_text("In this text the head ")
    expect(page.locator("transom-text-form .hint").last).to_contain_text(f"“{read}” predicts “{written}”")
    page.click("#from-2")
    page.click("#tab-walk")
    expect(page.locator("tr.chosen th")).to_have_text(run["targets"][2].strip())
    page.click("#tab-stage")
    page.keyboard.press("Escape")
    page.keyboard.press("Escape")
    wait_level(page, 1)
    expect(page.locator(".stage-token.target[aria-pressed=true]")).to_have_attribute("data-token", "target-2")


def test_an_arrow_is_taken_out_inside_a_head_and_the_chosen_token_is_told_of(page):
    run = show_stage(page)
    cross = max(one["index"] for one in run["attentions"] if one["role"] == "cross")
    page.evaluate(
        "([run, cross]) => { location.hash = `#view=stage&run=${run}&attention=${cross}&head=0&level=3&token=2`; }",
        [run["run"], cross],
    )
    wait_level(page, 3)
    heads = fetch_json(page, f"/api/runs/{run['run']}/heads")["heads"]
    does = next(one["description"] for one in heads if (one["layer"], one["head"]) == (layer_name(run, cross), 0))
    expect(page.locator(".reading")).to_contain_text(f"In this text the head {does}")
    with page.expect_response(re.compile("/knock_out$")) as response:
        page.get_by_role("button", name="Take out").click()
    (edge,) = response.value.request.post_data_json["edges"]
    weights = fetch_json(page, f"/api/runs/{run['run']}/{cross}/weights?head=0&first_row=2&rows=1")["weights"][0]
    assert (edge["query"], edge["key"]) == (2, weights.index(max(weights)))
    words = {one["token"]: one for one in response.value.json()["rows"][2]["words"]}
    written = run["written"][2]
    said = page.locator(".changed [role=status]").inner_text()
    assert f"“{written.strip()}”" in said
    shares = [float(share) for share in re.findall("([0-9.]+) %", said.split(". ")[0])]  # one, if it hardly changes
    both = [100 * words[written][side] for side in ("before", "after")]
    assert shares[0] == pytest.approx(both[0], abs=0.51)
    assert shares[-1] == pytest.approx(both[1], abs=0.51)
    assert "nats" not in said
    likeliest = max(words.values(), key=lambda one: one["after"])["token"]
    assert ("It is still the likeliest." in said) == (likeliest == written)
    (crossed,) = page.locator(".square.taken-out").all()
    assert crossed.is_visible()
    page.get_by_role("button", name="Switch off head 0").click()
    expect(page.locator(".reading")).to_contain_text(re.compile(r"It (helps|hinders|hardly matters) .*measured"))
    page.evaluate(f"() => {{ location.hash += '&attention={cross}&head=1'; }}")
    expect(page.locator(".reading h2")).to_contain_text("head 1")
    expect(page.locator(".changed")).to_have_count(0)  # it was of another head
    page.click("#tab-stage")
    wait_level(page, 1)


def test_heads_that_mattered_are_listed_and_measured(page):
    run = show_stage(page)
    page.locator(".stage-next").nth(1).click()
    page.locator(".head-list summary").click()
    influence = fetch_json(page, f"/api/runs/{run['run']}/influence?row=1&count=1")["heads"]
    changes = sorted(value for heads in influence for value in heads)
    lines = page.locator(".head-list li")
    listed = [f"{'helps' if value < 0 else 'hinders'}" for value in [*changes[:5], *changes[:-3:-1]]]
    assert [text.split(":")[0] for text in lines.locator(".share").all_inner_texts()] == listed
    assert all("(estimate)" in text for text in lines.all_inner_texts())
    page.get_by_role("button", name="Measure these").click()
    expect(page.get_by_role("button", name="Measure these")).to_have_count(0, timeout=60_000)
    assert not any("(estimate)" in text for text in lines.all_inner_texts())
    best = min(
        ((value, index, head) for index, heads in enumerate(influence) for head, value in enumerate(heads)),
    )
    edges = [{"layer": layer_name(run, best[1]), "head": best[2]}]
    found = page.request.post(
        f"{page.url.split('#')[0].split('?')[0]}api/runs/{run['run']}/knock_out",
        data={"edges": edges},
        headers={"Origin": page.url.split("/?")[0].split("/#")[0]},
    ).json()
    written = run["written"][1]
    after = next(one["after"] for one in found["rows"][1]["words"] if one["token"] == written)
    shown = float(re.findall("([0-9.]+) %", lines.first.inner_text())[0])
    assert shown == pytest.approx(100 * after, abs=0.051)


def test_the_least_sure_token_is_named(page):
    run = show_stage(page)
    chances = [row[0]["probability"] for row in run["likely"]]
    least = chances.index(min(chances))
    said = page.locator(".reading")
    page.locator(".stage-next").nth(least).click()
    expect(said).to_contain_text(re.compile("[Oo]f all tokens, it is least sure here"))
    page.locator(".stage-next").nth((least + 1) % len(chances)).click()
    expect(said).not_to_contain_text("least sure")
