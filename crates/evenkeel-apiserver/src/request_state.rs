//! [`RequestState`]: what a request keeps from one run of the engine to the next.
//!
//! The engine performs no I/O. A request that needs a response from outside (of a webhook, of a function of the program)
//! ends its run with the calls that it needs, before it has written anything. The listener makes the calls and runs the
//! request again, which then finds their results here. What a run draws (the time, random numbers) is kept as well: the
//! next run makes the same object from it, so it needs the same calls and no others.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use jiff::Timestamp;

use crate::env::Env;
use crate::outbound::{CallId, CallResult};

/// The state of one request across its runs.
#[derive(Debug, Default)]
pub(crate) struct RequestState {
    wall: OnceLock<Timestamp>,
    random: Mutex<DrawnNumbers>,
    results: Mutex<HashMap<CallId, Arc<CallResult>>>,
    /// The calls whose results have been counted.
    counted: Mutex<HashSet<CallId>>,
    /// Tells the reviews of this request from those of others.
    review_seed: OnceLock<[u64; 2]>,
    /// The annotations for the audit log.
    annotations: Mutex<BTreeMap<String, String>>,
    /// The object that an injected fault omits from the list of the response.
    omitted_item: Option<u64>,
}

/// The random numbers of all runs, and how many of them the current run has used.
#[derive(Debug, Default)]
struct DrawnNumbers {
    numbers: Vec<u64>,
    used: usize,
}

impl RequestState {
    /// Returns the state of a request whose list misses an object, if that is an injected fault.
    pub(crate) fn omitting(item: Option<u64>) -> Self {
        RequestState { omitted_item: item, ..RequestState::default() }
    }

    /// Returns which object an injected fault omits from the list of the response.
    pub(crate) fn omitted_item(&self) -> Option<u64> {
        self.omitted_item
    }

    /// Starts a run: random numbers repeat from the first one.
    pub(crate) fn start_run(&self) {
        lock(&self.random).used = 0;
    }

    /// Returns the result of a call, if it has been made.
    pub(crate) fn result(&self, id: &CallId) -> Option<Arc<CallResult>> {
        lock(&self.results).get(id).cloned()
    }

    /// Keeps the result of a call for the next run.
    pub(crate) fn keep_result(&self, id: CallId, result: CallResult) {
        lock(&self.results).insert(id, Arc::new(result));
    }

    /// Returns whether the result of a call is seen for the first time: later runs of the request see it again.
    pub(crate) fn count_result(&self, id: CallId) -> bool {
        lock(&self.counted).insert(id)
    }

    /// Returns the uid of the review that a call carries, which is the same in each run.
    pub(crate) fn review_uid(&self, id: &CallId, env: &dyn Env) -> String {
        id.review_uid(*self.review_seed.get_or_init(|| [env.random(), env.random()]))
    }

    /// Adds an annotation to the request's event in the audit log.
    pub(crate) fn annotate(&self, key: String, value: String) {
        lock(&self.annotations).insert(key, value);
    }

    /// Returns the annotations for the audit log.
    pub(crate) fn annotations(&self) -> BTreeMap<String, String> {
        lock(&self.annotations).clone()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The environment of one request: time and random numbers are the same in each of its runs.
#[derive(Clone, Copy)]
pub(crate) struct RequestEnv<'a> {
    env: &'a dyn Env,
    /// `None` for the server itself, which writes once.
    state: Option<&'a RequestState>,
}

impl<'a> RequestEnv<'a> {
    pub(crate) fn new(env: &'a dyn Env, state: Option<&'a RequestState>) -> Self {
        RequestEnv { env, state }
    }

    pub(crate) fn wall(&self) -> Timestamp {
        match self.state {
            Some(state) => *state.wall.get_or_init(|| self.env.wall()),
            None => self.env.wall(),
        }
    }

    pub(crate) fn random(&self) -> u64 {
        let Some(state) = self.state else { return self.env.random() };
        let mut drawn = lock(&state.random);
        let index = drawn.used;
        drawn.used += 1;
        if let Some(number) = drawn.numbers.get(index) {
            return *number;
        }
        let number = self.env.random();
        drawn.numbers.push(number);
        number
    }
}

#[cfg(test)]
mod tests;
