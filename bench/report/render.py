"""Writes measured figures into Markdown files.

    python3 -m report.render FOLDER [--into DIR] FILE…

FOLDER has the figures as JSON, one file for each step of `bench/report.sh`. A FILE has regions:

    <!-- figures:NAME -->
    …
    <!-- /figures -->

Only their content is replaced. NAME is a table of the figures or one of `DERIVED`. A region without figures, a figure that is
missing and a table that no region shows are errors; the region `<!-- figures:NAME optional -->` keeps its content instead.
With --into the files are written below DIR and the originals stay as they are.
"""

import argparse
import json
import pathlib
import re
import shutil
import statistics
import sys

from report import figures
from report.figures import OURS, Missing

REGION = re.compile(r"<!-- figures:(?P<name>[\w-]+)(?P<optional> optional)? -->\n(?P<content>.*?)<!-- /figures -->", re.DOTALL)
PLOT = "docs/images/informers.svg"
SYNC = ["sync, CPU, s", "sync, peak memory, MB", "steady memory, MB"]

# The rows of the README: what they are called, and their table, row and unit.
README = [
    ("steady memory, protobuf", "informer-protobuf", "steady memory, MB", " MB"),
    ("sync, CPU, protobuf", "informer-protobuf", "sync, CPU, s", " s"),
    ("update storm, JSON", "informer-json", "storm, events/s", "/s"),
    ("update storm, protobuf", "informer-protobuf", "storm, events/s", "/s"),
    ("reads of 500 hot pods, a view of three fields", "informer-protobuf", "reads of 500 hot pods through a view, /s", "/s"),
]


class Figures:
    """All figures of a folder."""

    def __init__(self, folder):
        folder = pathlib.Path(folder)
        self.tables, self.machine = {}, None
        for path in sorted(folder.glob("*.json")):
            if path.name == "machine.json":
                self.machine = json.loads(path.read_text())
                continue
            for name, table in figures.load(path).items():
                figures.check(name, table)
                self.tables[name] = table
        self.shown = set()

    def table(self, name):
        if name not in self.tables:
            raise Missing(f"there are no figures of {name}")
        self.shown.add(name)
        return self.tables[name]

    def row(self, name, title):
        row = next((row for row in self.table(name)["rows"] if row["title"] == title), None)
        if row is None:
            raise Missing(f"{name} has no figure {title!r}")
        return row


def combined(all, names, titles, without=()):
    """Returns one table with some rows of several."""
    rows = []
    for name in names:
        table = all.table(name)
        for title in titles:
            row = all.row(name, title)
            # The programs without protobuf are compared in JSON, which the text says.
            values = {program.removesuffix(" (json)"): of for program, of in row["values"].items()}
            values = {program: of for program, of in values.items() if program not in without}
            rows.append({**row, "title": f"{table['title']}: {title}", "values": values})
    return figures.markdown({"rows": rows})


def ratios(all):
    """Returns every ratio as (median, table, row, program, field)."""
    for table in all.tables.values():
        for row in table["rows"]:
            for field in ("values", "cpu"):
                for program in row.get(field, {}):
                    compared = figures.ratio(row, program, field)
                    if compared:
                        yield compared[0], table, row, program, field


def behind(all):
    """Returns all figures with a ratio below 1, worst first."""
    entries = {}
    for ratio, table, row, program, field in ratios(all):
        if ratio < 1:
            key = (table["title"], row["title"], field)
            entries.setdefault(key, []).append((ratio, program, row))
    if not entries:
        return "No figure is behind.\n"
    lines = [["", OURS, "ahead of it"]]
    for (table, title, field), peers in sorted(entries.items(), key=lambda entry: (min(entry[1], key=lambda peer: peer[0])[0], entry[0])):
        row = peers[0][2]
        ahead = []
        for ratio, program, _ in sorted(peers, key=lambda peer: peer[0]):
            figure = figures.show(statistics.median(row[field][program]))
            ahead.append(f"{program} {figure} · {figures.show_ratio(figures.ratio(row, program, field))}")
        by = " (CPU time)" if field == "cpu" else ""
        lines.append([f"{table}: {title}{by}", figures.show(statistics.median(row[field][OURS])), "; ".join(ahead)])
    return figures.aligned(lines)


def readme(all):
    """Returns the table of the README: some rows, and the worst of all."""
    peers = ["client-go", "kube-rs"]

    def against(row, program, field, unit):
        ratio = f"{figures.show(figures.ratio(row, program, field)[0])}×"
        # The figures themselves are shown once, to keep the table short.
        if not program.startswith(peers[0]):
            return ratio + (" (JSON)" if program.endswith("(json)") else "")
        own, their = (figures.show(statistics.median(row[field][name])) for name in (OURS, program))
        return f"{ratio} ({their}{unit} against {own})"

    def compared(row, peer, field, unit, worst=False):
        """Compares with a peer; for the worst row with whichever mode of it is furthest ahead."""
        found = [program for program in row[field] if program.split(" ")[0] == peer or (worst and program.startswith(peer))]
        found = [program for program in found if figures.ratio(row, program, field)]
        if not found and not worst:
            raise Missing(f"{row['title']}: no figure of {peer}")
        if not found:
            return "–"
        return against(row, min(found, key=lambda program: figures.ratio(row, program, field)[0]), field, unit)

    lines = [["", *peers]]
    for label, name, title, unit in README:
        row = all.row(name, title)
        lines.append([label, *(compared(row, peer, "values", unit) for peer in peers)])
    ratio, table, row, program, field = min(ratios(all), key=lambda entry: entry[0])
    label = f"**worst:** {table['title']}: {row['title']}" + (" (CPU time)" if field == "cpu" else "")
    if not program.startswith(tuple(peers)):
        label += f", {program} {figures.show(ratio)}×"
    lines.append([label, *(compared(row, peer, field, "", worst=True) for peer in peers)])
    return figures.aligned(lines)


def machine(all):
    facts = all.machine
    if facts is None:
        raise Missing("there is no machine.json")
    versions = ", ".join(f"{name} {version}" for name, version in facts["versions"].items() if version)
    cores = "one core" if facts["cores"] == 1 else f"{facts['cores']} cores"
    return f"{cores} of {facts['cpu']}, {facts['memory_gb']} GB, {facts['kernel']}; {versions}.\n"


DERIVED = {
    "behind": behind,
    "readme": readme,
    "machine": machine,
    "other": lambda all: combined(
        all,
        [name for case in ("secrets", "endpointslices", "kinds") for name in (f"{case}-protobuf", f"{case}-json")] + ["documents-json"],
        SYNC,
    ),
    "growth": lambda all: combined(
        all,
        ["small-protobuf", "informer-protobuf", "large-protobuf", "light-protobuf"],
        ["sync, CPU, s", "steady memory, MB"],
        without=("client-go-list", "kube-rs"),
    ),
    "million": lambda all: combined(
        all,
        ["before-protobuf", "million-protobuf"],
        ["sync, CPU per object, µs", "sync, peak memory, MB", "steady memory, MB", "steady memory per object, bytes"],
    ),
}


def render(text, all, warn=lambda message: None):
    """Returns the text with the figures in its regions."""
    opened, closed = text.count("<!-- figures:"), text.count("<!-- /figures -->")
    regions = list(REGION.finditer(text))
    if not opened == closed == len(regions):
        raise Missing(f"{opened} regions are opened, {closed} closed, {len(regions)} well-formed")

    def content(match):
        name = match["name"]
        try:
            figure = DERIVED[name](all) if name in DERIVED else figures.markdown(all.table(name))
        except Missing:
            if not match["optional"]:
                raise
            warn(f"{name} was not measured: its region is kept")
            return match[0]
        return f"<!-- figures:{name}{match['optional'] or ''} -->\n\n{figure}\n<!-- /figures -->"

    return REGION.sub(content, text)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--into")
    parser.add_argument("files", nargs="+")
    options = parser.parse_args()
    into = pathlib.Path(options.into or ".")
    try:
        all = Figures(options.folder)
        # All are rendered before one is written.
        texts = {
            file: render(pathlib.Path(file).read_text(), all, lambda message: print(f"report: {message}", file=sys.stderr))
            for file in options.files
        }
        unshown = all.tables.keys() - all.shown
        if unshown:
            raise Missing(f"no region shows {', '.join(sorted(unshown))}")
    except (Missing, KeyError, OSError, ValueError) as error:
        sys.exit(f"report: {error!r}" if isinstance(error, KeyError) else f"report: {error}")
    for file, text in texts.items():
        (into / file).parent.mkdir(parents=True, exist_ok=True)
        (into / file).write_text(text)
    plot = pathlib.Path(options.folder) / "informers.svg"
    if plot.exists():
        (into / PLOT).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(plot, into / PLOT)


if __name__ == "__main__":
    main()
