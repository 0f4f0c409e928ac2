//! Plays recorded requests over HTTP and compares the responses with those of kube-apiserver 1.37.
//!
//! Every step must give the same status, content type and normalised body, less the fields that the step lists in `ignore`.
//! The documents say how many steps leave out which, and a test counts them.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod support;

use std::collections::BTreeMap;
use std::time::Duration;

use evenkeel_apiserver::{ApiServer, ControllerTiming};
use http_body_util::BodyExt;
use regex::Regex;
use serde_json::{Value, json};
use support::Client;

#[tokio::test(start_paused = true)]
async fn acc_3_responses_match_a_recorded_kube_apiserver() {
    let text = include_str!("data/apiserver-1.37.json");
    let scenarios: Vec<Value> = serde_json::from_str(text).unwrap();
    // The recorded server had no controller manager beside it.
    let builder = ApiServer::builder().first_revision(0).namespace_controller(ControllerTiming::Off);
    let builder = builder.protection_controller(ControllerTiming::Off).quota_controller(ControllerTiming::Off);
    let server = builder.garbage_collector(ControllerTiming::Off).start().await.unwrap();
    let client = Client::new(server.url());
    let normaliser = Normaliser::new();
    let (mut steps, mut same_status, mut same_body) = (0, 0, 0);
    let mut differences = Vec::new();
    for (index, scenario) in scenarios.iter().enumerate() {
        let name = scenario["name"].as_str().unwrap();
        let namespace = format!("scenario-{index}");
        let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        let created = client.send("POST", "/api/v1/namespaces", "application/json", body.to_string(), &[]).await;
        assert_eq!(created.status(), 201);
        let mut captured = BTreeMap::from([("ns".to_owned(), namespace.clone())]);
        for (number, step) in scenario["steps"].as_array().unwrap().iter().enumerate() {
            steps += 1;
            let label = format!("{name} #{}", number + 1);
            let (status, content_type, response) = perform(&client, step, &captured).await;
            for (variable, pointer) in step["capture"].as_object().into_iter().flatten() {
                let value = response.pointer(pointer.as_str().unwrap()).and_then(Value::as_str).unwrap_or_default();
                captured.insert(variable.clone(), value.to_owned());
            }
            let expected = &step["expect"];
            let normalised = normaliser.normalise(response, step, &namespace);
            let recorded = without_ignored(expected["body"].clone(), step);
            let status_matches = expected["status"] == status;
            let body_matches = status_matches && recorded == normalised && expected["contentType"] == content_type;
            same_status += usize::from(status_matches);
            same_body += usize::from(body_matches);
            if !body_matches {
                differences.push(format!(
                    "{label}\n  request:  {} {}\n  expected: {} {}\n  got:      {status} {content_type} {normalised}",
                    step["method"], step["path"], expected["status"], expected["body"]
                ));
            }
        }
        let path = format!("/api/v1/namespaces/{namespace}");
        client.send("DELETE", &path, "application/json", String::new(), &[]).await;
    }
    println!("{steps} steps: {same_status} with the same status, {same_body} with the same body");
    assert!(differences.is_empty(), "{} steps differ:\n\n{}", differences.len(), differences.join("\n\n"));
    assert_eq!(steps, 250);
}

/// The figures in the documents are those of the recording.
#[test]
fn acc_3_the_documents_say_what_is_compared() {
    let scenarios: Vec<Value> = serde_json::from_str(include_str!("data/apiserver-1.37.json")).unwrap();
    let (mut all, mut whole, mut ownership_only) = (0, 0, 0);
    for step in scenarios.iter().flat_map(|scenario| scenario["steps"].as_array().unwrap()) {
        let ignored: Vec<&str> =
            step["ignore"].as_array().into_iter().flatten().map(|pointer| pointer.as_str().unwrap()).collect();
        all += 1;
        whole += usize::from(ignored.is_empty());
        let ownership = ignored.iter().all(|pointer| pointer.ends_with("/managedFields"));
        ownership_only += usize::from(!ignored.is_empty() && ownership);
    }
    let (partial, further) = (all - whole, all - whole - ownership_only);
    let exact = [
        format!("{all} recorded responses of a kube-apiserver 1.37"),
        format!("{whole} compare the whole body, and {partial} leave out fields"),
        format!("`managedFields` alone in {ownership_only} of them, further fields in {further}"),
    ];
    let short = [exact[0].clone(), format!("({whole} compared whole, {partial} without some fields)")];
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    for (document, sentences) in [
        ("README.md", &short[..]),
        ("docs/apiserver.md", &exact),
        ("docs/testing.md", &exact),
        ("crates/evenkeel-apiserver/README.md", &exact),
    ] {
        let text = std::fs::read_to_string(format!("{root}/{document}")).unwrap();
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for sentence in sentences {
            assert!(text.contains(sentence.as_str()), "{document} does not say: {sentence}");
        }
    }
}

async fn perform(client: &Client, step: &Value, captured: &BTreeMap<String, String>) -> (u16, String, Value) {
    let fill = |text: &str| {
        captured.iter().fold(text.to_owned(), |text, (name, value)| text.replace(&format!("${{{name}}}"), value))
    };
    let body = match &step["body"] {
        Value::Null => String::new(),
        Value::String(text) => fill(text),
        other => fill(&other.to_string()),
    };
    let headers: Vec<(String, String)> = step["headers"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, value)| (name.clone(), value.as_str().unwrap().to_owned()))
        .collect();
    let content_type = step["content_type"].as_str().unwrap_or("application/json");
    let path = fill(step["path"].as_str().unwrap());
    let reply = client.send(step["method"].as_str().unwrap(), &path, content_type, body, &headers).await;
    let status = reply.status().as_u16();
    let media = reply.headers().get("content-type").map(|value| value.to_str().unwrap().to_owned());
    let media = media.unwrap_or_default().split(';').next().unwrap().to_owned();
    let response = match step["watch_seconds"].as_u64() {
        Some(seconds) if status == 200 => watch(reply, Duration::from_secs(seconds)).await,
        _ => {
            let bytes = reply.into_body().collect().await.unwrap().to_bytes();
            match media.as_str() {
                "application/json" => serde_json::from_slice(&bytes).unwrap(),
                _ => json!({"raw": String::from_utf8(bytes.to_vec()).unwrap()}),
            }
        }
    };
    (status, media, response)
}

/// Reads a watch until it ends or the (virtual) time is up.
async fn watch(reply: http::Response<hyper::body::Incoming>, time: Duration) -> Value {
    let mut body = reply.into_body();
    let mut text = Vec::new();
    let read = async {
        while let Some(frame) = body.frame().await {
            text.extend_from_slice(&frame.unwrap().into_data().unwrap_or_default());
        }
    };
    let ended = tokio::time::timeout(time, read).await.is_ok();
    let events: Vec<Value> =
        String::from_utf8(text).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    json!({"events": events, "ended": ended})
}

/// Makes two runs comparable: replaces values that differ from run to run by names.
struct Normaliser {
    uid: Regex,
    time: Regex,
    revisions: Vec<(Regex, &'static str)>,
}

impl Normaliser {
    fn new() -> Self {
        Normaliser {
            uid: Regex::new("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}").unwrap(),
            time: Regex::new(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z").unwrap(),
            revisions: vec![
                (Regex::new(r"current: \d+").unwrap(), "current: <rv>"),
                (Regex::new(r"in record \(\d+\)").unwrap(), "in record (<rv>)"),
                (Regex::new(r"(too old resource version: \d+) \(\d+\)").unwrap(), "$1 (<rv>)"),
            ],
        }
    }

    fn normalise(&self, value: Value, step: &Value, namespace: &str) -> Value {
        let mut value = without_ignored(value, step);
        self.visit(&mut value, namespace);
        value
    }

    fn visit(&self, value: &mut Value, namespace: &str) {
        match value {
            Value::Object(fields) => {
                for (key, value) in fields.iter_mut() {
                    match (key.as_str(), &*value) {
                        ("resourceVersion", Value::String(text)) if !text.is_empty() => *value = "<rv>".into(),
                        ("continue", Value::String(text)) if !text.is_empty() => *value = "<token>".into(),
                        ("managedFields", Value::Array(_)) => managed(value),
                        _ => {}
                    }
                    self.visit(value, namespace);
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.visit(item, namespace)),
            Value::String(text) => {
                let mut plain = self.uid.replace_all(text, "<uid>").into_owned();
                plain = self.time.replace_all(&plain, "<time>").into_owned();
                for (pattern, name) in &self.revisions {
                    plain = pattern.replace_all(&plain, *name).into_owned();
                }
                *text = plain.replace(namespace, "${ns}");
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
}

/// Removes the fields that the step does not compare.
fn without_ignored(mut value: Value, step: &Value) -> Value {
    for pointer in step["ignore"].as_array().into_iter().flatten() {
        let keys: Vec<&str> = pointer.as_str().unwrap().split('/').skip(1).collect();
        remove(&mut value, &keys);
    }
    value
}

/// Sorts the entries and removes their times.
fn managed(entries: &mut Value) {
    let Value::Array(entries) = entries else { return };
    for entry in entries.iter_mut() {
        entry.as_object_mut().unwrap().remove("time");
    }
    entries.sort_by_key(|entry| (entry["manager"].to_string(), entry["operation"].to_string()));
}

/// Removes the fields that a pointer with `*` selects.
fn remove(value: &mut Value, keys: &[&str]) {
    let Some((first, rest)) = keys.split_first() else { return };
    match value {
        Value::Object(fields) if rest.is_empty() => {
            fields.remove(*first);
        }
        Value::Object(fields) if *first == "*" => fields.values_mut().for_each(|value| remove(value, rest)),
        Value::Object(fields) => {
            if let Some(value) = fields.get_mut(*first) {
                remove(value, rest);
            }
        }
        Value::Array(items) if *first == "*" => items.iter_mut().for_each(|item| remove(item, rest)),
        Value::Array(items) => {
            if let Some(index) = first.parse::<usize>().ok().filter(|index| *index < items.len()) {
                if rest.is_empty() {
                    items.remove(index);
                } else {
                    remove(&mut items[index], rest);
                }
            }
        }
        _ => {}
    }
}
