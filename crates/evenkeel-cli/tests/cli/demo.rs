//! `evenkeel demo` from the outside.

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Output, Stdio};

use crate::process::{Process, evenkeel};

fn demo(arguments: &[&str]) -> Command {
    let mut command = evenkeel(&["demo"]);
    command.args(arguments);
    command
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap()
}

/// Returns the URL of the server from the output.
fn server_in(output: &str) -> &str {
    let (_, url) = output.lines().find_map(|line| line.split_once("Embedded API server: ")).unwrap();
    url.trim()
}

/// Runs a demo that must converge, and returns its output.
fn converged(arguments: &[&str]) -> String {
    let Output { status, stdout, stderr } = demo(arguments).output().unwrap();
    let (output, complaint) = (text(stdout), text(stderr));
    assert!(status.success(), "{output}{complaint}");
    assert_eq!(output.lines().last(), Some("everything converged"), "{output}");
    output
}

#[test]
fn a_demo_without_a_terminal_prints_lines() {
    let output = converged(&["--for", "0", "--objects", "10"]);
    assert!(!output.chars().any(|c| c.is_control() && c != '\n'), "no control characters in a file: {output:?}");
    for phase in ["create", "scale", "break", "repair", "outage", "delete"] {
        let message = |what: &str| {
            output.lines().filter(|line| line.contains(&format!(" s  {phase}: ")) && line.contains(what)).count()
        };
        assert_eq!((message("writes)"), message("Foos converged")), (1, 1), "{phase} in {output}");
        assert_eq!(
            output.lines().filter(|line| line.starts_with(phase)).count(),
            1,
            "{phase} in the table of {output}"
        );
    }
    assert!(output.contains("ErrResourceExists"), "the conflict is reported: {output}");
    assert!(output.contains("watch expired (410); "), "the outage is reported: {output}");
    let (_, relists) = output.lines().find_map(|line| line.split_once("; relists ")).unwrap();
    assert!(relists.parse::<u64>().unwrap() >= 2, "both informers have relisted: {output}");
    assert!(output.contains(&format!("kubectl --server={} get foos -w", server_in(&output))), "{output}");
}

#[test]
fn a_demo_with_one_foo_converges() {
    let output = converged(&["--for", "0", "--objects", "1"]);
    assert!(output.lines().any(|line| line.starts_with("create         1       1 ")), "{output}");
}

#[test]
fn shs_016_replicas_converge_without_an_overlap() {
    let Output { status, stdout, stderr } = demo(&["--replicas", "2", "--for", "0"]).output().unwrap();
    let (output, complaint) = (text(stdout), text(stderr));
    assert!(status.success(), "{output}{complaint}");
    assert!(!output.chars().any(|c| c.is_control() && c != '\n'), "no control characters in a file: {output:?}");
    for phase in ["start", "crash", "join", "leave", "replace"] {
        let has = |words: &str| output.lines().any(|line| line.contains(&format!(" s  {phase}: {words}")));
        assert!(has("converged after"), "{phase} in {output}");
    }
    assert!(output.contains("lease expired; ") && output.contains("member left"), "{output}");
    let last: Vec<&str> = output.lines().rev().take(3).collect();
    assert_eq!(last[2], "everything converged: 96 Foos and their ConfigMaps");
    let reconciles = last[0].strip_prefix("0 overlaps in ").and_then(|rest| rest.strip_suffix(" reconciles"));
    assert!(reconciles.unwrap().parse::<u64>().unwrap() >= 96, "{output}");
}

#[test]
fn invalid_arguments_are_refused_with_a_sentence() {
    for (arguments, words) in [
        (["--objects", "0"], "not a number from 1 to 20000"),
        (["--objects", "-1"], "not a number from 1 to 20000"),
        (["--replicas", "1"], "not a number from 2 to 8"),
        (["--replicas", "9"], "not a number from 2 to 8"),
        (["--for", "-1"], "not a whole number of seconds"),
        (["--for", "1.5"], "not a whole number of seconds"),
        (["--listen", "localhost"], "not an IP address and a port"),
        (["--page", "nonsense"], "not an IP address and a port"),
    ] {
        let Output { status, stderr, .. } = demo(&arguments).output().unwrap();
        let complaint = text(stderr);
        assert_eq!(status.code(), Some(2), "{arguments:?}: {complaint}");
        assert!(complaint.contains(arguments[0]) && complaint.contains(words), "{complaint}");
    }
}

#[test]
fn an_unavailable_address_is_named() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for (address, words) in [(address.as_str(), "is in use"), ("0.0.0.0:0", "every client that can reach it")] {
        let Output { status, stderr, .. } = demo(&["--for", "0", "--listen", address]).output().unwrap();
        let complaint = text(stderr);
        assert_eq!(status.code(), Some(1), "{complaint}");
        assert!(complaint.contains(address) && complaint.contains(words), "{complaint}");
    }
    let Output { status, stderr, .. } = demo(&["--for", "0", "--page", &address]).output().unwrap();
    let complaint = text(stderr);
    assert_eq!(status.code(), Some(1), "{complaint}");
    assert!(complaint.starts_with(&format!("evenkeel: {address} is in use")), "{complaint}");
}

/// A running demo.
struct Running(Process);

impl Running {
    /// Starts a demo, and returns its output up to a line that contains `words`.
    fn up_to(arguments: &[&str], words: &str) -> (Self, impl BufRead, String) {
        let mut child = demo(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let (running, mut output) = (Running(Process(child)), String::new());
        while !output.lines().last().is_some_and(|line| line.contains(words)) {
            assert_ne!(lines.read_line(&mut output).unwrap(), 0, "it ended: {output}");
        }
        (running, lines, output)
    }

    #[cfg(unix)]
    fn interrupt(&mut self) -> (Option<i32>, String) {
        self.0.signal("INT");
        let code = self.0.wait().unwrap().code();
        let mut complaint = String::new();
        self.0.stderr.take().unwrap().read_to_string(&mut complaint).unwrap();
        (code, complaint)
    }
}

#[cfg(unix)]
#[test]
fn an_interrupt_reports_the_progress() {
    let (mut running, _lines, _) = Running::up_to(&["--for", "3600", "--objects", "2"], "create: ");
    let (code, complaint) = running.interrupt();
    assert_eq!(code, Some(1), "{complaint}");
    assert!(complaint.starts_with("evenkeel: interrupted in the phase \"create\", after "), "{complaint}");
}

#[cfg(unix)]
#[test]
fn staying_keeps_foos_until_ctrl_c() {
    let kubeconfig = std::env::temp_dir().join(format!("evenkeel-demo-{}", std::process::id()));
    let path = kubeconfig.to_str().unwrap();
    let arguments = ["--for", "0", "--objects", "2", "--stay", "--kubeconfig-out", path];
    let (mut running, _lines, output) = Running::up_to(&arguments, "running until Ctrl-C");
    assert!(output.contains("\neverything converged\n"), "{output}");
    let url = server_in(&output);
    assert!(std::fs::read_to_string(&kubeconfig).unwrap().contains(url));
    let observed = Command::new(env!("CARGO_BIN_EXE_evenkeel"))
        .args(["observe", "foos", "--server", url])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut observed = Process(observed);
    let lines = BufReader::new(observed.stdout.take().unwrap()).lines().take(2);
    let seen: Vec<String> = lines.map(Result::unwrap).collect();
    assert!(seen[0].contains("foo-00") && seen[1].contains("foo-01"), "{seen:?}");
    let (code, complaint) = running.interrupt();
    assert_eq!((code, complaint.as_str()), (Some(0), ""));
    std::fs::remove_file(&kubeconfig).unwrap();
}

#[test]
fn a_closed_pipe_ends_the_demo() {
    let (mut running, lines, _) = Running::up_to(&["--for", "12", "--objects", "2"], "create: ");
    drop(lines);
    assert_eq!(running.0.wait().unwrap().code(), Some(141));
}
