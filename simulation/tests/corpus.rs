//! Runs that are worth repeating: every replay line in `corpus/` passes (RPL-5).
//!
//! A line that has failed once stays there. If its tape diverges, the code has changed before its last fault: the run that its choices
//! give now is another one, and must pass like any other.
#![allow(clippy::unwrap_used, reason = "a panic fails the test")]

use std::fs;
use std::path::Path;

use evenkeel_sim::{ReplayError, Run};
use evenkeel_simulation::scenarios;

/// Returns the replay lines of a file: all but empty ones and comments.
fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'))
}

/// Repeats the run of a replay line. Returns whether it is still the same run.
fn replay(line: &str) -> (Run, bool) {
    let all = scenarios::all();
    let name = line.split_once(':').map(|(name, _)| name);
    let scenario = all.iter().map(|shared| &shared.scenario).find(|scenario| Some(scenario.name()) == name);
    match scenario.unwrap_or_else(|| panic!("{line}: no such scenario")).replay(line) {
        Ok(run) => (run, true),
        Err(ReplayError::Diverged { run, .. }) => (*run, false),
        Err(error) => panic!("{line}: {error}"),
    }
}

#[test]
fn rpl_5_every_line_of_the_corpus_passes() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    let (mut count, mut diverged) = (0, Vec::new());
    for entry in fs::read_dir(folder).unwrap() {
        for line in lines(&fs::read_to_string(entry.unwrap().path()).unwrap()) {
            let (run, is_same) = replay(line);
            assert!(run.failure.is_none(), "{line}\n{}", run.trace);
            count += 1;
            diverged.extend((!is_same).then(|| line.to_owned()));
        }
    }
    assert!(count > 0, "the corpus is empty");
    println!("{count} lines, of which {} have diverged: {diverged:#?}", diverged.len());
}
