"""The report as a reader's browser shows it: offline, wide and narrow, light and dark, and printed.

Skipped where Playwright or a Chromium on the PATH is absent. Screenshots go to the test's temporary folder, and stay there for a look.
"""

import contextlib
import math
import shutil

import pytest

from jaxprune.reporting import write_report
from tests.reporting.synthetic import make_layers, make_masks, make_records, make_sizes

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on the PATH")

WIDE, NARROW, SHEET = (1280, 900), (380, 800), (718, 1000)  # SHEET: A4 at 96 dots an inch, inside margins of 1 cm
SCREENS = [(size, scheme) for size in (WIDE, NARROW) for scheme in ("light", "dark")]
FIGURES = ("returns-0", "costs-0", "curves-0", "layers-0", "masks-0")

# What stands in the page, measured by the browser. Boxes are [left, top, right, bottom] in CSS pixels.
MEASURE = """() => {
  const box = (e) => { const r = e.getBoundingClientRect(); return [r.left, r.top, r.right, r.bottom]; };
  const shown = (e) => e.getClientRects().length > 0;
  const scroller = (e) => e.closest('.scroll');
  const contrast = (e) => {
    const parse = (c) => c.match(/[\\d.]+/g).slice(0, 3).map((v) => {
      v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; });
    const luminance = ([r, g, b]) => 0.2126 * r + 0.7152 * g + 0.0722 * b;
    const two = [getComputedStyle(e).color, getComputedStyle(document.body).backgroundColor].map((c) => luminance(parse(c)));
    return (Math.max(...two) + 0.05) / (Math.min(...two) + 0.05);
  };
  const words = [...document.querySelectorAll('h1, h2, h3, p, li, a, th, td, dt, dd, pre, figcaption, small, summary')].filter(shown);
  return {
    page: [document.documentElement.scrollWidth, document.documentElement.clientWidth],
    words: words.map((e) => ({
      text: e.textContent.slice(0, 40), box: box(e), scrolls: scroller(e) !== null,
      cut: e.scrollWidth > e.clientWidth + 1 && getComputedStyle(e).display !== 'inline', contrast: contrast(e),
    })),
    rows: [...document.querySelectorAll('tr')].filter(shown).map((row) => [...row.children].map(box)),
    scrollers: [...document.querySelectorAll('.scroll')].map((e) => ({ box: box(e), inside: e.scrollWidth, width: e.clientWidth })),
    figures: [...document.querySelectorAll('figure svg')].map((svg) => ({
      id: svg.querySelector('title').id.replace('-title', ''), box: box(svg),
      images: [...svg.querySelectorAll('image')].map(box),
      texts: [...svg.querySelectorAll('text')].map((e) => ({ text: e.textContent, box: box(e) })),
    })),
    background: getComputedStyle(document.body).backgroundColor,
  };
}"""


USUAL = dict(criteria=("snip", "grasp", "magnitude", "random"), sparsities=(0.8, 0.9, 0.95, 0.98, 0.99), seeds=5)
# Long names, many of them, few seeds (single points and lines) and panels.
CROWDED = dict(
    criteria=(
        *(f"{name}{check}" for name in ("snip", "grasp") for check in ("", "_shuffled", "_reinit", "_inverted")),
        "gradual",
        "random",
    ),
    sparsities=(0.95, 0.99),
    seeds=3,
)


@pytest.fixture(scope="module", params=[USUAL, CROWDED], ids=["usual", "crowded"])
def report(request, tmp_path_factory):
    """Every kind of figure, a run that failed, and words that are long."""
    records = make_records(**request.param)
    records += [{**records[-1], "run_id": "lost", "seed": 9, "status": "failed", "reason": "the parameters are not finite " * 5}]
    config = {
        "command": f"python experiments/sweep.py --dataset=jaxprune/hopper/medium-v0 --output={'a-long-folder-name' * 8}",
        "versions": {"jax": "1.2.3", "device": "1 × cpu"},
        "settings": {"hidden": [256, 256], "a_long_name_of_a_setting_of_the_sweep": "and a long value of it " * 6},
        "behaviour_score": 38.0,
    }
    path = tmp_path_factory.mktemp("page") / "report.html"
    sizes, masks = make_sizes(records), make_masks(records)
    return write_report(path, records, config, layers=make_layers(**request.param), sizes=sizes, masks=masks)


@pytest.fixture(scope="module")
def chromium():
    with playwright.sync_playwright() as driver:
        quiet = ["--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"]
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=quiet)
        yield browser
        browser.close()


@contextlib.contextmanager
def opened(browser, report, *, size=WIDE, scheme="light", media="screen"):
    """The page with its details open, and a list of everything that went wrong or was asked of the network."""
    context = browser.new_context(viewport=dict(width=size[0], height=size[1]), color_scheme=scheme, offline=True)
    page, faults = context.new_page(), []
    page.on("console", lambda message: faults.append(f"console: {message.text}"))
    page.on("pageerror", lambda error: faults.append(f"error: {error}"))
    page.on("request", lambda request: faults.append(request.url[:100]) if not request.url.startswith(("data:", report.as_uri())) else None)
    page.emulate_media(media=media, color_scheme=scheme)
    page.goto(report.as_uri())
    page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    try:
        yield page, faults
    finally:
        context.close()


def overlap(a, b, *, least=1.5):
    """Whether two boxes share more than a sliver."""
    return min(a[2], b[2]) - max(a[0], b[0]) > least and min(a[3], b[3]) - max(a[1], b[1]) > least


def within(inner, outer, *, slack=1):
    """Whether a box lies inside another."""
    left, top = inner[0] >= outer[0] - slack, inner[1] >= outer[1] - slack
    return left and top and inner[2] <= outer[2] + slack and inner[3] <= outer[3] + slack


def collisions(texts):
    return [(a["text"], b["text"]) for place, a in enumerate(texts) for b in texts[:place] if overlap(a["box"], b["box"])]


@pytest.mark.parametrize(("size", "scheme"), SCREENS)
def test_on_a_screen(chromium, report, size, scheme):
    with opened(chromium, report, size=size, scheme=scheme) as (page, faults):
        found = page.evaluate(MEASURE)
        page.screenshot(path=report.with_name(f"{size[0]}-{scheme}.png"), full_page=True)
    assert faults == []
    assert found["page"][0] <= found["page"][1], "the page scrolls to the side"
    # Words: nothing beyond the page, cut off, pale, or over its neighbour.
    assert len(found["words"]) > 100
    for word in found["words"]:
        assert not word["cut"], word
        assert word["scrolls"] or (word["box"][0] >= 0 and word["box"][2] <= size[0]), word
        assert word["contrast"] >= 4.5, word
    for cells in found["rows"]:
        assert not any(overlap(a, b) for place, a in enumerate(cells) for b in cells[:place])
    assert all(within(each["box"], (0, -math.inf, size[0], math.inf)) for each in found["scrollers"])
    # Figures: all there, of some size, with every text inside and apart from the others.
    assert tuple(figure["id"] for figure in found["figures"]) == FIGURES
    for figure in found["figures"]:
        left, top, right, bottom = figure["box"]
        assert right - left > 340
        assert bottom - top > 150
        assert len(figure["texts"]) > 10
        for text in figure["texts"]:
            assert within(text["box"], figure["box"]), (figure["id"], text)
            assert size == NARROW or text["box"][3] - text["box"][1] >= 8, (figure["id"], text)
        assert collisions(figure["texts"]) == [], figure["id"]
        assert all(box[2] - box[0] > 5 and box[3] - box[1] > 5 for box in figure["images"])
    assert sum(len(figure["images"]) for figure in found["figures"]) in (4 * 3 + 1, 10 * 3 + 1)
    red, green, blue = map(int, found["background"].removeprefix("rgb(").rstrip(")").split(","))
    assert (red + green + blue) / 3 > 200 if scheme == "light" else (red + green + blue) / 3 < 60


def test_what_is_wider_than_a_telephone_scrolls_by_itself(chromium, report):
    with opened(chromium, report, size=NARROW) as (page, _):
        found = page.evaluate(MEASURE)
        to_its_end = "(e) => { e.scrollLeft = 1e6; return e.scrollLeft + e.clientWidth - e.scrollWidth; }"
        reached = page.evaluate(f"[...document.querySelectorAll('.scroll')].map({to_its_end})")
    assert any(each["inside"] > each["width"] for each in found["scrollers"])
    assert all(abs(rest) <= 1 for rest in reached)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_on_paper(chromium, report, scheme):
    with opened(chromium, report, size=SHEET, scheme=scheme, media="print") as (page, faults):
        found = page.evaluate(MEASURE)
        kept = page.evaluate("[...document.querySelectorAll('figure, tr')].every((e) => getComputedStyle(e).breakInside === 'avoid')")
        page.screenshot(path=report.with_name(f"paper-{scheme}.png"), full_page=True)
        margin = dict.fromkeys(("top", "right", "bottom", "left"), "1cm")
        printed = page.pdf(path=report.with_name(f"paper-{scheme}.pdf"), format="A4", margin=margin)
    assert faults == []
    assert kept, "a figure or a row would be torn in two"
    assert found["background"] == "rgb(254, 254, 254)", "a dark page would be printed dark"
    for word in found["words"]:
        assert not word["cut"], word
        assert word["box"][2] <= SHEET[0] + 1, word
    assert all(each["inside"] <= each["width"] for each in found["scrollers"]), "paper does not scroll"
    for figure in found["figures"]:
        assert figure["box"][2] <= SHEET[0] + 1
        assert figure["box"][3] - figure["box"][1] <= SHEET[1], "higher than a sheet"
    assert 2 <= printed.count(b"/Type /Page\n") + printed.count(b"/Type /Page ") <= 8


def test_the_records_can_be_saved(chromium, report, tmp_path):
    with opened(chromium, report) as (page, _):
        with page.expect_download() as download:
            page.click("a[download]")
        download.value.save_as(tmp_path / "records.csv")
    assert (tmp_path / "records.csv").read_text().startswith("run_id,algo,dataset")
