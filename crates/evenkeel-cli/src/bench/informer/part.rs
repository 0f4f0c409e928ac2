//! `--part`: an informer of one of several equal parts of the objects, as replicas have it that divide them.

use std::fmt;
use std::str::FromStr;

use evenkeel::health::{MetricsSource, Prometheus};
use evenkeel_cache::metrics::OUT_OF_RANGE;
use evenkeel_core::shard::{ShardField, ShardRange, ShardSelector};
use serde::Serialize;

use crate::Failure;
use crate::bench::process::{Moment, memory};

/// One of several equal parts of all places: `2/4` is the second of four.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    range: ShardRange,
    number: u32,
    count: u32,
}

impl Part {
    /// Returns the selector of the part, by uid.
    pub(super) fn selector(self) -> ShardSelector {
        ShardSelector::new(ShardField::Uid, self.range)
    }
}

impl FromStr for Part {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let part = text.split_once('/').and_then(|(number, count)| {
            let (number, count): (u32, u32) = (number.parse().ok()?, count.parse().ok()?);
            let range = ShardRange::FULL.part(number.checked_sub(1)?, count)?;
            Some(Part { range, number, count })
        });
        part.ok_or_else(|| "expected I/N with I from 1 to N, such as 2/4".to_owned())
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.count)
    }
}

/// Figures of an informer of a part.
#[derive(Debug, Serialize)]
pub(super) struct PartFigures {
    part: String,
    /// Objects that were received during the sync and dropped.
    out_of_range: u64,
    /// Events that were dropped until the updates had arrived.
    out_of_range_updates: u64,
    /// Processor time from the quiet after the sync to the quiet after the updates, dropped ones included; 0 without updates.
    updates_cpu_s: f64,
    /// Resident memory after the updates; 0 without updates.
    updated_rss_kb: u64,
    /// When the sync had settled.
    #[serde(skip)]
    settled: Moment,
}

/// Reads the metrics of the informer.
pub(super) struct PartMeter {
    part: Part,
    metrics: Prometheus,
}

impl PartMeter {
    /// Installs the recorder of the process, as a replica in a cluster has one.
    pub(super) fn install(part: Part) -> Result<Self, Failure> {
        Ok(PartMeter { part, metrics: Prometheus::install()? })
    }

    /// Returns the figures after the sync.
    pub(super) fn synced(&self) -> Result<PartFigures, Failure> {
        Ok(PartFigures {
            part: self.part.to_string(),
            out_of_range: out_of_range(&self.metrics.render())?,
            out_of_range_updates: 0,
            updates_cpu_s: 0.0,
            updated_rss_kb: 0,
            settled: Moment::now()?,
        })
    }

    /// Adds the figures after the updates.
    pub(super) fn updated(&self, figures: &mut PartFigures) -> Result<(), Failure> {
        figures.out_of_range_updates = out_of_range(&self.metrics.render())?.saturating_sub(figures.out_of_range);
        (_, figures.updated_rss_kb) = memory()?;
        (_, figures.updates_cpu_s) = Moment::now()?.since(&figures.settled);
        Ok(())
    }
}

/// Returns the number of dropped objects of all kinds.
fn out_of_range(text: &str) -> Result<u64, Failure> {
    let samples = text.lines().filter(|line| line.strip_prefix(OUT_OF_RANGE).is_some_and(|rest| rest.starts_with('{')));
    let mut values = samples.filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok()).peekable();
    values.peek().ok_or_else(|| format!("the informer has no metric {OUT_OF_RANGE}"))?;
    Ok(values.sum())
}

#[cfg(test)]
mod tests;
