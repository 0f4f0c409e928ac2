//! Columns of workloads, Jobs and autoscalers.

use serde_json::Value;

use super::age;
use super::cell::{
    AGE, Column, NAME, Row, boolean, get, integer, join, labels, list_of, plain, selector, selector_or_none, text,
    text_of,
};

const CONTAINERS: Column = text("Containers", "The names of the containers in the template.", |row| {
    join(template_containers(row), ",", |each| text_of(each, &["name"])).into()
})
.wide();
const IMAGES: Column = text("Images", "The images of the containers in the template.", |row| {
    join(template_containers(row), ",", |each| text_of(each, &["image"])).into()
})
.wide();
const SELECTOR: Column =
    text("Selector", "Which pods belong to the object.", |row| selector_or_none(row.get(&["spec", "selector"]))).wide();
const DESIRED: Column =
    integer("Desired", "How many pods there should be.", |row| row.int(&["spec", "replicas"]).into());
const CURRENT: Column = integer("Current", "How many pods there are.", |row| row.int(&["status", "replicas"]).into());
const READY: Column =
    integer("Ready", "How many of the pods are ready.", |row| row.int(&["status", "readyReplicas"]).into());
const READY_OF_DESIRED: Column = text("Ready", "How many pods are ready, of how many there should be.", |row| {
    let (ready, desired) = (row.int(&["status", "readyReplicas"]), row.int(&["spec", "replicas"]));
    format!("{ready}/{desired}").into()
});

pub(super) const DEPLOYMENT: &[Column] = &[
    NAME,
    READY_OF_DESIRED,
    text("Up-to-date", "How many pods follow the present template.", |row| {
        row.int(&["status", "updatedReplicas"]).into()
    }),
    text("Available", "How many pods have been ready for long enough.", |row| {
        row.int(&["status", "availableReplicas"]).into()
    }),
    AGE,
    CONTAINERS,
    IMAGES,
    text("Selector", "Which pods belong to the object.", |row| selector(row.get(&["spec", "selector"])).into()).wide(),
];

pub(super) const REPLICA_SET: &[Column] = &[NAME, DESIRED, CURRENT, READY, AGE, CONTAINERS, IMAGES, SELECTOR];

pub(super) const REPLICATION_CONTROLLER: &[Column] = &[
    NAME,
    DESIRED,
    CURRENT,
    READY,
    AGE,
    CONTAINERS,
    IMAGES,
    text("Selector", "Which pods belong to the object.", |row| labels(row.get(&["spec", "selector"])).into()).wide(),
];

pub(super) const STATEFUL_SET: &[Column] = &[NAME, READY_OF_DESIRED, AGE, CONTAINERS, IMAGES];

pub(super) const DAEMON_SET: &[Column] = &[
    NAME,
    integer("Desired", "How many nodes should run the pod.", |row| {
        row.int(&["status", "desiredNumberScheduled"]).into()
    }),
    integer("Current", "How many nodes that should run the pod do.", |row| {
        row.int(&["status", "currentNumberScheduled"]).into()
    }),
    integer("Ready", "On how many nodes the pod is ready.", |row| row.int(&["status", "numberReady"]).into()),
    integer("Up-to-date", "On how many nodes the pod follows the present template.", |row| {
        row.int(&["status", "updatedNumberScheduled"]).into()
    }),
    integer("Available", "On how many nodes the pod has been ready for long enough.", |row| {
        row.int(&["status", "numberAvailable"]).into()
    }),
    text("Node Selector", "Which nodes should run the pod.", |row| {
        labels(row.get(&["spec", "template", "spec", "nodeSelector"])).into()
    }),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];

pub(super) const POD_TEMPLATE: &[Column] = &[
    NAME,
    text("Containers", "The names of the containers in the template.", |row| {
        let containers = row.list(&["template", "spec", "containers"]);
        join(containers, ",", |each| text_of(each, &["name"])).into()
    }),
    text("Images", "The images of the containers in the template.", |row| {
        let containers = row.list(&["template", "spec", "containers"]);
        join(containers, ",", |each| text_of(each, &["image"])).into()
    }),
    text("Pod Labels", "The labels that pods get from the template.", |row| {
        labels(row.get(&["template", "metadata", "labels"])).into()
    }),
];

pub(super) const JOB: &[Column] = &[
    NAME,
    text("Status", "Whether the job is running, done or failed.", |row| job_status(row).into()),
    text("Completions", "How many runs have succeeded, of how many that must.", |row| completions(row).into()),
    text("Duration", "How long the job has run, or ran.", |row| job_duration(row).into()),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];

pub(super) const CRON_JOB: &[Column] = &[
    NAME,
    text("Schedule", "When jobs are started, in cron's notation.", |row| row.text(&["spec", "schedule"]).into()),
    text("Timezone", "The time zone of the schedule.", |row| row.text_or(&["spec", "timeZone"], "<none>")),
    boolean("Suspend", "Whether new jobs are held back.", |row| {
        match row.get(&["spec", "suspend"]).and_then(Value::as_bool) {
            Some(true) => "True".into(),
            Some(false) => "False".into(),
            None => "<unset>".into(),
        }
    }),
    integer("Active", "How many of its jobs are running.", |row| row.count(&["status", "active"]).into()),
    text("Last Schedule", "How long ago a job was last started.", |row| {
        let path = &["status", "lastScheduleTime"];
        match row.get(path) {
            Some(_) => row.since(path).into(),
            None => "<none>".into(),
        }
    }),
    AGE,
    CONTAINERS,
    IMAGES,
    text("Selector", "Which pods belong to its jobs.", |row| {
        selector_or_none(row.get(&["spec", "jobTemplate", "spec", "selector"]))
    })
    .wide(),
];

pub(super) const AUTOSCALER: &[Column] = &[
    NAME,
    text("Reference", "What is being scaled.", |row| {
        let target = |key| row.text(&["spec", "scaleTargetRef", key]);
        format!("{}/{}", target("kind"), target("name")).into()
    }),
    text("Targets", "What each metric is and what it should be.", |row| metrics(row).into()),
    text("MinPods", "The fewest pods there may be.", |row| {
        let least = row.get(&["spec", "minReplicas"]);
        least.map_or_else(|| "<unset>".into(), |least| plain(least).into())
    }),
    text("MaxPods", "The most pods there may be.", |row| row.int(&["spec", "maxReplicas"]).into()),
    text("Replicas", "How many pods there are.", |row| row.int(&["status", "currentReplicas"]).into()),
    AGE,
];

fn template_containers<'a>(row: &Row<'a>) -> &'a [Value] {
    match row.list(&["spec", "template", "spec", "containers"]) {
        [] => row.list(&["spec", "jobTemplate", "spec", "template", "spec", "containers"]),
        containers => containers,
    }
}

fn job_status(row: &Row<'_>) -> &'static str {
    let holds = |wanted: &str| {
        row.list(&["status", "conditions"])
            .iter()
            .find(|condition| text_of(condition, &["type"]) == wanted)
            .is_some_and(|condition| text_of(condition, &["status"]) == "True")
    };
    if holds("Complete") {
        "Complete"
    } else if holds("Failed") {
        "Failed"
    } else if row.is_terminating() {
        "Terminating"
    } else if holds("Suspended") {
        "Suspended"
    } else if holds("FailureTarget") {
        "FailureTarget"
    } else if holds("SuccessCriteriaMet") {
        "SuccessCriteriaMet"
    } else {
        "Running"
    }
}

fn completions(row: &Row<'_>) -> String {
    let succeeded = row.int(&["status", "succeeded"]);
    match row.get(&["spec", "completions"]) {
        Some(wanted) => format!("{succeeded}/{wanted}"),
        None => match row.int(&["spec", "parallelism"]) {
            parallel @ 2.. => format!("{succeeded}/1 of {parallel}"),
            _ => format!("{succeeded}/1"),
        },
    }
}

fn job_duration(row: &Row<'_>) -> String {
    let start = age::parse(row.get(&["status", "startTime"]));
    let end = age::parse(row.get(&["status", "completionTime"])).unwrap_or(row.now);
    start.map_or_else(String::new, |start| age::human_duration(age::whole_seconds(start, end)))
}

fn metrics(row: &Row<'_>) -> String {
    const SHOWN: usize = 2;
    // v1 has only the CPU utilization.
    if let Some(target) = row.get(&["spec", "targetCPUUtilizationPercentage"]) {
        let current = row.get(&["status", "currentCPUUtilizationPercentage"]);
        let current = current.map_or_else(|| "<unknown>".to_owned(), |current| format!("{current}%"));
        return format!("cpu: {current}/{target}%");
    }
    let specs = row.list(&["spec", "metrics"]);
    let statuses = row.list(&["status", "currentMetrics"]);
    if specs.is_empty() {
        return "<none>".to_owned();
    }
    let shown: Vec<String> =
        specs.iter().take(SHOWN).enumerate().map(|(index, spec)| metric(spec, statuses.get(index))).collect();
    match specs.len() - shown.len() {
        0 => shown.join(", "),
        more => format!("{} + {more} more...", shown.join(", ")),
    }
}

/// Formats one metric, as current and target value.
fn metric(spec: &Value, status: Option<&Value>) -> String {
    let (source, named) = match text_of(spec, &["type"]) {
        "External" => ("external", false),
        "Pods" => ("pods", false),
        "Object" => ("object", false),
        "Resource" => ("resource", true),
        "ContainerResource" => ("containerResource", true),
        _ => return "<unknown type>".to_owned(),
    };
    let target = |key| get(spec, &[source, "target", key]).map(plain);
    let current = |key| status.and_then(|status| get(status, &[source, "current", key])).map(plain);
    let unknown = || "<unknown>".to_owned();
    let shown = match (target("averageValue"), named) {
        (Some(wanted), _) => {
            let average = if matches!(source, "external" | "object") { " (avg)" } else { "" };
            format!("{}/{wanted}{average}", current("averageValue").unwrap_or_else(unknown))
        }
        (None, true) => {
            let current = current("averageUtilization").map_or_else(unknown, |share| format!("{share}%"));
            let wanted = target("averageUtilization").map_or_else(|| "<auto>".to_owned(), |share| format!("{share}%"));
            format!("{current}/{wanted}")
        }
        (None, false) => {
            let wanted = target("value").unwrap_or_else(|| "0".to_owned());
            format!("{}/{wanted}", current("value").unwrap_or_else(unknown))
        }
    };
    if named { format!("{}: {shown}", text_of(spec, &[source, "name"])) } else { shown }
}

pub(super) const DISRUPTION_BUDGET: &[Column] = &[
    NAME,
    text("Min Available", "How many pods must stay.", |row| int_or_string(row, &["spec", "minAvailable"])),
    text("Max Unavailable", "How many pods may be missing.", |row| int_or_string(row, &["spec", "maxUnavailable"])),
    integer("Allowed Disruptions", "How many pods may be evicted now.", |row| {
        row.int(&["status", "disruptionsAllowed"]).into()
    }),
    AGE,
];

fn int_or_string(row: &Row<'_>, path: &[&str]) -> Value {
    row.get(path).map_or_else(|| "N/A".into(), |value| plain(value).into())
}

pub(super) const CONTROLLER_REVISION: &[Column] = &[
    NAME,
    text("Controller", "What the revision is of.", |row| {
        let owners = row.list(&["metadata", "ownerReferences"]);
        let controller = owners.iter().find(|owner| owner.get("controller") == Some(&Value::Bool(true)));
        let Some(controller) = controller else {
            return "<none>".into();
        };
        let kind = text_of(controller, &["kind"]).to_lowercase();
        let name = text_of(controller, &["name"]);
        match text_of(controller, &["apiVersion"]).split_once('/') {
            Some((group, _)) => format!("{kind}.{group}/{name}").into(),
            None => format!("{kind}/{name}").into(),
        }
    }),
    text("Revision", "Which revision it is.", |row| row.int(&["revision"]).into()),
    AGE,
];

pub(super) const RESOURCE_CLAIM: &[Column] = &[
    NAME,
    text("State", "Whether devices were allocated.", |row| {
        let allocated = row.get(&["status", "allocation"]).is_some();
        let mut states = Vec::new();
        if row.is_terminating() {
            states.push("deleted");
        } else if !allocated {
            states.push("pending");
        }
        if allocated {
            states.push("allocated");
            if !list_of(row.object, &["status", "reservedFor"]).is_empty() {
                states.push("reserved");
            }
        }
        states.join(",").into()
    }),
    AGE,
];
