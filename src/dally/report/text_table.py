"""A table of texts, the best in each column marked: for terminals, in Markdown, in LaTeX and in HTML."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import NamedTuple

LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "±": r"$\pm$", "÷": r"$\div$", "†": r"$^\dagger$",
}  # fmt: skip


class TextCell(NamedTuple):
    """A text, and whether it is the best of its column."""

    text: str
    best: bool = False


class TextTable(NamedTuple):
    """Headings and lines; the first column says what a line is about."""

    headings: list[str]
    lines: list[list[TextCell]]
    last_apart: bool = False  # the last line is about all the others
    numbers_from: int = 1  # the first column that holds numbers

    def texts(self) -> list[list[str]]:
        """The lines without marks."""
        return [[cell.text for cell in line] for line in self.lines]

    def marked(self) -> list[list[str]]:
        """The lines with a star at the best; the others keep its place free, so that digits stay aligned."""
        return [
            [line[0].text, *(cell.text + ("*" if cell.best else " ") for cell in line[1:])] for line in self.lines
        ]

    def markdown(self) -> str:
        """The table in Markdown, the best in bold."""
        rows = [self.headings, ["---", *["---:"] * (len(self.headings) - 1)]]
        for place, (first, *rest) in enumerate(self.lines):
            apart = self.last_apart and place == len(self.lines) - 1
            label = first.text if apart else f"`{first.text}`"
            rows.append([label, *(f"**{cell.text}**" if cell.best else cell.text for cell in rest)])
        return "".join(f"| {' | '.join(row)} |\n" for row in rows)

    def aligned(self) -> str:
        """The table as lines of text, numbers aligned right, a star at the best."""
        lines = self.texts()
        heads = self.headings
        if any(cell.best for line in self.lines for cell in line):
            lines = self.marked()
            heads = [heads[0], *(f"{text} " for text in heads[1:])]  # above the digits, not above the star
        lines = [heads, *lines] if any(heads) else lines
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        return "\n".join(
            "  ".join(
                text.rjust(width) if place >= self.numbers_from else text.ljust(width)
                for place, (text, width) in enumerate(zip(line, widths, strict=True))
            ).rstrip()
            for line in lines
        )

    def html(self) -> str:
        """The table in HTML that needs no style sheet, the best in bold."""
        heads = [TextCell(text, best=True) for text in self.headings] if any(self.headings) else []
        rows = "".join(f"<tr>{self._html_line(line)}</tr>" for line in ([heads] if heads else []) + self.lines)
        return f"<table>{rows}</table>"

    def _html_line(self, line: list[TextCell]) -> str:
        sides = ["right" if place >= self.numbers_from else "left" for place in range(len(line))]
        return "".join(
            f'<td style="text-align:{side}">{f"<b>{escape(text)}</b>" if best else escape(text)}</td>'
            for side, (text, best) in zip(sides, line, strict=True)
        )

    def latex(self) -> str:
        """A tabular that needs the package booktabs, the best in bold."""
        lines = [rf"\begin{{tabular}}{{l{'r' * (len(self.headings) - 1)}}}", r"\toprule"]
        lines += [_latex_line(TextCell(text) for text in self.headings), r"\midrule"]
        for place, cells in enumerate(self.lines):
            if self.last_apart and place == len(self.lines) - 1:
                lines.append(r"\midrule")
            lines.append(_latex_line(cells))
        return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"]) + "\n"


def plain_table(headings: list[str], lines: Iterable[Sequence[str]], numbers_from: int = 1) -> TextTable:
    """A table in which nothing is best."""
    return TextTable(headings, [[TextCell(text) for text in line] for line in lines], numbers_from=numbers_from)


def _latex_line(cells: Iterable[TextCell]) -> str:
    texts = [rf"\textbf{{{latex_text(text)}}}" if best else latex_text(text) for text, best in cells]
    return rf"{' & '.join(texts)} \\"


def latex_text(text: str) -> str:
    """The text with what LaTeX would take for a command written out."""
    return "".join(LATEX.get(one, one) for one in text)
