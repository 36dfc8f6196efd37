"""Pictures in a real browser: hostile tokens do nothing, cells open, nothing is cut off, numbers are the same."""

import re
import shutil

import pytest
import torch
from show.hostile import PAYLOADS
from show.samples import SAMPLES, formed, sample
from show.truth import TRUTH

import transom
from transom.lens import Trace
from transom.lessons import steps_of
from transom.show import VIEWS, draw
from transom.show.formatting import make_visible

pytestmark = pytest.mark.slow
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
QUIET = "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking"
MANY = 23
LABELLED = {"matrix", "steps", "rows", "curves"}  # whose page holds every label of the sample


# Every piece of text on a page, as it stands there.
WORDS = """() => {
  const found = [], walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) found.push(walker.currentNode.data);
  return found;
}"""


@pytest.fixture(scope="module")
def browser():
    if CHROMIUM is None:
        pytest.skip("there is no Chromium on this machine")
    sync = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with sync.sync_playwright() as play:
        opened = play.chromium.launch(
            executable_path=CHROMIUM, args=[*QUIET.split(), "--disable-component-update", "--disable-sync"]
        )
        yield opened
        opened.close()


@pytest.fixture
def page(browser):
    """A page that remembers everything it should not do."""
    opened = browser.new_page(viewport={"width": 1200, "height": 800})
    opened.wrong = []
    opened.on("dialog", lambda dialog: (opened.wrong.append(f"dialog: {dialog.message}"), dialog.dismiss()))
    opened.on("request", lambda asked: opened.wrong.append(asked.url) if asked.url != opened.own else None)
    opened.on("console", lambda said: opened.wrong.append(said.text))
    opened.on("pageerror", lambda error: opened.wrong.append(str(error)))
    yield opened
    opened.close()


def visit(page, path):
    page.own = path.as_uri()
    page.goto(page.own)


def many(view, words):
    """A larger sample, so that few pages hold all payloads."""
    made = torch.Generator().manual_seed(19)
    Q, K, V = (torch.randn(1, 1, MANY, 3, generator=made) for _ in range(3))
    sight = transom.sight(Q, K, V)
    if view == "steps":
        return draw(view, steps_of(sight, 0, 0, words), only=["V", "sum"], tokens_shown=MANY)
    if view in {"context", "curves", "fold", "architecture"}:
        return draw(view, SAMPLES[view](words)[0], **SAMPLES[view](words)[1])
    trace = Trace(list(words))
    trace.add(words[0], sight)
    options = {"sequence": {"most": MANY}, "matrix": {"numbers": False}}.get(view, {})
    return draw(view, trace, model=words[1], **options)


@pytest.mark.parametrize("view", VIEWS)
def test_hostile_tokens_run_nothing_ask_for_nothing_and_are_shown(view, page, tmp_path):
    for number in range(0, len(PAYLOADS), MANY):
        words = tuple((PAYLOADS + PAYLOADS)[number : number + MANY])
        picture = many(view, words)
        visit(page, picture.save(tmp_path / f"{view}{number}.html"))
        for sign in page.locator("summary").all():
            sign.click()
        assert page.evaluate("document.querySelectorAll('script,iframe,img,object,embed,link,form,base,a').length") == 0
        if view in LABELLED:
            shown = set(page.evaluate(WORDS))
            assert not [word for word in words if make_visible(word) not in shown]
        visit(page, picture.save(tmp_path / f"{view}{number}.svg"))
    assert page.wrong == []


def test_the_policy_forbids_a_script_even_if_one_got_in(page, tmp_path):
    html = sample("matrix").html().replace("</body>", "<script>document.title='ran'</script><img src=x></body>")
    (tmp_path / "spoiled.html").write_text(html, encoding="utf-8")
    visit(page, tmp_path / "spoiled.html")
    assert page.title() == sample("matrix").title
    assert sum("Content Security Policy" in said for said in page.wrong) == 2
    assert page.evaluate("document.images[0].naturalWidth") == 0


def test_a_cell_opens_its_arithmetic_by_mouse_and_by_keyboard(page, tmp_path):
    visit(page, sample("steps").save(tmp_path / "steps.html"))
    cell = page.get_by_role("button", name=re.compile("from fox, at quick")).first
    cell.click()
    shown = page.locator("[popover]:popover-open")
    assert shown.count() == 1
    assert shown.inner_text().startswith("scores, from fox, at quick: ")
    assert " + " in shown.inner_text()
    page.keyboard.press("Escape")
    assert page.locator("[popover]:popover-open").count() == 0
    cell.focus()
    page.keyboard.press("Enter")
    assert page.locator("[popover]:popover-open").count() == 1
    assert page.wrong == []


@pytest.mark.parametrize("view", VIEWS)
def test_the_page_shows_the_numbers_of_the_terminal(view, page, tmp_path):
    visit(page, sample(view).save(tmp_path / f"{view}.html"))
    shown = {number for words in page.evaluate(WORDS) for number in re.findall(r"−?\d+\.\d+", words)}
    assert not set(TRUTH[view]()) - shown
    assert page.wrong == []


CUT_OFF = """() => [...document.querySelectorAll('svg')].flatMap(svg => {
  const frame = svg.getBoundingClientRect();
  return [...svg.querySelectorAll('text')].filter(text => {
    const box = text.getBoundingClientRect();
    const across = box.left < frame.left - 1 || box.right > frame.right + 1;
    return across || box.top < frame.top - 1 || box.bottom > frame.bottom + 1;
  }).map(text => text.textContent);
})"""


@pytest.mark.parametrize("view", VIEWS)
def test_no_words_are_cut_off(view, page):
    page.own = "about:blank"
    page.set_content(f"<body>{formed(view, 'svg')}</body>")
    assert page.evaluate(CUT_OFF) == []
    assert page.evaluate("document.querySelectorAll('svg text').length") > 3


@pytest.mark.parametrize("view", ["matrix", "arrows", "steps", "sequence"])
def test_wide_words_are_not_cut_off_either(view, page):
    page.own = "about:blank"
    words = (
        "WWWWWWWWWWWWWWWWWWWWWWWWWWWWWWW",
        "日本語日本語日本語日本語日本語",
        "@@@@@@@@@@@@@@@@@@@@@@@@",
        "mmmmmmmmmmmmm",
        "x",
    )
    thing, options = SAMPLES[view](words)
    page.set_content(f"<body>{draw(view, thing, **options).svg()}</body>")
    assert page.evaluate(CUT_OFF) == []
