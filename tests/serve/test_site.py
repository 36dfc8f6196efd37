"""The site: a folder whose pages lead only to each other, and a page that translates without a server."""

import functools
import http.server
import json
import re
import threading
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit

import pytest
from serve.browsing import checked_page, expect

from transom.models.embedded import embedded_folder
from transom.names import Misfit
from transom.serve.recorded_runs import RecordedRun, parse_record, shipped_recordings
from transom.serve.site import build_site
from transom.serve.site_pages import HomeEntry, run_item

HOSTILE = "<img src=x onerror=alert(1)> & \u202eright to left</title>"
SUBPATH = "some/where"
RUN = "4-img-src-x-onerror-alert-1-right-to-left-title.html"
GALLERY = ("SmolLM2-135M-Instruct", "all-MiniLM-L6-v2", "Digits, a small vision model")  # come with Transom


@pytest.fixture(scope="module")
def host(tmp_path_factory):
    """A folder of a web host, with the site in a folder of it."""
    folder = tmp_path_factory.mktemp("host")
    record = RecordedRun(HOSTILE, str(embedded_folder()), HOSTILE, "Apache-2.0 <b>")
    steps = []
    summary = build_site(folder / SUBPATH, [record], steps.append)
    assert len(steps) == 4
    assert summary.recorded == [*GALLERY, HOSTILE]
    return folder


class Links(HTMLParser):
    """Where a page leads to, what it loads, and its policy."""

    def __init__(self, text):
        super().__init__()
        self.links, self.policy, self.inline = [], "", []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.links += [given[name] for name in ("href", "src") if given.get(name)]
        if (given.get("http-equiv") or "").lower() == "content-security-policy":
            self.policy = given["content"]
        self.inline += [name for name in given if name.startswith("on") or name == "style"]


def pages_of(site):
    return {path.relative_to(site).as_posix(): Links(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")}


def test_every_link_leads_to_a_file_of_the_site(host):
    site = host / SUBPATH
    pages = pages_of(site)
    assert len(pages) == 1 + 1 + 22 + 3 + 1  # home, playground, lessons, the gallery, one more recorded run
    for page, found in pages.items():
        for link in found.links:
            parts = urlsplit(link)
            if parts.scheme == "data" or not parts.path:
                continue
            assert not parts.scheme and not parts.netloc and not parts.path.startswith("/"), (page, link)  # noqa: PT018
            target = urlsplit(urljoin(f"http://host/{page}", link)).path[1:]
            assert (site / unquote(target)).is_file(), (page, link)
    home = pages["index.html"].links
    assert {name for name in pages if name != "index.html"} <= {urlsplit(link).path for link in home}


def test_scripts_import_files_of_the_site(host):
    site = host / SUBPATH
    scripts = list(site.rglob("*.js"))
    assert len(scripts) > 40
    for script in scripts:
        source = script.read_text(encoding="utf-8")
        for name in re.findall(r"""(?:^import [^"]*|import\(|new URL\()"(\.[^"]+)\"""", source, re.MULTILINE):
            assert (script.parent / name).resolve().is_file(), (script, name)
        assert not re.search(r"""["'`](?:https?:)?//(?!www\.w3\.org/)""", source), script


def test_every_page_has_a_strict_policy_and_nothing_inline(host):
    for name, found in pages_of(host / SUBPATH).items():
        assert found.policy.startswith("default-src 'none'"), name
        assert "unsafe" not in found.policy, name
        assert "base-uri 'none'" in found.policy, name
        assert found.inline == [], name


def test_the_folder_says_what_it_holds(host):
    site = host / SUBPATH
    contents = json.loads((site / "site.json").read_text())
    listed = {name: (site / name).stat().st_size for name in contents["files"]}
    assert listed == contents["files"]
    on_disk = {path.relative_to(site).as_posix() for path in site.rglob("*") if path.is_file()}
    assert on_disk == set(listed) | {"site.json"}
    assert contents["licences"] == {**dict.fromkeys(GALLERY, "Apache-2.0"), HOSTILE: "Apache-2.0 <b>"}
    kept = json.loads(re.search(r"const KEPT = (\[.*\]);", (site / "offline_worker.js").read_text())[1])
    assert set(kept) == {name for name in listed if not name.startswith(("try/model/", "runs/"))} - {
        "offline_worker.js"
    }


def test_it_is_small_before_the_model_is_loaded(host):
    files = json.loads((host / SUBPATH / "site.json").read_text())["files"]
    playground = {name: size for name, size in files.items() if name.startswith("try/")}
    model = sum(size for name, size in playground.items() if name.startswith("try/model/"))
    later = sum(
        size
        for name, size in playground.items()
        if re.match(
            r"try/(lessons/|answers/api/lessons/|arrows_|edge_effects|map_|(steps|heads|stage/compare)_view|training_replay)",
            name,
        )
    )
    assert sum(playground.values()) - model - later <= 400_000
    assert sum(playground.values()) <= 15_000_000


def test_hostile_text_stays_text(host):
    home = (host / SUBPATH / "index.html").read_text(encoding="utf-8")
    assert "<img src=x" not in home
    assert "\u202e" not in home
    assert "&lt;img src=x onerror=alert(1)&gt;" in home
    run = host / SUBPATH / "runs" / RUN
    assert "<img src=x" not in run.read_text(encoding="utf-8")
    assert str(embedded_folder()) not in home


def test_the_gallery_comes_along_and_is_small():
    found = list(shipped_recordings())
    assert tuple(recording.run.name for recording in found) == GALLERY
    for recording, attentions in zip(found, (30, 6, 3), strict=True):
        answers, bodies = recording.answers["told"], recording.answers["bodies"]
        run = json.loads(bodies[answers["/api/runs/1"][0]])
        assert len(run["attentions"]) == attentions
        assert run["text"] == recording.run.text
        assert all(one["receipt"]["holds"] for one in run["attentions"])
        assert not re.search(
            r"(?<![\\w.])/(?:root|home|tmp|usr|Users)/", json.dumps(recording.answers)
        )  # no path of a machine
    folder = files("transom.serve") / "recordings"
    assert all(len(file.read_bytes()) < 2_000_000 for file in folder.iterdir())


def test_the_picture_that_was_recorded_is_that_of_a_digit():
    digits = list(shipped_recordings())[2]
    answers, bodies = digits.answers["told"], digits.answers["bodies"]
    assert json.loads(bodies[answers["/api/runs/1"][0]])["output"].startswith("5 (")
    item = run_item(HomeEntry("runs/3.html", "Digits", digits.run.text, "Apache-2.0"))
    assert item.count("<br>") == 3
    assert "<q>" not in item
    assert "<q>" in run_item(HomeEntry("runs/1.html", "A model", "A text", "MIT"))


def test_only_a_site_is_replaced(tmp_path):
    (tmp_path / "mine.txt").write_text("keep me")
    with pytest.raises(Misfit, match="should be new, empty, or hold a site"):
        build_site(tmp_path)
    assert (tmp_path / "mine.txt").read_text() == "keep me"


@pytest.mark.parametrize("given", ["SmolLM2", "SmolLM2=folder", "=folder:text", "SmolLM2=:text"])
def test_a_record_is_name_folder_and_text(given):
    with pytest.raises(Misfit, match="a recorded run is NAME=FOLDER:TEXT"):
        parse_record(given, {"SmolLM2": "Apache-2.0"})


def test_a_record_has_a_licence():
    assert parse_record("A=b/c:It is: so.", {"A": "MIT"}) == RecordedRun("A", "b/c", "It is: so.", "MIT")
    with pytest.raises(Misfit, match="the site names the licence of every model, but 'A' has none"):
        parse_record("A=b/c:It is.", {})


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format, *args):
        pass


@pytest.fixture(scope="module")
def root(host):
    """The address of the site on a plain web host."""
    handler = functools.partial(QuietHandler, directory=str(host))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/{SUBPATH}/"
    server.shutdown()
    server.server_close()


@pytest.mark.slow
def test_it_translates_in_a_real_browser_and_then_without_a_network(browser, root):
    from transom.runner import load

    text = "Where is the station?"
    with checked_page(browser, root) as page:
        page.goto(root)
        page.click("text=type a sentence of your own")
        page.wait_for_selector("#text", timeout=120_000)  # a busy machine takes long to load the model
        page.fill("#text", text)
        page.click("button.main")
        model = load()
        expect(page.locator(".output")).to_have_text(written(model, text))
        page.evaluate("async () => void await navigator.serviceWorker.ready")
        page.context.set_offline(True)
        page.reload()
        page.wait_for_selector(".output:not(:empty)", timeout=120_000)
        page.goto(f"{root}lessons/01-three-tokens.html")
        expect(page.locator("h1")).to_have_text("Three tokens, every number")
        page.context.set_offline(False)


@pytest.mark.slow
def test_the_first_load_is_what_is_counted(browser, root):
    loaded = []
    with checked_page(browser, root) as page:
        page.on("response", lambda response: loaded.append(urlsplit(response.url).path))
        page.goto(f"{root}try/")
        page.wait_for_selector(".output:not(:empty)", timeout=120_000)
        assert not [path for path in loaded if re.search(r"/lessons/|(steps|heads|compare)_view|training_replay", path)]
        page.click("#tab-learn")
        page.get_by_role("button", name="Three tokens, every number").wait_for()
        assert [path for path in loaded if path.endswith("/lessons/lessons.js")]


@pytest.mark.slow
def test_a_lesson_is_offered_as_a_file_where_it_cannot_be_checked(browser, root):
    from transom.lessons.lesson_file import load_shipped

    with checked_page(browser, root) as page:
        page.goto(f"{root}try/#view=learn&lesson=2")
        page.get_by_role("button", name="Edit this lesson").click()
        expect(page.locator(".card p").first).to_have_text(
            "Lessons are checked by Python, so they cannot be edited in this browser; the file works anywhere."
        )
        expect(page.locator(".lesson-commands")).to_contain_text("transom check 02-six-words.toml")
        with page.expect_download() as download:
            page.get_by_role("button", name="Download 02-six-words.toml").click()
        assert Path(download.value.path()).read_text(encoding="utf-8") == load_shipped(2).source.text
        page.get_by_role("button", name="Back to the lesson").click()
        page.get_by_role("button", name="All lessons").click()
        page.get_by_role("button", name="Write a lesson").click()
        expect(page.locator(".lesson-commands")).to_contain_text("transom serve new.toml")


@pytest.mark.slow
def test_a_feed_forward_part_opens_in_the_browser_alone(browser, root):
    with checked_page(browser, root) as page:
        page.goto(f"{root}try/")
        page.wait_for_selector(".stage-bars .chosen", timeout=120_000)
        page.evaluate("() => { location.hash += '&attention=0&level=3&part=feed_forward'; }")
        expect(page.locator(".feed-forward-level .opener")).to_have_count(10)
        page.locator(".feed-forward-level .opener").first.press("Enter")
        expect(page.locator(".unit-level .large")).to_have_count(3)


def written(model, text):
    """What the model writes greedily, as the page does."""
    return model.decode(model.encode_text(text).target_ids[1:])


@pytest.mark.slow
def test_a_recorded_run_works_and_its_text_is_text(browser, root, host):
    with checked_page(browser, root) as page:
        page.goto(f"{root}runs/{RUN}")
        expect(page.locator("main img")).to_have_count(0)
        page.wait_for_selector("[role=tab]", timeout=120_000)
