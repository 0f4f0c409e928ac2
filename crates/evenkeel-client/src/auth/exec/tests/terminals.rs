//! Plugins and a real terminal: this program runs again in a session of its own, whose terminal is a pseudo-terminal.

use std::fs::File;
use std::io::{Read as _, Write as _, stdin};
use std::process::{Command, Stdio};

use rustix::process::{Pid, getpgrp, ioctl_tiocsctty, setsid};
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{LocalModes, tcgetattr, tcgetpgrp, tcsetpgrp};

use super::*;

/// Set in the program that runs again.
const INSIDE: &str = "EVENKEEL_TEST_TERMINAL";

/// Runs `inside` in a program whose stdin and stderr are a terminal. Types each answer when its prompt appears. Returns
/// what the terminal showed; `None` inside.
fn in_a_terminal(test: &str, dialogue: &[(&str, &str)], inside: impl FnOnce()) -> Option<String> {
    if std::env::var_os(INSIDE).is_some() {
        // The terminal becomes the controlling one of a new session, and this program its foreground.
        setsid().unwrap();
        ioctl_tiocsctty(stdin()).unwrap();
        inside();
        return None;
    }
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let master = openpt(flags).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let slave = ioctl_tiocgptpeer(&master, flags).unwrap();
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &format!("auth::exec::tests::terminals::{test}"), "--nocapture"])
        .env(INSIDE, "1")
        .stdin(slave.try_clone().unwrap())
        .stderr(slave)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut master = File::from(master);
    let (mut shown, mut buffer) = (String::new(), [0; 1024]);
    let mut dialogue = dialogue.iter();
    let mut next = dialogue.next();
    // The end is an error, after the last process has closed the terminal.
    while let Ok(length @ 1..) = master.read(&mut buffer) {
        shown.push_str(&String::from_utf8_lossy(&buffer[..length]));
        if let Some((prompt, answer)) = next
            && shown.contains(prompt)
        {
            master.write_all(answer.as_bytes()).unwrap();
            next = dialogue.next();
        }
    }
    let ended = child.wait_with_output().unwrap();
    let stdout = String::from_utf8_lossy(&ended.stdout);
    assert!(ended.status.success() && stdout.contains("1 passed"), "{stdout}\n{shown}");
    Some(shown)
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

fn has_echo() -> bool {
    tcgetattr(stdin()).unwrap().local_modes.contains(LocalModes::ECHO)
}

/// Returns a plugin that runs this script, and prints what it has in `$token`.
fn plugin(mode: InteractiveMode, script: &str) -> ExecPlugin {
    let credential =
        r#"{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","status":{"token":"%s"}}"#;
    let mut plugin = sh(&format!("{script}\nprintf '{credential}' \"$token\""));
    plugin.interactive_mode = mode;
    plugin
}

/// Fails unless stdin and stderr are the terminal.
const WITH: &str = r#"[ -t 0 ] || exit 7; [ -t 2 ] || exit 8
case "$KUBERNETES_EXEC_INFO" in *'"interactive":true'*) ;; *) exit 9 ;; esac; token=with"#;
/// Fails if stdin or stderr is the terminal.
const WITHOUT: &str = r#"[ -t 0 ] && exit 7; [ -t 2 ] && exit 8; read line && exit 6
case "$KUBERNETES_EXEC_INFO" in *'"interactive":false'*) ;; *) exit 9 ;; esac; token=without"#;

fn authorization(plugin: &ExecPlugin) -> String {
    block_on(fetch(plugin)).unwrap().authorization.unwrap().to_str().unwrap().to_owned()
}

#[test]
fn exe_006_exe_007_an_interactive_plugin_has_the_terminal_which_is_restored() {
    let password = r#"stty -echo; printf 'password: ' >&2; read token"#;
    let shown = in_a_terminal(
        "exe_006_exe_007_an_interactive_plugin_has_the_terminal_which_is_restored",
        &[("password: ", "t0ken-typed\n")],
        || {
            for mode in [InteractiveMode::Always, InteractiveMode::IfAvailable] {
                assert_eq!(authorization(&plugin(mode, WITH)), "Bearer with");
            }
            assert!(has_echo());
            let asks = plugin(InteractiveMode::Always, &format!("{WITH}\n{password}"));
            assert_eq!(authorization(&asks), "Bearer t0ken-typed");
            // The plugin did not do it.
            assert!(has_echo(), "the settings are those of before");
            assert_eq!(tcgetpgrp(stdin()).unwrap(), getpgrp(), "this program has the terminal");
        },
    );
    if let Some(shown) = shown {
        assert!(shown.contains("password: ") && !shown.contains("t0ken"), "{shown}");
    }
}

#[test]
fn exe_007_the_terminal_is_restored_after_a_run_that_is_dropped() {
    in_a_terminal("exe_007_the_terminal_is_restored_after_a_run_that_is_dropped", &[], || {
        block_on(async {
            let asks = plugin(InteractiveMode::Always, "stty -echo; read token");
            let run = tokio::spawn(async move { fetch(&asks).await.is_ok() });
            while has_echo() {
                tokio::task::yield_now().await;
            }
            run.abort();
            assert!(run.await.unwrap_err().is_cancelled());
            assert!(has_echo());
        });
    });
}

#[test]
fn exe_006_a_plugin_that_is_not_interactive_does_not_have_the_terminal() {
    in_a_terminal("exe_006_a_plugin_that_is_not_interactive_does_not_have_the_terminal", &[], || {
        assert_eq!(authorization(&plugin(InteractiveMode::Never, WITHOUT)), "Bearer without");
        let mut reserved = plugin(InteractiveMode::IfAvailable, WITHOUT);
        reserved.stdin_unavailable = Some("it has the objects".into());
        assert_eq!(authorization(&reserved), "Bearer without");
        reserved.interactive_mode = InteractiveMode::Always;
        assert!(matches!(block_on(problem(&reserved)), ExecProblem::StdinUnavailable { .. }));
    });
}

#[test]
fn exe_007_a_job_in_the_background_has_no_terminal() {
    in_a_terminal("exe_007_a_job_in_the_background_has_no_terminal", &[], || {
        use std::os::unix::process::CommandExt as _;
        // Another process group gets the terminal, and lives until its stdin is closed.
        let mut other = Command::new("cat").stdin(Stdio::piped()).process_group(0).spawn().unwrap();
        tcsetpgrp(stdin(), Pid::from_raw(other.id().cast_signed()).unwrap()).unwrap();
        assert_eq!(authorization(&plugin(InteractiveMode::IfAvailable, WITHOUT)), "Bearer without");
        let refused = block_on(problem(&plugin(InteractiveMode::Always, WITH)));
        assert!(matches!(refused, ExecProblem::NoTerminal), "{refused}");
        drop(other.stdin.take());
        other.wait().unwrap();
    });
}
