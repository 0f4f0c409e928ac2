//! [`Diagnostics`]: a report on what the program is doing.

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};
use std::fmt::{self, Display};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::time::Instant;

use super::sources::{Look, Source};

/// How many errors are kept.
const ERRORS: usize = 100;
/// The maximum length of an error, which is one line.
const ERROR_LENGTH: usize = 1024;
/// The section of the errors.
pub(super) const ERRORS_SECTION: &str = "errors";

/// A report on what the program is doing: informers, queues, recent errors and user-defined sources. Cheap to clone;
/// clones are the same.
///
/// Sources are read only on request. Reports contain names, numbers and error texts, never an object.
///
/// ```
/// use evenkeel_queue::WorkQueue;
/// use evenkeel_runtime::health::{Diagnostics, Source};
///
/// let diagnostics = Diagnostics::new();
/// let queue = WorkQueue::<String>::rate_limited("foos");
/// diagnostics.add(Source::queue("foos", &queue));
/// diagnostics.add(Source::new("build", "version", || "1.2.3".into()));
/// diagnostics.error("foos", "default/a", "there is no room");
/// assert_eq!(diagnostics.report()["queues"]["foos"]["ready"], 0);
/// assert_eq!(diagnostics.report()["errors"][0]["key"], "default/a");
/// ```
#[derive(Clone, Default)]
pub struct Diagnostics(Arc<Mutex<DiagnosticsState>>);

#[derive(Default)]
struct DiagnosticsState {
    sections: BTreeMap<String, BTreeMap<String, Arc<Look>>>,
    errors: ErrorRing,
}

impl Diagnostics {
    /// Returns empty diagnostics.
    pub fn new() -> Self {
        Diagnostics::default()
    }

    /// Adds a source. It replaces the one of that name in its section.
    pub fn add(&self, source: Source) {
        let Source { section, name, look } = source;
        // The replaced source is dropped after the lock was released: it may hold anything.
        let _replaced = self.lock().sections.entry(section).or_default().insert(name, look);
    }

    /// Removes a source and the handles it holds. Returns whether it existed.
    pub fn remove(&self, section: &str, name: &str) -> bool {
        let mut state = self.lock();
        let Some(sources) = state.sections.get_mut(section) else { return false };
        // Dropped after the lock was released: it may hold anything.
        let removed = sources.remove(name);
        if sources.is_empty() {
            state.sections.remove(section);
        }
        drop(state);
        removed.is_some()
    }

    /// Records an error of `controller` with `key`. The last hundred are kept; equal consecutive ones are merged into
    /// one with a count.
    pub fn error(&self, controller: &str, key: impl Display, error: impl Display) {
        let (key, error) = (key.to_string(), error.to_string());
        self.lock().errors.push(Instant::now(), controller, &key, &error);
    }

    /// Returns the whole report.
    pub fn report(&self) -> Value {
        self.report_at(Instant::now())
    }

    pub(super) fn report_at(&self, now: Instant) -> Value {
        let (sections, errors) = {
            let state = self.lock();
            (state.sections.clone(), state.errors.report(now))
        };
        let mut report: Map<String, Value> =
            sections.into_iter().map(|(section, sources)| (section, look_at(&sources, now))).collect();
        report.insert(ERRORS_SECTION.to_owned(), errors);
        report.into()
    }

    /// Returns one section; `None` if there is none of that name.
    pub fn section(&self, name: &str) -> Option<Value> {
        let now = Instant::now();
        let state = self.lock();
        if name == ERRORS_SECTION {
            return Some(state.errors.report(now));
        }
        let sources = state.sections.get(name)?.clone();
        drop(state);
        Some(look_at(&sources, now))
    }

    fn lock(&self) -> MutexGuard<'_, DiagnosticsState> {
        // No user code runs while it is held.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.lock();
        let names = |sources: &BTreeMap<String, Arc<Look>>| sources.keys().cloned().collect::<Vec<_>>();
        f.debug_map().entries(state.sections.iter().map(|(section, sources)| (section, names(sources)))).finish()
    }
}

/// Filters every list of entries with a key by these keys.
pub(super) fn keep_only(report: &mut Value, keys: &[Cow<'_, str>]) {
    match report {
        Value::Array(things) => {
            things.retain(|thing| thing.get("key").is_none_or(|own| keys.iter().any(|key| own == &**key)));
            things.iter_mut().for_each(|thing| keep_only(thing, keys));
        }
        Value::Object(parts) => parts.values_mut().for_each(|part| keep_only(part, keys)),
        _ => {}
    }
}

fn look_at(sources: &BTreeMap<String, Arc<Look>>, now: Instant) -> Value {
    let look = |look: &Look| {
        // A source that panics does not affect the others.
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| look(now)))
            .unwrap_or_else(|_| json!({"error": "looking at this panicked"}))
    };
    sources.iter().map(|(name, source)| (name.clone(), look(&**source))).collect::<Map<_, _>>().into()
}

/// The last errors, newest first.
#[derive(Default)]
pub(super) struct ErrorRing(VecDeque<Remembered>);

struct Remembered {
    at: Instant,
    controller: String,
    key: String,
    error: String,
    count: u64,
}

impl ErrorRing {
    pub(super) fn push(&mut self, now: Instant, controller: &str, key: &str, error: &str) {
        let [controller, key, error] = [controller, key, error].map(|text| one_line(text, ERROR_LENGTH));
        let mut count = 1;
        if let Some(last) = self.0.front()
            && (&last.controller, &last.key, &last.error) == (&controller, &key, &error)
        {
            count += last.count;
            self.0.pop_front();
        }
        self.0.push_front(Remembered { at: now, controller, key, error, count });
        self.0.truncate(ERRORS);
    }

    pub(super) fn report(&self, now: Instant) -> Value {
        let one = |error: &Remembered| {
            json!({
                "controller": error.controller,
                "key": error.key,
                "error": error.error,
                "count": error.count,
                "seconds_ago": seconds(now.saturating_duration_since(error.at)),
            })
        };
        self.0.iter().map(one).collect()
    }
}

/// Returns seconds with millisecond precision.
pub(crate) fn seconds(time: Duration) -> Value {
    (time.as_millis() as f64 / 1000.0).into()
}

/// Returns the text on one line, without control characters, truncated to `limit` bytes.
pub(crate) fn one_line(text: &str, limit: usize) -> String {
    let end = (0..=limit.min(text.len())).rev().find(|end| text.is_char_boundary(*end)).unwrap_or_default();
    let shown = text.get(..end).unwrap_or_default();
    let mut line: String = shown.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    if end < text.len() {
        line.push('…');
    }
    line
}
