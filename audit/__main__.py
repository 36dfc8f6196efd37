"""`python -m audit [NAME …]`: watches a small model of every architecture, and compares with what really ran.

Without names all configurations run, and docs/audit.json and docs/audit.md are written. With names (patterns with *
are fine) the rows are printed and nothing is written. The exit code is 1 if anything is silent, wrong or changed.
"""

import argparse
import fnmatch
import json
import time

from audit.configurations import Configuration, list_configurations
from audit.judgement import BAD, EXACT, NO_ATTENTION, NOT_BUILDABLE, NOT_OFFERED
from audit.pool import SECONDS_EACH, Row, report_progress, run_all
from audit.report import load, summary, write

SETTLED = (EXACT, NO_ATTENTION, NOT_BUILDABLE, NOT_OFFERED)  # verdicts that `--again` leaves as they are on file


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m audit", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="architectures, variants or blocks; all by default")
    parser.add_argument("--again", action="store_true", help="only what is not exact on file; the rest is kept")
    parser.add_argument("--jobs", type=int, default=2, help="processes at once (default 2)")
    parser.add_argument("--seconds", type=float, default=SECONDS_EACH, help=f"for each (default {SECONDS_EACH:.0f})")
    return parser.parse_args()


def versions() -> dict[str, str]:
    import torch
    import transformers

    import transom

    return {"transom": transom.__version__, "torch": torch.__version__, "transformers": transformers.__version__}


def choose(options: argparse.Namespace) -> tuple[list[Configuration], list[Row]]:
    """The configurations to run, and the rows on file that are kept."""
    everything = list_configurations()
    if options.names:
        chosen = [one for one in everything if any(fnmatch.fnmatchcase(one.name, name) for name in options.names)]
        return chosen, []
    kept = [row for row in load()["rows"] if row["verdict"] in SETTLED] if options.again else []
    known = {Configuration(row["name"], row["implementation"]) for row in kept}
    return [one for one in everything if one not in known], kept


def main() -> int:
    options = parse_options()
    chosen, kept = choose(options)
    started = time.monotonic()
    rows = list(report_progress(run_all(chosen, options.jobs, options.seconds), len(chosen)))
    broken = [row for row in rows if "broken" in row]
    for row in broken:
        print(f"the audit itself failed for {row['name']} ({row['implementation']}):\n{row['broken']}")
    rows = kept + [row for row in rows if "broken" not in row]
    if options.names:
        for row in sorted(rows, key=lambda row: row["name"]):
            print(json.dumps(row, ensure_ascii=False))
    elif not broken:
        minutes = load()["minutes"] if options.again else round((time.monotonic() - started) / 60, 1)
        write(rows, versions(), minutes)
    print(summary(rows))
    return 1 if broken or any(row["verdict"] in BAD for row in rows) else 0


if __name__ == "__main__":
    raise SystemExit(main())
