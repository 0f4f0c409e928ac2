//! `evenkeel observe` and `evenkeel bench informer` from the outside: the binary and a server on the network.

use std::io::{BufRead, BufReader, Read};
use std::process::{ChildStderr, ChildStdout, Stdio};

use evenkeel_apiserver::{Action, ApiServer, Rule};
use evenkeel_client::{Client, Patch};
use evenkeel_core::Status;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod, Secret};
use serde_json::{Value, json};

use crate::process::{Process, evenkeel};

/// Runs the command to its end, on another thread than the server's runtime.
async fn output(arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = evenkeel(arguments);
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// A running program.
struct Running {
    child: Process,
    lines: Option<BufReader<ChildStdout>>,
    errors: Option<BufReader<ChildStderr>>,
}

impl Running {
    fn start(arguments: &[&str]) -> Self {
        let mut child = evenkeel(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let lines = child.stdout.take().map(BufReader::new);
        let errors = child.stderr.take().map(BufReader::new);
        Running { child: Process(child), lines, errors }
    }

    /// Returns the next `count` lines.
    async fn lines(&mut self, count: usize) -> Vec<String> {
        let mut reader = self.lines.take().unwrap();
        let (reader, lines) = tokio::task::spawn_blocking(move || {
            let lines = (0..count).map(|_| next_line(&mut reader)).collect();
            (reader, lines)
        })
        .await
        .unwrap();
        self.lines = Some(reader);
        lines
    }

    async fn json(&mut self, count: usize) -> Vec<Value> {
        self.lines(count).await.iter().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Returns the next line of the standard error.
    async fn error(&mut self) -> String {
        let mut reader = self.errors.take().unwrap();
        let (reader, line) = tokio::task::spawn_blocking(move || {
            let line = next_line(&mut reader);
            (reader, line)
        })
        .await
        .unwrap();
        self.errors = Some(reader);
        line
    }

    /// Sends SIGINT. Returns the exit code and the output since.
    #[cfg(unix)]
    async fn interrupt(mut self) -> (Option<i32>, String, String) {
        self.child.signal("INT");
        tokio::task::spawn_blocking(move || {
            let (mut rest, mut errors) = (String::new(), String::new());
            self.lines.take().unwrap().read_to_string(&mut rest).unwrap();
            self.errors.take().unwrap().read_to_string(&mut errors).unwrap();
            (self.child.wait().unwrap().code(), rest, errors)
        })
        .await
        .unwrap()
    }
}

fn next_line(reader: &mut impl BufRead) -> String {
    let mut line = String::new();
    assert_ne!(reader.read_line(&mut line).unwrap(), 0, "it ended");
    line.trim_end_matches('\n').to_owned()
}

async fn create(client: &Client, namespace: &str, name: &str, app: &str) -> String {
    let map = json!({"metadata": {"name": name, "labels": {"app": app}}, "data": {"k": "v"}});
    let maps = client.api::<ConfigMap>().namespace(namespace);
    let made = maps.create(&serde_json::from_value(map).unwrap()).await.unwrap();
    made.resource_version().to_owned()
}

async fn change(client: &Client, name: &str) -> String {
    let patch = Patch::merge(&json!({"data": {"k": "w"}}));
    let changed = client.api::<ConfigMap>().namespace("default").patch(name, &patch).await.unwrap();
    changed.resource_version().to_owned()
}

async fn server() -> (ApiServer, Client) {
    let server = ApiServer::start().await.unwrap();
    let client = server.client();
    let other = serde_json::from_value(json!({"metadata": {"name": "other"}})).unwrap();
    client.api::<Namespace>().create(&other).await.unwrap();
    (server, client)
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn every_notification_is_a_line_of_json() {
    let (server, client) = server().await;
    let a = create(&client, "default", "a", "web").await;
    create(&client, "default", "b", "db").await;
    create(&client, "other", "c", "web").await;
    let mut observe = Running::start(&["observe", "cm", "-l", "app=web", "-o", "json", "--server", server.url()]);
    let lines = observe.lines(2).await;
    assert_eq!(
        lines,
        [
            format!(r#"{{"event":"add","initial":true,"key":"default/a","resourceVersion":"{a}"}}"#),
            r#"{"event":"synced","objects":1}"#.to_owned(),
        ]
    );
    let d = create(&client, "default", "d", "web").await;
    let changed = change(&client, "a").await;
    client.api::<ConfigMap>().namespace("default").delete("d").await.unwrap();
    let events = observe.json(3).await;
    assert_eq!(events[0], json!({"event": "add", "initial": false, "key": "default/d", "resourceVersion": d}));
    let update = json!({"event": "update", "key": "default/a", "oldResourceVersion": a, "resourceVersion": changed});
    assert_eq!(events[1], update);
    assert_eq!((&events[2]["event"], &events[2]["finalStateUnknown"]), (&json!("delete"), &json!(false)));
    assert_eq!(events[2]["key"], "default/d");
    assert_eq!(observe.interrupt().await, (Some(0), String::new(), String::new()));
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn all_namespaces_are_printed_in_columns() {
    let (server, client) = server().await;
    let a = create(&client, "default", "a", "web").await;
    let c = create(&client, "other", "c", "web").await;
    let arguments = ["observe", "configmaps", "-A", "-l", "app", "--server", server.url()];
    let mut observe = Running::start(&arguments);
    let mut lines = observe.lines(3).await;
    assert_eq!(lines.pop().unwrap(), "synced  2 objects");
    lines.sort();
    let row = |key: &str, version: &str| format!("initial {key:<24}  {version}");
    assert_eq!(lines, [row("default/a", &a), row("other/c", &c)]);
    let changed = change(&client, "a").await;
    assert_eq!(observe.lines(1).await, [format!("update  {:<24}  {a} -> {changed}", "default/a")]);
    assert_eq!(observe.interrupt().await, (Some(0), String::new(), String::new()));

    let arguments = ["observe", "configmaps/v1", "-n", "other", "--field-selector", "metadata.name=c", "--server"];
    let mut observe = Running::start(&[&arguments[..], &[server.url()]].concat());
    assert_eq!(observe.lines(2).await, [row("other/c", &c), "synced  1 object".to_owned()]);
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn a_resync_delivers_every_object_again() {
    let (server, client) = server().await;
    let a = create(&client, "default", "a", "web").await;
    let arguments = ["observe", "cm", "-l", "app", "--resync", "1s", "-o", "json", "--server", server.url()];
    let mut observe = Running::start(&arguments);
    let lines = observe.json(3).await;
    assert_eq!(lines[2], json!({"event": "update", "key": "default/a", "oldResourceVersion": a, "resourceVersion": a}));
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn a_failing_watch_is_reported_and_retried() {
    let (server, client) = server().await;
    let a = create(&client, "default", "a", "web").await;
    let mut observe = Running::start(&["observe", "cm", "-l", "app", "-o", "json", "--server", server.url()]);
    observe.lines(2).await;
    let failure = Action::Status(Box::new(Status::internal("out of order")));
    server.faults().add(Rule::new(failure).resource("configmaps").watches(true).times(1));
    server.faults().cut_connections();
    let message = observe.error().await;
    assert!(message.starts_with("evenkeel: configmaps (v1 ConfigMap): "), "{message}");
    let changed = change(&client, "a").await;
    let update = json!({"event": "update", "key": "default/a", "oldResourceVersion": a, "resourceVersion": changed});
    assert_eq!(observe.json(1).await, [update], "nothing was lost meanwhile");
    let (code, _, _) = observe.interrupt().await;
    assert_eq!(code, Some(0));
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn every_wire_format_gives_the_same_lines() {
    let (server, client) = server().await;
    let a = create(&client, "default", "a", "web").await;
    for form in ["auto", "json", "protobuf"] {
        let arguments = ["observe", "cm", "-n", "default", "-l", "app=web", "-o", "json", "--server", server.url()];
        let mut observe = Running::start(&[arguments.as_slice(), &["--wire", form]].concat());
        let add = json!({"event": "add", "initial": true, "key": "default/a", "resourceVersion": a});
        assert_eq!(observe.json(2).await, [add, json!({"event": "synced", "objects": 1})], "{form}");
        let b = create(&client, "default", "b", "web").await;
        let add = json!({"event": "add", "initial": false, "key": "default/b", "resourceVersion": b});
        assert_eq!(observe.json(1).await, [add], "{form}");
        client.api::<ConfigMap>().namespace("default").delete("b").await.unwrap();
        assert_eq!(observe.json(1).await[0]["event"], "delete", "{form}");
        assert_eq!(observe.interrupt().await.0, Some(0));
    }
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn diff_prints_the_changed_fields() {
    let (server, client) = server().await;
    let a = create(&client, "default", "a", "web").await;
    let arguments = ["observe", "cm", "-l", "app", "--diff", "--server", server.url()];
    let mut people = Running::start(&arguments);
    let mut programs = Running::start(&[&arguments[..], &["-o", "json"]].concat());
    let mut packed = Running::start(&[&arguments[..], &["-o", "json", "--wire", "protobuf"]].concat());
    for observe in [&mut people, &mut programs, &mut packed] {
        observe.lines(2).await;
    }
    let b = change(&client, "a").await;
    let row = format!("update  {:<24}  {a} -> {b}", "default/a");
    assert_eq!(people.lines(2).await, [row, r#"          data.k: "v" -> "w""#.to_owned()]);
    let update = format!(
        r#"{{"event":"update","key":"default/a","oldResourceVersion":"{a}","resourceVersion":"{b}","diff":[{{"path":"data.k","old":"v","new":"w"}}]}}"#
    );
    assert_eq!(programs.lines(1).await[0], update);
    assert_eq!(packed.lines(1).await[0], update);
    for observe in [people, programs, packed] {
        assert_eq!(observe.interrupt().await, (Some(0), String::new(), String::new()));
    }
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn values_of_secrets_are_never_printed() {
    let (server, client) = server().await;
    let secrets = client.api::<Secret>().namespace("default");
    let secret = json!({"metadata": {"name": "s"}, "stringData": {"password": "hunter2"}});
    secrets.create(&serde_json::from_value(secret).unwrap()).await.unwrap();
    let mut people = Running::start(&["observe", "secrets", "--diff", "--server", server.url()]);
    let mut programs = Running::start(&["observe", "secrets", "--diff", "-o", "json", "--server", server.url()]);
    people.lines(2).await;
    programs.lines(2).await;
    let patch = Patch::merge(&json!({"stringData": {"password": "hunter22"}}));
    secrets.patch("s", &patch).await.unwrap();
    let message = people.lines(2).await;
    assert_eq!(message[1], "          data.password: [redacted, 7 bytes] -> [redacted, 8 bytes]");
    let message = programs.json(1).await;
    let change = json!([{"path": "data.password", "old": "[redacted, 7 bytes]", "new": "[redacted, 8 bytes]"}]);
    assert_eq!(message[0]["diff"], change);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_server_is_one_line() {
    let url = {
        let server = ApiServer::start().await.unwrap();
        server.url().to_owned()
    };
    let (code, out, errors) = output(&["observe", "pods", "--server", &url]).await;
    assert_eq!((code, out.as_str(), errors.lines().count()), (Some(1), "", 1), "{errors}");
    let (code, out, errors) = output(&["bench", "informer", "--server", &url]).await;
    assert_eq!((code, out.as_str(), errors.lines().count()), (Some(1), "", 1), "{errors}");
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn a_closed_pipe_ends_it_quietly_without_further_events() {
    let (server, client) = server().await;
    create(&client, "default", "a", "web").await;
    let mut observe = Running::start(&["observe", "cm", "-l", "app", "-o", "json", "--server", server.url()]);
    observe.lines(2).await;
    drop(observe.lines.take());
    let (code, errors) = tokio::task::spawn_blocking(move || {
        let mut errors = String::new();
        observe.errors.take().unwrap().read_to_string(&mut errors).unwrap();
        (observe.child.wait().unwrap().code(), errors)
    })
    .await
    .unwrap();
    assert_eq!((code, errors.as_str()), (Some(141), ""));
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn a_bench_of_an_informer_prints_its_figures() {
    let (server, client) = server().await;
    let pods = client.api::<Pod>().namespace("default");
    for name in ["a", "b", "c"] {
        let pod = json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
        pods.create(&serde_json::from_value(pod).unwrap()).await.unwrap();
    }
    let arguments = ["bench", "informer", "--server", server.url(), "--objects", "3", "--updates", "10"];
    let mut bench = Running::start(&arguments);
    assert_eq!(bench.error().await, "synced 3 objects, waiting for 10 updates");
    for number in 0..10 {
        let patch = Patch::merge(&json!({"metadata": {"labels": {"n": number.to_string()}}}));
        pods.patch("a", &patch).await.unwrap();
    }
    let figures = bench.json(1).await.remove(0);
    assert_eq!((&figures["objects"], &figures["updates"]), (&json!(3), &json!(10)));
    for figure in ["sync_wall_s", "storm_wall_s", "events_per_s"] {
        assert!(figures[figure].as_f64().is_some_and(|figure| figure > 0.0), "{figure}: {figures}");
    }
    for figure in ["sync_cpu_s", "storm_cpu_s"] {
        assert!(figures[figure].as_f64().is_some(), "{figure}: {figures}");
    }
    let memory = |figure: &str| figures[figure].as_u64().unwrap();
    assert!(memory("rss_peak_kb") >= memory("rss_steady_kb") && memory("rss_steady_kb") > 0, "{figures}");

    let (code, out, errors) = output(&["bench", "informer", "--server", server.url(), "--objects", "4"]).await;
    assert_eq!((code, out.as_str(), errors.as_str()), (Some(1), "", "evenkeel: synced 3 objects instead of 4\n"));
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn a_bench_of_an_informer_notes_single_updates_and_reads() {
    let (server, client) = server().await;
    let pods = client.api::<Pod>().namespace("default");
    let pod =
        json!({"metadata": {"name": "a"}, "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}});
    pods.create(&serde_json::from_value(pod).unwrap()).await.unwrap();
    let arguments = ["--updates", "1", "--latency", "2", "--reads", "--drop-managed-fields"];
    let mut bench = Running::start(&[&["bench", "informer", "--server", server.url()], &arguments[..]].concat());
    assert_eq!(bench.error().await, "synced 1 objects, waiting for 1 updates");
    for (number, output) in [(0, Some("updated, waiting for 2 single updates")), (1, None), (2, None)] {
        let patch = Patch::merge(&json!({"metadata": {"labels": {"n": number.to_string()}}}));
        pods.patch("a", &patch).await.unwrap();
        if let Some(output) = output {
            assert_eq!(bench.error().await, output);
        }
    }
    let figures = bench.json(1).await.remove(0);
    let handled: Vec<u64> = serde_json::from_value(figures["handled_ns"].clone()).unwrap();
    assert!(handled.len() == 2 && handled[0] <= handled[1] && handled[0] > 0, "{figures}");
    assert_eq!(figures["index_found"], json!(1.0), "one pod on one node");
    let typed = ["typed_wall_s", "typed_rss_kb", "hot_reads_per_s", "warm_reads_per_s"];
    let view = ["view_build_wall_s", "view_rss_kb", "view_wall_s", "view_hot_reads_per_s", "view_warm_reads_per_s"];
    for figure in typed.into_iter().chain(view).chain(["index_wall_s", "index_reads_per_s"]) {
        assert!(figures[figure].as_f64().is_some_and(|figure| figure > 0.0), "{figure}: {figures}");
    }

    let (code, _, errors) =
        output(&["bench", "informer", "--data", "secrets", "--reads", "--server", server.url()]).await;
    assert_eq!((code, errors.as_str()), (Some(1), "evenkeel: --reads supports pods only\n"));
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn shs_008_a_bench_of_a_part_counts_what_it_drops() {
    const PODS: u64 = 12;
    let (server, client) = server().await;
    let pods = client.api::<Pod>().namespace("default");
    for number in 0..PODS {
        let name = format!("p{number}");
        let pod = json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
        pods.create(&serde_json::from_value(pod).unwrap()).await.unwrap();
    }
    let mut objects = 0;
    for part in ["1/2", "2/2"] {
        let (code, out, errors) = output(&["bench", "informer", "--server", server.url(), "--part", part]).await;
        assert_eq!(code, Some(0), "{errors}");
        let figures: Value = serde_json::from_str(&out).unwrap();
        let kept = figures["objects"].as_u64().unwrap();
        assert_eq!(
            (&figures["part"], figures["out_of_range"].as_u64()),
            (&json!(part), Some(PODS - kept)),
            "{figures}"
        );
        objects += kept;
    }
    assert_eq!(objects, PODS);

    let (code, _, errors) = output(&["bench", "informer", "--server", server.url(), "--part", "3/2"]).await;
    assert!(code == Some(2) && errors.contains("such as 2/4"), "{errors}");
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn a_bench_of_an_informer_ends_with_its_input() {
    let (server, _) = server().await;
    // It would wait for an update that never arrives; its input is empty.
    let waiting = ["bench", "informer", "--server", server.url(), "--updates", "1", "--end-with-input"];
    let (code, out, _) = output(&waiting).await;
    assert_eq!((code, out.as_str()), (Some(1), ""));
}
