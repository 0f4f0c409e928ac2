//! Job and CronJob.

use serde_json::{Value, json};

use crate::field::FieldError;

use super::check::{immutable, label_selector, nonnegative, supported};
use super::fill::{
    Constant::{Bool, Int, Text},
    DefaultRule, Object, absent, at, child, ensure, fill, is_absent, is_empty, items, text, text_at, zero,
};
use super::{cron, podcheck, podspec, workloads};

const JOB: &[DefaultRule] = &[
    absent("completionMode", Text("NonIndexed")),
    absent("suspend", Bool(false)),
    absent("manualSelector", Bool(false)),
];
const CRON_JOB: &[DefaultRule] = &[
    zero("concurrencyPolicy", Text("Allow")),
    absent("suspend", Bool(false)),
    absent("successfulJobsHistoryLimit", Int(3)),
    absent("failedJobsHistoryLimit", Int(1)),
];
const COUNTS: [&str; 7] = [
    "parallelism",
    "completions",
    "activeDeadlineSeconds",
    "backoffLimit",
    "ttlSecondsAfterFinished",
    "backoffLimitPerIndex",
    "maxFailedIndexes",
];
const JOB_IMMUTABLE: [&str; 6] =
    ["selector", "template", "completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy"];

pub(super) fn default_job(object: &mut Object) {
    let Some(spec) = ensure(object, "spec") else {
        return;
    };
    if is_absent(spec, "parallelism") {
        if is_absent(spec, "completions") {
            spec.insert("completions".into(), 1.into());
        }
        spec.insert("parallelism".into(), 1.into());
    }
    if is_absent(spec, "backoffLimit") {
        let limit = if is_absent(spec, "backoffLimitPerIndex") { 6 } else { i32::MAX };
        spec.insert("backoffLimit".into(), limit.into());
    }
    if is_absent(spec, "podReplacementPolicy") {
        let policy = if is_absent(spec, "podFailurePolicy") { "TerminatingOrFailed" } else { "Failed" };
        spec.insert("podReplacementPolicy".into(), policy.into());
    }
    fill(spec, JOB);
    default_job_spec(spec);
}

pub(super) fn default_cron_job(object: &mut Object) {
    let Some(spec) = ensure(object, "spec") else {
        return;
    };
    fill(spec, CRON_JOB);
    let Some(template) = ensure(spec, "jobTemplate") else {
        return;
    };
    ensure(template, "metadata");
    if let Some(job) = ensure(template, "spec") {
        default_job_spec(job);
    }
}

/// Sets the defaults of a Job's specification, also inside a template.
fn default_job_spec(spec: &mut Object) {
    podspec::default_template(spec, "template");
    if let Some(policy) = child(spec, "podFailurePolicy") {
        for rule in items(policy, "rules") {
            for pattern in items(rule, "onPodConditions") {
                fill(pattern, &[zero("status", Text("True"))]);
            }
        }
    }
}

/// Gives a Job without labels those of its template, including the generated ones.
pub(super) fn default_job_labels(object: &mut Object) {
    let labels = object.get("spec").and_then(|spec| at(spec, &["template", "metadata", "labels"]));
    if let Some(labels) = labels.filter(|labels| !is_empty(Some(labels))).cloned() {
        workloads::default_labels(object, labels);
    }
}

/// Generates the selector by which a Job finds its pods, from its uid, unless the client sets one.
pub(super) fn generate_selector(object: &mut Object, uid: &str) {
    let name = object.get("metadata").map(|metadata| text_at(metadata, &["name"])).unwrap_or_default().to_owned();
    let Some(spec) = ensure(object, "spec") else {
        return;
    };
    if spec.get("manualSelector") == Some(&Value::Bool(true)) {
        return;
    }
    if let Some(labels) = ensure(spec, "template")
        .and_then(|template| ensure(template, "metadata"))
        .and_then(|metadata| ensure(metadata, "labels"))
    {
        for (key, value) in [
            ("job-name", name.as_str()),
            ("batch.kubernetes.io/job-name", name.as_str()),
            ("controller-uid", uid),
            ("batch.kubernetes.io/controller-uid", uid),
        ] {
            labels.entry(key).or_insert_with(|| value.into());
        }
    }
    if let Some(labels) = ensure(spec, "selector").and_then(|selector| ensure(selector, "matchLabels")) {
        labels.entry("batch.kubernetes.io/controller-uid").or_insert_with(|| uid.into());
    }
}

pub(super) fn validate_job(object: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let nothing = json!({});
    let spec = object.get("spec").unwrap_or(&nothing);
    job_spec(&mut errors, spec, "spec");
    let selector = at(spec, &["selector"]);
    match selector {
        None => errors.push(FieldError::required("spec.selector", "")),
        Some(selector) => label_selector(&mut errors, selector, "spec.selector"),
    }
    workloads::template_labels(&mut errors, selector, spec);
    errors
}

fn job_spec(errors: &mut Vec<FieldError>, spec: &Value, path: &str) {
    for key in COUNTS {
        nonnegative(errors, spec, path, key);
    }
    supported(errors, spec, path, "completionMode", &["NonIndexed", "Indexed"]);
    if text_at(spec, &["completionMode"]) == "Indexed" && at(spec, &["completions"]).is_none() {
        errors.push(FieldError::required(format!("{path}.completions"), "when completion mode is Indexed"));
    }
    let template = format!("{path}.template");
    podcheck::template(errors, at(spec, &["template"]), &template, &[]);
    let policy = text_at(spec, &["template", "spec", "restartPolicy"]);
    if policy == "Always" {
        errors.push(FieldError::required(
            format!("{template}.spec.restartPolicy"),
            "valid values: \"OnFailure\", \"Never\"",
        ));
    }
}

pub(super) fn validate_job_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = validate_job(new);
    let indexed = text_at(old, &["spec", "completionMode"]) == "Indexed";
    if !indexed {
        immutable(&mut errors, new, old, &["spec", "completions"]);
    }
    for key in JOB_IMMUTABLE {
        // The template of a job that has not started may still change.
        if key == "template" && is_suspended_before_start(old) {
            continue;
        }
        immutable(&mut errors, new, old, &["spec", key]);
    }
    errors
}

fn is_suspended_before_start(job: &Value) -> bool {
    at(job, &["spec", "suspend"]) == Some(&Value::Bool(true)) && at(job, &["status", "startTime"]).is_none()
}

/// Validates a CronJob. The schedule of an old one may name a time zone, and its own time zone may be unknown.
pub(super) fn validate_cron_job(object: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let nothing = Object::new();
    let spec = object.get("spec").and_then(Value::as_object).unwrap_or(&nothing);
    let schedule = text(spec, "schedule");
    if schedule.is_empty() {
        errors.push(FieldError::required("spec.schedule", ""));
    } else {
        let mut refuse = |detail: String| errors.push(FieldError::invalid("spec.schedule", &schedule.into(), detail));
        if let Some(fault) = cron::schedule_fault(schedule) {
            refuse(fault);
        }
        let allows_zone = old.is_some_and(|old| text_at(old, &["spec", "schedule"]).contains("TZ"));
        match schedule.contains("TZ") {
            true if allows_zone && !is_absent(spec, "timeZone") => {
                refuse("cannot use both timeZone field and TZ or CRON_TZ in schedule".to_owned());
            }
            true if !allows_zone => {
                refuse("cannot use TZ or CRON_TZ in schedule, use timeZone field instead".to_owned());
            }
            _ => {}
        }
    }
    let Some(spec) = object.get("spec") else {
        return errors;
    };
    nonnegative(&mut errors, spec, "spec", "startingDeadlineSeconds");
    let zone = at(spec, &["timeZone"]);
    if zone != old.and_then(|old| at(old, &["spec", "timeZone"]))
        && let Some(zone) = zone
    {
        let fault = match zone.as_str().unwrap_or_default() {
            "" => Some("timeZone must be nil or non-empty string".to_owned()),
            name => cron::time_zone_fault(name),
        };
        errors.extend(fault.map(|fault| FieldError::invalid("spec.timeZone", zone, fault)));
    }
    supported(&mut errors, spec, "spec", "concurrencyPolicy", &["Allow", "Forbid", "Replace"]);
    if let Some(job) = at(spec, &["jobTemplate", "spec"]) {
        job_spec(&mut errors, job, "spec.jobTemplate.spec");
    }
    for key in ["successfulJobsHistoryLimit", "failedJobsHistoryLimit"] {
        nonnegative(&mut errors, spec, "spec", key);
    }
    errors
}
