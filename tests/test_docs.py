"""The pages tell the truth: snippets run, output shown is output printed, and what exists is described."""

import importlib
import inspect
import re
import sys
import tomllib
from pathlib import Path

import pytest

import transom
from transom.cli import COMMANDS, main
from transom.names import AXES

ROOT = Path(__file__).parent.parent
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]
HOUSE = Path(transom.__file__).parent
ROOMS = sorted(
    {path.stem for path in HOUSE.glob("[a-z]*.py")} | {path.parent.name for path in HOUSE.glob("*/__init__.py")}
)


def text(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def fenced(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def named(page: Path) -> str:
    return str(page.relative_to(ROOT))


SNIPPETS = {
    f"{named(page)}[{number}]": code for page in PAGES for number, code in enumerate(fenced(page, "python"), start=1)
}


def headings(page: str) -> list[str]:
    return re.findall(r"^## (.+)$", text(page), re.MULTILINE)


@pytest.mark.parametrize("name", SNIPPETS)
def test_a_snippet_runs_on_its_own(name):
    exec(compile(SNIPPETS[name], name, "exec"), {"__name__": "snippet"})


def test_the_readme_has_a_snippet():
    assert "README.md[1]" in SNIPPETS


def test_the_readme_shows_what_make_run_prints(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(sys, "argv", [".venv/bin/transom", "tour"])
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    monkeypatch.chdir(tmp_path)
    assert main(["tour", "--html", "out/tour.html"]) == 0
    assert (tmp_path / "out/tour.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    shown = [block for block in fenced(ROOT / "README.md", "text") if block.startswith("$ make run\n")]
    assert shown == [f"$ make run\n{capsys.readouterr().out}"]


def test_make_run_calls_the_tour():
    assert re.search(r"^run:.*\n\t@\$\(BIN\)/transom tour --html out/tour\.html$", text("Makefile"), re.MULTILINE)


def test_every_command_has_a_heading_and_no_other_has():
    assert [heading for heading in headings("docs/cli.md") if heading.startswith("transom ")] == [
        f"transom {name}" for name in COMMANDS
    ]


def test_a_command_line_shown_in_the_docs_prints_what_is_shown(capsys):
    shown = "$ transom tuor\n"
    block = next(block for block in fenced(ROOT / "docs/cli.md", "text") if block.startswith(shown))
    assert main(["tuor"]) == 2
    assert block == shown + capsys.readouterr().err


@pytest.mark.parametrize("room", ROOMS)
def test_every_room_has_a_page(room):
    assert (ROOT / "docs" / f"{room}.md").is_file()


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_links_lead_somewhere(page):
    links = re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text(encoding="utf-8"))
    assert not [link for link in links if "://" not in link and not (page.parent / link).exists()]


@pytest.mark.parametrize("page", sorted((ROOT / "docs").glob("*.md")), ids=named)
def test_every_page_is_linked_from_the_readme_or_the_map(page):
    assert f"({named(page)})" in text("README.md") + text("MAP.md")


@pytest.mark.parametrize("topic", ["attention", "heads", "positions", "norms", "sampling"])
def test_every_equation_is_in_its_page(topic):
    module = importlib.import_module(f"transom.equations.{topic}")
    own = [function for function in vars(module).values() if getattr(function, "__module__", "") == module.__name__]
    assert own
    assert not [function.__name__ for function in own if f"| `{function.__name__}` |" not in text("docs/equations.md")]


def test_every_public_mask_is_in_its_page():
    masks = [name for name, home in transom.HOMES.items() if home == "transom.equations.masks"]
    assert not [name for name in masks if f"| `{name}` |" not in text("docs/equations.md")]


def test_every_axis_word_is_in_the_page_of_names():
    rows = dict(re.findall(r"^\| `(\w+)` \| (.+) \|$", text("docs/names.md"), re.MULTILINE))
    assert rows == AXES


def test_every_question_to_a_sight_is_in_its_page():
    both = vars(transom.lens.AttentionView) | vars(transom.Sight)
    asked = [name for name, value in both.items() if inspect.isfunction(value) and name[0] != "_"]
    page, inside = text("docs/lens.md"), {"select", "require_full"}
    assert {"weights", "scores", "receipt", "entropy"} <= set(asked)
    assert not [name for name in asked if f"`sight.{name}(" not in page and name not in inside]


def wanted() -> set[str]:
    """Every package that pyproject.toml names."""
    project = tomllib.loads(text("pyproject.toml"))["project"]
    lists = [project["dependencies"], *project["optional-dependencies"].values()]
    return {re.split(r"[^\w-]", one)[0] for group in lists for one in group} - {"transom"}


def test_every_dependency_is_pinned():
    pinned = set(re.findall(r"^([\w-]+)==\S+$", text("constraints.txt"), re.MULTILINE))
    assert wanted() <= pinned


def test_every_dependency_has_its_reason():
    reasons = re.findall(r"^\| ([\w-]+) \| .+ \|$", text("docs/dependencies.md"), re.MULTILINE)
    assert set(reasons) - {"package"} == wanted()


# A file in backticks: with its folder, but without a <name> to fill in.
MAPPED = sorted(set(re.findall(r"`((?:[a-z_]+/)+[\w-]+\.(?:py|js|css|hpp|cpp|toml))`", text("MAP.md"))))


@pytest.mark.parametrize("path", MAPPED)
def test_the_map_names_files_that_exist(path):
    assert (ROOT / path).is_file() or (HOUSE / path).is_file()


def test_the_map_names_every_module_or_the_folder_that_holds_it():
    modules = [path.relative_to(HOUSE) for path in HOUSE.rglob("*.py") if path.name != "__init__.py"]
    named = {path for path in modules if f"`{path}`" in text("MAP.md")}
    held = {path for path in modules if len(path.parts) > 2 and f"`{path.parent}/`" in text("MAP.md")}
    assert not sorted(map(str, set(modules) - named - held))
