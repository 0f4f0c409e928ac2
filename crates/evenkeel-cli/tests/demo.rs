//! `evenkeel demo`, as a newcomer meets it.
#![allow(clippy::unwrap_used, reason = "in a test a panic is a finding")]

mod common;

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Output, Stdio};

use common::{Process, evenkeel};

fn demo(arguments: &[&str]) -> Command {
    let mut command = evenkeel(&["demo"]);
    command.args(arguments);
    command
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap()
}

/// Where the server is, in what a demo says.
fn server_in(said: &str) -> &str {
    let (_, url) =
        said.lines().find_map(|line| line.split_once("An API server runs inside this process, at ")).unwrap();
    url.trim()
}

/// What a demo says that must end well.
fn converged(arguments: &[&str]) -> String {
    let Output { status, stdout, stderr } = demo(arguments).output().unwrap();
    let (said, complaint) = (text(stdout), text(stderr));
    assert!(status.success(), "{said}{complaint}");
    assert_eq!(said.lines().last(), Some("everything converged"), "{said}");
    said
}

#[test]
fn a_demo_that_nobody_looks_at_tells_its_story_in_lines() {
    let said = converged(&["--for", "0", "--objects", "10"]);
    assert!(!said.chars().any(|c| c.is_control() && c != '\n'), "no control characters in a file: {said:?}");
    for phase in ["create", "scale", "break", "repair", "outage", "delete"] {
        let told = |what: &str| {
            said.lines().filter(|line| line.contains(&format!(" s  {phase}: ")) && line.contains(what)).count()
        };
        assert_eq!((told("writes)"), told("Foos converged")), (1, 1), "{phase} in {said}");
        assert_eq!(said.lines().filter(|line| line.starts_with(phase)).count(), 1, "{phase} in the table of {said}");
    }
    assert!(said.contains("ErrResourceExists"), "the conflict is told: {said}");
    assert!(said.contains("410, the history is lost; listing again"), "so is what the outage did: {said}");
    let (_, relists) = said.lines().find_map(|line| line.split_once("; relists ")).unwrap();
    assert!(relists.parse::<u64>().unwrap() >= 2, "both informers have listed again: {said}");
    assert!(said.contains(&format!("kubectl --server={} get foos -w", server_in(&said))), "{said}");
}

#[test]
fn one_foo_is_a_story_too() {
    let said = converged(&["--for", "0", "--objects", "1"]);
    assert!(said.lines().any(|line| line.starts_with("create         1       1 ")), "{said}");
}

#[test]
fn what_makes_no_sense_is_refused_with_a_sentence() {
    for (arguments, words) in [
        (["--objects", "0"], "not a number from 1 to 20000"),
        (["--objects", "-1"], "not a number from 1 to 20000"),
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
fn an_address_that_cannot_be_had_is_named() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for (address, words) in [(address.as_str(), "is in use"), ("0.0.0.0:0", "everyone who can reach it")] {
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

/// A demo at work.
struct Running(Process);

impl Running {
    /// A demo, and what it says up to a line that contains this.
    fn up_to(arguments: &[&str], words: &str) -> (Self, impl BufRead, String) {
        let mut child = demo(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let (running, mut said) = (Running(Process(child)), String::new());
        while !said.lines().last().is_some_and(|line| line.contains(words)) {
            assert_ne!(lines.read_line(&mut said).unwrap(), 0, "it ended: {said}");
        }
        (running, lines, said)
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
fn who_interrupts_it_is_told_how_far_it_got() {
    let (mut running, _lines, _) = Running::up_to(&["--for", "3600", "--objects", "2"], "create: ");
    let (code, complaint) = running.interrupt();
    assert_eq!(code, Some(1), "{complaint}");
    assert!(complaint.starts_with("evenkeel: interrupted in the phase \"create\", after "), "{complaint}");
}

#[cfg(unix)]
#[test]
fn who_wants_to_stay_finds_foos_and_ends_it_when_they_like() {
    let kubeconfig = std::env::temp_dir().join(format!("evenkeel-demo-{}", std::process::id()));
    let path = kubeconfig.to_str().unwrap();
    let arguments = ["--for", "0", "--objects", "2", "--stay", "--kubeconfig-out", path];
    let (mut running, _lines, said) = Running::up_to(&arguments, "everything goes on until Ctrl-C");
    assert!(said.contains("\neverything converged\n"), "{said}");
    let url = server_in(&said);
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
fn a_reader_who_leaves_ends_it() {
    let (mut running, lines, _) = Running::up_to(&["--for", "12", "--objects", "2"], "create: ");
    drop(lines);
    assert_eq!(running.0.wait().unwrap().code(), Some(141));
}
