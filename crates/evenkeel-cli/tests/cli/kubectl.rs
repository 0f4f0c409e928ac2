//! `tests/kubectl.sh`, where there are a bash and a kubectl to run it with.
#![cfg(unix)]

use std::process::{Command, Stdio};

fn is_there(program: &str, argument: &str) -> bool {
    let quiet = Command::new(program).arg(argument).stdout(Stdio::null()).stderr(Stdio::null()).status();
    quiet.is_ok_and(|status| status.success())
}

#[test]
fn a_stock_kubectl_works() {
    if !is_there("bash", "--version") || !is_there("kubectl", "--help") {
        println!("skipped: bash or kubectl is missing");
        return;
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/kubectl.sh");
    let output = Command::new("bash").arg(script).arg(env!("CARGO_BIN_EXE_evenkeel")).output().unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    let failed: Vec<&str> = stdout.lines().filter(|line| !line.starts_with("ok ")).collect();
    assert!(output.status.success(), "{}\n{}", failed.join("\n"), String::from_utf8_lossy(&output.stderr));
}
