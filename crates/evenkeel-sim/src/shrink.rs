//! Makes a failing tape simple: fewer and smaller choices that still fail.

use crate::decisions::{Stream, Tape};
use crate::run::Run;

/// At most this many runs are tried.
const BUDGET: usize = 400;

/// Returns the simplest tape that was found, and its run. `fails` runs a tape and returns the run if it fails in the same way.
/// Returns `None` if the tape itself does not fail.
pub(crate) fn shrink(tape: &Tape, fails: impl Fn(&Tape) -> Option<Run>) -> Option<(Tape, Run)> {
    let mut best = (tape.clone(), fails(tape)?);
    let mut left = BUDGET;
    let mut attempt = |candidate: Tape, best: &mut (Tape, Run)| -> bool {
        if left == 0 || candidate == best.0 {
            return false;
        }
        left -= 1;
        match fails(&candidate) {
            // What the run has taken is the tape without entries that nothing asked for.
            Some(run) => {
                *best = (run.tape.clone(), run);
                true
            }
            None => false,
        }
    };
    // All choices of a purpose at once, the least telling first.
    for stream in [Stream::Task, Stream::Latency, Stream::Random, Stream::Event, Stream::Fault, Stream::Workload] {
        let candidate = best.0.0.iter().filter(|((of, _), _)| *of != stream);
        let candidate = Tape(candidate.map(|(place, choice)| (*place, *choice)).collect());
        attempt(candidate, &mut best);
    }
    // Ever smaller parts of what is left.
    let mut size = best.0.0.len().div_ceil(2);
    while size >= 1 {
        let mut start = 0;
        while start < best.0.0.len() {
            let entries = best.0.0.iter().enumerate().filter(|(index, _)| !(start..start + size).contains(index));
            let candidate = Tape(entries.map(|(_, (place, choice))| (*place, *choice)).collect());
            if !attempt(candidate, &mut best) {
                start += size;
            }
        }
        size /= 2;
    }
    // Smaller choices.
    for place in best.0.0.keys().copied().collect::<Vec<_>>() {
        for smaller in [1, 2, 4] {
            let Some(choice) = best.0.0.get(&place).copied() else { break };
            let mut candidate = best.0.clone();
            candidate.0.insert(place, smaller);
            if choice <= smaller || attempt(candidate, &mut best) {
                break;
            }
        }
    }
    Some(best)
}
