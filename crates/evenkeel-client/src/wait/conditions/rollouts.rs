//! Rollouts, as `kubectl rollout status` judges them.

use evenkeel_core::Obj;
use serde::Deserialize;

use super::kinds::of;
use super::{ConditionState, states};

/// The fields of workloads that tell how far a rollout is.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Workload {
    spec: WorkloadSpec,
    status: WorkloadStatus,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct WorkloadSpec {
    replicas: Option<i64>,
    update_strategy: UpdateStrategy,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct UpdateStrategy {
    #[serde(rename = "type")]
    name: Option<String>,
    rolling_update: Option<RollingUpdate>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RollingUpdate {
    partition: Option<i64>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct WorkloadStatus {
    observed_generation: Option<i64>,
    replicas: i64,
    ready_replicas: i64,
    updated_replicas: i64,
    available_replicas: i64,
    current_revision: Option<String>,
    update_revision: Option<String>,
    desired_number_scheduled: i64,
    updated_number_scheduled: i64,
    number_available: i64,
    conditions: Option<Vec<ProgressCondition>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ProgressCondition {
    #[serde(rename = "type")]
    name: String,
    reason: String,
    message: String,
}

/// The deployment has the condition `Available`, for its current generation.
pub fn deployment_available<K>() -> impl Fn(Option<&Obj<K>>) -> ConditionState + Clone {
    of(|deployment| {
        let is_current = Workload::of(deployment).is_some_and(|workload| workload.is_observed(deployment));
        (is_current && states(deployment, "Available", "True")).into()
    })
}

/// All replicas of the deployment are of its current generation, and available. Never if its progress deadline has
/// passed.
pub fn deployment_rolled_out<K>() -> impl Fn(Option<&Obj<K>>) -> ConditionState + Clone {
    rollout(|workload| {
        let Workload { spec, status } = workload;
        let conditions = status.conditions.as_deref().unwrap_or_default();
        let progress = conditions.iter().find(|condition| condition.name == "Progressing");
        if let Some(overdue) = progress.filter(|progress| progress.reason == "ProgressDeadlineExceeded") {
            return ConditionState::Never(format!("ProgressDeadlineExceeded: {}", overdue.message));
        }
        let is_updated = status.updated_replicas >= spec.replicas.unwrap_or(1);
        let has_old = status.replicas > status.updated_replicas;
        (is_updated && !has_old && status.available_replicas >= status.updated_replicas).into()
    })
}

/// The replicas of the stateful set are ready, and those above the partition are updated. Never with another update
/// strategy than `RollingUpdate`.
pub fn stateful_set_rolled_out<K>() -> impl Fn(Option<&Obj<K>>) -> ConditionState + Clone {
    rollout(|workload| {
        if let Some(never) = workload.other_strategy() {
            return never;
        }
        let Workload { spec, status } = workload;
        let replicas = spec.replicas.unwrap_or(1);
        if status.ready_replicas < replicas {
            return ConditionState::Pending;
        }
        match spec.update_strategy.rolling_update.as_ref().and_then(|update| update.partition) {
            // Replicas below the partition stay as they are.
            Some(partition) => (status.updated_replicas >= replicas.saturating_sub(partition)).into(),
            None => (status.current_revision == status.update_revision).into(),
        }
    })
}

/// The pods of the daemon set are updated and available on every node. Never with another update strategy than
/// `RollingUpdate`.
pub fn daemon_set_rolled_out<K>() -> impl Fn(Option<&Obj<K>>) -> ConditionState + Clone {
    rollout(|workload| {
        if let Some(never) = workload.other_strategy() {
            return never;
        }
        let status = &workload.status;
        let desired = status.desired_number_scheduled;
        (status.updated_number_scheduled >= desired && status.number_available >= desired).into()
    })
}

/// A condition of a workload whose status is that of its current generation.
fn rollout<K>(
    condition: impl Fn(&Workload) -> ConditionState + Clone,
) -> impl Fn(Option<&Obj<K>>) -> ConditionState + Clone {
    of(move |object: &Obj<K>| match Workload::of(object) {
        Some(workload) if workload.is_observed(object) => condition(&workload),
        _ => ConditionState::Pending,
    })
}

impl Workload {
    /// Returns the fields of an object; `None` if they cannot be decoded.
    fn of<K>(object: &Obj<K>) -> Option<Workload> {
        object.decode_as().ok()
    }

    fn is_observed<K>(&self, object: &Obj<K>) -> bool {
        let observed = self.status.observed_generation.filter(|generation| *generation > 0);
        observed.is_some_and(|observed| object.generation().is_none_or(|current| observed >= current))
    }

    fn other_strategy(&self) -> Option<ConditionState> {
        let strategy = self.spec.update_strategy.name.as_deref().filter(|name| *name != "RollingUpdate")?;
        let reason = format!("the update strategy {strategy} has no rollout; only RollingUpdate has one");
        Some(ConditionState::Never(reason))
    }
}
