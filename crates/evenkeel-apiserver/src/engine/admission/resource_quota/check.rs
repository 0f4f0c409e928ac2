//! Whether a write fits into the quotas of its namespace (ADM-013 to ADM-015).

use std::collections::BTreeMap;

use serde_json::Value;

use super::quota::Quota;
use super::subject::QuotaSubject;
use crate::engine::admission::AdmissionWrite;
use crate::engine::admission::pod_resources::ResourceList;
use crate::engine::request_error::RequestError;

/// Returns what `status.used` of the quotas becomes that the write changes, or the refusal of the first quota that it
/// exceeds.
pub(super) fn charges<'a>(
    write: &AdmissionWrite<'_>,
    subject: QuotaSubject,
    object: &Value,
    quotas: impl Iterator<Item = &'a Quota>,
) -> Result<Vec<(String, ResourceList)>, RequestError> {
    let mut covering = Vec::new();
    for quota in quotas {
        let names: Vec<&str> = quota.hard.keys().map(String::as_str).filter(|name| subject.counts(name)).collect();
        if names.is_empty() || !subject.is_in_scopes(object, &quota.scopes) {
            continue;
        }
        if let Some(missing) = subject.missing(object, &names) {
            return Err(write.forbidden(object, format!("failed quota: {}: {missing}", quota.name)));
        }
        let Some(used) = quota.used.as_ref().filter(|used| names.iter().all(|name| used.contains_key(*name))) else {
            let why = format!("status unknown for quota: {}, resources: {}", quota.name, names.join(","));
            return Err(write.forbidden(object, why));
        };
        covering.push((quota, used));
    }
    if covering.is_empty() {
        return Ok(Vec::new());
    }
    let usage = subject.usage(object);
    let negative: Vec<&str> =
        usage.iter().filter(|(_, quantity)| quantity.signum().is_lt()).map(|(name, _)| name.as_str()).collect();
    if !negative.is_empty() {
        let why = format!("quota usage is negative for resource(s): {}", negative.join(","));
        return Err(write.forbidden(object, why));
    }
    let mut charges = Vec::new();
    for (quota, used) in covering {
        let before = write.old.filter(|old| subject.is_in_scopes(old, &quota.scopes));
        let requested = increase(&usage, before.map(|old| subject.usage(old)), &quota.hard);
        if requested.is_empty() {
            continue;
        }
        let mut new = used.clone();
        for (name, quantity) in &requested {
            *new.entry(name.clone()).or_default() += quantity;
        }
        let exceeded: Vec<&String> = requested.keys().filter(|name| new.get(*name) > quota.hard.get(*name)).collect();
        // A controller reports what is already so.
        if !exceeded.is_empty() && write.subresource() != "status" {
            let why = format!(
                "exceeded quota: {}, requested: {}, used: {}, limited: {}",
                quota.name,
                shown(&requested, &exceeded),
                shown(used, &exceeded),
                shown(&quota.hard, &exceeded)
            );
            return Err(write.forbidden(object, why));
        }
        charges.push((quota.name.clone(), new));
    }
    Ok(charges)
}

/// Returns by how much the usage grows, for the names that a quota limits.
fn increase(usage: &ResourceList, before: Option<ResourceList>, hard: &ResourceList) -> ResourceList {
    let mut growth = BTreeMap::new();
    for (name, quantity) in usage.iter().filter(|(name, _)| hard.contains_key(*name)) {
        let mut grown = quantity.clone();
        if let Some(before) = before.as_ref().and_then(|before| before.get(name)) {
            grown -= before;
        }
        if grown.signum().is_gt() {
            growth.insert(name.clone(), grown);
        }
    }
    growth
}

/// Returns `cpu=1,memory=1Gi`.
fn shown(list: &ResourceList, names: &[&String]) -> String {
    let shown = names.iter().filter_map(|name| Some(format!("{name}={}", list.get(*name)?)));
    shown.collect::<Vec<_>>().join(",")
}
