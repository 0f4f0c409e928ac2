"""Figures of the benchmarks: how they are stored, and the one place that computes medians and ratios.

A file of figures is {"tables": {NAME: TABLE}}, or what `evenkeel-bench compare --json` writes. A table is
{"title": …, "rounds": N, "rows": [ROW…]}, and a row is

    {"title": "get, ns", "more": false, "values": {"evenkeel": [31.0, 32.5], "client-go": [20.1, 20.4]}, "cpu": {…}}

with a value for each round. "more" is true if more is better, "cpu" is optional processor time beside elapsed time, and
"compared": false marks a row without ratios. A program without a figure is not in "values"; null is a figure that is missing.
"alone": true marks a table of evenkeel alone whose columns are not programs, such as numbers of replicas.
"""

import json
import pathlib
import statistics

OURS = "evenkeel"


class Missing(Exception):
    """A figure that should be there is not."""


class Table:
    """Collects the figures of one table."""

    def __init__(self, title, rounds):
        self.content = {"title": title, "rounds": rounds, "rows": []}

    def add(self, title, program, round, value, more=False, cpu=None):
        """Adds the value of a round."""
        rows = self.content["rows"]
        row = next((row for row in rows if row["title"] == title), None)
        if row is None:
            row = {"title": title, "more": more, "values": {}}
            rows.append(row)
        for field, figure in (("values", value), ("cpu", cpu)):
            if figure is not None:
                rounds = row.setdefault(field, {}).setdefault(program, [None] * self.content["rounds"])
                rounds[round] = figure


def save(path, tables):
    """Writes tables; `tables` maps names to `Table`s."""
    pathlib.Path(path).parent.mkdir(parents=True, exist_ok=True)
    content = {"tables": {name: table.content for name, table in tables.items()}}
    pathlib.Path(path).write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")


def load(path):
    """Returns the tables of a file by name."""
    content = json.loads(pathlib.Path(path).read_text())
    if "tables" in content:
        return content["tables"]
    if content.get("failures"):
        raise Missing(f"{path}: " + "; ".join(content["failures"]))
    tables = {}
    for group in content.get("groups", []):
        rows = group["rows"]
        if not rows:
            raise Missing(f"{path}: no figures of {group['title']}, {group['wire']}")
        # Only evenkeel runs in the case before a million pods, whose title is "before".
        title = f"{group['objects']:,} pods" if group["case"] == "before" else group["title"]
        rounds = max(len(values) for row in rows for values in row["values"].values())
        table = {"title": f"{title}, {group['wire']}", "rounds": rounds, "rows": rows}
        tables[f"{group['case']}-{group['wire']}"] = table
    return tables


def check(name, table):
    """Fails unless every figure of the table is there."""
    if not table["rows"]:
        raise Missing(f"{name} has no figures")
    for row in table["rows"]:
        if OURS not in row["values"] and not table.get("alone"):
            raise Missing(f"{name}, {row['title']}: no figure of {OURS}")
        for field in ("values", "cpu"):
            for program, values in row.get(field, {}).items():
                numbers = [value for value in values if isinstance(value, (int, float))]
                if len(numbers) != table["rounds"]:
                    raise Missing(f"{name}, {row['title']}, {program}: {len(numbers)} of {table['rounds']} rounds have a figure")


def spread(values):
    """Returns median, minimum and maximum."""
    return statistics.median(values), min(values), max(values)


def ratio(row, program, field="values"):
    """Returns how many times better evenkeel is: the spread of the ratios within each round. None without a comparison."""
    ours, theirs = (row.get(field, {}).get(name) for name in (OURS, program))
    if ours is None or theirs is None or program == OURS or not row.get("compared", True):
        return None
    pairs = [(own, their) if row["more"] else (their, own) for own, their in zip(ours, theirs)]
    ratios = [above / below for above, below in pairs if below > 0]
    return spread(ratios) if ratios else None


def show(value):
    """Formats a number with three significant digits or so."""
    size = abs(value)
    if size >= 10_000_000:
        return f"{value / 1e6:.0f}M"
    if size >= 1_000_000:
        return f"{value / 1e6:.1f}M"
    if size >= 100:
        return f"{value:,.0f}"
    if size >= 10:
        return f"{value:.1f}"
    if size >= 0.1 or size == 0:
        return f"{value:.2f}"
    return f"{value:.3f}" if size >= 0.01 else f"{value:.4f}"


def show_ratio(ratio):
    median, least, most = ratio
    return f"{show(median)}×" if least == most else f"{show(median)}× ({show(least)}–{show(most)})"


def show_range(values):
    """Formats the median with minimum and maximum."""
    if values is None:
        return "–"
    median, least, most = map(show, spread(values))
    return median if least == most else f"{median} ({least}–{most})"


def cell(row, program, field="values"):
    """Returns a program's figure and its ratio."""
    values = row.get(field, {}).get(program)
    if values is None:
        return "–"
    text = show(statistics.median(values))
    compared = ratio(row, program, field)
    if compared:
        text += f" · {show_ratio(compared)}"
    by_cpu = ratio(row, program, "cpu") if field == "values" else None
    return f"{text} · CPU {show_ratio(by_cpu)}" if by_cpu else text


def programs(rows):
    """Returns the programs of the rows, evenkeel first."""
    found = dict.fromkeys(program for row in rows for program in row["values"])
    return sorted(found, key=lambda program: program != OURS)


def aligned(lines):
    """Returns aligned Markdown of a header and its rows."""
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    lines = [lines[0], ["-" * (width + 2) for width in widths], *lines[1:]]
    return "".join(
        "|" + "|".join(text if number == 1 else f" {text:<{width}} " for text, width in zip(line, widths)) + "|\n"
        for number, line in enumerate(lines)
    )


def markdown(table):
    """Returns the table as Markdown; the first cell has the number of rounds. A program alone has a range instead of ratios."""
    counts = sorted({len(values) for row in table["rows"] for values in row["values"].values()})
    rounds = " to ".join(dict.fromkeys(map(str, (counts[0], counts[-1]))))
    columns = programs(table["rows"])
    lines = [["one round" if rounds == "1" else f"{rounds} rounds", *columns]]
    for row in table["rows"]:
        cells = [cell(row, program) for program in columns]
        if columns == [OURS] or table.get("alone"):
            cells = [show_range(row["values"].get(column)) for column in columns]
        lines.append([row["title"], *cells])
    return aligned(lines)
