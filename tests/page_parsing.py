"""Pages of the report, read back: well formed, their words, the cells of their tables."""

from __future__ import annotations

from html.parser import HTMLParser

VOID = frozenset({"meta", "input", "rect", "line", "circle", "path", "col"})


class Checker(HTMLParser):
    """Elements that are open, and everything that was seen."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.tables: list[tuple[str, list[list[str]]]] = []  # captions and rows, the head's too

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "table":
            self.tables.append(("", []))
        elif tag == "tr":
            self.tables[-1][1].append([])
        elif tag in ("th", "td"):
            self.tables[-1][1][-1].append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] in (["script"], ["style"]):
            return
        self.words.append(data)
        if "caption" in self.open:
            self.tables[-1] = (self.tables[-1][0] + data, self.tables[-1][1])
        elif "td" in self.open or "th" in self.open:
            self.tables[-1][1][-1][-1] += data


def parsed(page: str) -> Checker:
    """A page of which every element is closed."""
    checker = Checker()
    checker.feed(page)
    checker.close()
    assert checker.open == []
    return checker


def rows_of(page: str, caption: str) -> list[list[str]]:
    """The rows below the head of the table whose caption begins so."""
    (rows,) = [rows for title, rows in parsed(page).tables if title.startswith(caption)]
    return rows[1:]
