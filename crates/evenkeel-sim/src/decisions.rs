//! Every choice of a run: which task runs, how long a message takes, which fault is injected.
//!
//! A choice is a number below a bound, and 0 is always the plain one: the task that waits longest, no delay, no fault. Choices
//! are counted per [`Stream`], so that one choice more in one place does not change those of another. A run draws them from a
//! seed, or takes them from a [`Tape`]; what a tape does not name is 0. Removing entries of a tape is therefore how a failure
//! is made simple.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// The purpose of a choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Stream {
    /// Which faults a run may have, and how tasks are scheduled.
    Profile,
    /// Which of the ready tasks runs.
    Task,
    /// How long a message takes.
    Latency,
    /// What goes wrong with a request.
    Fault,
    /// What happens to processes and to the server.
    Event,
    /// What the workload does.
    Workload,
    /// Random numbers of the code under test.
    Random,
}

impl Stream {
    const ALL: [Stream; 7] = [
        Stream::Profile,
        Stream::Task,
        Stream::Latency,
        Stream::Fault,
        Stream::Event,
        Stream::Workload,
        Stream::Random,
    ];

    fn letter(self) -> char {
        match self {
            Stream::Profile => 'p',
            Stream::Task => 't',
            Stream::Latency => 'l',
            Stream::Fault => 'f',
            Stream::Event => 'e',
            Stream::Workload => 'w',
            Stream::Random => 'r',
        }
    }
}

/// The choices of a run that are not 0. As text, `f3=2.t17=1`: the fourth choice of faults is 2.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tape(pub(crate) BTreeMap<(Stream, u32), u32>);

impl fmt::Display for Tape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("plain");
        }
        for (index, ((stream, position), choice)) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { "." };
            write!(f, "{separator}{}{position}={choice}", stream.letter())?;
        }
        Ok(())
    }
}

/// A text that is not a tape.
#[derive(Debug, thiserror::Error)]
#[error("{0:?} is not part of a tape: expected a stream, a position and a choice, as in \"f3=2\"")]
pub struct TapeError(String);

impl FromStr for Tape {
    type Err = TapeError;

    fn from_str(text: &str) -> Result<Self, TapeError> {
        let part = |part: &str| {
            let (place, choice) = part.split_once('=')?;
            let stream = Stream::ALL.into_iter().find(|stream| place.starts_with(stream.letter()))?;
            Some(((stream, place.get(1..)?.parse().ok()?), choice.parse().ok()?))
        };
        let parts = text.split('.').filter(|part| *part != "plain");
        parts.map(|text| part(text).ok_or_else(|| TapeError(text.to_owned()))).collect::<Result<_, _>>().map(Tape)
    }
}

/// Where the choices of a run come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ChoiceSource {
    /// Drawn from this seed.
    Seed(u64),
    /// Drawn from this seed for the workload, and plain otherwise: the run without faults.
    WorkloadOf(u64),
    /// Those of a tape.
    Tape(Tape),
}

impl ChoiceSource {
    /// Returns the choices of the same run without faults.
    pub(crate) fn without_faults(&self) -> Self {
        match self {
            ChoiceSource::Seed(seed) | ChoiceSource::WorkloadOf(seed) => ChoiceSource::WorkloadOf(*seed),
            ChoiceSource::Tape(tape) => {
                let workload = tape.0.iter().filter(|((stream, _), _)| *stream == Stream::Workload);
                ChoiceSource::Tape(Tape(workload.map(|(place, choice)| (*place, *choice)).collect()))
            }
        }
    }
}

/// Makes the choices of one run and records them.
#[derive(Debug)]
pub(crate) struct Decisions {
    source: ChoiceSource,
    counts: BTreeMap<Stream, u32>,
    taken: Tape,
    /// A choice was not plain since [`take_mark`](Self::take_mark).
    is_marked: bool,
}

impl Decisions {
    pub(crate) fn new(source: ChoiceSource) -> Self {
        Decisions { source, counts: BTreeMap::new(), taken: Tape::default(), is_marked: false }
    }

    /// Returns a number below `bound`, each with the same probability.
    pub(crate) fn uniform(&mut self, stream: Stream, bound: u32) -> u32 {
        self.choose(stream, bound, |random| below(random, bound))
    }

    /// Returns a number below `bound` that is not 0 with this probability, in parts per million.
    pub(crate) fn rarely(&mut self, stream: Stream, bound: u32, millionths: u32) -> u32 {
        self.choose(stream, bound, |random| {
            if below(random, 1_000_000) >= millionths || bound < 2 {
                return 0;
            }
            // The upper bits decided about the probability.
            1 + below(mix(random), bound - 1)
        })
    }

    /// Returns the choice that `draw` makes from 64 random bits, or that of the tape.
    pub(crate) fn choose(&mut self, stream: Stream, bound: u32, draw: impl FnOnce(u64) -> u32) -> u32 {
        let count = self.counts.entry(stream).or_default();
        let position = *count;
        *count += 1;
        let choice = match &self.source {
            ChoiceSource::Seed(seed) => draw(random(*seed, stream, position)),
            ChoiceSource::WorkloadOf(seed) if stream == Stream::Workload => draw(random(*seed, stream, position)),
            ChoiceSource::WorkloadOf(_) => 0,
            ChoiceSource::Tape(tape) => tape.0.get(&(stream, position)).copied().unwrap_or_default(),
        };
        let choice = choice.min(bound.saturating_sub(1));
        if choice > 0 {
            self.taken.0.insert((stream, position), choice);
            self.is_marked = true;
        }
        choice
    }

    /// Returns how often a stream was asked.
    pub(crate) fn count(&self, stream: Stream) -> u32 {
        self.counts.get(&stream).copied().unwrap_or_default()
    }

    /// Returns whether a choice was not plain since the last call.
    pub(crate) fn take_mark(&mut self) -> bool {
        std::mem::take(&mut self.is_marked)
    }

    /// Returns the choices so far.
    pub(crate) fn taken(&self) -> &Tape {
        &self.taken
    }
}

/// Returns the random bits of one choice. They depend on nothing else, so that choices can be added and removed.
fn random(seed: u64, stream: Stream, position: u32) -> u64 {
    mix(mix(seed ^ mix(stream.letter() as u64)) ^ u64::from(position))
}

/// SplitMix64.
pub(crate) fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(evenkeel_base::hash::GOLDEN_RATIO);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Maps random bits to a number below a bound.
fn below(random: u64, bound: u32) -> u32 {
    ((u128::from(random) * u128::from(bound)) >> 64) as u32
}

#[cfg(test)]
mod tests;
