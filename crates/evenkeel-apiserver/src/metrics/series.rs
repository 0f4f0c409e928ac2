//! [`Series`]: the counters of one set of labels.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use hashbrown::Equivalent;

use super::histogram::Histogram;

/// The bounds of request durations in milliseconds, as upstream has them.
pub(crate) const DURATION_BOUNDS: [u64; 23] = [
    5, 25, 50, 100, 200, 400, 600, 800, 1_000, 1_250, 1_500, 2_000, 3_000, 4_000, 5_000, 6_000, 8_000, 10_000, 15_000,
    20_000, 30_000, 45_000, 60_000,
];
/// The same in nanoseconds.
static DURATION_NANOS: [u64; 23] = {
    let mut nanos = DURATION_BOUNDS;
    let mut index = 0;
    while index < nanos.len() {
        nanos[index] *= 1_000_000;
        index += 1;
    }
    nanos
};
/// The bounds of response sizes in bytes, as upstream has them.
pub(crate) static SIZE_BOUNDS: [u64; 7] = [1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000, 1_000_000_000];

/// The codes of almost all responses, ascending. Others are counted under a lock.
const CODES: [u16; 22] =
    [101, 200, 201, 202, 304, 400, 401, 403, 404, 405, 406, 409, 410, 413, 415, 422, 429, 500, 501, 503, 504, 507];

/// The labels of a request, borrowed from it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SeriesKey<'a> {
    pub(crate) verb: &'static str,
    pub(crate) dry_run: &'static str,
    pub(crate) group: &'a str,
    pub(crate) version: &'a str,
    pub(crate) resource: &'a str,
    pub(crate) subresource: &'a str,
    pub(crate) scope: &'static str,
}

/// The labels of a series. Ordered as they are printed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SeriesLabels {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) resource: String,
    pub(crate) subresource: String,
    pub(crate) verb: &'static str,
    pub(crate) scope: &'static str,
    pub(crate) dry_run: &'static str,
}

impl<'a> SeriesKey<'a> {
    /// Returns the labels that all unknown resources share.
    pub(crate) fn folded(self) -> SeriesKey<'a> {
        SeriesKey { group: "", version: "", resource: "", subresource: "", scope: "", ..self }
    }

    pub(crate) fn to_labels(self) -> SeriesLabels {
        SeriesLabels {
            group: self.group.to_owned(),
            version: self.version.to_owned(),
            resource: self.resource.to_owned(),
            subresource: self.subresource.to_owned(),
            verb: self.verb,
            scope: self.scope,
            dry_run: self.dry_run,
        }
    }

    fn parts(&self) -> [&str; 7] {
        [self.verb, self.dry_run, self.group, self.version, self.resource, self.subresource, self.scope]
    }
}

impl SeriesLabels {
    fn as_key(&self) -> SeriesKey<'_> {
        SeriesKey {
            verb: self.verb,
            dry_run: self.dry_run,
            group: &self.group,
            version: &self.version,
            resource: &self.resource,
            subresource: &self.subresource,
            scope: self.scope,
        }
    }
}

impl Hash for SeriesKey<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.parts().hash(state);
    }
}

impl Hash for SeriesLabels {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_key().hash(state);
    }
}

impl Equivalent<SeriesLabels> for SeriesKey<'_> {
    fn equivalent(&self, labels: &SeriesLabels) -> bool {
        self.parts() == labels.as_key().parts()
    }
}

/// The counters of one set of labels.
#[derive(Debug)]
pub(crate) struct Series {
    codes: [AtomicU64; CODES.len()],
    /// The counts of codes that are not in [`CODES`]. HTTP has at most 900.
    other_codes: Mutex<BTreeMap<u16, u64>>,
    pub(crate) durations: Histogram<24>,
    pub(crate) sizes: Histogram<8>,
    pub(crate) long_running: AtomicI64,
    pub(crate) watch_events: AtomicU64,
    pub(crate) deprecated: bool,
}

impl Series {
    pub(crate) fn new(deprecated: bool) -> Self {
        Series {
            codes: std::array::from_fn(|_| AtomicU64::new(0)),
            other_codes: Mutex::default(),
            durations: Histogram::new(&DURATION_NANOS),
            sizes: Histogram::new(&SIZE_BOUNDS),
            long_running: AtomicI64::new(0),
            watch_events: AtomicU64::new(0),
            deprecated,
        }
    }

    /// Counts a response. `size` is given for reads.
    pub(crate) fn observe(&self, code: u16, duration: Duration, size: Option<u64>) {
        match CODES.binary_search(&code) {
            Ok(index) => {
                self.codes[index].fetch_add(1, Ordering::Relaxed);
            }
            Err(_) => {
                *self.other_codes.lock().unwrap_or_else(PoisonError::into_inner).entry(code).or_default() += 1;
            }
        }
        self.durations.observe(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX));
        if let Some(size) = size {
            self.sizes.observe(size);
        }
    }

    /// Returns the number of responses by code.
    pub(crate) fn codes(&self) -> BTreeMap<u16, u64> {
        let mut codes = self.other_codes.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for (code, count) in CODES.iter().zip(&self.codes) {
            let count = count.load(Ordering::Relaxed);
            if count > 0 {
                codes.insert(*code, count);
            }
        }
        codes
    }
}
