//! [`Check`]: one question about the program's health.

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

/// Why a check fails, in words for people. Anything that is an error, and any text, can be made one: `Err("why".into())`.
///
/// Whoever can reach the server can read it: it should name what is wrong, and nothing that is secret.
pub type Reason = Box<dyn Error + Send + Sync>;

pub(super) type Outcome = Pin<Box<dyn Future<Output = Result<(), Reason>> + Send>>;
type Ask = dyn Fn() -> Outcome + Send + Sync;

/// How long a check may take unless told otherwise. A kubelet waits for one second.
const TIME_LIMIT: Duration = Duration::from_millis(750);

/// One question about the program's health, under a name.
///
/// It is asked whenever somebody asks the server, perhaps several times at once, in a task of its own. It should answer from
/// what is known: a check that calls other programs makes their bad days this program's. It must not block.
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
    /// A check that passes if the closure says `Ok`. The closure may answer at once or be async.
    pub fn new<M>(name: impl Into<String>, check: impl CheckFn<M>) -> Self {
        Check { name: name.into().into(), time_limit: TIME_LIMIT, ask: Arc::new(move || check.ask()) }
    }

    /// Fails the check if it takes longer: 750 ms unless told otherwise. One that blocks its thread cannot be given up.
    #[must_use]
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.time_limit = limit;
        self
    }

    /// The name, by which it can be asked for and left out.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Asks it. Takes no longer than its time limit.
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

/// A closure that can be a check: one that answers at once, or one that is async. `M` tells the two apart and is never
/// written.
pub trait CheckFn<M>: Send + Sync + 'static {
    /// Asks it.
    #[doc(hidden)]
    fn ask(&self) -> Outcome;
}

/// Marks closures that answer at once.
#[derive(Debug)]
pub enum Now {}
/// Marks closures that are async.
#[derive(Debug)]
pub enum Later {}

impl<F> CheckFn<Now> for F
where
    F: Fn() -> Result<(), Reason> + Send + Sync + 'static,
{
    fn ask(&self) -> Outcome {
        let outcome = self();
        Box::pin(async { outcome })
    }
}

impl<F, A> CheckFn<Later> for F
where
    F: Fn() -> A + Send + Sync + 'static,
    A: Future<Output = Result<(), Reason>> + Send + 'static,
{
    fn ask(&self) -> Outcome {
        Box::pin(self())
    }
}
