//! Writes metrics in Prometheus' text format, version 0.0.4.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{Display, Write};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use bytes::Bytes;
use http::{HeaderValue, Method, Response, header};

use super::series::{DURATION_BOUNDS, SIZE_BOUNDS, SeriesLabels};
use super::{Metrics, ResourceObjects, Series, process};
use crate::engine::WebhookCounts;
use crate::http_types::Body;
use crate::listener::flow::QueueStats;
use crate::memory::MemoryStats;
use crate::store::StoreStats;
use crate::store::durable::JournalStats;

const CONTENT_TYPE: HeaderValue = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");

/// The facts of the store that a scrape shows.
#[derive(Clone, Debug, Default)]
pub(crate) struct StoreFacts {
    pub(crate) stats: StoreStats,
    pub(crate) objects: Vec<ResourceObjects>,
    /// The limits of the history, in events of each resource and in bytes.
    pub(crate) history_events: usize,
    pub(crate) history_bytes: usize,
    pub(crate) memory: MemoryStats,
    /// The files of a durable store.
    pub(crate) journal: Option<JournalStats>,
    /// The reviews of admission webhooks.
    pub(crate) webhooks: WebhookCounts,
    /// Whether `shardSelector` is honoured.
    pub(crate) sharded_lists: bool,
}

impl Metrics {
    /// Returns whether a request is for the metrics.
    pub(crate) fn is_scrape(method: &Method, path: &str) -> bool {
        matches!(*method, Method::GET | Method::HEAD) && path == "/metrics"
    }

    /// Returns all metrics as the response to a scrape.
    pub(crate) fn response(&self, store: &StoreFacts, expensive: &QueueStats) -> Response<Body> {
        let mut response = Response::new(Body::whole(Bytes::from(self.text(store, expensive))));
        response.headers_mut().insert(header::CONTENT_TYPE, CONTENT_TYPE);
        response
    }

    pub(super) fn text(&self, store: &StoreFacts, expensive: &QueueStats) -> String {
        let series: BTreeMap<SeriesLabels, Arc<Series>> = {
            let series = self.series.read().unwrap_or_else(PoisonError::into_inner);
            series.iter().map(|(labels, series)| (labels.clone(), Arc::clone(series))).collect()
        };
        let mut text = Exposition::default();
        requests(&mut text, &series);
        let in_flight = "apiserver_current_inflight_requests";
        text.family(in_flight, "gauge", "Requests in flight by kind. Long-running requests are not included.");
        let (reads, writes) = (&self.reads_in_flight, &self.writes_in_flight);
        text.sample(in_flight, &[("request_kind", "mutating")], writes.load(Ordering::Relaxed));
        text.sample(in_flight, &[("request_kind", "readOnly")], reads.load(Ordering::Relaxed));
        text.single(
            "apiserver_audit_event_total",
            "counter",
            "Audit events.",
            self.audit_events.load(Ordering::Relaxed),
        );
        let errors = self.audit_errors.load(Ordering::Relaxed);
        text.family("apiserver_audit_error_total", "counter", "Audit events that could not be written to the log.");
        text.sample("apiserver_audit_error_total", &[("plugin", "log")], errors);
        objects(&mut text, store);
        if let Some(journal) = &store.journal {
            files(&mut text, journal);
        }
        expensive_requests(&mut text, expensive);
        webhooks(&mut text, &store.webhooks);
        let feature = "kubernetes_feature_enabled";
        text.family(feature, "gauge", "Feature gates that clients may depend on: 1 if enabled.");
        text.sample(feature, &[("name", "ShardedListAndWatch"), ("stage", "ALPHA")], u8::from(store.sharded_lists));
        if let Some(connections) = self.connections.get().map(|counters| counters.snapshot()) {
            let prefix = "evenkeel_apiserver_connections";
            text.single(prefix, "gauge", "Open connections.", connections.open);
            text.single(&format!("{prefix}_accepted_total"), "counter", "Accepted connections.", connections.accepted);
            let help = "Connections that were closed at once because of the limit.";
            text.single(&format!("{prefix}_rejected_total"), "counter", help, connections.rejected);
        }
        let help = "Sets of request labels. Their number is limited.";
        text.single("evenkeel_apiserver_metric_series", "gauge", help, series.len());
        process_metrics(&mut text);
        text.0
    }
}

fn requests(text: &mut Exposition, series: &BTreeMap<SeriesLabels, Arc<Series>>) {
    let total = "apiserver_request_total";
    text.family(total, "counter", "Responses by verb, resource, scope and code.");
    for (labels, series) in series {
        let labels = labels.all();
        for (code, count) in series.codes() {
            let code = code.to_string();
            text.sample(total, &[&labels[..], &[("code", code.as_str())]].concat(), count);
        }
    }
    let durations = "apiserver_request_duration_seconds";
    text.family(durations, "histogram", "Time from the request to the end of the response, in seconds.");
    for (labels, series) in series {
        if let Some((counts, sum)) = series.durations.read() {
            let bounds = DURATION_BOUNDS.iter().map(|bound| *bound as f64 / 1e3);
            text.histogram(durations, &labels.all(), bounds, &counts, sum as f64 / 1e9);
        }
    }
    let sizes = "apiserver_response_sizes";
    text.family(sizes, "histogram", "Sizes of the responses to reads, in bytes.");
    for (labels, series) in series {
        if let Some((counts, sum)) = series.sizes.read() {
            text.histogram(
                sizes,
                &labels.without_dry_run(),
                SIZE_BOUNDS.iter().map(|bound| *bound as f64),
                &counts,
                sum as f64,
            );
        }
    }
    let running = "apiserver_longrunning_requests";
    text.family(running, "gauge", "Open watches, followed logs and sessions.");
    for (labels, series) in series {
        let count = series.long_running.load(Ordering::Relaxed);
        if count > 0 || series.durations.read().is_some() && labels.is_long_running() {
            text.sample(running, &labels.without_dry_run(), count);
        }
    }
    let mut events: BTreeMap<[&str; 3], u64> = BTreeMap::new();
    let mut deprecated = BTreeSet::new();
    for (labels, series) in series {
        if labels.verb == "WATCH" {
            let count = series.watch_events.load(Ordering::Relaxed);
            *events.entry([labels.group.as_str(), &labels.version, &labels.resource]).or_default() += count;
        }
        if series.deprecated {
            deprecated.insert([labels.group.as_str(), &labels.version, &labels.resource, &labels.subresource]);
        }
    }
    let name = "apiserver_watch_events_total";
    text.family(name, "counter", "Events sent to watches.");
    for ([group, version, resource], count) in events {
        text.sample(name, &[("group", group), ("version", version), ("resource", resource)], count);
    }
    let name = "apiserver_requested_deprecated_apis";
    text.family(name, "gauge", "Deprecated versions that have been requested.");
    for [group, version, resource, subresource] in deprecated {
        let labels = [("group", group), ("version", version), ("resource", resource), ("subresource", subresource)];
        text.sample(name, &[&labels[..], &[("removed_release", "")]].concat(), 1);
    }
}

fn objects(text: &mut Exposition, store: &StoreFacts) {
    let name = "apiserver_resource_objects";
    text.family(name, "gauge", "Stored objects.");
    for resource in &store.objects {
        text.sample(name, &[("group", &resource.group), ("resource", &resource.resource)], resource.objects);
    }
    let name = "watch_cache_capacity";
    text.family(name, "gauge", "Events that the history of a resource keeps.");
    for resource in &store.objects {
        text.sample(name, &[("group", &resource.group), ("resource", &resource.resource)], store.history_events);
    }
    let stats = &store.stats;
    for (name, help, value) in [
        ("revision", "The latest revision.", stats.revision),
        ("objects", "Stored objects.", stats.objects as u64),
        ("object_bytes", "Stored objects in bytes of JSON.", stats.object_bytes as u64),
        ("history_events", "Events in the history.", stats.events as u64),
        ("history_bytes", "The memory of the history in bytes.", stats.history_bytes as u64),
        ("history_limit_bytes", "The limit of the history in bytes.", store.history_bytes as u64),
        ("watchers", "Open watches.", stats.watchers as u64),
    ] {
        text.single(&format!("evenkeel_apiserver_store_{name}"), "gauge", help, value);
    }
    let memory = &store.memory;
    for (name, help, value) in [
        ("budget", "The memory budget.", memory.budget),
        ("objects", "The memory of stored objects, estimated.", memory.objects),
        ("definitions", "The memory of compiled schemas, estimated.", memory.definitions),
        ("history", "The memory of the history.", memory.history),
        ("encodings", "Encodings that are cached with objects.", memory.encodings),
        ("request_bodies", "Request bodies in flight.", memory.request_bodies),
        ("responses", "Encoded responses in flight.", memory.responses),
    ] {
        text.single(&format!("evenkeel_apiserver_memory_{name}_bytes"), "gauge", help, value);
    }
    let name = "evenkeel_apiserver_memory_refused_total";
    text.family(name, "counter", "Requests that were refused because of the memory budget.");
    text.sample(name, &[("what", "write")], memory.refused_writes);
    text.sample(name, &[("what", "body")], memory.refused_bodies);
}

fn files(text: &mut Exposition, journal: &JournalStats) {
    for (name, help, value) in [
        ("log_bytes", "The log since the last snapshot.", journal.log),
        ("snapshot_bytes", "The last snapshot.", journal.snapshot),
        ("queued_bytes", "Writes that are not in the log yet.", journal.queued as u64),
        ("queued_limit_bytes", "The limit of those.", journal.queued_limit as u64),
        ("compacting", "Whether a new snapshot is being written.", u64::from(journal.is_compacting)),
    ] {
        text.single(&format!("evenkeel_apiserver_storage_{name}"), "gauge", help, value);
    }
}

fn expensive_requests(text: &mut Exposition, queue: &QueueStats) {
    let prefix = "evenkeel_apiserver_expensive_requests";
    for (name, help, value) in [
        ("running", "Expensive requests that run on a thread of their own.", queue.seated),
        ("running_limit", "The limit of those.", queue.seats),
        ("waiting", "Expensive requests that wait for a thread.", queue.waiting),
        ("waiting_limit", "The limit of those.", queue.limit),
    ] {
        text.single(&format!("{prefix}_{name}"), "gauge", help, value);
    }
    let name = format!("{prefix}_refused_total");
    text.family(&name, "counter", "Expensive requests that were refused because too many wait.");
    text.sample(&name, &[("user", "masters")], queue.refused.exempt);
    text.sample(&name, &[("user", "other")], queue.refused.ordinary);
}

fn webhooks(text: &mut Exposition, counts: &WebhookCounts) {
    let name = "apiserver_admission_webhook_request_total";
    text.family(name, "counter", "Reviews by admission webhooks.");
    for (labels, count) in &counts.requests {
        let (code, rejected) = (labels.code.to_string(), labels.rejected.to_string());
        let labels = [
            ("code", code.as_str()),
            ("name", labels.name.as_str()),
            ("operation", labels.operation),
            ("rejected", rejected.as_str()),
            ("type", labels.kind),
        ];
        text.sample(name, &labels, count);
    }
    let name = "apiserver_admission_webhook_rejection_count";
    text.family(name, "counter", "Requests that an admission webhook refused, or that failed because its call failed.");
    for (labels, count) in &counts.rejections {
        let code = labels.code.to_string();
        let labels = [
            ("error_type", labels.error),
            ("name", labels.name.as_str()),
            ("operation", labels.operation),
            ("rejection_code", code.as_str()),
            ("type", labels.kind),
        ];
        text.sample(name, &labels, count);
    }
    let name = "apiserver_admission_webhook_fail_open_count";
    text.family(name, "counter", "Failed calls of admission webhooks that their policy ignores.");
    for ((webhook, kind), count) in &counts.failed_open {
        text.sample(name, &[("name", webhook.as_str()), ("type", *kind)], count);
    }
}

fn process_metrics(text: &mut Exposition) {
    let Some(process) = process::read() else { return };
    text.single("process_cpu_seconds_total", "counter", "CPU time of the process, in seconds.", process.cpu_seconds);
    let start = process.start_time_seconds;
    text.single("process_start_time_seconds", "gauge", "Start of the process, in seconds since 1970.", start);
    text.single("process_resident_memory_bytes", "gauge", "Resident memory, in bytes.", process.resident_bytes);
    text.single("process_virtual_memory_bytes", "gauge", "Virtual memory, in bytes.", process.virtual_bytes);
    text.single("process_open_fds", "gauge", "Open file descriptors.", process.open_fds);
    text.single("process_max_fds", "gauge", "The limit of file descriptors.", process.max_fds);
}

/// A label and its value.
type Label<'a> = (&'static str, &'a str);

impl SeriesLabels {
    fn all(&self) -> [Label<'_>; 8] {
        let [component, group, resource, scope, subresource, verb, version] = self.without_dry_run();
        [component, ("dry_run", self.dry_run), group, resource, scope, subresource, verb, version]
    }

    fn without_dry_run(&self) -> [Label<'_>; 7] {
        [
            ("component", "apiserver"),
            ("group", &self.group),
            ("resource", &self.resource),
            ("scope", self.scope),
            ("subresource", &self.subresource),
            ("verb", self.verb),
            ("version", &self.version),
        ]
    }

    fn is_long_running(&self) -> bool {
        matches!(self.verb, "WATCH" | "CONNECT") || self.subresource == "log"
    }
}

/// The text under construction.
#[derive(Default)]
struct Exposition(String);

impl Exposition {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a String does not fail.
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn single(&mut self, name: &str, kind: &str, help: &str, value: impl Display) {
        self.family(name, kind, help);
        self.sample(name, &[], value);
    }

    fn sample(&mut self, name: &str, labels: &[Label<'_>], value: impl Display) {
        self.0.push_str(name);
        for (index, (label, text)) in labels.iter().enumerate() {
            let _ = write!(self.0, "{}{label}=\"", if index == 0 { '{' } else { ',' });
            for character in text.chars() {
                match character {
                    '\\' => self.0.push_str("\\\\"),
                    '"' => self.0.push_str("\\\""),
                    '\n' => self.0.push_str("\\n"),
                    other => self.0.push(other),
                }
            }
            self.0.push('"');
        }
        let _ = writeln!(self.0, "{} {value}", if labels.is_empty() { "" } else { "}" });
    }

    fn histogram(
        &mut self,
        name: &str,
        labels: &[Label<'_>],
        bounds: impl Iterator<Item = f64>,
        counts: &[u64],
        sum: f64,
    ) {
        let buckets = format!("{name}_bucket");
        let bounds = bounds.map(|bound| bound.to_string()).chain(["+Inf".to_owned()]);
        for (bound, count) in bounds.zip(counts) {
            self.sample(&buckets, &[labels, &[("le", bound.as_str())]].concat(), count);
        }
        self.sample(&format!("{name}_sum"), labels, sum);
        self.sample(&format!("{name}_count"), labels, counts.last().copied().unwrap_or_default());
    }
}
