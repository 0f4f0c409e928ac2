//! `evenkeel bench queue`, as a user meets it.
#![cfg(target_os = "linux")]

use std::process::{Command, Output};

use serde_json::Value;

fn bench(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_evenkeel")).args(["bench", "queue"]).args(arguments).output().unwrap()
}

fn figures(output: &Output) -> Vec<Value> {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "", "no progress without a terminal");
    String::from_utf8_lossy(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn every_case_prints_its_figures() {
    let all = figures(&bench(&["--keys", "1000"]));
    let cases: Vec<_> = all.iter().map(|run| (run["case"].as_str().unwrap(), run["workers"].as_u64())).collect();
    let expected = [
        ("add", None),
        ("get-done", None),
        ("workers", Some(1)),
        ("workers", Some(4)),
        ("workers", Some(16)),
        ("plain-add", None),
        ("plain-get-done", None),
        ("plain-workers", Some(1)),
        ("plain-workers", Some(4)),
        ("plain-workers", Some(16)),
        ("plain-threads", Some(1)),
        ("plain-threads", Some(4)),
        ("plain-threads", Some(16)),
        ("delayed", None),
        ("rate-limited", None),
        ("waiting-memory", None),
        ("back-off-memory", None),
    ];
    assert_eq!(cases, expected);
    for run in &all {
        assert_eq!(run["keys"], 1000);
        let fields: &[&str] = match run["case"].as_str().unwrap() {
            "delayed" => &["ns_per_key_in", "cpu_ns_per_key_in", "ns_per_key_out", "cpu_ns_per_key_out"],
            "waiting-memory" | "back-off-memory" => &["resident_bytes_per_key", "peak_bytes_per_key"],
            _ => &["ns_per_key", "cpu_ns_per_key"],
        };
        assert!(fields.iter().all(|field| run[*field].is_number()), "{run}");
    }
}

#[test]
fn one_case_can_be_run_alone() {
    let all = figures(&bench(&["--case", "workers", "--keys", "500", "--workers", "3"]));
    assert_eq!((all.len(), &all[0]["workers"], &all[0]["keys"]), (1, &3.into(), &500.into()));
}

#[test]
fn unsupported_arguments_are_reported_in_one_sentence() {
    for (option, value) in
        [("--keys", "0"), ("--keys", "-1"), ("--workers", "0"), ("--workers", "x"), ("--case", "none")]
    {
        let output = bench(&[option, value]);
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{option} {value}");
        let message = String::from_utf8(output.stderr).unwrap();
        assert!(message.contains(option) && message.contains(value), "{message}");
    }
}
