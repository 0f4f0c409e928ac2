//! The roles and bindings of RBAC. Whether the server aggregates roles decides whether `view`, `edit` and `admin` have rules.

use std::sync::LazyLock;

use super::{BootstrapObject, rendered};
use crate::engine::rbac::policy;
use crate::engine::{ApiEngine, ControllerTiming};

/// As a fresh kube-apiserver has them: aggregated roles have no rules.
static BARE: LazyLock<Vec<BootstrapObject>> =
    LazyLock::new(|| policy::objects().into_iter().filter_map(BootstrapObject::new).collect());

impl ApiEngine {
    /// Adds the roles and bindings that the store does not have.
    pub(super) fn add_rbac_policy(&self) {
        match self.settings.role_aggregation {
            ControllerTiming::Immediate => self.add_missing(rendered::aggregated_policy()),
            ControllerTiming::Delayed(_) | ControllerTiming::Off => self.add_missing(&*BARE),
        }
        if self.settings.role_aggregation != ControllerTiming::Immediate {
            self.cluster_roles_changed();
        }
    }
}
