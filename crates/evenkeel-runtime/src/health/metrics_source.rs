//! [`MetricsSource`]: the source of `/metrics`.

/// Metrics in the Prometheus text format.
///
/// Implemented by closures that return the text, and by `Prometheus` (feature `prometheus`).
pub trait MetricsSource: Send + Sync + 'static {
    /// Renders the current metrics.
    fn render(&self) -> String;

    /// Does periodic work so that samples do not accumulate between scrapes. The server calls it every five seconds.
    fn upkeep(&self) {}
}

impl<F: Fn() -> String + Send + Sync + 'static> MetricsSource for F {
    fn render(&self) -> String {
        self()
    }
}
