//! Signals of the operating system, sent to a child process: this test's executable.

#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a panic fails the test")]

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};

use evenkeel_runtime::manager::shutdown_signal;

const CHILD: &str = "EVENKEEL_TEST_OF_SIGNALS";

/// The child process: prints when it is ready and when it receives the first signal, then waits forever.
#[test]
fn child_process() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let signal = shutdown_signal().unwrap();
        assert!(shutdown_signal().is_err(), "a process has one set of signals");
        print_line("ready");
        signal.await;
        print_line("stopping");
        std::future::pending::<()>().await;
    });
}

fn print_line(line: &str) {
    let mut out = std::io::stdout();
    writeln!(out, "{line}").unwrap();
    out.flush().unwrap();
}

fn signal(child: &Child, name: &str) {
    let status = Command::new("kill").args([name, &child.id().to_string()]).status().unwrap();
    assert!(status.success());
}

#[test]
fn co_032_the_first_signal_drains_and_a_later_second_one_exits() {
    for (first, second) in [("-TERM", "-INT"), ("-INT", "-TERM"), ("-TERM", "-TERM")] {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["child_process", "--exact", "--nocapture"])
            .env(CHILD, "1")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        assert!(lines.any(|line| line.ends_with("ready")));
        signal(&child, first);
        assert!(lines.any(|line| line.ends_with("stopping")));
        // Signals within 100 ms of the first one are ignored, so the second one is sent until the child exits.
        let status = loop {
            match child.try_wait().unwrap() {
                Some(status) => break status,
                None => signal(&child, second),
            }
        };
        assert_eq!(status.code(), Some(1));
    }
}
