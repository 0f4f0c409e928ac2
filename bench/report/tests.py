"""Tests of the tables: `cd bench && python3 -m unittest report.tests`."""

import contextlib
import io
import json
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

from report import cases, figures, queue, render, store, webhooks

OURS = figures.OURS
ROOT = pathlib.Path(__file__).parents[2]


def row(title, more=False, **values):
    return {"title": title, "more": more, "values": {name.replace("_", "-"): of for name, of in values.items()}}


def group(wire, rows, case="informer"):
    return {"case": case, "title": "50 pods", "wire": wire, "objects": 50, "rows": rows}


def informer(ours, kube_rs):
    """Rows of two rounds; the second is on a machine of half the speed."""
    return [
        row("steady memory, MB", evenkeel=[50.0, 50.0], client_go=[800.0, 900.0], **{kube_rs: [2000.0, 2000.0]}),
        row("sync, CPU, s", evenkeel=[ours, ours * 2], client_go=[4.0, 9.0], **{kube_rs: [5.0, 10.0]}),
        row("storm, events/s", True, evenkeel=[80e3, 40e3], client_go=[20e3, 20e3], **{kube_rs: [8e3, 4e3]}),
        row("reads of 500 hot pods through a view, /s", True, evenkeel=[10e6, 9e6], client_go=[20e6, 20e6], **{kube_rs: [9e6, 9e6]}),
        row("typed reads, /s", True, evenkeel=[30e3, 30e3], client_go=[30e6, 30e6]),
    ]


COMPARE = {"failures": [], "groups": [group("json", informer(0.8, "kube_rs")), group("protobuf", informer(0.5, "kube-rs (json)"))]}
STORE = {"title": "store", "rounds": 2, "rows": [
    {**row("get, ns", evenkeel=[30.0, 30.0], client_go=[24.0, 27.0]), "cpu": {"evenkeel": [30.0, 30.0], "client-go": [31.0, 31.0]}},
    row("put, ns", evenkeel=[9.0, 9.0], client_go=[18.0, 27.0]),
]}
MACHINE = {"cores": 2, "cpu": "a processor", "memory_gb": 25, "kernel": "Linux 6.1", "versions": {"Go": "1.26", "kubectl": None}}


class Folder(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = pathlib.Path(holder.name)

    def write(self, name, content):
        (self.folder / name).write_text(json.dumps(content))

    def all(self, compare=COMPARE, store=STORE):
        self.write("compare.json", compare)
        self.write("store.json", {"tables": {"store": store}})
        self.write("machine.json", MACHINE)
        return render.Figures(self.folder)


def region(name, content="old\n"):
    return f"before\n\n<!-- figures:{name} -->\n{content}<!-- /figures -->\n\nafter\n"


class Ratios(unittest.TestCase):
    def test_ratios_are_taken_within_a_round(self):
        sync = informer(0.5, "kube_rs")[1]
        self.assertEqual(figures.ratio(sync, "client-go"), (8.5, 8.0, 9.0))
        self.assertIsNone(figures.ratio(sync, "evenkeel"))
        self.assertIsNone(figures.ratio({**sync, "compared": False}, "client-go"))

    def test_more_is_better_for_rates(self):
        self.assertEqual(figures.ratio(informer(0.5, "kube_rs")[2], "client-go"), (3.0, 2.0, 4.0))

    def test_numbers_have_three_digits(self):
        shown = [figures.show(value) for value in (33e6, 2.5e6, 51188, 858, 17.25, 0.5, 0.064, 0.0008)]
        self.assertEqual(shown, ["33M", "2.5M", "51,188", "858", "17.2", "0.50", "0.064", "0.0008"])


class Alone(unittest.TestCase):
    def test_columns_that_are_no_programs_have_ranges(self):
        rows = [row("memory, MB", **{"1 replica": [150.0, 160.0], "4 replicas": [60.0, 60.0]}), row("c, µs", **{"4 replicas": [3.0, 4.0]})]
        table = {"title": "pods", "rounds": 2, "alone": True, "rows": rows}
        figures.check("replicas", table)
        shown = [[text.strip() for text in line.split("|")[1:-1]] for line in figures.markdown(table).splitlines()]
        self.assertEqual(shown[0], ["2 rounds", "1 replica", "4 replicas"])
        self.assertEqual(shown[2:], [["memory, MB", "155 (150–160)", "60.0"], ["c, µs", "–", "3.50 (3.00–4.00)"]])
        with self.assertRaises(figures.Missing):
            figures.check("replicas", {**table, "alone": False})


class Regions(Folder):
    def test_a_table_has_medians_ratios_and_their_range(self):
        text = render.render(region("store"), self.all())
        self.assertIn("| 2 rounds | evenkeel | client-go", text)
        self.assertIn("| get, ns  | 30.0     | 25.5 · 0.85× (0.80–0.90) · CPU 1.03× |", text)
        self.assertTrue(text.startswith("before\n\n<!-- figures:store -->\n\n|"))
        self.assertTrue(text.endswith("|\n\n<!-- /figures -->\n\nafter\n"))
        self.assertNotIn("old", text)

    def test_a_program_alone_has_a_range(self):
        rows = [row("start, ms", evenkeel=[1.0, 3.0]), row("missed, events", evenkeel=[0, 0])]
        text = figures.markdown({"rows": rows})
        self.assertIn("| 2.00 (1.00–3.00) |", text)
        self.assertIn("| 0.00             |", text)

    def test_rendering_twice_changes_nothing(self):
        text = "".join(map(region, ("behind", "readme", "machine", "store", "informer-json")))
        once = render.render(text, self.all())
        self.assertEqual(render.render(once, self.all()), once)

    def test_figures_that_are_behind_come_worst_first(self):
        text = render.render(region("behind"), self.all())
        first = [line.split("|")[1].strip() for line in text.splitlines() if line.startswith("|")][2:]
        self.assertEqual(first, [
            "50 pods, json: typed reads, /s",
            "50 pods, protobuf: typed reads, /s",
            "50 pods, json: reads of 500 hot pods through a view, /s",
            "50 pods, protobuf: reads of 500 hot pods through a view, /s",
            "store: get, ns",
        ])
        self.assertNotIn("kube-rs", text, "which is behind")

    def test_the_readme_has_the_worst_of_all(self):
        lines = render.render(region("readme"), self.all()).splitlines()
        memory = next(line for line in lines if line.startswith("| steady memory"))
        self.assertIn("17.0× (850 MB against 50.0)", memory)
        self.assertIn("40.0× (JSON)", memory)
        worst = next(line for line in lines if "worst" in line)
        self.assertIn("typed reads, /s", worst)
        self.assertIn("0.0010× (30M against 30,000)", worst)

    def test_a_peer_that_did_not_run_fails(self):
        groups = [{**of, "rows": [{**row, "values": {OURS: row["values"][OURS]}} for row in of["rows"]]} for of in COMPARE["groups"]]
        with self.assertRaisesRegex(figures.Missing, "no figure of client-go"):
            render.render(region("readme"), self.all(compare={**COMPARE, "groups": groups}))

    def test_the_machine_is_named(self):
        text = render.render(region("machine"), self.all())
        self.assertIn("2 cores of a processor, 25 GB, Linux 6.1; Go 1.26.\n", text)

    def test_a_region_without_figures_fails(self):
        with self.assertRaisesRegex(figures.Missing, "no figures of queue"):
            render.render(region("queue"), self.all())

    def test_an_optional_region_is_kept(self):
        text, said = region("queue optional"), []
        self.assertEqual(render.render(text, self.all(), said.append), text)
        self.assertEqual(len(said), 1)

    def test_a_missing_figure_fails(self):
        for values in ([30.0, None], [30.0], {}):
            store = {**STORE, "rows": [row("get, ns", evenkeel=[30.0, 30.0], client_go=values)]}
            with self.assertRaisesRegex(figures.Missing, "get, ns, client-go"):
                self.all(store=store)
        with self.assertRaisesRegex(figures.Missing, "no figure of evenkeel"):
            self.all(store={**STORE, "rows": [row("get, ns", client_go=[1.0, 1.0])]})
        with self.assertRaisesRegex(figures.Missing, "has no figure 'steady memory, MB'"):
            groups = [{**of, "rows": of["rows"][1:]} for of in COMPARE["groups"]]
            render.render(region("readme"), self.all(compare={**COMPARE, "groups": groups}))

    def test_a_failed_program_fails(self):
        with self.assertRaisesRegex(figures.Missing, "it hangs"):
            self.all(compare={**COMPARE, "failures": ["client-go: it hangs"]})

    def test_a_region_that_is_not_closed_fails(self):
        with self.assertRaisesRegex(figures.Missing, "2 regions are opened, 1 closed"):
            render.render("<!-- figures:store -->\n" + region("store"), self.all())

    def test_a_table_that_no_region_shows_fails_and_nothing_is_written(self):
        self.all()
        file = self.folder / "page.md"
        file.write_text(region("store"))
        with mock.patch.object(sys, "argv", ["render", str(self.folder), str(file)]), self.assertRaises(SystemExit) as error:
            render.main()
        self.assertIn("no region shows informer-json, informer-protobuf", str(error.exception))
        self.assertEqual(file.read_text(), region("store"))

    def test_the_regions_of_the_documents_are_known(self):
        known = {"informer-json", "informer-protobuf", "store", "queue", "pack", "server", "reconcile", "webhooks", "build"}
        known |= {"sessions-kubernetes", "sessions-embedded", "replicas-protobuf", "replicas-json", *render.DERIVED}
        found = []
        for file in ("README.md", "docs/performance.md"):
            text = (ROOT / file).read_text()
            regions = [match["name"] for match in render.REGION.finditer(text)]
            self.assertEqual(text.count("<!-- figures:"), len(regions), file)
            found += regions
        self.assertEqual(sorted(found), sorted(known))


class Programs(Folder):
    def test_a_look_up_in_a_snapshot_is_compared_with_get(self):
        table = figures.Table("store", 1)
        for program, names in (("evenkeel", ["get", "snapshot_get"]), ("client-go", ["get"])):
            runs = [{"case": name, "threads": 2, "ns_per_op": 3.0, "cpu_ns_per_op": 2.0} for name in names]
            store.add(table, program, 0, runs)
        figures.check("store", table.content)
        self.assertEqual([sorted(row["values"]) for row in table.content["rows"]], [["client-go", "evenkeel"]] * 2)

    def test_every_case_of_the_queue_has_a_row_of_its_own(self):
        titles = [title for case in queue.CASES for title, _, _ in queue.rows(*case)]
        self.assertEqual(len(titles), len(set(titles)))
        self.assertIn("plain, 16 workers, ns", titles)
        self.assertIn("plain, get and done, ns", titles)

    def test_the_client_of_webhooks_is_shown_and_not_compared(self):
        measured = {"requests_per_s": 9.0, "p50_us": 1.0, "p99_us": 2.0, "server_cpu_us": 3.0, "client_cpu_us": 4.0}
        table = figures.Table("webhooks", 1)
        for program, factor in ((OURS, 1.0), (webhooks.PEER, 3.0)):
            webhooks.add(table, program, 0, "validate", 4, {name: value * factor for name, value in measured.items()})
        figures.check("webhooks", table.content)
        ratios = {row["title"]: figures.ratio(row, webhooks.PEER) for row in table.content["rows"]}
        self.assertEqual(ratios["validate, 4 connections: CPU of the client per request, µs"], None)
        self.assertEqual(ratios["validate, 4 connections: CPU of the server per request, µs"][0], 3.0)
        self.assertAlmostEqual(ratios["validate, 4 connections: requests/s"][0], 1 / 3)

    def test_programs_that_print_json_make_a_table(self):
        line = json.dumps({"title": "creates, /s", "value": 5.0, "more": True})
        path = self.folder / "server.json"
        arguments = ["cases", "2", "--name", "server", "--title", "server", "--json", str(path), f"echo '{line}'"]
        with mock.patch.object(sys, "argv", arguments), contextlib.redirect_stdout(io.StringIO()):
            cases.main()
        self.assertEqual(figures.load(path)["server"]["rows"], [row("creates, /s", True, evenkeel=[5.0, 5.0])])

    def test_latencies_of_reconciles_have_their_processor_time(self):
        run = {"threads": 1, "running": 1000, "from": "task", "p50_us": 20.0, "cpu_us_per_event": 60.0}
        found = cases.lines({"benchmark": "reconcile", "runs": [run]})
        self.assertEqual(found, [("1,000 in flight, 1 thread, event from a task: median, µs", 20.0, False, 60.0)])


if __name__ == "__main__":
    unittest.main()
