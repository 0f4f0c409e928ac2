//! [`Checks`]: a set of checks, all asked at once; and [`Health`], the two sets that a program has.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::task::JoinSet;

use super::check::{Check, Reason};

/// A reason is one line of at most so many bytes.
const REASON_LENGTH: usize = 1024;
/// What is asked if nothing else is: that somebody is there to answer.
const PING: &str = "ping";

/// What a program is asked about: whether it is alive, and whether it is ready. Cheap to clone; all clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Health {
    live: Checks,
    ready: Checks,
}

impl Health {
    /// Without checks: alive and ready.
    pub fn new() -> Self {
        Health::default()
    }

    /// Whether the program should go on: `/healthz` and `/livez`. A program that fails these is restarted, so what a restart
    /// does not mend does not belong here.
    pub fn live(&self) -> &Checks {
        &self.live
    }

    /// Whether the program can do its work now: `/readyz`.
    pub fn ready(&self) -> &Checks {
        &self.ready
    }
}

/// Checks by name. Cheap to clone; all clones are the same set. Checks can be added and removed at any time.
#[derive(Clone, Default)]
pub struct Checks(Arc<Mutex<BTreeMap<Arc<str>, Check>>>);

/// A check was not added.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AddCheckError {
    /// There is one of that name.
    #[error("a check named {name:?} exists already")]
    Taken {
        /// The name.
        name: String,
    },
    /// The name cannot be a part of a path.
    #[error("invalid check name {name:?}: only letters, digits, '-', '_' and '.' are allowed")]
    Name {
        /// The name.
        name: String,
    },
}

/// What a check has said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The check's name.
    pub name: String,
    /// Why it fails, in one line; `None` if it passes.
    pub failure: Option<String>,
}

impl Checks {
    /// Adds a check.
    ///
    /// # Errors
    /// If there is one of that name, or the name cannot be asked for by a path.
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

    /// Removes a check. Answers whether it was there.
    pub fn remove(&self, name: &str) -> bool {
        // It is dropped when the lock is gone: what it holds may be anything.
        let removed = self.lock().remove(name);
        removed.is_some()
    }

    /// Asks one check. `None` if there is none of that name; where there are no checks at all, there is `ping`.
    pub async fn ask(&self, name: &str) -> Option<Verdict> {
        let chosen: Vec<Check> = {
            let checks = self.lock();
            if checks.is_empty() && name == PING {
                return Some(ping());
            }
            checks.get(name).cloned().into_iter().collect()
        };
        run(chosen).await.pop()
    }

    /// Asks all checks but the excluded ones, all at once, and answers with what they said, sorted by name. Where there are no
    /// checks, `ping` has passed.
    pub async fn ask_all(&self, excluded: &BTreeSet<String>) -> Vec<Verdict> {
        let chosen: Vec<Check> = {
            let checks = self.lock();
            if checks.is_empty() && !excluded.contains(PING) {
                return vec![ping()];
            }
            checks.values().filter(|check| !excluded.contains(check.name())).cloned().collect()
        };
        run(chosen).await
    }

    /// Whether there is a check of this name.
    pub(super) fn has(&self, name: &str) -> bool {
        let checks = self.lock();
        checks.contains_key(name) || (checks.is_empty() && name == PING)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, Check>> {
        // Nothing of anybody else's runs while it is held.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Checks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.lock().keys()).finish()
    }
}

fn ping() -> Verdict {
    Verdict { name: PING.to_owned(), failure: None }
}

/// Asks checks, all at once, and answers in their order. Each has a task of its own, so that a panic is its own; dropping
/// this ends them.
async fn run(checks: Vec<Check>) -> Vec<Verdict> {
    let mut tasks = JoinSet::new();
    let mut verdicts: Vec<Verdict> = Vec::with_capacity(checks.len());
    for (place, check) in checks.into_iter().enumerate() {
        // What a task that panicked would have said.
        let failure = Some("the check panicked".to_owned());
        verdicts.push(Verdict { name: check.name().to_owned(), failure });
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

/// The reason without what would break a line or a terminal, and not too long.
fn in_one_line(reason: &Reason) -> String {
    let mut line = String::new();
    // Writing to a text cannot fail; a reason that cannot be written is left as far as it came.
    let _ = write!(line, "{reason}");
    super::diagnostics::one_line(&line, REASON_LENGTH)
}
