"""The paper's table: best accuracy, and rounds, time and energy to the goal; in two groups, full and partial."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fedprof.report import numbers
from fedprof.report.comparison import Comparison, Series
from fedprof.report.numbers import Spread

COLUMNS = ("Best accuracy", "Rounds", "Time (min)", "Energy (Wh)")
USUAL = (numbers.ACCURACY, numbers.ROUNDS, numbers.MINUTES, numbers.WATT_HOURS)


@dataclass(frozen=True)
class Row:
    """One algorithm's figures."""

    series: Series
    spreads: tuple[Spread | None, ...]
    """In the order of ``COLUMNS``; the costs are over the runs that reached the goal."""
    reached: tuple[int, ...]
    """Seeds that reached the goal."""

    @classmethod
    def of(cls, series: Series) -> Row:
        """Sum a series up."""
        best = [run.best_accuracy for run in series.runs if run.best_accuracy is not None]
        got_there = [(run.seed, run.reached) for run in series.runs if run.reached is not None]
        costs = [Spread.of([float(reached[i]) for _, reached in got_there]) for i in range(3)]
        return cls(series, (Spread.of(best), *costs), tuple(seed for seed, _ in got_there))


@dataclass(frozen=True)
class Cell:
    """A figure as it is written, and whether it is the group's best."""

    text: str
    best: bool = False


@dataclass(frozen=True)
class Line:
    """A row as it is written."""

    name: str
    cells: tuple[Cell, ...]
    reached: str
    key: str
    """Names the series on a page."""


@dataclass(frozen=True)
class Table:
    """A comparison, ready to be written in any form."""

    title: str
    goal: float | None
    groups: tuple[tuple[str, tuple[Row, ...]], ...]

    @classmethod
    def of(cls, comparison: Comparison) -> Table:
        """Sum a comparison up."""
        groups = [(mode, tuple(Row.of(series) for series in comparison.group(mode))) for mode in comparison.modes]
        return cls(comparison.title, comparison.goal, tuple(groups))

    def lines(self, rows: Sequence[Row], between: str = " ± ") -> list[Line]:
        """Write a group's rows."""
        places = [
            numbers.decimals(usual, [row.spreads[i] for _, group in self.groups for row in group])
            for i, usual in enumerate(USUAL)
        ]
        best = [_best(rows, i, places[i]) for i in range(len(COLUMNS))]
        return [
            Line(
                row.series.label,
                tuple(
                    Cell(numbers.written(spread, places[i], between), row in best[i])
                    for i, spread in enumerate(row.spreads)
                ),
                f"{len(row.reached)}/{len(row.series.runs)}",
                row.series.key,
            )
            for row in rows
        ]

    @property
    def notes(self) -> list[str]:
        """What a reader must know to read the figures."""
        goal = "the goal" if self.goal is None else f"accuracy {self.goal:g}"
        rows = [row for _, group in self.groups for row in group]
        many = max(len(row.series.runs) for row in rows) > 1
        notes = [f"Rounds, time and energy are virtual, until {goal} was first reached; '-': never reached."]
        if many:
            notes.append("Mean ± standard deviation over the seeds; costs are over the seeds that reached the goal.")
        partly = [row for row in rows if 0 < len(row.reached) < len(row.series.runs)]
        notes += [f"{row.series.key}: costs over {_seeds(row.reached)}." for row in partly]
        return notes

    @property
    def seeds(self) -> str:
        """How many runs the figures are over."""
        counts = sorted({len(row.series.runs) for _, group in self.groups for row in group})
        plural = "s" if counts != [1] else ""
        return f"{' to '.join(map(str, dict.fromkeys((counts[0], counts[-1]))))} seed{plural}"


def _seeds(seeds: Sequence[int]) -> str:
    return f"seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}"


def _best(rows: Sequence[Row], column: int, places: int) -> list[Row]:
    """The rows that are best as written; costs compare only among those that reached the goal with most seeds."""
    known = [row for row in rows if row.spreads[column] is not None]
    if column:
        most = max((len(row.reached) for row in known), default=0)
        known = [row for row in known if len(row.reached) == most]
    values = [_rounded(row, column, places) for row in known]
    target = (min if column else max)(values, default=0.0)
    return [row for row, value in zip(known, values, strict=True) if value == target] if len(rows) > 1 else []


def _rounded(row: Row, column: int, places: int) -> float:
    spread = row.spreads[column]
    assert spread is not None
    return round(spread.mean, places)


def text(table: Table, bold: Callable[[str], str] = str) -> str:
    """Write for a terminal; ``*`` marks the best of a group."""
    blocks = [(mode, table.lines(rows)) for mode, rows in table.groups]
    grid = [["", *COLUMNS, "Reached"]]
    grid += [_marked(line) for _, lines in blocks for line in lines]
    widths = [max(len(row[i]) for row in grid) for i in range(len(grid[0]))]
    out = [f"{table.title}: {table.seeds}", "  ".join(_pad(grid[0], widths)).rstrip()]
    for mode, lines in blocks:
        out.append(f"{mode} aggregation")
        for line in lines:
            cells = _pad(_marked(line), widths)
            best = [False, *(cell.best for cell in line.cells), False]
            out.append("  ".join(bold(cell) if mark else cell for cell, mark in zip(cells, best, strict=True)).rstrip())
    marks = any(cell.best for _, lines in blocks for line in lines for cell in line.cells)
    return "\n".join([*out, "", *table.notes, *(["* the best of its group"] if marks else [])])


def _marked(line: Line) -> list[str]:
    return ["  " + line.name, *(cell.text + ("*" if cell.best else " ") for cell in line.cells), line.reached]


def _pad(row: Sequence[str], widths: Sequence[int]) -> list[str]:
    return [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]


def markdown(table: Table) -> str:
    """Write as Markdown."""
    out = [f"| {table.title} | {' | '.join(COLUMNS)} | Reached |", "|---|" + "---:|" * 5]
    for mode, rows in table.groups:
        out.append(f"| *{mode} aggregation* | | | | | |")
        for line in table.lines(rows):
            cells = [f"**{cell.text}**" if cell.best else cell.text for cell in line.cells]
            out.append(f"| {line.name} | {' | '.join(cells)} | {line.reached} |")
    return "\n".join([*out, "", *(f"{note}  " for note in table.notes)]).rstrip() + "\n"


def latex(table: Table) -> str:
    """Write as LaTeX, in the layout of the paper's tables."""
    goal = "goal" if table.goal is None else f"accuracy@{table.goal:g}"
    out = [r"\begin{tabular}{l c c c c c}", r"\hline"]
    for number, (mode, rows) in enumerate(table.groups):
        out += [r"\hline"] if number else []
        out.append(rf"\multicolumn{{6}}{{c}}{{\textbf{{{_escaped(table.title)} ({mode} aggregation)}}}} \\")
        out.append(rf" & Best accuracy & \multicolumn{{3}}{{c}}{{For {goal}}} & Seeds that \\")
        out += [r" & & Rounds needed & Time (minutes) & Energy (Wh) & reached it \\", r"\hline"]
        for line in table.lines(rows, r"$\pm$"):
            cells = [rf"\textbf{{{cell.text}}}" if cell.best else cell.text for cell in line.cells]
            out.append(rf"\textsc{{{_escaped(line.name)}}} & {' & '.join(cells)} & {line.reached} \\")
        out.append(r"\hline")
    return "\n".join([*out, r"\end{tabular}", *(f"% {note}" for note in table.notes)]) + "\n"


def _escaped(name: str) -> str:
    for special in "\\&%$#_{}":
        name = name.replace(special, r"\textbackslash{}" if special == "\\" else f"\\{special}")
    return name


def comma_separated(table: Table) -> str:
    """Write as CSV, in full precision; what was never reached is empty."""
    names = ("best_accuracy", "rounds_to_goal", "minutes_to_goal", "energy_wh_to_goal")
    head = ["task", "aggregation", "algorithm", "seeds", "reached"]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*head, *(f"{name}_{part}" for name in names for part in ("mean", "std"))])
    for mode, rows in table.groups:
        for row in rows:
            figures = [part for spread in row.spreads for part in _parts(spread)]
            writer.writerow([table.title, mode, row.series.label, len(row.series.runs), len(row.reached), *figures])
    return out.getvalue()


def _parts(spread: Spread | None) -> tuple[str, str]:
    if spread is None:
        return "", ""
    return f"{spread.mean:.6g}", "" if spread.std is None else f"{spread.std:.6g}"


FORMATS = {"md": markdown, "csv": comma_separated, "tex": latex}
"""How a table is written, by the ending of its file."""
