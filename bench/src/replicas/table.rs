//! The figures of replicas as a table, one column for each number of replicas.

use serde_json::{Value, json};

use super::model::{Dropped, dropped};
use super::run::{Outcome, Replica};
use crate::compare::results::Spread;
use crate::compare::table::{aligned, show};

/// A row: a figure of each number of replicas, in each round.
#[derive(Debug)]
pub(crate) struct Row {
    title: String,
    /// For each number of replicas, the values of the rounds; empty if the figure makes no sense for it.
    values: Vec<Vec<f64>>,
}

/// A figure of all replicas of a run.
type Figure = fn(&Outcome) -> f64;

fn mean(run: &Outcome, of: fn(&Replica) -> f64) -> f64 {
    sum(run, of) / run.each.len() as f64
}

fn sum(run: &Outcome, of: fn(&Replica) -> f64) -> f64 {
    run.each.iter().map(of).sum()
}

fn megabytes(kibibytes: u64) -> f64 {
    kibibytes as f64 * 1024.0 / 1e6
}

/// The figures, and whether each is also shown in proportion to that of one replica.
const FIGURES: &[(&str, Figure, bool)] = &[
    ("steady memory of a replica, MB", |run| mean(run, |replica| megabytes(replica.rss_steady_kb)), true),
    (
        "steady memory of a replica without its executable, MB",
        |run| mean(run, |replica| megabytes(replica.rss_steady_kb - replica.rss_file_kb.min(replica.rss_steady_kb))),
        true,
    ),
    ("peak memory of a replica, MB", |run| mean(run, |replica| megabytes(replica.rss_peak_kb)), true),
    ("memory of a replica after the storm, MB", |run| mean(run, |replica| megabytes(replica.updated_rss_kb)), true),
    ("steady memory of all, MB", |run| sum(run, |replica| megabytes(replica.rss_steady_kb)), true),
    ("sync, CPU of a replica, s", |run| mean(run, |replica| replica.sync_cpu_s), true),
    ("sync, CPU of all, s", |run| sum(run, |replica| replica.sync_cpu_s), true),
    ("storm, CPU of all, s", |run| sum(run, |replica| replica.updates_cpu_s), true),
    ("sync, bytes sent, MB", |run| run.sync_bytes as f64 / 1e6, true),
    ("storm, bytes sent, MB", |run| run.storm_bytes as f64 / 1e6, true),
    ("CPU of the server, s", |run| run.server_cpu_s, false),
];

/// Returns the rows of runs in one format.
pub(crate) fn rows(runs: &[&Outcome], counts: &[u32]) -> Vec<Row> {
    let rounds = runs.iter().map(|run| run.scenario.round + 1).max().unwrap_or_default();
    let mut rows = Vec::new();
    for (filters, server) in [(true, "filtered"), (false, "not filtered")] {
        let find = |replicas: u32, round: u32| {
            let wanted = (filters, replicas, round);
            runs.iter().find(|run| (run.scenario.filters, run.scenario.replicas, run.scenario.round) == wanted)
        };
        let values = |of: &dyn Fn(u32, u32) -> Option<f64>| -> Vec<Vec<f64>> {
            counts.iter().map(|replicas| (0..rounds).filter_map(|round| of(*replicas, round)).collect()).collect()
        };
        for (title, figure, has_ratio) in FIGURES {
            let value = |replicas, round| find(replicas, round).map(|run| figure(run));
            rows.push(Row { title: format!("{server}: {title}"), values: values(&value) });
            if *has_ratio {
                let ratio = |replicas, round| {
                    Some(value(replicas, round)? / value(1, round)?).filter(|ratio| ratio.is_finite())
                };
                let title = title.rsplit_once(", ").map_or(*title, |(title, _)| title);
                rows.push(Row { title: format!("{server}: {title}, to one replica's"), values: values(&ratio) });
            }
        }
    }
    let costs: [(&str, Dropped); 2] = [
        ("CPU per object dropped, µs", |replica| (replica.sync_cpu_s, replica.out_of_range)),
        ("CPU per update dropped, µs", |replica| (replica.updates_cpu_s, replica.out_of_range_updates)),
    ];
    for (title, of) in costs {
        let values = counts.iter().map(|replicas| {
            let of_round = |round| {
                let is_wanted = |run: &&Outcome| (run.scenario.replicas, run.scenario.round) == (*replicas, round);
                dropped(&runs.iter().copied().filter(is_wanted).collect::<Vec<_>>(), of)
            };
            (0..rounds).filter_map(of_round).collect()
        });
        rows.push(Row { title: title.to_owned(), values: values.collect() });
    }
    rows
}

/// Returns the medians of the rounds with their range.
pub(crate) fn markdown(rows: &[Row], counts: &[u32]) -> String {
    let cell = |values: &Vec<f64>| match Spread::of(values.iter().copied()) {
        None => "–".to_owned(),
        Some(Spread { median, least, most }) if show(least) == show(most) => show(median),
        Some(Spread { median, least, most }) => format!("{} ({}–{})", show(median), show(least), show(most)),
    };
    let head = [String::new()].into_iter().chain(counts.iter().copied().map(column)).collect();
    let rows = rows.iter().map(|row| [row.title.clone()].into_iter().chain(row.values.iter().map(cell)).collect());
    aligned(&[head].into_iter().chain(rows).collect::<Vec<Vec<String>>>())
}

/// Returns the table as `bench/report` reads it.
pub(crate) fn json(rows: &[Row], counts: &[u32], title: &str, rounds: u32) -> Value {
    let row = |row: &Row| {
        let columns = counts.iter().zip(&row.values).filter(|(_, values)| !values.is_empty());
        let values: Value = columns.map(|(replicas, values)| (column(*replicas), json!(values))).collect();
        json!({"title": row.title, "more": false, "compared": false, "values": values})
    };
    // The columns are no programs to compare evenkeel with.
    json!({"title": title, "rounds": rounds, "alone": true, "rows": rows.iter().map(row).collect::<Vec<_>>()})
}

fn column(replicas: u32) -> String {
    if replicas == 1 { "1 replica".to_owned() } else { format!("{replicas} replicas") }
}

#[cfg(test)]
mod tests;
