//! Plugins that run.

use std::collections::BTreeMap;

use metrics_util::debugging::{DebugValue, DebuggingRecorder};

use super::*;
use crate::auth::exec::registry::PluginRegistry;
use crate::tls::tests::logs::Logs;
use crate::tls::tests::pki::{Authority, Pair};

async fn authorization(plugin: &ExecPlugin) -> String {
    fetch(plugin).await.unwrap().authorization.unwrap().to_str().unwrap().to_owned()
}

#[tokio::test]
async fn exe_006_a_token_is_read_from_stdout() {
    assert_eq!(authorization(&sh(&printing_token("abc"))).await, "Bearer abc");
    let noisy = format!("echo warning >&2\n{}", printing_token("abc"));
    assert_eq!(authorization(&sh(&noisy)).await, "Bearer abc", "stderr is not a part of it");
    let reading = "read line && exit 9\n".to_owned() + &printing_token("abc");
    assert_eq!(authorization(&sh(&reading)).await, "Bearer abc", "stdin is empty");
}

#[tokio::test]
async fn sec_27_what_a_plugin_prints_to_stderr_is_logged_without_its_token() {
    let logs = Logs::default();
    let _listening = crate::test_logs::listen(logs.clone());
    let plugin = sh(&format!("echo got canary of the cloud >&2\n{}", printing_token("canary")));
    assert_eq!(authorization(&plugin).await, "Bearer canary");
    assert!(logs.text().contains("got [redacted] of the cloud") && !logs.text().contains("canary"), "{}", logs.text());
}

#[tokio::test]
async fn exe_004_the_environment_of_a_plugin() {
    let folder = Folder::new();
    let seen = folder.path("seen");
    let script = format!(
        "printf '%s|%s|%s|%s' \"$PATH\" \"$ONE\" \"$TWO\" \"$KUBERNETES_EXEC_INFO\" > '{}'\n{}",
        seen.display(),
        printing_token("t")
    );
    let mut plugin = sh(&script);
    let set = |name: &str, value: &str| (name.to_owned(), crate::secret::Secret::new(value));
    plugin.env =
        vec![set("ONE", "first"), set("ONE", "last"), set("TWO", "$ONE; exit"), set("KUBERNETES_EXEC_INFO", "mine")];
    fetch(&plugin).await.unwrap();
    let seen = std::fs::read_to_string(seen).unwrap();
    let seen: Vec<&str> = seen.splitn(4, '|').collect();
    assert_eq!(seen[0], std::env::var("PATH").unwrap(), "that of this process");
    assert_eq!(seen[1..3], ["last", "$ONE; exit"], "the last one counts, and no shell is involved");
    let info: serde_json::Value = serde_json::from_str(seen[3]).unwrap();
    assert_eq!(info["spec"], serde_json::json!({"interactive": false}), "it cannot be overridden");
    assert!(seen[3].ends_with('\n'));
}

#[tokio::test]
async fn exe_005_the_cluster_is_sent_to_a_plugin_that_receives_it() {
    let folder = Folder::new();
    let seen = folder.path("seen");
    let mut plugin =
        sh(&format!("printf %s \"$KUBERNETES_EXEC_INFO\" > '{}'\n{}", seen.display(), printing_token("t")));
    plugin.provide_cluster_info = true;
    let credentials = PluginRegistry::default().credentials(&config(), &plugin).unwrap();
    credentials.refresher.credential().await.unwrap();
    let info: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(seen).unwrap()).unwrap();
    assert_eq!(info["spec"]["cluster"]["server"], config().server.to_string());
}

fn printing_pair(token: &str, pair: &Pair) -> ExecPlugin {
    let status =
        serde_json::json!({"token": token, "clientCertificateData": pair.certificate, "clientKeyData": pair.key});
    sh(&printing(&status))
}

#[tokio::test]
async fn exe_012_chc_19_a_changed_certificate_is_a_change_and_a_token_is_none() {
    let authority = Authority::new("clients");
    let (one, two) = (authority.client("one"), authority.client("two"));
    let slot = IdentitySlot::new();
    let run = async |plugin: &ExecPlugin| {
        let source = PluginSource::new(plugin, &ExecPolicy::AllowAll, None, Arc::clone(&slot), default_provider());
        source.fetch().await.unwrap();
        slot.epoch()
    };
    assert_eq!(run(&printing_pair("a", &one)).await, 1);
    assert_eq!(run(&printing_pair("b", &one)).await, 1, "another token");
    assert_eq!(run(&printing_pair("b", &two)).await, 2);
    assert_eq!(run(&sh(&printing_token("c"))).await, 3, "no certificate any more");
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn sec_28_a_dropped_run_is_killed_with_its_process_group() {
    let folder = Folder::new();
    let file = folder.path("pid");
    let plugin = sh(&format!("sleep 1000 & echo $! > '{0}.new'; mv '{0}.new' '{0}'; wait", file.display()));
    let run = tokio::spawn(async move { fetch(&plugin).await.is_ok() });
    let pid = loop {
        match std::fs::read_to_string(&file) {
            Ok(pid) => break pid.trim().to_owned(),
            Err(_) => tokio::task::yield_now().await,
        }
    };
    // A zombie has ended, and is not reaped yet.
    let is_running = || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, state)| !state.starts_with(['Z', 'X']))
    };
    assert!(is_running());
    run.abort();
    assert!(run.await.unwrap_err().is_cancelled());
    while is_running() {
        tokio::task::yield_now().await;
    }
}

#[test]
fn exe_015_runs_decisions_and_certificates_are_measured() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let authority = Authority::new("clients");
    let (one, two) = (authority.client("one"), authority.client("two"));
    // The metric of a certificate ends with its source.
    let sources = ::metrics::with_local_recorder(&recorder, || {
        runtime.block_on(async {
            fetch(&sh(&printing_token("t"))).await.unwrap();
            fetch(&sh("exit 3")).await.unwrap_err();
            fetch(&ExecPlugin::new("evenkeel-no-such-plugin")).await.unwrap_err();
            fetch_with(&sh("true"), &ExecPolicy::DenyAll).await.unwrap_err();
            let slot = IdentitySlot::new();
            let mut sources = Vec::new();
            for pair in [&one, &two] {
                let source = PluginSource::new(
                    &printing_pair("t", pair),
                    &ExecPolicy::AllowAll,
                    None,
                    Arc::clone(&slot),
                    default_provider(),
                );
                source.fetch().await.unwrap();
                sources.push(source);
            }
            sources
        })
    });
    let mut all = BTreeMap::new();
    for (key, _, _, value) in snapshotter.snapshot().into_vec() {
        let labels: Vec<String> =
            key.key().labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
        all.insert(format!("{}{{{}}}", key.key().name(), labels.join(",")), value);
    }
    let calls = |labels: &str| all.get(&format!("rest_client_exec_plugin_call_total{{{labels}}}"));
    assert_eq!(calls("code=0,call_status=no_error"), Some(&DebugValue::Counter(3)));
    assert_eq!(calls("code=3,call_status=plugin_execution_error"), Some(&DebugValue::Counter(1)));
    assert_eq!(calls("code=1,call_status=plugin_not_found_error"), Some(&DebugValue::Counter(1)));
    let judged = |status: &str| all.get(&format!("rest_client_exec_plugin_policy_call_total{{status={status}}}"));
    assert_eq!(judged("denied"), Some(&DebugValue::Counter(1)));
    assert_eq!(judged("allowed"), Some(&DebugValue::Counter(4)));
    let Some(DebugValue::Histogram(ages)) = all.get("rest_client_exec_plugin_certificate_rotation_age{}") else {
        panic!("{all:?}")
    };
    assert_eq!(ages.len(), 1, "the first certificate replaces none");
    assert!(ages[0].into_inner() > 0.0, "since it is valid");
    let Some(DebugValue::Gauge(ttl)) = all.get("rest_client_exec_plugin_ttl_seconds{}") else { panic!("{all:?}") };
    assert!(ttl.into_inner().is_finite() && ttl.into_inner() > 0.0);
    drop(sources);
}
