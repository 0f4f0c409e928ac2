//! [`Checks`]: a set of checks that run concurrently; and [`Health`], the two sets of a program.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::task::JoinSet;

use super::check::{Check, Reason};

/// The maximum length of a reason, which is one line.
const REASON_LENGTH: usize = 1024;
/// The check that stands in for an empty set: it always passes.
const PING: &str = "ping";

/// The health of a program: liveness and readiness. Cheap to clone; clones share the checks.
#[derive(Clone, Debug, Default)]
pub struct Health {
    live: Checks,
    ready: Checks,
}

impl Health {
    /// Returns an empty set of checks: alive and ready.
    pub fn new() -> Self {
        Health::default()
    }

    /// Returns the liveness checks: `/healthz` and `/livez`. A program that fails them is restarted, so a condition
    /// that a restart does not fix does not belong here.
    pub fn live(&self) -> &Checks {
        &self.live
    }

    /// Returns the readiness checks: `/readyz`.
    pub fn ready(&self) -> &Checks {
        &self.ready
    }
}

/// Checks by name. Cheap to clone; clones share the set. Checks can be added and removed at any time.
#[derive(Clone, Default)]
pub struct Checks(Arc<Mutex<BTreeMap<Arc<str>, Check>>>);

/// Why a check was not added.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AddCheckError {
    /// A check of that name exists.
    #[error("a check named {name:?} exists already")]
    Taken {
        /// The name.
        name: String,
    },
    /// The name cannot be part of a path.
    #[error("invalid check name {name:?}: only letters, digits, '-', '_' and '.' are allowed")]
    Name {
        /// The name.
        name: String,
    },
}

/// The result of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckResult {
    /// The check's name.
    pub name: String,
    /// Why it failed, in one line; `None` if it passed.
    pub failure: Option<String>,
}

impl Checks {
    /// Adds a check.
    ///
    /// # Errors
    /// If a check of that name exists, or the name is not valid in a path.
    pub fn add(&self, check: Check) -> Result<(), AddCheckError> {
        let name = check.name().to_owned();
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if name.is_empty() || !name.chars().all(plain) {
            return Err(AddCheckError::Name { name });
        }
        let mut checks = self.lock();
        if checks.contains_key(&*name) {
            return Err(AddCheckError::Taken { name });
        }
        checks.insert(name.into(), check);
        Ok(())
    }

    /// Removes a check. Returns whether it existed.
    pub fn remove(&self, name: &str) -> bool {
        // Dropped after the lock was released: it may hold anything.
        let removed = self.lock().remove(name);
        removed.is_some()
    }

    /// Runs one check. `None` if there is none of that name; an empty set has `ping`.
    pub async fn run_one(&self, name: &str) -> Option<CheckResult> {
        let chosen: Vec<Check> = {
            let checks = self.lock();
            if checks.is_empty() && name == PING {
                return Some(ping());
            }
            checks.get(name).cloned().into_iter().collect()
        };
        run(chosen).await.pop()
    }

    /// Runs all checks but the excluded ones concurrently. Returns the results sorted by name. For an empty set,
    /// `ping` passes.
    pub async fn run_all(&self, excluded: &BTreeSet<String>) -> Vec<CheckResult> {
        let chosen: Vec<Check> = {
            let checks = self.lock();
            if checks.is_empty() && !excluded.contains(PING) {
                return vec![ping()];
            }
            checks.values().filter(|check| !excluded.contains(check.name())).cloned().collect()
        };
        run(chosen).await
    }

    /// Returns whether a check of this name exists.
    pub(super) fn has(&self, name: &str) -> bool {
        let checks = self.lock();
        checks.contains_key(name) || (checks.is_empty() && name == PING)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, Check>> {
        // No user code runs while it is held.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Checks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.lock().keys()).finish()
    }
}

fn ping() -> CheckResult {
    CheckResult { name: PING.to_owned(), failure: None }
}

/// Runs checks concurrently and returns the results in order. Each check has its own task, so that a panic stays its
/// own; dropping this future ends the tasks.
async fn run(checks: Vec<Check>) -> Vec<CheckResult> {
    let mut tasks = JoinSet::new();
    let mut verdicts: Vec<CheckResult> = Vec::with_capacity(checks.len());
    for (place, check) in checks.into_iter().enumerate() {
        // The result of a task that panicked.
        let failure = Some("the check panicked".to_owned());
        verdicts.push(CheckResult { name: check.name().to_owned(), failure });
        tasks.spawn(async move { (place, check.run().await.err().map(|reason| in_one_line(&reason))) });
    }
    while let Some(ended) = tasks.join_next().await {
        if let Ok((place, failure)) = ended
            && let Some(verdict) = verdicts.get_mut(place)
        {
            verdict.failure = failure;
        }
    }
    verdicts
}

/// Returns the reason on one line, without control characters, truncated.
fn in_one_line(reason: &Reason) -> String {
    let mut line = String::new();
    // Writing to a `String` cannot fail; a reason whose `Display` fails is kept as far as it was written.
    let _ = write!(line, "{reason}");
    super::diagnostics::one_line(&line, REASON_LENGTH)
}
