"""Lessons and their editor in a browser: by keyboard, with wrong answers, changed numbers and hostile text."""

import re

import pytest
from serve.accessibility import find_violations
from serve.browsing import address_fields, checked_page, expect

from transom.lessons.lesson_file import load_shipped, shipped_paths

MINE = """title = "Mine"
tokens = ["a", "b"]
embeddings = [[1, 0], [0, 1]]
[parameters]
all = "identity"
"""
HOSTILE = '<img src=x onerror="alert(1)"><script>alert(2)</script>\u202e'


@pytest.fixture(scope="module")
def lesson_server(start_server):
    """A server with a lesson open, and no model."""
    return start_server(shipped_paths()[0])


@pytest.fixture
def lessons(browser, lesson_server):
    """The list of lessons."""
    with checked_page(browser, lesson_server.root) as page:
        page.goto(lesson_server.address)
        page.get_by_role("button", name="All lessons").click()
        page.locator(".lesson-list").wait_for()
        yield page


def open_screen(page, lesson, screen):
    page.evaluate("hash => { location.hash = hash; }", f"#view=learn&lesson={lesson}&screen={screen}")
    expect(page.locator(".lesson-dots [aria-current]")).to_have_attribute("aria-label", starts_with(screen + 1))


def starts_with(number):
    return re.compile(rf"^{number}: ")


def press_until(page, name, key="Tab", most=80):
    """Move the focus by a key until it is on a button of this name."""
    for _ in range(most):
        page.keyboard.press(key)
        if page.evaluate("document.activeElement.textContent").startswith(name):
            return
    raise AssertionError(f"no button {name!r} was reached by {key}")


def test_a_whole_lesson_by_keyboard_alone(lessons):
    page, screens = lessons, len(load_shipped(1).script) + 2
    press_until(page, "1")
    page.keyboard.press("Enter")
    expect(page.locator(".lesson-screen h2")).to_have_text(load_shipped(1).title)
    for number in range(1, screens):
        press_until(page, "Next →")
        page.keyboard.press("Enter")
        expect(page.locator("text=/^\\d+ of \\d+$/").last).to_have_text(f"{number + 1} of {screens}")
        assert page.evaluate("document.activeElement.tagName") == "H2"
    press_until(page, "Next lesson")
    page.keyboard.press("Enter")
    expect(page.locator(".lesson-screen h2")).to_have_text(load_shipped(2).title)
    assert {"lesson": "2", "screen": "0"}.items() <= address_fields(page).items()


def test_a_wrong_answer_is_told_and_its_cause(lessons):
    page = lessons
    open_screen(page, 1, 2)
    assert page.locator("transom-lessons table").count() == 0
    page.get_by_label("Your answer").fill("3")
    page.get_by_label("Your answer").press("Enter")
    expect(page.locator(".lesson-ask")).to_contain_text("Not quite: you said 3.")
    assert page.locator("transom-lessons table").count() == 1
    open_screen(page, 1, 4)
    page.get_by_role("button", name="0.33", exact=True).click()
    expect(page.locator(".lesson-ask")).to_contain_text("Not quite: you said 0.33.")
    expect(page.locator(".lesson-ask")).to_contain_text("Answer: 0.16.")


def test_a_cause_is_named_beside_a_wrong_answer(lessons):
    """A typed number that comes out if the scores are not scaled."""
    page = lessons
    open_screen(page, 2, 0)
    text = load_shipped(1).source.text.replace("choices = [0.00, 0.16, 0.33]\n", "")
    edit(page, "new", text)
    for _ in range(4):
        page.get_by_role("button", name="Next →").click()
    page.get_by_label("Your answer").fill("0.06")
    page.get_by_role("button", name="Answer", exact=True).click()
    expect(page.locator(".lesson-cause").first).to_contain_text("not divided by √d_head")


def test_progress_is_kept_and_the_place_does_not_leak_into_the_steps(lessons):
    page = lessons
    open_screen(page, 1, 5)
    page.click("#tab-walk")
    expect(page.locator("#tab-walk")).to_have_attribute("aria-selected", "true")
    assert "step" not in address_fields(page)
    page.click("#tab-learn")
    page.get_by_role("button", name="All lessons").click()
    expect(page.locator(".lesson-list li").nth(1)).to_contain_text("at 6 of 10")
    page.reload()
    page.get_by_role("button", name="All lessons").click()
    expect(page.locator(".lesson-list li").nth(1)).to_contain_text("at 6 of 10")
    page.locator(".lesson-list button").nth(1).click()  # the first one is the file that is open
    expect(page.locator(".lesson-screen h2")).to_have_text(load_shipped(1).script[4].title)


def test_a_number_is_changed_and_what_follows_is_marked(lessons):
    page = lessons
    open_screen(page, 1, 1)
    page.get_by_label("A number for embeddings, row The, column 1").fill("-7.5")
    expect(page.locator("td.moved")).to_have_text("-7.5 was 1")
    expect(page.locator(".lesson-change [role=status]")).to_have_text("With -7.5 instead of 1: 1 number here changes.")
    page.get_by_role("button", name="As it was").click()
    expect(page.locator("td.moved")).to_have_count(0)


def numbers(texts):
    return [float(text.replace("−", "-")) for text in texts]


def test_a_lesson_is_drawn_on_the_stage_with_its_own_numbers(lessons):
    page = lessons
    number = next(n for n, step in enumerate(load_shipped(6).script, 1) if step.frames)
    open_screen(page, 6, number)
    steps, stage = load_shipped(6).steps(), page.locator(".lesson-stage")
    first, second, *_ = steps.tokens
    expect(stage.locator(".crumbs")).to_contain_text(f"“{first}”")
    expect(stage.get_by_text("masked", exact=True)).to_have_count(len(steps.tokens) - 1)
    stage.get_by_role("button", name="One step on").click()
    expect(stage.locator(".crumbs")).to_contain_text(f"“{second}”")
    figures = numbers(text for text in stage.locator(".row-level text.figure").all_text_contents() if text)
    assert figures[1::2] == pytest.approx(steps["weights"].values[1][:2], abs=6e-4)
    assert figures[0::2] == pytest.approx(steps["scaled"].values[1][:2], abs=6e-3)
    stage.locator(".opener").first.press("Enter")
    expect(stage.locator(".number-level .final")).to_have_text(f"{steps['weights'].values[1][0]:.4f}")
    sum_, score, _ = numbers(stage.locator(".number-level .large").all_text_contents())
    assert sum_ == pytest.approx(steps["scores"].values[1][0], abs=6e-3)
    assert score == pytest.approx(steps["scaled"].values[1][0], abs=6e-3)
    page.keyboard.press("Escape")
    stage.get_by_role("button", name="who reads whom").click()
    expect(stage.locator(".head-level .opener")).to_have_count(len(steps.tokens))
    stage.get_by_role("button", name="Play", exact=True).click()
    expect(stage.get_by_role("button", name="Pause")).to_be_visible()


def edit(page, start, text):
    """Open the editor, and put a text into it."""
    page.evaluate("hash => { location.hash = hash; }", f"#view=learn&edit={start}&screen=0")
    page.locator(".findings").wait_for()
    page.get_by_label("The lesson as TOML").fill(text)
    expect(page.locator("#lesson-summary")).not_to_have_text("checking …")


def test_the_page_follows_what_is_typed(lessons):
    page = lessons
    edit(page, "new", MINE)
    expect(page.locator(".lesson-screen h2")).to_have_text("Mine")
    editor = page.get_by_label("The lesson as TOML")
    editor.press("Control+End")
    editor.press_sequentially('[[claim]]\nof = "weights"\nrow = "a"\nvalue = [0.73, 0.27]')
    bad = page.locator(".editor-bad")
    expect(bad).to_contain_text("weights of a: 2 of 2 entries, printed → right; the scores were not divided by √d_head")
    overlay = page.locator(".editor-overlay").text_content()
    assert "value = [0.73, 0.27]  ✗ weights" in overlay
    page.get_by_role("button", name="Line 9: wrong").click()
    assert page.evaluate("getSelection().toString()") == "value = [0.73, 0.27]"
    editor.press_sequentially("value = [0.67, 0.33]")
    expect(page.locator("#lesson-summary")).to_contain_text("1 claim: 1 right")
    expect(bad).to_have_count(0)
    with page.expect_download() as download:
        page.get_by_role("button", name="Download").click()
    assert download.value.suggested_filename == "new.toml"
    assert download.value.path().read_text(encoding="utf-8") == editor.input_value()
    page.reload()
    expect(editor).to_have_value(editor.input_value())


def test_malformed_toml_is_told_beside_its_line(lessons):
    page = lessons
    edit(page, "1", 'title = "x"\ntokens = ["a"\nembeddings = 3')
    expect(page.locator(".editor-bad")).to_contain_text("should be TOML")
    page.get_by_role("button", name="Line 3: malformed").wait_for()


def test_hostile_text_in_a_lesson_is_text(lessons):
    """Title, tokens, claims and pictures: shown as they are, and nothing of it runs (`checked_page` holds that)."""
    text = load_shipped(1).source.text.replace('title = "Three tokens, every number"', f"title = '{HOSTILE}'")
    text = text.replace('"The"', f"'{HOSTILE}'")
    page = lessons
    edit(page, "1", text)
    expect(page.locator(".lesson-screen h2")).to_contain_text("onerror")
    for _ in range(9):
        page.get_by_role("button", name="Next →").click()
    assert page.locator("transom-lessons img, transom-lessons script").count() == 0


PLACES = {
    "list": "#view=learn",
    "first": "#view=learn&lesson=1&screen=0",
    "asks": "#view=learn&lesson=1&screen=2",
    "change": "#view=learn&lesson=1&screen=1",
    "motion": "#view=learn&lesson=1&screen=7",
    "fails": "#view=learn&lesson=1&screen=8",
    "picture": "#view=learn&lesson=7&screen=7",
    "editor": "#view=learn&edit=1&screen=1",
}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_lessons_and_editor_are_accessible(lessons, scheme):
    page = lessons
    page.emulate_media(color_scheme=scheme)
    found = {}
    for place, address in PLACES.items():
        page.evaluate("hash => { location.hash = hash; }", address)
        page.locator({"list": ".lesson-list", "editor": ".findings"}.get(place, ".lesson-screen")).wait_for()
        page.wait_for_timeout(300)
        found[place] = find_violations(page)
    assert {place: wrong for place, wrong in found.items() if wrong} == {}
