//! Measures derived from the figures of programs.

use super::programs::OURS;

/// A row of the table.
#[derive(Debug)]
pub(crate) struct Measure {
    pub(crate) title: &'static str,
    /// Its name in the output of programs.
    pub(crate) figure: &'static str,
    /// evenkeel's figure, if it has another name.
    ours: Option<&'static str>,
    /// The peers' figure to compare with, if it is another one.
    theirs: Option<&'static str>,
    /// The table's unit in units of the program.
    pub(crate) unit: f64,
    pub(crate) more_is_better: bool,
    /// Whether a ratio makes sense.
    pub(crate) compared: bool,
}

impl Measure {
    /// Returns the name of the figure of a program.
    pub(crate) fn figure_of(&self, program: &str) -> &'static str {
        if program == OURS { self.ours } else { self.theirs }.unwrap_or(self.figure)
    }
}

const fn less(title: &'static str, figure: &'static str, unit: f64) -> Measure {
    Measure { title, figure, ours: None, theirs: None, unit, more_is_better: false, compared: true }
}

const fn more(title: &'static str, figure: &'static str) -> Measure {
    Measure { more_is_better: true, ..less(title, figure, 1.0) }
}

/// In KiB.
const MEGABYTE: f64 = 1e6 / 1024.0;

pub(crate) const MEASURES: &[Measure] = &[
    less("sync, CPU, s", "sync_cpu_s", 1.0),
    less("sync, CPU per object, µs", "sync_cpu_us_per_object", 1.0),
    less("sync, wall, s", "sync_wall_s", 1.0),
    less("sync, peak memory, MB", "rss_peak_kb", MEGABYTE),
    less("steady memory, MB", "rss_steady_kb", MEGABYTE),
    less("steady memory per object, bytes", "steady_bytes_per_object", 1.0),
    // evenkeel has no collector to force; its resident memory is what it needs.
    Measure { ours: Some("rss_steady_kb"), ..less("memory after a forced collection, MB", "rss_gc_kb", MEGABYTE) },
    less("relist, CPU, s", "relist_cpu_s", 1.0),
    less("relist, peak memory, MB", "relist_peak_kb", MEGABYTE),
    less("relist, peak over steady", "relist_peak_over_steady", 1.0),
    more("storm, events/s", "events_per_s"),
    less("storm, CPU per event, µs", "storm_cpu_us_per_event", 1.0),
    less("event to handler, median, µs", "latency_p50_us", 1.0),
    less("event to handler, 99 %, µs", "latency_p99_us", 1.0),
    Measure {
        theirs: Some("sync_cpu_s"),
        ..less("typed() of all once, CPU, s (others: their sync)", "typed_cpu_s", 1.0)
    },
    less("sync and typed() of all, CPU, s", "sync_and_typed_cpu_s", 1.0),
    less("sync and typed() of all, wall, s", "sync_and_typed_wall_s", 1.0),
    less("memory after typed() of all, MB", "typed_rss_kb", MEGABYTE),
    // Within a budget that holds them all; the others always have them decoded.
    Measure { theirs: Some("typed_wall_s"), ..less("typed() of all again, all cached, ms", "cached_wall_s", 0.001) },
    Measure { theirs: Some("typed_rss_kb"), ..less("memory with all cached, MB", "cached_rss_kb", MEGABYTE) },
    more("typed reads of 50 hot pods, /s", "hot_reads_per_s"),
    more("typed reads of 500 hot pods, /s", "warm_reads_per_s"),
    // A view has a decoded part of every object; the others have all of it.
    less("to build a view of three fields, CPU, s", "view_build_cpu_s", 1.0),
    Measure { theirs: Some("typed_rss_kb"), ..less("memory with a view of three fields, MB", "view_rss_kb", MEGABYTE) },
    Measure { theirs: Some("typed_wall_s"), ..less("all pods visited through a view, ms", "view_wall_s", 0.001) },
    Measure {
        theirs: Some("hot_reads_per_s"),
        ..more("reads of 50 hot pods through a view, /s", "view_hot_reads_per_s")
    },
    Measure {
        theirs: Some("warm_reads_per_s"),
        ..more("reads of 500 hot pods through a view, /s", "view_warm_reads_per_s")
    },
    Measure {
        theirs: Some("warm_reads_per_s"),
        ..more("reads of 500 hot pods in a snapshot of a view, /s", "view_snapshot_reads_per_s")
    },
    more("reads by index (node), /s", "index_reads_per_s"),
    less("to add an index by node, s", "index_wall_s", 1.0),
    Measure { compared: false, ..less("the server meanwhile, CPU, s", "server_cpu_s", 1.0) },
];

#[cfg(test)]
pub(crate) fn measure(figure: &str) -> &'static Measure {
    MEASURES.iter().find(|measure| measure.figure == figure).unwrap()
}
