//! [`MetricsSource`]: where `/metrics` comes from.

/// What has been counted, in the text format of Prometheus.
///
/// A closure that makes the text is one, and so is `Prometheus`, with the feature `prometheus`.
pub trait MetricsSource: Send + Sync + 'static {
    /// The text as of now.
    fn render(&self) -> String;

    /// What has to be done now and then, so that nothing piles up while nobody asks. The server does it every five seconds.
    fn upkeep(&self) {}
}

impl<F: Fn() -> String + Send + Sync + 'static> MetricsSource for F {
    fn render(&self) -> String {
        self()
    }
}
