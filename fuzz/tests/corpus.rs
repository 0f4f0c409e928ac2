//! Runs every target on its corpus, and on a bounded number of inputs that are made of it. The same inputs each time.
#![allow(clippy::unwrap_used, reason = "a panic fails the test")]

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;

use evenkeel_fuzz::mutation::mutated;
use evenkeel_fuzz::{TARGETS, Target};
use fastrand::Rng;

/// Where the random inputs of tests start.
const SEED: u64 = 26;

macro_rules! tests {
    ($($test:ident => $name:literal),* $(,)?) => {
        $(
            #[test]
            fn $test() {
                check($name);
            }
        )*

        #[test]
        fn every_target_has_a_test() {
            let mut names = TARGETS.each_ref().map(|target| target.name);
            let mut tests = [$($name),*];
            names.sort_unstable();
            tests.sort_unstable();
            assert_eq!(names, tests);
        }
    };
}

tests! {
    fuz_10_watch_json => "watch_json",
    fuz_11_protobuf => "protobuf",
    fuz_13_status => "status",
    fuz_14_kubeconfig => "kubeconfig",
    fuz_15_exec_credential => "exec_credential",
    fuz_16_paths_and_selectors => "paths_and_selectors",
    fuz_17_apply => "apply",
    fuz_18_channels => "channels",
    fuz_19_table => "table",
    fuz_20_http_request => "http_request",
    fuz_21_crd_admission => "crd_admission",
    fuz_22_custom_resource => "custom_resource",
    fuz_23_cel => "cel",
    fuz_24_patch_bodies => "patch_bodies",
    fuz_25_log_recovery => "log_recovery",
    fuz_26_list_options => "list_options",
}

fn check(name: &str) {
    let target = Target::of_name(name).unwrap();
    let corpus = corpus(name);
    assert!(!corpus.is_empty(), "the corpus of {name} is empty");
    corpus.iter().for_each(|input| run(target, input));
    run(target, b"");
    let mut random = Rng::with_seed(SEED);
    for _ in 0..target.test_runs {
        run(target, &mutated(&corpus, target.words, target.max_len, &mut random));
    }
}

/// Reads the corpus of a target, in the order of the names.
fn corpus(name: &str) -> Vec<Vec<u8>> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name);
    let mut files: Vec<_> = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort_unstable();
    files.iter().map(|path| fs::read(path).unwrap()).collect()
}

/// Runs a target. The input of a failure is printed, ready to become a file of the corpus.
fn run(target: &Target, input: &[u8]) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| (target.run)(input))) {
        eprintln!("the target {} fails with b\"{}\"", target.name, input.escape_ascii());
        resume_unwind(panic);
    }
}
