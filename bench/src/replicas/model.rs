//! The cost model: what memory, processor time and traffic a replica needs, fitted to measured runs.

use std::fmt;

use serde::Serialize;

use super::run::{Outcome, Replica};

/// A line: a fixed part, and one for each object or event.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Line {
    pub(crate) fixed: f64,
    pub(crate) each: f64,
}

impl Line {
    /// Returns the line with the least squared distances from these points. `None` unless two have different numbers.
    pub(crate) fn fit(points: &[(f64, f64)]) -> Option<Self> {
        let count = points.len() as f64;
        let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
        let (x, y) = (mean(|point| point.0), mean(|point| point.1));
        let squares: f64 = points.iter().map(|point| (point.0 - x).powi(2)).sum();
        let products: f64 = points.iter().map(|point| (point.0 - x) * (point.1 - y)).sum();
        (squares > 0.0).then(|| Line { fixed: y - x * products / squares, each: products / squares })
    }

    pub(crate) fn at(self, number: f64) -> f64 {
        self.fixed + self.each * number
    }

    /// Returns the largest distance of a point from the line, as a share of the point.
    fn error(self, points: &[(f64, f64)]) -> f64 {
        points.iter().map(|point| (self.at(point.0) / point.1 - 1.0).abs()).fold(0.0, f64::max)
    }
}

/// Costs of a replica in one wire format.
///
/// Fixed parts include what parts of any size cost because they separate objects that are packed against each other. So the model
/// is too high for parts that are far smaller than those it is fitted to.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Costs {
    /// Steady memory: the fixed part, and that of each object.
    fixed_bytes: f64,
    bytes_per_object: f64,
    /// The same after a storm of updates.
    updated_fixed_bytes: f64,
    updated_bytes_per_object: f64,
    /// The largest distance of a measured replica's steady memory from the model, as a share.
    memory_error: f64,
    /// Processor time of the sync: the fixed part, and that of each object that is kept or dropped.
    sync_cpu_s: f64,
    cpu_us_per_object: f64,
    cpu_us_per_dropped_object: f64,
    /// Processor time for each update that is kept or dropped.
    cpu_us_per_update: f64,
    cpu_us_per_dropped_update: f64,
    /// What the server sends for each object of a list and each update, to each recipient.
    sent_bytes_per_object: f64,
    sent_bytes_per_update: f64,
}

impl Costs {
    /// Fits the model to runs of one format. `None` unless there are runs with different numbers of replicas.
    pub(crate) fn fit(runs: &[&Outcome]) -> Option<Self> {
        let filtered: Vec<&Replica> = each(runs, true).collect();
        let line = |of: fn(&Replica) -> (f64, f64)| {
            let points: Vec<(f64, f64)> = filtered.iter().map(|replica| of(replica)).collect();
            Line::fit(&points).map(|line| (line, line.error(&points)))
        };
        let (memory, memory_error) = line(|replica| (replica.objects as f64, replica.rss_steady_kb as f64 * 1024.0))?;
        let (updated, _) = line(|replica| (replica.objects as f64, replica.updated_rss_kb as f64 * 1024.0))?;
        let (sync, _) = line(|replica| (replica.objects as f64, replica.sync_cpu_s * 1e6))?;
        let storm: f64 = filtered.iter().map(|replica| replica.updates_cpu_s * 1e6).sum();
        let updates: f64 = filtered.iter().map(|replica| replica.updates as f64).sum();
        let sent = |bytes: fn(&Outcome) -> u64, received: fn(&Replica) -> u64| {
            let bytes: f64 = runs.iter().map(|run| bytes(run) as f64).sum();
            let received: f64 = runs.iter().flat_map(|run| &run.each).map(|replica| received(replica) as f64).sum();
            bytes / received
        };
        Some(Costs {
            fixed_bytes: memory.fixed,
            bytes_per_object: memory.each,
            updated_fixed_bytes: updated.fixed,
            updated_bytes_per_object: updated.each,
            memory_error,
            sync_cpu_s: sync.fixed / 1e6,
            cpu_us_per_object: sync.each,
            cpu_us_per_dropped_object: dropped(runs, |replica| (replica.sync_cpu_s, replica.out_of_range))?,
            cpu_us_per_update: storm / updates,
            cpu_us_per_dropped_update: dropped(runs, |replica| (replica.updates_cpu_s, replica.out_of_range_updates))?,
            sent_bytes_per_object: sent(|run| run.sync_bytes, |replica| replica.objects as u64 + replica.out_of_range),
            sent_bytes_per_update: sent(
                |run| run.storm_bytes,
                |replica| replica.updates + replica.out_of_range_updates,
            ),
        })
    }
}

/// Returns all replicas of the runs in which the server filters, or does not.
fn each<'a>(runs: &[&'a Outcome], filters: bool) -> impl Iterator<Item = &'a Replica> {
    let runs: Vec<&Outcome> = runs.iter().copied().filter(|run| run.scenario.filters == filters).collect();
    runs.into_iter().flat_map(|run| &run.each)
}

/// The processor time of a replica in seconds, and what it has dropped meanwhile.
pub(crate) type Dropped = fn(&Replica) -> (f64, u64);

/// Returns the microseconds of processor time for each dropped object: what runs of several replicas need more if the server does
/// not filter, divided by what they drop.
pub(crate) fn dropped(runs: &[&Outcome], of: Dropped) -> Option<f64> {
    let total = |filters: bool| {
        let several: Vec<&Outcome> = runs.iter().copied().filter(|run| run.scenario.replicas > 1).collect();
        let each = each(&several, filters).map(of);
        each.fold((0.0, 0), |(seconds, dropped), replica| (seconds + replica.0, dropped + replica.1))
    };
    let ((filtered, _), (unfiltered, dropped)) = (total(true), total(false));
    (dropped > 0).then(|| (unfiltered - filtered) * 1e6 / dropped as f64)
}

impl fmt::Display for Costs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "memory = {:.1} MB + {:.2} KB per object (worst replica {:.0} % off); after the storm {:.1} MB + {:.2} KB",
            self.fixed_bytes / 1e6,
            self.bytes_per_object / 1e3,
            self.memory_error * 100.0,
            self.updated_fixed_bytes / 1e6,
            self.updated_bytes_per_object / 1e3,
        )?;
        writeln!(
            f,
            "CPU = {:.1} ms + {:.1} µs per object kept + {:.2} µs per object dropped + \
             {:.1} µs per update kept + {:.2} µs per update dropped",
            self.sync_cpu_s * 1e3,
            self.cpu_us_per_object,
            self.cpu_us_per_dropped_object,
            self.cpu_us_per_update,
            self.cpu_us_per_dropped_update,
        )?;
        write!(
            f,
            "sent = {:.0} bytes per object, {:.0} bytes per update, to each recipient",
            self.sent_bytes_per_object, self.sent_bytes_per_update
        )
    }
}

#[cfg(test)]
pub(crate) mod tests;
