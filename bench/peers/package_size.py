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


def required_distributions(name: str, found: dict[str, Distribution] | None = None) -> dict[str, Distribution]:
    """The distributions of a package and of all its requirements on this platform, by name, without extras."""
    found = {} if found is None else found
    try:
        found[canonicalize_name(name)] = distribution(name)
    except PackageNotFoundError:  # not needed on this platform, or left out at installation
        return found
    for line in read_requirements(found[canonicalize_name(name)]):
        wanted = Requirement(line)
        applies = wanted.marker is None or wanted.marker.evaluate({"extra": ""})
        if applies and canonicalize_name(wanted.name) not in found:
            required_distributions(wanted.name, found)
    return found


def editable_folder(one: Distribution) -> Path | None:
    """The folder of an editable installation; None for a normal one."""
    url = json.loads(one.read_text("direct_url.json") or "{}")
    return Path(url["url"].removeprefix("file://")) if url.get("dir_info", {}).get("editable") else None


def read_requirements(one: Distribution) -> list[str]:
    """The requirements at installation; of an editable package, those of its pyproject.toml now."""
    folder = editable_folder(one)
    if folder is None:
        return one.requires or []
    return tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]


def count_bytes(one: Distribution) -> int:
    """Bytes of the installed files; of an editable package, those of its folder."""
    files = [Path(str(file.locate())) for file in one.files or [] if not str(file).endswith(".pyc")]
    if editable_folder(one):
        spec = find_spec(one.metadata["Name"])
        folders = spec.submodule_search_locations if spec else []
        files += [file for folder in folders or [] for file in Path(folder).rglob("*") if file.suffix != ".pyc"]
    return sum(file.stat().st_size for file in files if file.is_file())


def measure_package(name: str) -> dict[str, Any]:
    """Version, number of packages beyond torch, their bytes, and the largest five."""
    beyond = {
        key: one for key, one in required_distributions(name).items() if key not in required_distributions("torch")
    }
    return {
        "version": distribution(name).version,
        "packages": len(beyond),
        "bytes": sum(count_bytes(one) for one in beyond.values()),
        "largest": {
            key: count_bytes(one) for key, one in sorted(beyond.items(), key=lambda pair: -count_bytes(pair[1]))[:5]
        },
    }


if __name__ == "__main__":
    print(json.dumps({name: measure_package(name) for name in json.loads(sys.argv[1])}))
