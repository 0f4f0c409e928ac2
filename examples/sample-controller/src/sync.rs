//! What is done when a Foo is looked at. This is the only part that knows what a Foo means.

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

/// What the Deployments run.
const IMAGE: &str = "nginx:latest";
/// The label by which a Deployment finds its pods.
const LABEL: &str = "samplecontroller.example.com/foo";

/// A Foo was looked at, and is not as it should be. It is looked at again after a back-off, or as soon as something changes.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SyncError {
    /// There is a Deployment of that name that is not the Foo's. It is left alone, and the Foo waits for it to go.
    #[error("deployment {deployment} exists already and is not managed by Foo")]
    NameTaken {
        /// The Deployment.
        deployment: ObjectKey,
    },
    /// The server has refused a call, or did not answer.
    #[error(transparent)]
    Call(#[from] evenkeel::Error),
    /// An object is not what its type says.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// The Foo cannot own a Deployment.
    #[error(transparent)]
    Owner(#[from] OwnerError),
    /// The informers have ended, so that nobody can say what the world is like.
    #[error(transparent)]
    Stopped(#[from] StoreStopped),
    /// The index of Deployments is not there.
    #[error(transparent)]
    Index(#[from] IndexError),
}

impl SampleController {
    /// Looks at a Foo and does what is needed to make the world as it says. It does not matter why it is looked at, or how often.
    pub(crate) async fn sync_foo(&self, key: &ObjectKey) -> Result<(), SyncError> {
        let Some(foo) = self.foos.lister().get(key) else {
            // It is gone. So will be its Deployment: the garbage collector of the cluster deletes what lost its owner.
            tracing::debug!(%key, "the Foo is gone");
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

    /// Sees to it that the Foo has the Deployment that it asks for, and no other. Answers with it, and whether it was changed.
    ///
    /// When this returns, the cache shows what was written. The key is ours until then, so nobody looks at the Foo meanwhile and
    /// takes for undone what is done. If the watch is down this waits for it: who cannot see should not act.
    async fn sync_deployment(&self, foo: &Obj<Foo>) -> Result<(Obj<Deployment>, bool), SyncError> {
        let spec = &foo.typed()?.spec;
        let namespace = foo.key().namespace().unwrap_or_default();
        let deployments = self.client.api::<Deployment>().namespace(namespace);
        let wanted = ObjectKey::namespaced(namespace, &spec.deployment_name);

        let (deployment, is_changed) = match self.deployments.lister().get(&wanted) {
            // If there is one after all, the server says so, and the Foo is looked at again.
            None => (deployments.create(&new_deployment(foo)?).await?, true),
            Some(deployment) if !is_controlled_by(&deployment, foo) => {
                return Err(SyncError::NameTaken { deployment: wanted });
            }
            Some(deployment) if replicas_of(&deployment)? != spec.replicas => {
                // Only what is ours to say, and only if nobody has changed it since: a conflict is a reason to look again.
                let patch = json!({
                    "metadata": {"resourceVersion": deployment.resource_version()},
                    "spec": {"replicas": spec.replicas},
                });
                (deployments.patch(wanted.name(), &Patch::merge(&patch)).await?, true)
            }
            Some(deployment) => (deployment, false),
        };
        self.deployments.lister().at_least(&deployment.version()).await?;

        // If the Foo used to ask for another name, that Deployment has served its time.
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

    /// Whether the Foo asks for the same as the one that the server has. What cannot be undone is not done on the word of a cache,
    /// which may be behind: if it is, its news brings us here again.
    async fn is_up_to_date(&self, foo: &Obj<Foo>) -> Result<bool, SyncError> {
        let foos = self.client.api::<Foo>().namespace(foo.key().namespace().unwrap_or_default());
        match foos.get(foo.key().name()).await {
            Ok(now) => Ok(now.uid() == foo.uid() && now.generation() == foo.generation()),
            Err(error) if error.is_not_found() => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Says in the Foo's status what its Deployment has come to. Answers whether that is news.
    async fn sync_status(&self, foo: &Obj<Foo>, deployment: &Obj<Deployment>) -> Result<bool, SyncError> {
        let available = deployment.typed()?.status.as_ref().and_then(|status| status.available_replicas);
        let status =
            FooStatus { available_replicas: available.unwrap_or_default(), observed_generation: foo.generation() };
        if foo.typed()?.status.as_ref() == Some(&status) {
            return Ok(false);
        }
        let foos = self.client.api::<Foo>().namespace(foo.key().namespace().unwrap_or_default());
        // Bound to what was seen, as above: a status of an older Foo must not stand in a newer one.
        let patch = json!({"metadata": {"resourceVersion": foo.resource_version()}, "status": status});
        match foos.status().patch(foo.key().name(), &Patch::merge(&patch)).await {
            Ok(written) => {
                self.foos.lister().at_least(&written.version()).await?;
                Ok(true)
            }
            // It has gone meanwhile, and nobody needs to know any more.
            Err(error) if error.is_not_found() => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

fn replicas_of(deployment: &Obj<Deployment>) -> Result<i32, DecodeError> {
    // A server fills it in; 1 is what it fills in.
    Ok(deployment.typed()?.spec.replicas.unwrap_or(1))
}

/// The Deployment that a Foo asks for, owned by it.
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
    // So the garbage collector deletes it with the Foo, and `enqueue_owner` finds the Foo when something happens to it.
    set_controller_reference(&mut deployment, foo)?;
    Ok(deployment)
}
