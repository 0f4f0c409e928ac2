//! Formats figures.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::json;

/// Whether figures are printed as JSON for `bench/report.sh` instead of as text.
static JSON: AtomicBool = AtomicBool::new(false);

/// Prints figures as JSON from now on.
pub(crate) fn print_json() {
    JSON.store(true, Ordering::Relaxed);
}

/// Prints one figure as text.
pub(crate) fn line(name: &str, figure: &str, target: &str) {
    if !JSON.load(Ordering::Relaxed) {
        println!("{name:<44} {figure:<46} {target}");
    }
}

/// Prints one figure as JSON. More is better if it is a rate.
pub(crate) fn value(name: &str, value: f64, unit: &str) {
    if JSON.load(Ordering::Relaxed) {
        println!("{}", json!({"title": format!("{name}, {unit}"), "value": value, "more": unit == "/s"}));
    }
}

/// Prints the median of samples, in both forms.
pub(crate) fn samples(name: &str, samples: &Samples, target: &str) {
    line(name, &samples.summary(), target);
    value(&format!("{name}: median"), milliseconds(samples.quantile(0.5)), "ms");
}

pub(crate) fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
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
