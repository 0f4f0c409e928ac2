//! Runs one target under libFuzzer: the one that the variable `EVENKEEL_FUZZ_TARGET` names. `fuzz/run` sets it.
#![no_main]

use std::sync::LazyLock;

use evenkeel_fuzz::{TARGETS, Target};
use libfuzzer_sys::fuzz_target;

/// The variable that names the target. libFuzzer reads the arguments.
const VARIABLE: &str = "EVENKEEL_FUZZ_TARGET";

static TARGET: LazyLock<&Target> = LazyLock::new(|| {
    let name = std::env::var(VARIABLE).unwrap_or_default();
    Target::of_name(&name).unwrap_or_else(|| {
        let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
        eprintln!("{VARIABLE}={name:?} is no target; there are {}", names.join(", "));
        std::process::exit(2)
    })
});

fuzz_target!(init: { LazyLock::force(&TARGET); }, |data: &[u8]| (TARGET.run)(data));
