//! [`wait_for_crd`]: waits until a custom resource can be used.

use evenkeel_core::Obj;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube_core::GroupVersion;
use serde::Deserialize;

use super::condition_state::WaitError;
use super::conditions::crd_established;
use super::object::{READ_BACKOFF, wait_for};
use crate::client::Client;
use crate::error::Error;

/// What discovery has to list.
#[derive(Deserialize)]
struct DefinitionFields {
    spec: DefinitionSpec,
}

#[derive(Deserialize)]
struct DefinitionSpec {
    group: String,
    names: DefinitionNames,
    #[serde(default)]
    versions: Vec<DefinitionVersion>,
}

#[derive(Deserialize)]
struct DefinitionNames {
    plural: String,
}

#[derive(Deserialize)]
struct DefinitionVersion {
    name: String,
    #[serde(default)]
    served: bool,
}

/// Waits until a definition is established and discovery lists every version that it serves, and returns it.
///
/// A server lists a kind some time after its definition is established, and until then requests for it may fail with
/// 404. There is no time limit; use [`tokio::time::timeout`].
///
/// ```
/// # async fn example(client: evenkeel_client::Client) -> Result<(), evenkeel_client::wait::WaitError> {
/// evenkeel_client::wait::wait_for_crd(&client, "foos.example.com").await?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`WaitError::Never`]: the names of the definition are in use. Otherwise as [`wait_for`].
pub async fn wait_for_crd(client: &Client, name: &str) -> Result<Obj<CustomResourceDefinition>, WaitError> {
    let definitions = client.api::<CustomResourceDefinition>();
    loop {
        let Some(definition) = wait_for(&definitions, name, crd_established()).await? else { continue };
        let DefinitionFields { spec } = definition.decode_as().map_err(Error::from)?;
        for version in spec.versions.iter().filter(|version| version.served) {
            let group_version = GroupVersion::gv(&spec.group, &version.name);
            wait_for_resource(client, &group_version, &spec.names.plural).await?;
        }
        return Ok(definition);
    }
}

/// Waits until discovery lists a resource.
async fn wait_for_resource(client: &Client, group_version: &GroupVersion, plural: &str) -> Result<(), WaitError> {
    let mut backoff = READ_BACKOFF;
    loop {
        match client.discovery().is_resource_enabled(group_version, plural).await {
            Ok(true) => return Ok(()),
            Ok(false) => {}
            Err(error) if error.is_transient() => tracing::warn!(%error, "discovery failed; retrying"),
            Err(error) => return Err(error.into()),
        }
        tokio::time::sleep(backoff.step(fastrand::f64())).await;
    }
}
