//! Regular expressions with the syntax and the meaning of Go's `regexp` package, for schemas and expressions.
//!
//! `go_syntax` translates a pattern; `regex-automata` compiles and matches it, in linear time. The compiled patterns of
//! the process share one cache with a limit in bytes, and equal patterns are compiled once. The scratch
//! memory of matching belongs to the thread, not to the pattern.

mod go_syntax;
#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use regex_automata::Input;
use regex_automata::meta::{self, Cache, Regex};
use regex_automata::util::syntax;

pub use go_syntax::PatternFault;
use go_syntax::{MAX_NESTING, PatternFaultKind, translate};

/// The memory limit of one compiled pattern.
pub const MAX_PATTERN_BYTES: usize = 10 << 20;

/// The memory limit of all distinct patterns of one definition.
pub const MAX_DEFINITION_PATTERN_BYTES: usize = 16 << 20;

/// The memory limit of the compiled patterns of the process. Patterns beyond it are compiled again when they are used.
const MAX_CACHED_BYTES: usize = 32 << 20;

/// The memory limit of the states that a search computes ahead.
const MAX_LAZY_STATES: usize = 128 << 10;

/// How many bytes of text times bytes of a compiled pattern count as one check.
const WORK_PER_CHECK: usize = 32 << 10;

/// How many patterns keep their scratch memory, per thread.
const MAX_SCRATCH: usize = 16;

/// The largest scratch memory that a thread keeps for one pattern.
const MAX_SCRATCH_BYTES: usize = 512 << 10;

/// A pattern of a schema. Compiled on use.
#[derive(Debug)]
pub struct Pattern {
    source: Box<str>,
}

impl Pattern {
    /// Returns a pattern that is not compiled yet.
    pub fn new(source: Box<str>) -> Self {
        Pattern { source }
    }

    /// Returns the source.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Returns the compiled pattern, or why it is invalid.
    pub fn compiled(&self) -> Result<Arc<CompiledPattern>, PatternFault> {
        compiled(&self.source)
    }
}

/// Compiles a pattern within limits and returns the memory that it needs.
pub fn pattern_bytes(source: &str) -> Result<usize, PatternFault> {
    compiled(source).map(|pattern| pattern.bytes)
}

/// A pattern in the cache.
#[derive(Debug)]
pub struct CompiledPattern {
    regex: Regex,
    bytes: usize,
    /// Identifies the scratch memory of the pattern.
    id: u64,
}

impl CompiledPattern {
    fn new(source: &str) -> Result<Self, PatternFault> {
        static NEXT_ID: AtomicU64 = AtomicU64::new(0);
        let translated = translate(source)?;
        let limits = meta::Config::new()
            .nfa_size_limit(Some(MAX_PATTERN_BYTES))
            .onepass_size_limit(Some(MAX_LAZY_STATES))
            .hybrid_cache_capacity(MAX_LAZY_STATES);
        // Texts are UTF-8. Without this flag the negation of an ASCII word boundary is refused.
        let syntax = syntax::Config::new().utf8(false).nest_limit(2 * MAX_NESTING as u32);
        let regex = meta::Builder::new().configure(limits).syntax(syntax).build(&translated).map_err(|error| {
            let kind = match error.size_limit() {
                Some(_) => PatternFaultKind::TooLarge,
                None => PatternFaultKind::Internal,
            };
            PatternFault::new(kind, source)
        })?;
        let bytes = regex.memory_usage() + 2 * source.len() + size_of::<Self>();
        Ok(CompiledPattern { regex, bytes, id: NEXT_ID.fetch_add(1, Ordering::Relaxed) })
    }

    /// Returns the work of matching a text, in checks of a validation. In the worst case a search visits all states of the
    /// pattern at each byte.
    pub fn cost(&self, text: &str) -> usize {
        text.len().saturating_mul(self.bytes) / WORK_PER_CHECK
    }

    /// Returns whether a text matches.
    pub fn is_match(&self, text: &str) -> bool {
        thread_local! {
            static SCRATCH: RefCell<Vec<(u64, Cache)>> = const { RefCell::new(Vec::new()) };
        }
        let input = Input::new(text).earliest(true);
        SCRATCH.with_borrow_mut(|scratch| {
            let known = scratch.iter().position(|(id, _)| *id == self.id).map(|at| scratch.remove(at));
            let (id, mut cache) = known.unwrap_or_else(|| (self.id, self.regex.create_cache()));
            let matched = self.regex.search_half_with(&mut cache, &input).is_some();
            if cache.memory_usage() <= MAX_SCRATCH_BYTES {
                // The pattern that was used last is at the end.
                if scratch.len() >= MAX_SCRATCH {
                    scratch.remove(0);
                }
                scratch.push((id, cache));
            }
            matched
        })
    }

    /// Returns the first matches in a text, up to a limit.
    pub fn find_all<'t>(&self, text: &'t str, limit: usize) -> Vec<&'t str> {
        self.regex.find_iter(text).take(limit).filter_map(|found| text.get(found.range())).collect()
    }
}

/// The compiled patterns of the process, by source.
#[derive(Debug, Default)]
struct PatternCache {
    patterns: HashMap<Box<str>, (Arc<CompiledPattern>, u64)>,
    bytes: usize,
    /// Counts uses, to find the pattern that was not used for longest.
    uses: u64,
}

impl PatternCache {
    fn get(&mut self, source: &str) -> Option<Arc<CompiledPattern>> {
        self.uses += 1;
        let (pattern, used) = self.patterns.get_mut(source)?;
        *used = self.uses;
        Some(Arc::clone(pattern))
    }

    fn insert(&mut self, source: &str, pattern: &Arc<CompiledPattern>) {
        let replaced = self.patterns.insert(source.into(), (Arc::clone(pattern), self.uses));
        self.bytes = (self.bytes + pattern.bytes).saturating_sub(replaced.map_or(0, |(old, _)| old.bytes));
        while self.bytes > MAX_CACHED_BYTES {
            let Some(oldest) =
                self.patterns.iter().min_by_key(|(_, (_, used))| *used).map(|(source, _)| source.clone())
            else {
                return;
            };
            if let Some((evicted, _)) = self.patterns.remove(&oldest) {
                self.bytes = self.bytes.saturating_sub(evicted.bytes);
            }
        }
    }
}

/// The lock is held for lookups only; patterns are compiled and matched outside.
fn cache() -> MutexGuard<'static, PatternCache> {
    static CACHE: LazyLock<Mutex<PatternCache>> = LazyLock::new(Mutex::default);
    CACHE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns a compiled pattern, from the cache if it is there.
pub fn compiled(source: &str) -> Result<Arc<CompiledPattern>, PatternFault> {
    if let Some(pattern) = cache().get(source) {
        return Ok(pattern);
    }
    let pattern = Arc::new(CompiledPattern::new(source)?);
    cache().insert(source, &pattern);
    Ok(pattern)
}
