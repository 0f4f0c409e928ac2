//! The asker: reviews that are answered, not stored (AUT-10), and requests that say who made them.

use evenkeel_core::Status;
use serde_json::{Value, json};

use crate::http_types::User;
use crate::registry::Resource;

/// The status of a review, or `None` if the resource is not one.
pub(super) fn answer(resource: &Resource, user: &User) -> Option<Result<Value, Status>> {
    Some(Ok(match (resource.group.as_str(), resource.plural.as_str()) {
        ("authorization.k8s.io", "selfsubjectaccessreviews" | "subjectaccessreviews" | "localsubjectaccessreviews") => {
            json!({"allowed": true, "reason": "this server allows everything to everyone who is let in"})
        }
        ("authorization.k8s.io", "selfsubjectrulesreviews") => json!({
            "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
            "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
            "incomplete": false,
        }),
        ("authentication.k8s.io", "selfsubjectreviews") => json!({"userInfo": user_info(user)}),
        ("authentication.k8s.io", "tokenreviews") => return Some(Err(super::not_implemented("token reviews"))),
        _ => return None,
    }))
}

/// A new object as it is stored: a request for a certificate says who asked, whatever the client says.
pub(super) fn with_requester(resource: &Resource, mut object: Value, user: &User) -> Value {
    if resource.group == "certificates.k8s.io"
        && resource.plural == "certificatesigningrequests"
        && let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut)
        && let Value::Object(info) = user_info(user)
    {
        for claimed in ["username", "uid", "groups", "extra"] {
            spec.remove(claimed);
        }
        spec.extend(info);
    }
    object
}

fn user_info(user: &User) -> Value {
    let mut info = json!({"username": user.name, "groups": user.groups});
    if !user.uid.is_empty() {
        info["uid"] = user.uid.as_str().into();
    }
    if !user.extra.is_empty() {
        info["extra"] = json!(user.extra);
    }
    info
}
