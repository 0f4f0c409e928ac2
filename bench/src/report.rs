//! Formats figures.

use std::time::Duration;

/// Prints one figure.
pub(crate) fn line(name: &str, figure: &str, target: &str) {
    println!("{name:<44} {figure:<46} {target}");
}

/// Sorted samples.
pub(crate) struct Samples(Vec<Duration>);

impl Samples {
    pub(crate) fn new(mut samples: Vec<Duration>) -> Self {
        samples.sort_unstable();
        Samples(samples)
    }

    /// Returns the quantile of the samples.
    pub(crate) fn quantile(&self, share: f64) -> Duration {
        let last = self.0.len().saturating_sub(1);
        let index = (last as f64 * share).round() as usize;
        self.0.get(index).copied().unwrap_or_default()
    }

    pub(crate) fn summary(&self) -> String {
        format!("median {:.2?}, p99 {:.2?}, n {}", self.quantile(0.5), self.quantile(0.99), self.0.len())
    }
}

/// Returns the resident memory of this process, in bytes.
pub(crate) fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok()).unwrap_or(0) * 1024
}

/// Converts bytes to megabytes.
pub(crate) fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}
