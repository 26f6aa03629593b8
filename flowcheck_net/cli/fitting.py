"""Tables that stay true on a narrow terminal: no figure is cut, no column left out, no word broken without need."""

from collections.abc import Sequence

from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.table import Column, Table

_LONGEST_WORD = 30
"""Columns that a word of a text column may ask for; longer ones (paths, addresses) may be broken."""

_PADDING = 3
"""Columns between two cells: one blank on both sides and the divider."""


class FittingTable(Table):
    """A table that is as wide as the terminal at the most.

    Where its columns do not fit, texts are wrapped between words. Where that is not enough either (rich would then cut
    figures and leave out columns), it is printed in parts that follow each other, each beginning with the ``keys``
    first columns. Columns with ``no_wrap`` hold figures: only their headings are wrapped.
    """

    keys: int = 1

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The table itself if it fits, else its parts."""
        room = options.max_width - 1  # the edge: one divider more than between the columns
        widths = [_widths(console, options, column) for column in self.columns]
        least, natural = [width[0] for width in widths], [width[1] for width in widths]
        if sum(natural) + _PADDING * len(natural) <= room:
            yield from super().__rich_console__(console, options)
            return
        parts = _parts(least, self.keys, room)
        for part in parts:
            shown = self._part(part, _fit([least[i] for i in part], [natural[i] for i in part], room))
            shown.title = self.title if part is parts[0] else None
            shown.caption = self.caption if part is parts[-1] else None
            yield shown

    def _part(self, part: Sequence[int], widths: Sequence[int]) -> Table:
        shown = Table(title_justify="left", caption_justify="left", box=self.box)
        columns = [self.columns[index] for index in part]
        for column, width in zip(columns, widths, strict=True):
            shown.add_column(column.header, justify=column.justify, width=width, overflow="fold")
        for row in zip(*(column.cells for column in columns), strict=True):
            shown.add_row(*row)
        return shown


def _widths(console: Console, options: ConsoleOptions, column: Column) -> tuple[int, int]:
    """Columns that a column needs at least, and those with which nothing is wrapped."""
    wide = options.update_width(10_000)
    header = Measurement.get(console, wide, column.header)
    cells = [Measurement.get(console, wide, cell) for cell in column.cells]
    natural = max([header.maximum, *(cell.maximum for cell in cells)])
    if column.no_wrap:
        return max([header.minimum, *(cell.maximum for cell in cells)]), natural
    return min(max([header.minimum, *(cell.minimum for cell in cells)]), _LONGEST_WORD), natural


def _parts(least: Sequence[int], keys: int, room: int) -> list[list[int]]:
    """Columns of each part by index: the keys, and of the others in their order as many as fit."""

    def need(part: Sequence[int]) -> int:
        return sum(least[index] + _PADDING for index in part)

    key = list(range(keys))
    if need(key) > room // 2:
        key = key[:1]
    parts = [list(key)]
    for index in range(len(key), len(least)):
        if len(parts[-1]) > len(key) and need([*parts[-1], index]) > room:
            parts.append(list(key))
        parts[-1].append(index)
    return parts


def _fit(least: Sequence[int], natural: Sequence[int], room: int) -> list[int]:
    """Widths that fill the room: the widest gives way first, none below what it needs unless nothing else helps."""
    widths = list(natural)
    while (excess := sum(widths) + _PADDING * len(widths) - room) > 0:
        able = [index for index, width in enumerate(widths) if width > least[index]]
        if not able:
            able = [index for index, width in enumerate(widths) if width > 1]
        if not able:
            return widths
        widest = max(able, key=lambda index: widths[index])
        others = [widths[index] for index in able if widths[index] < widths[widest]]
        floor = least[widest] if widths[widest] > least[widest] else 1
        widths[widest] = max(widths[widest] - excess, max(others, default=0) - 1, floor, 1)
    return widths
