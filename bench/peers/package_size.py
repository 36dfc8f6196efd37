"""What installing a package adds: run by the interpreter that has it.

    python -m bench.peers.package_size '["transformer-lens", "bertviz"]'

prints for each its version, the packages that pip adds for it beyond those of torch, and the bytes of their files.
Compiled caches are not counted, since they come with use.
"""

import json
import sys
import tomllib
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name


def needed(name: str, found: dict[str, Distribution] | None = None) -> dict[str, Distribution]:
    """The distributions of a package and of all that it requires here, by name; extras are left out."""
    found = {} if found is None else found
    try:
        found[canonicalize_name(name)] = distribution(name)
    except PackageNotFoundError:  # a requirement that this platform does without, or that pip was told to leave out
        return found
    for line in requirements(found[canonicalize_name(name)]):
        wanted = Requirement(line)
        applies = wanted.marker is None or wanted.marker.evaluate({"extra": ""})
        if applies and canonicalize_name(wanted.name) not in found:
            needed(wanted.name, found)
    return found


def developed(one: Distribution) -> Path | None:
    """The folder of a package in development."""
    url = json.loads(one.read_text("direct_url.json") or "{}")
    return Path(url["url"].removeprefix("file://")) if url.get("dir_info", {}).get("editable") else None


def requirements(one: Distribution) -> list[str]:
    """As they were when it was installed; of a package in development, as they are now."""
    folder = developed(one)
    if folder is None:
        return one.requires or []
    return tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]


def size(one: Distribution) -> int:
    """Bytes of the files that were installed; of a package in development, those of its folder."""
    files = [Path(str(file.locate())) for file in one.files or [] if not str(file).endswith(".pyc")]
    if developed(one):
        spec = find_spec(one.metadata["Name"])
        folders = spec.submodule_search_locations if spec else []
        files += [file for folder in folders or [] for file in Path(folder).rglob("*") if file.suffix != ".pyc"]
    return sum(file.stat().st_size for file in files if file.is_file())


def brought(name: str) -> dict[str, Any]:
    beyond = {key: one for key, one in needed(name).items() if key not in needed("torch")}
    return {
        "version": distribution(name).version,
        "packages": len(beyond),
        "bytes": sum(size(one) for one in beyond.values()),
        "largest": {key: size(one) for key, one in sorted(beyond.items(), key=lambda pair: -size(pair[1]))[:5]},
    }


if __name__ == "__main__":
    print(json.dumps({name: brought(name) for name in json.loads(sys.argv[1])}))
