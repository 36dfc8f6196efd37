"""What axe-core finds on a page; of texts whose contrast it cannot tell, the contrast with the pixels behind them."""

import io

import pytest

LARGE, LARGE_BOLD = 24.0, 18.66  # pixels: from these sizes on, a contrast of 3 is enough (WCAG 1.4.3)
SHARE = 0.9  # of the pixels behind a text that must contrast: a thin line may pass behind a letter
# The texts of elements: boxes on the page, colour, size, weight. A control that is switched off is exempt, and what is
# scrolled out of sight has no pixels.
TEXTS = """(selectors) => {
  const isSeen = (element, { left, top, right, bottom }) => {
    for (let at = element.parentElement; at && at !== document.body; at = at.parentElement) {
        const frame = at.getBoundingClientRect();
        const isOut = left < frame.left || right > frame.right + 1 || top < frame.top || bottom > frame.bottom + 1;
        if (isOut && getComputedStyle(at).overflow !== "visible") return false;
    }
    return true;
  };
  return selectors.flatMap((selector) => {
    const element = document.querySelector(selector);
    if (!element || element.closest(":disabled, .visually-hidden")) return [];
    const range = document.createRange();
    return [...element.childNodes].filter((one) => one.nodeType === 3 && one.data.trim()).flatMap((text) => {
        range.selectNodeContents(text);
        const style = getComputedStyle(element);
        const isSvg = element instanceof SVGElement;
        if (style.visibility === "hidden" || /rgba\\(.*, 0\\)/.test(isSvg ? style.fill : style.color)) return [];
        let opacity = 1;
        for (let at = element; at; at = at.parentElement) opacity *= Number(getComputedStyle(at).opacity);
        return [...range.getClientRects()].filter((box) => isSeen(element, box)).map((box) => ({
            selector, opacity, text: text.data.trim(), colour: isSvg ? style.fill : style.color,
            size: parseFloat(style.fontSize), bold: Number(style.fontWeight) >= 600,
            box: [box.left + scrollX, box.top + scrollY, box.width, box.height],
        }));
    });
  });
}"""
HIDE_TEXT = """() => {
    const style = new CSSStyleSheet();
    style.replaceSync("* { color: transparent !important; transition: none !important; }"
        + "text, tspan { fill: transparent !important; stroke: transparent !important; }");
    document.adoptedStyleSheets = [style];
}"""


def find_violations(page):
    """Rule by rule, what is wrong; empty where all is well."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed")
    found = axe.Axe().run(page, options={"resultTypes": ["violations", "incomplete"]}).response
    wrong = {one["id"]: [node["html"][:120] for node in one["nodes"][:3]] for one in found["violations"]}
    undecided = [
        node["target"][0] for one in found["incomplete"] if one["id"] == "color-contrast" for node in one["nodes"]
    ]
    faint = find_faint_texts(page, [target for target in undecided if isinstance(target, str)])
    return wrong | ({"contrast by pixels": faint} if faint else {})


def find_faint_texts(page, selectors):
    """Texts whose contrast with what is really behind them is too low, each with the contrast."""
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    texts = page.evaluate(TEXTS, selectors)
    if not texts:
        return []
    page.evaluate(HIDE_TEXT)
    page.wait_for_timeout(300)  # colours fade
    picture = image.open(io.BytesIO(page.screenshot(full_page=True, animations="disabled"))).convert("RGB")
    page.evaluate("document.adoptedStyleSheets = []")
    return [problem for text in texts if (problem := judge(text, picture))]


def judge(text, picture):
    left, top, width, height = text["box"]
    box = (max(0, int(left)), max(0, int(top)), int(left + width) + 1, int(top + height) + 1)
    counts = picture.crop(box).getcolors(2**20)
    least = 3.0 if text["size"] >= (LARGE_BOLD if text["bold"] else LARGE) else 4.5
    ink = [float(one) for one in text["colour"].partition("(")[2].rstrip(")").split(",")]
    opacity = text["opacity"] * (ink[3] if len(ink) > 3 else 1.0)
    behind = sorted((contrast(blend(ink, ground, opacity), ground), count) for count, ground in counts)
    rest = (1 - SHARE) * sum(count for _, count in behind)
    for ratio, count in behind:
        rest -= count
        if rest < 0:
            return None if ratio >= least else f"{text['text'][:30]!r} {ratio:.2f} < {least}: {text['selector'][:100]}"
    return None


def blend(ink, ground, opacity):
    return [opacity * one + (1 - opacity) * other for one, other in zip(ink, ground, strict=False)]


def contrast(one, other):
    """By WCAG 2: from 1, alike, to 21, black on white."""
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def luminance(colour):
    parts = [part / 255 for part in colour[:3]]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
