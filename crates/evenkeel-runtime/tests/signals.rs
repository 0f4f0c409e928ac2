//! Signals of the operating system, to a process of their own: this test's program, run again.

#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};

use evenkeel_runtime::manager::shutdown_signal;

const CHILD: &str = "EVENKEEL_TEST_OF_SIGNALS";

/// What the process of its own does: says when it is ready, and when it is told to end; then it waits for ever.
#[test]
fn in_a_process_of_its_own() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let signal = shutdown_signal().unwrap();
        assert!(shutdown_signal().is_err(), "there is one set of signals in a process");
        say("ready");
        signal.await;
        say("told");
        std::future::pending::<()>().await;
    });
}

fn say(what: &str) {
    let mut out = std::io::stdout();
    writeln!(out, "{what}").unwrap();
    out.flush().unwrap();
}

fn signal(child: &Child, name: &str) {
    let status = Command::new("kill").args([name, &child.id().to_string()]).status().unwrap();
    assert!(status.success());
}

#[test]
fn co_032_the_first_signal_is_a_wish_and_the_second_is_the_end() {
    for (first, second) in [("-TERM", "-INT"), ("-INT", "-TERM"), ("-TERM", "-TERM")] {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["in_a_process_of_its_own", "--exact", "--nocapture"])
            .env(CHILD, "1")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        assert!(lines.any(|line| line.ends_with("ready")));
        signal(&child, first);
        assert!(lines.any(|line| line.ends_with("told")));
        signal(&child, second);
        assert_eq!(child.wait().unwrap().code(), Some(1));
    }
}
