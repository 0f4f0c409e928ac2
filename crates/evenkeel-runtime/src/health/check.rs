//! [`Check`]: one health check.

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

/// Why a check failed. Any error and any text converts: `Err("why".into())`.
///
/// Every client that reaches the server can read it: it should name what is wrong, and nothing secret.
pub type Reason = Box<dyn Error + Send + Sync>;

pub(super) type Outcome = Pin<Box<dyn Future<Output = Result<(), Reason>> + Send>>;
type Ask = dyn Fn() -> Outcome + Send + Sync;

/// The default timeout of a check. A kubelet waits for one second.
const TIME_LIMIT: Duration = Duration::from_millis(750);

/// A named health check.
///
/// It runs for each request, possibly several times concurrently, in a task of its own. It should report known state:
/// a check that calls another service spreads that service's outages. It must not block.
///
/// ```
/// use std::time::Duration;
/// use evenkeel_runtime::health::Check;
///
/// let now = Check::new("config", || Ok(()));
/// let later = Check::new("store", || async { Err("the store is away".into()) }).timeout(Duration::from_millis(200));
/// ```
#[derive(Clone)]
pub struct Check {
    name: Arc<str>,
    time_limit: Duration,
    ask: Arc<Ask>,
}

impl Check {
    /// Returns a check that passes if the closure returns `Ok`. The closure may be sync or async.
    pub fn new<M>(name: impl Into<String>, check: impl CheckFn<M>) -> Self {
        Check { name: name.into().into(), time_limit: TIME_LIMIT, ask: Arc::new(move || check.run_one()) }
    }

    /// Sets the timeout after which the check fails. Default: 750 ms. A check that blocks its thread cannot be timed
    /// out.
    #[must_use]
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.time_limit = limit;
        self
    }

    /// Returns the name of the check.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs the check within its timeout.
    pub(super) async fn run(&self) -> Result<(), Reason> {
        match tokio::time::timeout(self.time_limit, (self.ask)()).await {
            Ok(outcome) => outcome,
            Err(_) => Err(format!("no answer within {:?}", self.time_limit).into()),
        }
    }
}

impl fmt::Debug for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Check").field("name", &self.name).field("timeout", &self.time_limit).finish_non_exhaustive()
    }
}

/// A closure that can be a check, sync or async. `M` distinguishes the two and is inferred.
pub trait CheckFn<M>: Send + Sync + 'static {
    /// Calls the closure.
    #[doc(hidden)]
    fn run_one(&self) -> Outcome;
}

/// Marks sync closures.
#[derive(Debug)]
pub enum Now {}
/// Marks async closures.
#[derive(Debug)]
pub enum Later {}

impl<F> CheckFn<Now> for F
where
    F: Fn() -> Result<(), Reason> + Send + Sync + 'static,
{
    fn run_one(&self) -> Outcome {
        let outcome = self();
        Box::pin(async { outcome })
    }
}

impl<F, A> CheckFn<Later> for F
where
    F: Fn() -> A + Send + Sync + 'static,
    A: Future<Output = Result<(), Reason>> + Send + 'static,
{
    fn run_one(&self) -> Outcome {
        Box::pin(self())
    }
}
