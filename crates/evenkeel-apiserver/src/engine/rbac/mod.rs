//! RBAC: who may do what, by the Roles, ClusterRoles and bindings of the store (RBA-001 to RBA-019).
//!
//! | where | what |
//! |---|---|
//! | `rule` | one rule: what it allows, and what it covers of another |
//! | `bindings` | bindings by their subjects |
//! | `index` | all roles and bindings, following the store |
//! | `escalation` | no user grants what it does not have |
//! | `aggregation` | the rules of ClusterRoles with an `aggregationRule` |
//! | `policy` | the roles and bindings that exist from the start |
//! | `reconcile` | what a restart adds to them |

mod aggregation;
mod bindings;
mod escalation;
mod index;
pub(super) mod policy;
mod reconcile;
mod rule;
#[cfg(test)]
mod tests;

use std::sync::PoisonError;

pub(super) use self::aggregation::AggregationTimer;
#[cfg(test)]
pub(super) use self::aggregation::aggregated;
pub(super) use self::index::RbacIndex;
pub(super) use self::index::aggregate;
use super::ApiEngine;

/// The API group of roles and bindings.
const GROUP: &str = "rbac.authorization.k8s.io";

impl ApiEngine {
    /// Reads the index at the current revision.
    pub(super) fn read_rbac<T>(&self, read: impl FnOnce(&RbacIndex) -> T) -> T {
        {
            let index = self.rbac.read().unwrap_or_else(PoisonError::into_inner);
            if index.is_current(&self.store) {
                return read(&index);
            }
        }
        let mut index = self.rbac.write().unwrap_or_else(PoisonError::into_inner);
        index.follow(&self.store);
        read(&index)
    }
}
