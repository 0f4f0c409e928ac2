//! Many pieces of bytes, made by all processors before anybody asks for them.

use std::num::NonZero;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::Failure;

/// How many pieces lie in one run of bytes. One run for all would have to be copied while it grows.
const RUN: usize = 4_096;

/// Pieces of bytes by number.
#[derive(Default)]
pub(crate) struct Pieces {
    runs: Vec<Run>,
    count: usize,
}

#[derive(Default)]
struct Run {
    bytes: Vec<u8>,
    /// Where each piece ends.
    ends: Vec<usize>,
}

impl Run {
    fn slice(&self, pieces: Range<usize>) -> &[u8] {
        let end_of = |count: usize| if count == 0 { 0 } else { self.ends[count - 1] };
        &self.bytes[end_of(pieces.start)..end_of(pieces.end)]
    }
}

impl Pieces {
    /// Lets this function append every piece.
    pub(crate) fn new(
        count: usize,
        write: impl Fn(&mut Vec<u8>, usize) -> Result<(), Failure> + Sync,
    ) -> Result<Self, Failure> {
        let runs: Vec<Mutex<Run>> = (0..count.div_ceil(RUN)).map(|_| Mutex::default()).collect();
        let next = AtomicUsize::new(0);
        let work = || -> Result<(), Failure> {
            while let Some((number, place)) = Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|number| {
                Some((number, runs.get(number)?)) // none are left
            }) {
                let mut run = Run::default();
                for piece in number * RUN..count.min((number + 1) * RUN) {
                    write(&mut run.bytes, piece)?;
                    run.ends.push(run.bytes.len());
                }
                run.bytes.shrink_to_fit();
                *place.lock().map_err(|_| "another thread has failed")? = run;
            }
            Ok(())
        };
        std::thread::scope(|scope| {
            let threads = std::thread::available_parallelism().map_or(1, NonZero::get).min(runs.len().max(1));
            let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
            threads.into_iter().try_for_each(|thread| thread.join().map_err(|_| "bytes could not be made")?)
        })?;
        let runs = runs.into_iter().map(|run| run.into_inner().map_err(|_| "bytes could not be made"));
        Ok(Pieces { runs: runs.collect::<Result<_, _>>()?, count })
    }

    pub(crate) fn len(&self) -> usize {
        self.count
    }

    pub(crate) fn get(&self, piece: usize) -> &[u8] {
        self.runs[piece / RUN].slice(piece % RUN..piece % RUN + 1)
    }

    /// These pieces, as few runs of bytes.
    pub(crate) fn slices(&self, pieces: Range<usize>) -> impl Iterator<Item = &[u8]> {
        let Range { start, end } = pieces;
        let runs = if start < end { start / RUN..end.div_ceil(RUN) } else { 0..0 };
        runs.map(move |number| {
            let first = number * RUN;
            self.runs[number].slice(start.max(first) - first..end.min(first + RUN) - first)
        })
    }
}

#[cfg(test)]
mod tests;
