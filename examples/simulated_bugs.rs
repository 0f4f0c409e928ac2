//! Ten mistakes that operators have made, each as a small controller, and the simulation that finds it.
//!
//! ```text
//! cargo run -p evenkeel-examples --example simulated_bugs              # finds all, and prints one timeline
//! cargo run -p evenkeel-examples --example simulated_bugs -- --page run.html   # and writes it as a page, step by step
//! cargo test -p evenkeel-examples --example simulated_bugs
//! ```
//!
//! The patterns are those of Sieve (crashes between two writes, stale and unobserved states) and Acto (wrong ends of correct
//! changes). The kinds are ConfigMaps and Secrets, so that nothing distracts: a ConfigMap is what a user wants, Secrets are made
//! for it.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

#[path = "simulated_bugs/patterns.rs"]
#[allow(dead_code, reason = "the correct one is for the tests")]
mod patterns;

use std::time::Instant;

use evenkeel_sim::Failed;

/// A pattern, and how it is found.
struct Pattern {
    name: &'static str,
    mistake: &'static str,
    find: fn() -> Result<evenkeel_sim::Report, Failed>,
}

/// All patterns.
const PATTERNS: [Pattern; 10] = [
    Pattern {
        name: "step forgotten",
        mistake: "marks its work as done before it does it",
        find: || patterns::step_forgotten().crash_matrix(),
    },
    Pattern {
        name: "made twice",
        mistake: "creates with a random name, and notes the name afterwards",
        find: || patterns::made_twice().crash_matrix(),
    },
    Pattern {
        name: "left behind",
        mistake: "removes its finalizer before it cleans up",
        find: || patterns::left_behind().crash_matrix(),
    },
    Pattern {
        name: "known by heart",
        mistake: "remembers in memory what it has made",
        find: || patterns::known_by_heart().crash_matrix(),
    },
    Pattern {
        name: "own work refused",
        mistake: "takes AlreadyExists for a fault of the user",
        find: || patterns::own_work_refused().crash_matrix(),
    },
    Pattern {
        name: "deleted first",
        mistake: "deletes the old one and trusts to be there for the new one",
        find: || patterns::deleted_first().crash_matrix(),
    },
    Pattern {
        name: "old list believed",
        mistake: "deletes what has no owner in an old list",
        find: || patterns::old_list_believed().stale_matrix(),
    },
    Pattern {
        name: "overwritten",
        mistake: "writes a whole object without its version",
        find: || patterns::overwritten().check(200),
    },
    Pattern {
        name: "never removed",
        mistake: "copies labels and never removes one",
        find: || patterns::never_removed().check(1),
    },
    Pattern { name: "restless", mistake: "writes the time of every look", find: || patterns::restless().check(1) },
];

#[allow(clippy::disallowed_methods, reason = "an example shows how long it takes")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut last = None;
    for pattern in &PATTERNS {
        let started = Instant::now();
        let Err(found) = (pattern.find)() else {
            return Err(format!("{} was not found", pattern.name).into());
        };
        println!("{:<18} {:<58} run {:>3}, {:.0?}", pattern.name, pattern.mistake, found.runs(), started.elapsed());
        println!("{:<18} → {}", "", found.failure());
        last.get_or_insert(found);
    }
    let Some(found) = last else { return Ok(()) };
    println!("\nThe first one in full:\n\n{found}");
    let mut arguments = std::env::args().skip(1);
    if arguments.next().as_deref() == Some("--page") {
        let path = arguments.next().ok_or("--page needs a file")?;
        found.write_page(&path)?;
        println!("step by step: {path}");
    }
    Ok(())
}

/// What [`Failed::regression_test`] has written for two of the patterns, with the correct controller in their place: the tests pass.
#[cfg(test)]
mod regressions {
    use super::patterns::{correct as own_work_refused, correct as step_forgotten};

    include!("simulated_bugs/regressions.rs");
}

#[cfg(test)]
mod tests {
    use evenkeel_sim::Fault;

    use super::*;

    #[test]
    fn rpl_4_a_failure_becomes_an_ordinary_test() {
        let crash = patterns::step_forgotten().crash_matrix().unwrap_err();
        let lost = patterns::own_work_refused().faults([Fault::ResponseLost, Fault::WriteLost]).check(500).unwrap_err();
        let tests = [crash.regression_test("step_forgotten()"), lost.regression_test("own_work_refused()")].join("\n");
        // The timeline in the comments changes with every request more.
        let code = |text: &str| -> Vec<String> {
            text.lines().filter(|line| !line.starts_with("//")).map(str::to_owned).collect()
        };
        let committed = include_str!("simulated_bugs/regressions.rs");
        assert_eq!(code(&tests), code(committed), "the committed copy is another one:\n{tests}");
        // With the mistakes, the same runs fail.
        let failure = patterns::step_forgotten().replay(&crash.replay_line()).unwrap().failure;
        assert_eq!(failure.as_ref(), Some(crash.failure()));
        let rule = tests.lines().find_map(|line| line.trim().strip_prefix('"')?.strip_suffix("\",")).unwrap();
        let failure = patterns::own_work_refused().run_with_fault_rules(&[rule]).unwrap().failure.unwrap();
        assert_eq!(failure.invariant, lost.failure().invariant);
    }

    #[test]
    fn tgt_8_every_pattern_is_found() {
        for pattern in &PATTERNS {
            assert!((pattern.find)().is_err(), "{} was not found", pattern.name);
        }
    }

    #[test]
    fn sim_13_the_correct_controller_passes_both_matrices() {
        let crashes = patterns::correct().crash_matrix().unwrap();
        let restarts = patterns::correct().stale_matrix().unwrap();
        assert!(crashes.runs >= 6 && restarts.runs >= 12, "{crashes}; {restarts}");
    }
}
