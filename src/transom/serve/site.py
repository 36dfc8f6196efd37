"""The site: a folder of files for any web host, with the translator in the visitor's browser, every lesson, and
recorded runs of real models. Nothing in it asks anything beyond itself."""

import hashlib
import json
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path, PurePosixPath

from transom.files.atomic_files import PARTIAL, replace_folder, temporary_path, write_errors_as_misfit
from transom.names import Misfit
from transom.serve.offline_page import LATER, read_static
from transom.serve.recorded_runs import RecordedRun, Recording, record_run, shipped_recordings
from transom.serve.site_pages import HomeEntry, home_page, lesson_page, playground_page

CONTENTS = "site.json"  # lists the files; a folder with it may be replaced
MODEL_FILES = ("config.json", "generation_config.json", "tokenizer.json", "model.safetensors")  # what the engine reads
PLAYGROUND = "try"
OFFLINE_WORKER = "engine/offline_worker.js"
# A thread that answers requests may only lie at the root; a page in one file has no use for these.
NOT_IN_PLAYGROUND = ("index.html", OFFLINE_WORKER)

Files = dict[str, bytes]
OnStep = Callable[[str], object]


@dataclass(frozen=True)
class SiteSummary:
    """What was built: its size in bytes, before the model is loaded and with it, and the number of its pages."""

    folder: str
    files: int
    bytes: int
    playground_bytes: int
    model_bytes: int
    lessons: int
    recorded: list[str]


def build_site(folder: Path, records: Sequence[RecordedRun] = (), on_step: OnStep = lambda step: None) -> SiteSummary:
    """Build the site into a folder: a new one, or one that holds a site and is replaced as a whole."""
    check_folder(folder)
    on_step("the translator and the page")
    site = playground_files()
    on_step("the lessons")
    lessons = lesson_files(site)
    on_step("the recorded runs that come with Transom")
    recordings = list(shipped_recordings())
    for number, record in enumerate(records, 1):
        on_step(f"recorded run {number} of {len(records)}: {record.name}")
        recordings.append(record_run(record))
    runs = run_files(site, recordings)
    site["index.html"] = home_page(lessons, runs).encode()
    for name in ("home.css", "icon.svg"):
        site[name] = read_page_file(name)
    site["offline_worker.js"] = offline_worker(site)
    site[CONTENTS] = contents_file(site, [recording.run for recording in recordings])
    write_site(folder, site)
    return summarize(folder, site, len(lessons), [run.title for run in runs])


def check_folder(folder: Path) -> None:
    """A site replaces a site, or goes where nothing is."""
    if folder.exists() and not (folder / CONTENTS).is_file() and (not folder.is_dir() or any(folder.iterdir())):
        raise Misfit(f"{folder} should be new, empty, or hold a site, but it holds something else; name another folder")


def static_files(folder: Traversable, path: str = "") -> Iterator[tuple[str, bytes]]:
    """The files of the page, in its folders too."""
    for file in sorted(folder.iterdir(), key=lambda file: file.name):
        if file.is_dir():
            yield from static_files(file, f"{path}{file.name}/")
        elif PurePosixPath(file.name).suffix == ".js":
            yield f"{path}{file.name}", shorten_script(file.read_text(encoding="utf-8")).encode()
        elif PurePosixPath(file.name).suffix == ".css":
            yield f"{path}{file.name}", shorten_style(file.read_text(encoding="utf-8")).encode()
        elif PurePosixPath(file.name).suffix in (".html", ".svg"):
            yield f"{path}{file.name}", file.read_bytes()


def shorten_script(source: str) -> str:
    """A script without comments of whole lines, empty lines and indentation; a text over several lines stays as is."""
    lines, in_text = list[str](), False
    for line in source.splitlines():
        if in_text:
            lines.append(line)
        elif line.strip() and not line.lstrip().startswith("//"):
            lines.append(line.lstrip())
        in_text ^= line.count("`") % 2 == 1
    return "\n".join([*lines, ""])


def shorten_style(source: str) -> str:
    """A style sheet without comments and indentation."""
    lines = re.sub(r"/\*.*?\*/", "", source, flags=re.DOTALL).splitlines()
    return "\n".join([*(line.strip() for line in lines if line.strip()), ""])


def read_page_file(name: str) -> bytes:
    folder = "static" if name == "icon.svg" else "site_files"
    return (files("transom.serve") / folder / name).read_bytes()


def playground_files() -> Files:
    """The page on the engine: its own files, those of the model, and the answers that are the same for everyone."""
    from transom.lessons.glossary import GLOSSARY
    from transom.models.embedded import embedded_folder
    from transom.serve.lesson_data import lesson_source, lesson_titles, lesson_to_dict

    site: Files = {}
    for name, content in static_files(files("transom.serve") / "static"):
        if name not in NOT_IN_PLAYGROUND:
            site[f"{PLAYGROUND}/{name}"] = content
    model = {name: (embedded_folder() / name).read_bytes() for name in MODEL_FILES}
    site |= {f"{PLAYGROUND}/model/{name}": content for name, content in model.items()}
    titles = lesson_titles(None)
    answers: dict[str, object] = {"glossary": GLOSSARY, "lessons": titles, "lessons/new": lesson_source(-1, None)}
    for lesson in titles:
        answers[f"lessons/{lesson['number']}"] = lesson_to_dict(lesson["number"], None)
        answers[f"lessons/{lesson['number']}/source"] = lesson_source(lesson["number"], None)
    for path, answer in answers.items():
        site[f"{PLAYGROUND}/answers/api/{path}.json"] = json.dumps(answer, allow_nan=False).encode()
    size, version = sum(map(len, model.values())), version_of(model)
    site[f"{PLAYGROUND}/index.html"] = playground_page(version, size).encode()
    return site


def lesson_files(site: Files) -> list[HomeEntry]:
    """Every lesson as a page, added to the site; where each is, and its title."""
    from transom.lessons.lesson_file import load_shipped, shipped_paths

    names = [f"lessons/{path.stem}.html" for path in shipped_paths()]
    lessons = [load_shipped(number) for number in range(1, len(names) + 1)]
    entries = [HomeEntry(name, lesson.title) for name, lesson in zip(names, lessons, strict=True)]
    for number, (name, lesson) in enumerate(zip(names, lessons, strict=True), 1):
        neighbours = (entries[number - 2] if number > 1 else None, entries[number] if number < len(entries) else None)
        site[name] = lesson_page(lesson, number, *neighbours).encode()
    return entries


def run_files(site: Files, recordings: Sequence[Recording]) -> list[HomeEntry]:
    """Every recorded run as a page, added to the site; what the first page says of each."""
    runs = []
    for number, recording in enumerate(recordings, 1):
        run, name = recording.run, f"runs/{number}-{recording.run.slug}.html"
        site[name] = recording.html().encode()
        runs.append(HomeEntry(name, run.name, run.text, run.licence, run.about))
    return runs


def version_of(site: Files) -> str:
    """Changes with any byte of any file."""
    digest = hashlib.sha256()
    for name, content in sorted(site.items()):
        digest.update(f"{name}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()[:16]


def offline_worker(site: Files) -> bytes:
    """The script that keeps the site for use without a network: all but the model, which the engine keeps itself, and
    the recorded runs, which are kept when they are visited."""
    kept = [name for name in sorted(site) if not name.startswith((f"{PLAYGROUND}/model/", "runs/"))]
    source = (files("transom.serve") / "static" / OFFLINE_WORKER).read_text(encoding="utf-8")
    for before, after in {'"VERSION"': json.dumps(version_of(site)), '["FILES"]': json.dumps(kept)}.items():
        assert source.count(before) == 1, before
        source = source.replace(before, after)
    return source.encode()


def contents_file(site: Files, records: Sequence[RecordedRun]) -> bytes:
    """What the site holds, and the licence of each recorded model."""
    from transom import __version__

    licences = {record.name: record.licence for record in records}
    sizes = {name: len(content) for name, content in sorted(site.items())}
    contents = {"format": "transom-site", "made by": f"Transom {__version__}", "licences": licences, "files": sizes}
    return json.dumps(contents, indent=2).encode()


def write_site(folder: Path, site: Files) -> None:
    """Write all files beside the folder, then put them in its place at once."""
    partial = temporary_path(folder, PARTIAL)
    with write_errors_as_misfit(folder):
        try:
            for name, content in site.items():
                path = partial / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
            replace_folder(partial, folder)
        finally:
            shutil.rmtree(partial, ignore_errors=True)


def summarize(folder: Path, site: Files, lessons: int, recorded: list[str]) -> SiteSummary:
    def size(*prefixes: str) -> int:
        return sum(len(content) for name, content in site.items() if name.startswith(prefixes))

    model = size(f"{PLAYGROUND}/model/")
    later = sum(len(content) for name, content in site.items() if is_loaded_later(name))
    return SiteSummary(
        str(folder), len(site), size(""), size(f"{PLAYGROUND}/") - model - later, model, lessons, recorded
    )


def is_loaded_later(name: str) -> bool:
    """Whether a file of the playground is loaded only when its view is opened."""
    views = (
        "lessons/",
        "answers/api/lessons/",
        "map_",
        *(match["file"][2:] for match in LATER.finditer(read_static("app.js"))),
    )
    return name.startswith(tuple(f"{PLAYGROUND}/{view}" for view in views))
