"""A picture as one HTML page: figures, tables, clickable cells; no script, and a policy that forbids any."""

import base64
import hashlib
from collections.abc import Sequence
from html import escape

from transom.show.colours import ColourScale, ink_on, to_hex
from transom.show.formatting import format_significant, is_number, make_visible
from transom.show.panels import Grid, Panel, PictureData, Table

ROWS = 600  # of a data table; the JSON has all of them

STYLE = """
.transom{color-scheme:light dark;--ink:#1b1f24;--faint:#57606a;--rule:#d0d7de;--paper:#fff;--raised:#f6f8fa;
font:14px/1.5 system-ui,-apple-system,'Segoe UI','Helvetica Neue',Arial,sans-serif;
color:var(--ink);background:var(--paper);padding:1rem 1.25rem;max-width:100%;box-sizing:border-box}
.transom h1{font-size:1.25rem;line-height:1.3;margin:0 0 .25rem}
.transom .source,.transom .notes,.transom summary,.transom figcaption i{color:var(--faint);font-size:.86rem}
.transom .source{margin:0 0 1rem}
.transom .panels{display:flex;flex-wrap:wrap;gap:1.5rem 2rem;align-items:flex-start}
.transom figure{margin:0;max-width:100%;overflow-x:auto}
.transom figcaption{font-weight:600;margin-bottom:.35rem}
.transom figcaption i{font:normal .8rem ui-monospace,Menlo,Consolas,monospace;display:block}
.transom svg{display:block}
.transom .ink-fill{fill:var(--ink)}.transom .faint-fill{fill:var(--faint)}.transom .paper-fill{fill:var(--paper)}
.transom .rule-fill{fill:var(--rule)}.transom .ink-stroke{stroke:var(--ink)}.transom .faint-stroke{stroke:var(--faint)}
.transom .rule-stroke{stroke:var(--rule)}
.transom table{border-collapse:collapse;font-size:.84rem}
.transom th{font-weight:500;text-align:left;padding:.15rem .5rem;white-space:pre}
.transom td{padding:.1rem .5rem;border-top:1px solid var(--rule);white-space:pre;
font-family:ui-monospace,Menlo,Consolas,monospace}
.transom .opens td{padding:0;border:1px solid var(--paper);text-align:right}
.transom .opens thead th{text-align:right}
.transom .opens button{font:inherit;color:inherit;background:none;border:0;
padding:.3rem .5rem;width:100%;text-align:right;cursor:pointer}
.transom button:focus-visible,.transom summary:focus-visible{outline:3px solid #d55e00;outline-offset:-2px}
.transom .axis{color:var(--faint);font-size:.78rem}
.transom [popover]{max-width:min(44rem,90vw);padding:1rem 1.2rem;border:1px solid var(--rule);border-radius:8px;
color:var(--ink);background:var(--raised);box-shadow:0 8px 30px rgba(0,0,0,.25);white-space:normal;text-align:left}
.transom [popover] b{display:block;font:600 .95rem system-ui,sans-serif;margin-bottom:.4rem}
.transom [popover] code{font-family:ui-monospace,Menlo,Consolas,monospace;overflow-wrap:anywhere}
.transom details{margin-top:1rem}
.transom .scroll{max-height:24rem;overflow:auto}
.transom .notes{margin:1rem 0 0;padding-left:1.1rem}
@media (prefers-color-scheme:dark){
.transom{--ink:#e6edf3;--faint:#9aa5b1;--rule:#3b434c;--paper:#0d1117;--raised:#161b22}}
@media print{.transom details{display:none}}
"""
PAGE = "html,body{margin:0;background:#fff}@media (prefers-color-scheme:dark){html,body{background:#0d1117}}"


def render_page(picture: PictureData) -> str:
    """A whole page. Its policy allows this style by its hash, and nothing else: no script, no request, no frame."""
    style = STYLE + PAGE + cell_colours(picture.panels)
    policy = f"default-src 'none'; style-src {csp_hash(style)}; base-uri 'none'; form-action 'none'"
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{to_html(picture.title)}</title><style>{style}</style></head>\n"
        f"<body>{render_body(picture)}</body></html>\n"
    )


def csp_hash(text: str) -> str:
    """A style or a script as a Content-Security-Policy names it, to allow this one and no other."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def render_fragment(picture: PictureData) -> str:
    """The same for a notebook: a part of a page, with its style inside."""
    return f"<div><style>{STYLE}{cell_colours(picture.panels)}</style>{render_body(picture)}</div>"


def render_body(picture: PictureData) -> str:
    prefix = f"t{hashlib.sha256(picture.json().encode()).hexdigest()[:10]}"  # no other picture on a page has it
    panels = "".join(render_panel(panel, f"{prefix}-{number}") for number, panel in enumerate(picture.panels))
    notes = "".join(f"<li>{to_html(note)}</li>" for note in picture.notes)
    return (
        f'<main class="transom {prefix}"><h1>{to_html(picture.title)}</h1>'
        f'<p class="source">{escape(picture.source.summary())}</p><div class="panels">{panels}</div>'
        + (f'<ul class="notes">{notes}</ul>' if notes else "")
        + render_table(picture.table)
        + "</main>"
    )


def to_html(text: str) -> str:
    return escape(make_visible(text))


def render_panel(panel: Panel, prefix: str) -> str:
    if isinstance(panel, Grid) and panel.opens:
        return render_clickable_grid(panel, prefix)
    return f"<figure>{panel.to_canvas().svg(make_visible(panel.title), margin=4)}</figure>"


def render_clickable_grid(grid: Grid, prefix: str) -> str:
    """A table of buttons: each opens the arithmetic of its number."""
    columns = "".join(f"<th scope=col>{to_html(label)}</th>" for label in grid.columns)
    rows = ""
    for i, label in enumerate(grid.rows):
        cells = "".join(render_clickable_cell(grid, i, j, prefix) for j in range(len(grid.columns)))
        rows += f"<tr><th scope=row>{to_html(label)}</th>{cells}</tr>"
    equation = f"<i>{to_html(grid.equation)}</i>" if grid.equation else ""
    return (
        f"<figure><figcaption>{to_html(grid.title)}{equation}</figcaption>"
        f'<table class="opens"><thead><tr><th class="axis">{escape(grid.corner())}</th>{columns}</tr></thead>'
        f"<tbody>{rows}</tbody></table></figure>"
    )


def render_clickable_cell(grid: Grid, i: int, j: int, prefix: str) -> str:
    value, popover = grid.values[i][j], f"{prefix}-{i}-{j}"
    shade = f' class="h{colour_class(grid.heat, value)}"' if is_number(value) else ""
    label, name = escape(grid.cell_label(i, j)), to_html(grid.title.partition(":")[0])
    # Arithmetic may be longer than the longest token that is shown, so it is made visible word by word.
    arithmetic = " ".join(to_html(word) for word in grid.opens[i][j].split(" ") if word)
    return (
        f'<td{shade}><button popovertarget="{popover}" aria-label="{label}">{grid.cell_text(value)}</button>'
        f'<div popover id="{popover}"><b>{name}, {label}</b><code>{arithmetic}</code></div></td>'
    )


def colour_class(scale: ColourScale, value: float) -> str:
    """The class of a cell's colour: one of 65 steps of its map."""
    return f"{scale.colours[0]}{scale.step(value)}"


def cell_colours(panels: Sequence[Panel]) -> str:
    """The colours of clickable cells as rules, because a style attribute would need a policy that allows any style."""
    colours = {}
    for grid in panels:
        if isinstance(grid, Grid) and grid.opens:
            for value in (value for row in grid.values for value in row if is_number(value)):
                colours[colour_class(grid.heat, value)] = grid.heat.step_rgb(value)
    return "".join(
        f".transom .h{name}{{background:{to_hex(rgb)};color:{ink_on(rgb)}}}" for name, rgb in sorted(colours.items())
    )


def render_table(table: Table) -> str:
    """The numbers behind a picture."""
    if not table.rows:
        return ""
    columns = "".join(f"<th scope=col>{escape(name)}</th>" for name in table.columns)
    rows = ""
    for row in table.rows[:ROWS]:
        rows += f"<tr>{''.join(f'<td>{escape(format_table_cell(value))}</td>' for value in row)}</tr>"
    left_out = len(table.rows) - ROWS
    more = f"<p>{left_out:,} more rows are in the JSON of this picture.</p>" if left_out > 0 else ""
    return (
        f"<details><summary>The numbers ({min(len(table.rows), ROWS):,} rows)</summary>"
        f'<div class="scroll" tabindex="0"><table><thead><tr>{columns}</tr></thead><tbody>{rows}</tbody></table></div>'
        f"{more}</details>"
    )


def format_table_cell(value: str | int | float | None) -> str:
    return "" if value is None else make_visible(value) if isinstance(value, str) else format_significant(value)
