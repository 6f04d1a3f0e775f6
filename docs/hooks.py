"""What the site takes from outside docs/ (results/, CONTRIBUTING.md, CHANGELOG.md), and formulas as MathML."""

from __future__ import annotations

import html
import pathlib
import posixpath
import re
from typing import Any

from latex2mathml.converter import convert
from mkdocs.structure.files import File

ROOT = pathlib.Path(__file__).resolve().parents[1]
RESULTS = "results"
PAGES = {"contributing.md": "CONTRIBUTING.md", "changelog.md": "CHANGELOG.md"}

_LINK = re.compile(r"(?<!\\)\[([^\[\]]*)\]\(([^()\s]+)\)")
_FENCE = re.compile(r"^(```|~~~).*?^\1[ \t]*$", flags=re.M | re.S)
_FORMULA = re.compile(r'<(span|div) class="arithmatex">\s*\\[(\[](.*?)\\[)\]]\s*</\1>([.,;:]?)', flags=re.S)


def result_files(root: pathlib.Path = ROOT) -> list[str]:
    """Paths of everything below results/, relative to the repository."""
    return sorted(path.relative_to(root).as_posix() for path in (root / RESULTS).rglob("*") if path.is_file())


def result_pages(root: pathlib.Path = ROOT) -> list[str]:
    """The Markdown files below results/, its own README first, the others in the order in which that names their folders."""
    index = f"{RESULTS}/README.md"
    told = (root / index).read_text()

    def place(path: str) -> tuple[int, int, str]:
        folder, *below = path.split("/")[1:]
        found = told.find(f"]({folder}")
        return (found if found >= 0 else len(told), len(below), path)

    pages = [path for path in result_files(root) if path.endswith(".md") and path != index]
    return [index, *sorted(pages, key=place)]


def with_pages_for_folders(markdown: str, source: str, root: pathlib.Path = ROOT) -> str:
    """A link to a folder leads to the page in it; a link to a file that the site lacks becomes its text. Code blocks stay as they are.

    Args:
      markdown: of a page that lies outside docs/.
      source: its path in the repository.
      root: of the repository.
    """

    def link(match: re.Match) -> str:
        text, target = match.groups()
        if re.match(r"[a-z]+:|#|/", target):
            return match[0]
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target.partition("#")[0]))
        if not path.startswith(f"{RESULTS}/"):
            return text
        if (root / path).is_dir():
            pages = [page for page in result_pages(root) if posixpath.dirname(page) == path]
            return f"[{text}]({posixpath.relpath(pages[0], posixpath.dirname(source))})" if pages else text
        return match[0]

    parts, at = [], 0
    for fence in _FENCE.finditer(markdown):
        parts += [_LINK.sub(link, markdown[at : fence.start()]), fence[0]]
        at = fence.end()
    return "".join([*parts, _LINK.sub(link, markdown[at:])])


def with_mathml(page: str) -> str:
    """Formulas as MathML, which browsers show without any script; a mark that follows one stays on its line."""

    def formula(match: re.Match) -> str:
        kind, display = ("span", "inline") if match[1] == "span" else ("div", "block")
        mathml = convert(html.unescape(match[2]).strip(), display=display)
        return f'<{kind} class="formula">{mathml}{match[3]}</{kind}>'

    return _FORMULA.sub(formula, page)


def nav_entry(path: str, root: pathlib.Path = ROOT) -> str | dict[str, str]:
    """A page in the navigation: by its own title, and by the folder's name too where that lies deeper, beside one of the same title."""
    parts = path.split("/")
    if len(parts) <= 3:
        return path
    title = re.search(r"^# (.*)$", (root / path).read_text(), flags=re.M)
    return {f"{title[1]}: {parts[-2]}" if title else parts[-2]: path}


def on_config(config: Any) -> Any:
    """Put all pages of results/ where the navigation names the first."""
    first, *others = result_pages()
    for entry in config.nav:
        for title, value in entry.items():
            if value == first:
                entry[title] = [first, *map(nav_entry, others)]
    return config


def on_files(files: Any, *, config: Any) -> Any:
    """Add what lies outside docs/."""
    for source in result_files():
        files.append(File.generated(config, source, abs_src_path=str(ROOT / source)))
    for page, source in PAGES.items():
        files.append(File.generated(config, page, abs_src_path=str(ROOT / source)))
    return files


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Any) -> str:
    """Mend the links of what lies outside docs/; pages of results get the room of the table of contents."""
    del config, files
    path = page.file.src_uri
    if path.startswith(f"{RESULTS}/"):
        page.meta["hide"] = ["toc"]
    source = PAGES.get(path, path if path.startswith(f"{RESULTS}/") else None)
    return markdown if source is None else with_pages_for_folders(markdown, source)


def on_page_content(content: str, *, page: Any, config: Any, files: Any) -> str:
    """Write formulas as MathML, and let the stylesheet know a page of results."""
    del config, files
    content = with_mathml(content)
    return f'<div class="results">{content}</div>' if page.file.src_uri.startswith(f"{RESULTS}/") else content
