//! [`Scales`]: the scale subresource of resources that are only known at run time.

use std::collections::BTreeMap;
use std::sync::Arc;

use evenkeel_core::{LabelOperator, LabelSelector, ResourceInfo};
use http::Method;
use k8s_openapi::api::autoscaling::v1::{Scale, ScaleSpec, ScaleStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_core::GroupVersionKind;
use serde::{Deserialize, Serialize};

use super::request::{ApiRequest, verb};
use super::scope::Any;
use super::{Api, Object, Patch, add_patch};
use crate::client::Client;
use crate::discovery::RestMapper;
use crate::error::Error;
use crate::rest::{RequestError, Response};
use crate::wire::{ResponseShape, Wire};

/// The version that callers see.
const CURRENT: &str = "autoscaling/v1";
/// Versions of older servers, in which the selector is a map.
const OLDER: [&str; 3] = ["extensions/v1beta1", "apps/v1beta1", "apps/v1beta2"];

/// The scales of resources that are only known at run time, such as the target of an autoscaler. Created by
/// [`Client::scales`].
///
/// Reads return an `autoscaling/v1` [`Scale`], whatever version the server has for the resource; writes are sent in the
/// version that discovery states. For a kind that is known at compile time use [`Api::scale`].
///
/// ```
/// # async fn example(client: evenkeel_client::Client) -> Result<(), evenkeel_client::Error> {
/// use evenkeel_client::discovery::RestMapper;
///
/// let mapper = RestMapper::new(client.discovery().cached());
/// let deployments = client.scales(&mapper).of("deploy").await?.namespace("default");
/// let mut scale = deployments.get("web").await?;
/// scale.spec.get_or_insert_default().replicas = Some(5);
/// deployments.update(&scale).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Scales {
    client: Client,
    mapper: RestMapper,
}

impl Client {
    /// Returns the scales of resources that are only known at run time. The mapper caches names and versions: create
    /// one and keep it.
    pub fn scales(&self, mapper: &RestMapper) -> Scales {
        Scales { client: self.clone(), mapper: mapper.clone() }
    }
}

impl Scales {
    /// Returns the scales of the resource with this name: `deploy`, `deployments.apps`, `Deployment.v1.apps` (see
    /// [`RestMapper::resolve`]).
    ///
    /// # Errors
    /// The server has no such resource, or the resource has no scale.
    pub async fn of(&self, resource: &str) -> Result<ScaleApi, Error> {
        let info = self.mapper.resolve(resource).await?;
        self.of_resource(&info).await
    }

    /// Returns the scales of this resource, such as the result of [`RestMapper::mapping`].
    ///
    /// # Errors
    /// The resource has no scale.
    pub async fn of_resource(&self, info: &Arc<ResourceInfo>) -> Result<ScaleApi, Error> {
        let kind = self.mapper.subresource(info, "scale").await?.kind;
        Ok(ScaleApi { api: Api::of(&self.client, info).wire(Wire::Json), kind })
    }
}

/// The scales of the objects of one resource. Created by [`Scales::of`].
#[derive(Clone, Debug)]
pub struct ScaleApi {
    api: Api<Scale, Any>,
    /// The version that discovery states.
    kind: GroupVersionKind,
}

impl ScaleApi {
    /// Narrows the API to this namespace. Has no effect on a cluster-scoped kind.
    pub fn namespace(&self, namespace: &str) -> Self {
        ScaleApi { api: self.api.namespace(namespace), kind: self.kind.clone() }
    }

    /// Returns the resource.
    pub fn resource(&self) -> &Arc<ResourceInfo> {
        self.api.resource()
    }

    /// Reads the scale of an object.
    pub fn get(&self, name: &str) -> ApiRequest<Scale, verb::Get> {
        self.request(Method::GET, name)
    }

    /// Replaces the scale of the object that `scale` names. With a resource version, the server replaces that version
    /// only; without, the last writer wins.
    pub fn update(&self, scale: &Scale) -> ApiRequest<Scale, verb::Write> {
        let name = scale.name().unwrap_or_default();
        let encoded = encode(scale, &self.kind);
        self.request(Method::PUT, &name).with(|request| match encoded {
            Ok(form) => self.api.check_namespace(request, scale).json(&form),
            Err(fault) => request.invalid(fault),
        })
    }

    /// Patches the scale of an object. The patch is sent unchanged, so it must match the server's version of the scale;
    /// `spec.replicas` is the same in all versions.
    pub fn patch(&self, name: &str, patch: &Patch) -> ApiRequest<Scale, verb::Patch> {
        self.request(Method::PATCH, name).with(|request| add_patch(request, patch))
    }

    fn request<V>(&self, method: Method, name: &str) -> ApiRequest<Scale, V> {
        let request = self.api.request(method, Some(name), Some("scale"), ResponseShape::Full);
        ApiRequest::new(request, self.api.resource(), |response, _| decode(&response))
    }
}

/// A scale in any version.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct AnyScale {
    api_version: String,
    kind: String,
    #[serde(default)]
    metadata: ObjectMeta,
    #[serde(skip_serializing_if = "Option::is_none")]
    spec: Option<ScaleSpec>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<AnyStatus>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct AnyStatus {
    #[serde(default)]
    replicas: i32,
    #[serde(skip_serializing_if = "Option::is_none")]
    selector: Option<AnySelector>,
    /// In older versions only: what the map cannot express.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    target_selector: String,
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum AnySelector {
    Text(String),
    Labels(BTreeMap<String, String>),
}

/// Decodes any version into the current one.
fn decode(response: &Response) -> Result<Scale, Error> {
    response.decode_status()?;
    let AnyScale { api_version, kind, metadata, spec, status } = response.json()?;
    if kind != "Scale" || (api_version != CURRENT && !OLDER.contains(&&*api_version)) {
        return Err(
            response.unreadable(format!("it is a {kind:?} of {api_version:?}, which is no known version of a scale"))
        );
    }
    let status = status.map(|status| {
        let selector = match status.selector {
            Some(AnySelector::Text(text)) => Some(text),
            _ if !status.target_selector.is_empty() => Some(status.target_selector),
            Some(AnySelector::Labels(labels)) => Some(selector_of(&labels)),
            None => None,
        };
        ScaleStatus { replicas: status.replicas, selector }
    });
    Ok(Scale { metadata, spec, status })
}

/// Encodes the scale in the server's version.
fn encode(scale: &Scale, wanted: &GroupVersionKind) -> Result<AnyScale, RequestError> {
    let api_version = wanted.api_version();
    let is_older = OLDER.contains(&&*api_version);
    if wanted.kind != "Scale" || (api_version != CURRENT && !is_older) {
        let problem = format!(
            "the server's scale is a {:?} of {api_version:?}, which is no known version of a scale",
            wanted.kind
        );
        return Err(RequestError::Invalid { problem });
    }
    let status = scale.status.as_ref().map(|status| {
        let text = status.selector.clone();
        let (selector, target_selector) = if is_older {
            let text = text.unwrap_or_default();
            (labels_of(&text).map(AnySelector::Labels), text)
        } else {
            (text.map(AnySelector::Text), String::new())
        };
        AnyStatus { replicas: status.replicas, selector, target_selector }
    });
    let (metadata, spec) = (scale.metadata.clone(), scale.spec.clone());
    Ok(AnyScale { api_version, kind: wanted.kind.clone(), metadata, spec, status })
}

/// Formats labels as a selector: `app=web,tier=db`.
fn selector_of(labels: &BTreeMap<String, String>) -> String {
    labels.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(",")
}

/// Returns the labels of a selector that consists of equalities only.
fn labels_of(selector: &str) -> Option<BTreeMap<String, String>> {
    let selector = LabelSelector::parse(selector).ok().filter(|selector| !selector.is_empty())?;
    let label = |requirement: &evenkeel_core::Requirement| match (requirement.operator(), requirement.values()) {
        (LabelOperator::Equals, [value]) => Some((requirement.key().to_owned(), value.clone())),
        _ => None,
    };
    selector.requirements().iter().map(label).collect()
}

#[cfg(test)]
mod tests;
