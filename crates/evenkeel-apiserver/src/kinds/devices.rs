//! ResourceClaim and ResourceClaimTemplate.

use super::fill::{Constant::Text, DefaultRule, Object, child, ensure, fill, items, text, zero};

const ALLOCATION: &[DefaultRule] = &[zero("allocationMode", Text("ExactCount"))];

pub(super) fn default_claim(object: &mut Object) {
    let Some(devices) = ensure(object, "spec").and_then(|spec| ensure(spec, "devices")) else {
        return;
    };
    for request in items(devices, "requests") {
        if let Some(exactly) = child(request, "exactly") {
            default_request(exactly);
        }
        items(request, "firstAvailable").for_each(default_request);
    }
}

pub(super) fn default_claim_template(object: &mut Object) {
    if let Some(template) = ensure(object, "spec") {
        ensure(template, "metadata");
        default_claim(template);
    }
}

/// A request is for one device unless it says otherwise.
fn default_request(request: &mut Object) {
    fill(request, ALLOCATION);
    let is_unset = request.get("count").is_none_or(|count| count.is_null() || *count == 0);
    if text(request, "allocationMode") == "ExactCount" && is_unset {
        request.insert("count".into(), 1.into());
    }
}
