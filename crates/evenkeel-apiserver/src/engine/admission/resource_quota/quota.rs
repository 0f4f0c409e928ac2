//! [`Quota`]: a ResourceQuota as the check reads it.

use serde_json::{Value, json};

use crate::engine::admission::pod_resources::{ResourceList, read};
use crate::engine::admission::{list_at, text_at};
use crate::engine::object;

/// A ResourceQuota.
#[derive(Clone, Debug)]
pub(crate) struct Quota {
    pub(super) name: String,
    pub(super) spec_hard: ResourceList,
    /// `status.hard`, which is what is enforced.
    pub(super) hard: ResourceList,
    /// `status.used`; `None` before it was first computed.
    pub(super) used: Option<ResourceList>,
    pub(super) scopes: Vec<ScopeRequirement>,
}

/// A scope that an object must be in to be counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ScopeRequirement {
    pub(super) scope: String,
    /// `Exists` for an element of `spec.scopes`.
    pub(super) operator: String,
    pub(super) values: Vec<String>,
}

impl Quota {
    pub(super) fn read(quota: &Value) -> Self {
        let plain = list_at(quota, &["spec", "scopes"]).iter().filter_map(Value::as_str);
        let plain = plain.map(|scope| ScopeRequirement {
            scope: scope.to_owned(),
            operator: "Exists".to_owned(),
            values: Vec::new(),
        });
        let selected = list_at(quota, &["spec", "scopeSelector", "matchExpressions"]).iter();
        let selected = selected.map(|requirement| ScopeRequirement {
            scope: text_at(requirement, &["scopeName"]).to_owned(),
            operator: text_at(requirement, &["operator"]).to_owned(),
            values: list_at(requirement, &["values"]).iter().filter_map(|it| Some(it.as_str()?.to_owned())).collect(),
        });
        Quota {
            name: object::text(quota, "name").to_owned(),
            spec_hard: read(quota.pointer("/spec/hard")),
            hard: read(quota.pointer("/status/hard")),
            used: quota.pointer("/status/used").map(|used| read(Some(used))),
            scopes: plain.chain(selected).collect(),
        }
    }

    /// Returns whether another version of the quota counts the same objects for the same names.
    pub(super) fn counts_like(&self, other: &Quota) -> bool {
        self.scopes == other.scopes && self.spec_hard.keys().eq(other.spec_hard.keys())
    }

    /// Returns whether the status shows the specification and this usage.
    pub(super) fn shows(&self, used: &ResourceList) -> bool {
        self.hard == self.spec_hard && self.used.as_ref() == Some(used)
    }
}

/// Returns the status of a quota.
pub(crate) fn status(quota: &Value, used: &ResourceList) -> Value {
    let used: serde_json::Map<String, Value> =
        used.iter().map(|(name, quantity)| (name.clone(), quantity.to_string().into())).collect();
    let hard = quota.pointer("/spec/hard").cloned().unwrap_or_else(|| json!({}));
    json!({"hard": hard, "used": used})
}
