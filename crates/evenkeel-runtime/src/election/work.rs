//! [`TermOutput`]: what the work of a leader may return.

use std::error::Error;

/// What the work of a [`LeaderElector`](super::LeaderElector) may return: `()`, or a `Result`.
///
/// [`run`](super::LeaderElector::run) returns the error of a `Result` as [`ElectionError::Work`](super::ElectionError::Work), so that
/// `elector.run(…).await?` never drops it.
pub trait TermOutput {
    /// What the work returns if it succeeds.
    type Value;

    /// Separates the value from the error.
    ///
    /// # Errors
    /// Returns the error of the work.
    fn into_result(self) -> Result<Self::Value, Box<dyn Error + Send + Sync>>;
}

impl TermOutput for () {
    type Value = ();

    fn into_result(self) -> Result<(), Box<dyn Error + Send + Sync>> {
        Ok(())
    }
}

impl<T, E: Into<Box<dyn Error + Send + Sync>>> TermOutput for Result<T, E> {
    type Value = T;

    fn into_result(self) -> Result<T, Box<dyn Error + Send + Sync>> {
        self.map_err(Into::into)
    }
}
