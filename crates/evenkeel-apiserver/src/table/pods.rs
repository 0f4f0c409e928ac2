//! Columns of pods: the status is derived from the phase, the conditions and all containers (TAB-6).

use jiff::Timestamp;
use serde_json::Value;

use super::age;
use super::cell::{AGE, Column, NAME, Row, get, list_of, text, text_of};

pub(super) const PODS: &[Column] = &[
    NAME,
    text("Ready", "How many of the containers are ready, of how many that should run.", |row| {
        row.pod().ready.clone().into()
    }),
    text("Status", "The phase of the pod, or what keeps it from running.", |row| row.pod().status.clone().into()),
    text("Restarts", "How often its containers were restarted, and when last.", |row| {
        row.pod().restarts.clone().into()
    }),
    AGE,
    text("IP", "The address of the pod.", |row| {
        let ip = row.list(&["status", "podIPs"]).first().map(|ip| text_of(ip, &["ip"]));
        ip.filter(|ip| !ip.is_empty()).unwrap_or("<none>").into()
    })
    .wide(),
    text("Node", "The node the pod is bound to.", |row| row.text_or(&["spec", "nodeName"], "<none>")).wide(),
    text("Nominated Node", "The node where room is being made for the pod.", |row| {
        row.text_or(&["status", "nominatedNodeName"], "<none>")
    })
    .wide(),
    text("Readiness Gates", "How many of the extra conditions for readiness hold.", |row| readiness_gates(row).into())
        .wide(),
];

/// The contents of the Ready, Status and Restarts cells.
pub(super) struct Summary {
    ready: String,
    status: String,
    restarts: String,
}

/// The number of restarts, and the time of the last one.
#[derive(Clone, Copy, Default)]
struct Restarts {
    count: i64,
    last: Option<Timestamp>,
}

impl Restarts {
    fn add(&mut self, container: &Value) {
        self.count += number(container, "restartCount");
        let finished = get(container, &["lastState", "terminated", "finishedAt"]);
        self.last = self.last.max(age::parse(finished));
    }
}

impl Summary {
    pub(super) fn of(pod: &Value, now: Timestamp) -> Summary {
        let containers = list_of(pod, &["spec", "containers"]).len();
        let sidecars = list_of(pod, &["spec", "initContainers"]).iter().filter(|each| is_sidecar(each)).count();
        let mut ready = 0;
        let init = Initialization::of(pod, &mut ready);
        let mut status = init.reason.clone().unwrap_or_else(|| first_status(pod));
        let mut restarts = init.restarts;
        if init.reason.is_none() || condition(pod, "Initialized").is_some_and(|status| status == "True") {
            restarts = init.sidecar_restarts;
            status = running_status(pod, status, &mut ready, &mut restarts);
        }
        let deleting = get(pod, &["metadata", "deletionTimestamp"]).is_some();
        if deleting && text_of(pod, &["status", "reason"]) == "NodeLost" {
            status = "Unknown".to_owned();
        } else if deleting && !matches!(text_of(pod, &["status", "phase"]), "Succeeded" | "Failed") {
            status = "Terminating".to_owned();
        }
        let shown = match restarts.last {
            Some(last) if restarts.count != 0 => {
                let ago = age::human_duration(age::whole_seconds(last, now));
                format!("{} ({ago} ago)", restarts.count)
            }
            _ => restarts.count.to_string(),
        };
        Summary { ready: format!("{ready}/{}", containers + sidecars), status, restarts: shown }
    }
}

/// The progress of the init containers.
struct Initialization {
    /// Set while one of them is not complete.
    reason: Option<String>,
    restarts: Restarts,
    sidecar_restarts: Restarts,
}

impl Initialization {
    fn of(pod: &Value, ready: &mut usize) -> Initialization {
        let specs = list_of(pod, &["spec", "initContainers"]);
        let mut this =
            Initialization { reason: None, restarts: Restarts::default(), sidecar_restarts: Restarts::default() };
        for (index, container) in list_of(pod, &["status", "initContainerStatuses"]).iter().enumerate() {
            this.restarts.add(container);
            let name = text_of(container, &["name"]);
            let sidecar = specs.iter().any(|spec| text_of(spec, &["name"]) == name && is_sidecar(spec));
            if sidecar {
                this.sidecar_restarts.add(container);
            }
            let terminated = get(container, &["state", "terminated"]);
            if terminated.is_some_and(|terminated| number(terminated, "exitCode") == 0) {
                continue;
            }
            if sidecar && is_true(container, "started") {
                *ready += usize::from(is_true(container, "ready"));
                continue;
            }
            let waiting = text_of(container, &["state", "waiting", "reason"]);
            this.reason = Some(match terminated {
                Some(terminated) => format!("Init:{}", end_of(terminated)),
                None if !matches!(waiting, "" | "PodInitializing") => format!("Init:{waiting}"),
                None => format!("Init:{index}/{}", specs.len()),
            });
            break;
        }
        this
    }
}

/// Returns the status without the containers.
fn first_status(pod: &Value) -> String {
    let gated = list_of(pod, &["status", "conditions"]).iter().any(|condition| {
        text_of(condition, &["type"]) == "PodScheduled" && text_of(condition, &["reason"]) == "SchedulingGated"
    });
    if gated {
        return "SchedulingGated".to_owned();
    }
    match text_of(pod, &["status", "reason"]) {
        "" => text_of(pod, &["status", "phase"]).to_owned(),
        reason => reason.to_owned(),
    }
}

/// Returns the status of the regular containers; the first one takes precedence.
fn running_status(pod: &Value, mut status: String, ready: &mut usize, restarts: &mut Restarts) -> String {
    let mut running = false;
    let mut failure = None;
    for container in list_of(pod, &["status", "containerStatuses"]).iter().rev() {
        restarts.add(container);
        let waiting = text_of(container, &["state", "waiting", "reason"]);
        if !waiting.is_empty() {
            status = waiting.to_owned();
        } else if let Some(terminated) = get(container, &["state", "terminated"]) {
            status = end_of(terminated);
            if number(terminated, "exitCode") != 0 {
                failure = Some(status.clone());
            }
        } else if is_true(container, "ready") && get(container, &["state", "running"]).is_some() {
            running = true;
            *ready += 1;
        }
    }
    // A pod with completed and running containers has not completed.
    if status == "Completed" {
        if running && condition(pod, "Ready") == Some("True") {
            return "Running".to_owned();
        }
        if let Some(failure) = failure {
            return failure;
        }
        if running {
            return "NotReady".to_owned();
        }
    }
    status
}

/// Returns why a container terminated: a reason, else a signal, else an exit code.
fn end_of(terminated: &Value) -> String {
    match (text_of(terminated, &["reason"]), number(terminated, "signal")) {
        ("", 0) => format!("ExitCode:{}", number(terminated, "exitCode")),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

fn readiness_gates(row: &Row<'_>) -> String {
    let gates = row.list(&["spec", "readinessGates"]);
    if gates.is_empty() {
        return "<none>".to_owned();
    }
    let holding =
        gates.iter().filter(|gate| condition(row.object, text_of(gate, &["conditionType"])) == Some("True")).count();
    format!("{holding}/{}", gates.len())
}

/// Returns the status of the first condition of a type.
fn condition<'a>(pod: &'a Value, wanted: &str) -> Option<&'a str> {
    list_of(pod, &["status", "conditions"])
        .iter()
        .find(|condition| text_of(condition, &["type"]) == wanted)
        .map(|condition| text_of(condition, &["status"]))
}

/// Returns whether an init container always restarts, and so runs beside the others.
fn is_sidecar(container: &Value) -> bool {
    text_of(container, &["restartPolicy"]) == "Always"
}

fn is_true(object: &Value, key: &str) -> bool {
    object.get(key) == Some(&Value::Bool(true))
}

fn number(object: &Value, key: &str) -> i64 {
    object.get(key).and_then(Value::as_i64).unwrap_or_default()
}
