//! Plugins that fail: each is one clear error.

use super::*;

#[tokio::test]
async fn exe_008_a_missing_plugin_is_an_error_with_its_hint() {
    let mut plugin = ExecPlugin::new("evenkeel-no-such-plugin");
    plugin.install_hint = Some("install it with: cargo install it".into());
    let source = PluginSource::new(&plugin, &ExecPolicy::AllowAll, None, IdentitySlot::new(), default_provider());
    for number in 0..12 {
        let error = source.fetch().await.unwrap_err().to_string();
        assert!(error.starts_with("the exec plugin \"evenkeel-no-such-plugin\" is not installed"), "{error}");
        assert_eq!(error.contains("cargo install it"), number < 10, "{error}");
    }
    let missing = ExecPlugin::new("/none/plugin");
    assert!(matches!(problem(&missing).await, ExecProblem::NotFound { hint: None }));
}

#[tokio::test]
async fn exe_014_a_denied_plugin_does_not_run() {
    let runs = Runs::new();
    let plugin = sh(&(runs.script() + &printing_token("t")));
    let allow = |entry: &str| ExecPolicy::Allowlist(vec![entry.into()]);
    for policy in [ExecPolicy::DenyAll, allow("/usr/bin/aws"), allow("aws")] {
        let error = fetch_with(&plugin, &policy).await.unwrap_err().to_string();
        assert_eq!(error, "the exec plugin \"/bin/sh\" is denied by the plugin policy");
    }
    assert_eq!(runs.count(), 0);
    fetch_with(&plugin, &allow("/bin/sh")).await.unwrap();
    assert_eq!(runs.count(), 1);
    let by_name = ExecPlugin { command: "sh".into(), ..plugin };
    fetch_with(&by_name, &allow("sh")).await.unwrap();
    assert_eq!(runs.count(), 2);
}

#[tokio::test]
async fn exe_008_the_exit_code_and_stderr_are_reported() {
    let error = fetch(&sh("echo 'could not find' credentials >&2; exit 7")).await.unwrap_err();
    assert_eq!(error.to_string(), "the exec plugin \"/bin/sh\" failed with exit code 7: could not find credentials");
    let problem = problem(&sh("kill -KILL $$")).await;
    assert!(matches!(problem, ExecProblem::Exit { code: None, .. }), "{problem}");
    assert_eq!(problem.to_string(), "failed with a signal");
}

#[tokio::test]
async fn sec_28_an_endless_output_is_an_error() {
    for script in ["exec cat /dev/zero", "head -c 1000000000 /dev/zero", "yes canary"] {
        let problem = problem(&sh(script)).await;
        assert!(matches!(problem, ExecProblem::TooLarge { limit: 0x10_0000 }), "{script}: {problem}");
    }
    let plugin = sh(&format!("head -c 3000000 /dev/zero | tr '\\0' x >&2; echo end >&2; {}", printing_token("t")));
    fetch(&plugin).await.unwrap();
    let plugin = sh("head -c 3000000 /dev/zero | tr '\\0' x >&2; echo ' the end' >&2; exit 1");
    assert!(matches!(problem(&plugin).await, ExecProblem::Exit { stderr, .. } if stderr == "the end"));
}

#[tokio::test]
async fn exe_008_garbage_is_an_error() {
    for script in ["echo canary", "true", "printf '\\377\\376'"] {
        let problem = problem(&sh(script)).await;
        assert!(matches!(problem, ExecProblem::Output { .. }), "{problem}");
        assert!(!problem.to_string().contains("canary"), "{problem}");
    }
    let bad = serde_json::json!({"token": "can\nary"});
    let problem = problem(&sh(&printing(&bad))).await.to_string();
    assert!(problem.contains("its token holds a line break") && !problem.contains("ary"), "{problem}");
}

#[tokio::test]
async fn exe_008_a_pair_that_cannot_be_used_is_an_error() {
    let pair = serde_json::json!({"clientCertificateData": "canary", "clientKeyData": "canary"});
    let problem = problem(&sh(&printing(&pair))).await.to_string();
    assert!(problem.contains("its certificate cannot be used: there is no certificate"), "{problem}");
    assert!(!problem.contains("canary"), "{problem}");
}

#[tokio::test]
async fn exe_009_a_credential_that_has_expired_already_is_an_error() {
    let status = serde_json::json!({"token": "t", "expirationTimestamp": "2020-01-01T00:00:00Z"});
    let problem = problem(&sh(&printing(&status))).await;
    assert!(matches!(problem, ExecProblem::Expired { .. }), "{problem}");
    assert!(problem.to_string().contains("2020-01-01T00:00:00Z"), "{problem}");
}

#[tokio::test]
async fn exe_007_a_plugin_that_needs_a_terminal_does_not_run_without_one() {
    let runs = Runs::new();
    let mut plugin = sh(&(runs.script() + &printing_token("t")));
    plugin.interactive_mode = InteractiveMode::Always;
    plugin.stdin_unavailable = Some("it has the objects".into());
    let problem = problem(&plugin).await;
    assert!(
        matches!(&problem, ExecProblem::StdinUnavailable { reason } if reason == "it has the objects"),
        "{problem}"
    );
    assert_eq!(runs.count(), 0);
}
