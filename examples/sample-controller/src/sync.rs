//! The reconcile. Only this file knows what a Foo means.

use evenkeel::cache::store::{IndexError, StoreStopped};
use evenkeel::core::DecodeError;
use evenkeel::helpers::{OwnerError, is_controlled_by, set_controller_reference};
use evenkeel::k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec};
use evenkeel::k8s_openapi::api::core::v1::{Container, PodSpec, PodTemplateSpec};
use evenkeel::k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use evenkeel::prelude::*;
use serde_json::json;

use crate::controller::BY_OWNER;
use crate::{Foo, FooStatus, SampleController};

/// Image of the Deployments.
const IMAGE: &str = "nginx:latest";
/// Label by which a Deployment selects its pods.
const LABEL: &str = "samplecontroller.example.com/foo";

/// A reconcile failed. It is retried after a backoff, or as soon as something changes.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SyncError {
    /// A Deployment of that name has another owner. It stays unchanged, and the Foo waits for its deletion.
    #[error("deployment {deployment} exists already and is not managed by Foo")]
    NameTaken {
        /// The Deployment.
        deployment: ObjectKey,
    },
    /// The server returned an error, or no response.
    #[error(transparent)]
    Call(#[from] evenkeel::Error),
    /// An object does not match its type.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// The Foo cannot own a Deployment.
    #[error(transparent)]
    Owner(#[from] OwnerError),
    /// The informers have ended, so that the current state is unknown.
    #[error(transparent)]
    Stopped(#[from] StoreStopped),
    /// The index of Deployments is missing.
    #[error(transparent)]
    Index(#[from] IndexError),
}

impl SampleController {
    /// Reconciles a Foo. Level-triggered: the cause and the number of calls do not matter.
    pub(crate) async fn sync_foo(&self, key: &ObjectKey) -> Result<(), SyncError> {
        let Some(foo) = self.foos.lister().get(key) else {
            // Deleted. The cluster's garbage collector deletes its Deployment, which lost its owner.
            tracing::debug!(%key, "Foo deleted");
            return Ok(());
        };
        if foo.deletion_timestamp().is_some() {
            return Ok(());
        }
        let outcome = self.sync_deployment(&foo).await;
        if let Err(SyncError::NameTaken { deployment }) = &outcome {
            let note = format!("Deployment {:?} already exists and is not managed by Foo", deployment.name());
            self.recorder.event(&foo, EventType::Warning, "ErrResourceExists", note);
        }
        let (deployment, is_deployment_changed) = outcome?;
        let is_status_changed = self.sync_status(&foo, &deployment).await?;
        if is_deployment_changed || is_status_changed {
            self.recorder.event(&foo, EventType::Normal, "Synced", "Foo synced successfully");
        }
        Ok(())
    }

    /// Makes sure that the Foo has its Deployment, and no other. Returns it, and whether it was changed.
    ///
    /// When this returns, the cache shows the write. The key is in flight until then, so no other worker acts on the older
    /// state. While the watch is down this waits for it.
    async fn sync_deployment(&self, foo: &Obj<Foo>) -> Result<(Obj<Deployment>, bool), SyncError> {
        let spec = &foo.typed()?.spec;
        let namespace = foo.key().namespace().unwrap_or_default();
        let deployments = self.client.api::<Deployment>().namespace(namespace);
        let wanted = ObjectKey::namespaced(namespace, &spec.deployment_name);

        let (deployment, is_changed) = match self.deployments.lister().get(&wanted) {
            // If it exists after all, the server returns a conflict, and the Foo is retried.
            None => (deployments.create(&new_deployment(foo)?).await?, true),
            Some(deployment) if !is_controlled_by(&deployment, foo) => {
                return Err(SyncError::NameTaken { deployment: wanted });
            }
            Some(deployment) if replicas_of(&deployment)? != spec.replicas => {
                // Changes only this field, and only if the object is unchanged since: a conflict is retried.
                let patch = json!({
                    "metadata": {"resourceVersion": deployment.resource_version()},
                    "spec": {"replicas": spec.replicas},
                });
                (deployments.patch(wanted.name(), &Patch::merge(&patch)).await?, true)
            }
            Some(deployment) => (deployment, false),
        };
        self.deployments.lister().at_least(&deployment.version()).await?;

        // A Deployment with a former name is deleted.
        let mut outdated = self.deployments.indexer().by_index(BY_OWNER, foo.uid())?;
        outdated.retain(|old| *old.key() != wanted && old.deletion_timestamp().is_none());
        if !outdated.is_empty() && self.is_up_to_date(foo).await? {
            for old in outdated {
                match deployments.delete(old.key().name()).only_uid(old.uid()).await {
                    Ok(_) => {}
                    Err(error) if error.is_not_found() => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok((deployment, is_changed))
    }

    /// Whether the Foo is as new as the server's. A delete must not rely on a cache that may lag behind; if it does, its update
    /// causes another reconcile.
    async fn is_up_to_date(&self, foo: &Obj<Foo>) -> Result<bool, SyncError> {
        let foos = self.client.api::<Foo>().namespace(foo.key().namespace().unwrap_or_default());
        match foos.get(foo.key().name()).await {
            Ok(now) => Ok(now.uid() == foo.uid() && now.generation() == foo.generation()),
            Err(error) if error.is_not_found() => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Writes the state of the Deployment to the Foo's status. Returns whether it changed.
    async fn sync_status(&self, foo: &Obj<Foo>, deployment: &Obj<Deployment>) -> Result<bool, SyncError> {
        let available = number(deployment, "status.availableReplicas")?;
        let status =
            FooStatus { available_replicas: available.unwrap_or_default(), observed_generation: foo.generation() };
        if foo.typed()?.status.as_ref() == Some(&status) {
            return Ok(false);
        }
        let foos = self.client.api::<Foo>().namespace(foo.key().namespace().unwrap_or_default());
        // Conditional, as above: the status of an older Foo must not be written to a newer one.
        let patch = json!({"metadata": {"resourceVersion": foo.resource_version()}, "status": status});
        match foos.status().patch(foo.key().name(), &Patch::merge(&patch)).await {
            Ok(written) => {
                self.foos.lister().at_least(&written.version()).await?;
                Ok(true)
            }
            // Deleted meanwhile.
            Err(error) if error.is_not_found() => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

fn replicas_of(deployment: &Obj<Deployment>) -> Result<i32, DecodeError> {
    // The server's default is 1.
    Ok(number(deployment, "spec.replicas")?.unwrap_or(1))
}

/// Reads one field without decoding the whole object, pod template and all.
fn number(deployment: &Obj<Deployment>, path: &str) -> Result<Option<i32>, DecodeError> {
    let number = deployment.path(path)?.and_then(|value| value.as_i64());
    Ok(number.and_then(|number| i32::try_from(number).ok()))
}

/// Returns the Deployment of a Foo, owned by it.
fn new_deployment(foo: &Obj<Foo>) -> Result<Deployment, SyncError> {
    let spec = &foo.typed()?.spec;
    let labels = std::collections::BTreeMap::from([
        ("app".to_owned(), "nginx".to_owned()),
        (LABEL.to_owned(), foo.uid().to_owned()),
    ]);
    let mut deployment = Deployment {
        metadata: ObjectMeta {
            name: Some(spec.deployment_name.clone()),
            namespace: foo.key().namespace().map(str::to_owned),
            ..ObjectMeta::default()
        },
        spec: DeploymentSpec {
            replicas: Some(spec.replicas),
            selector: LabelSelector { match_labels: Some(labels.clone()), ..LabelSelector::default() },
            template: PodTemplateSpec {
                metadata: Some(ObjectMeta { labels: Some(labels), ..ObjectMeta::default() }),
                spec: Some(PodSpec {
                    containers: vec![Container {
                        name: "nginx".to_owned(),
                        image: Some(IMAGE.to_owned()),
                        ..Container::default()
                    }],
                    ..PodSpec::default()
                }),
            },
            ..DeploymentSpec::default()
        },
        status: None,
    };
    // The garbage collector deletes it with the Foo, and `enqueue_owner` finds the Foo when it changes.
    set_controller_reference(&mut deployment, foo)?;
    Ok(deployment)
}
