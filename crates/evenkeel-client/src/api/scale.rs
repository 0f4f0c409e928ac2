//! [`Scales`]: how many copies of something an object asks for, whatever its kind.

use std::collections::BTreeMap;
use std::sync::Arc;

use evenkeel_core::{LabelOperator, LabelSelector, ResourceInfo};
use http::Method;
use k8s_openapi::api::autoscaling::v1::{Scale, ScaleSpec, ScaleStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_core::GroupVersionKind;
use serde::{Deserialize, Serialize};

use super::call::{Call, verb};
use super::scope::Any;
use super::{Api, Object, Patch, add_patch};
use crate::client::Client;
use crate::discovery::RestMapper;
use crate::error::Error;
use crate::rest::{Answer, RequestError};
use crate::wire::{Part, Wire};

/// The form that everybody gets to see.
const CURRENT: &str = "autoscaling/v1";
/// Forms of older servers, in which the selector is a map.
const OLDER: [&str; 3] = ["extensions/v1beta1", "apps/v1beta1", "apps/v1beta2"];

/// The scales of resources that are only known at run time, such as the target of an autoscaler or what somebody types.
/// Made by [`Client::scales`].
///
/// What is read is an `autoscaling/v1` [`Scale`], whichever form of it the server has for the resource; what is written is
/// sent in the form that the server announces. For a kind that is known when the program is compiled there is
/// [`Api::scale`].
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
    /// The scales of resources that are only known at run time. What they are called and in which form their scales come
    /// is the mapper's knowledge, which it keeps: make one and use it for long.
    pub fn scales(&self, mapper: &RestMapper) -> Scales {
        Scales { client: self.clone(), mapper: mapper.clone() }
    }
}

impl Scales {
    /// The scales of the resource that this name stands for: `deploy`, `deployments.apps`, `Deployment.v1.apps` (see
    /// [`RestMapper::resolve`]).
    ///
    /// # Errors
    /// When the server has no such resource, or the resource has no scale.
    pub async fn of(&self, resource: &str) -> Result<ScaleApi, Error> {
        let info = self.mapper.resolve(resource).await?;
        self.of_resource(&info).await
    }

    /// The scales of this resource, which [`RestMapper::mapping`] may have found for the kind that an object refers to.
    ///
    /// # Errors
    /// When the resource has no scale.
    pub async fn of_resource(&self, info: &Arc<ResourceInfo>) -> Result<ScaleApi, Error> {
        let kind = self.mapper.subresource(info, "scale").await?.kind;
        Ok(ScaleApi { api: Api::of(&self.client, info).wire(Wire::Json), kind })
    }
}

/// The scales of the objects of one resource. Made by [`Scales::of`].
#[derive(Clone, Debug)]
pub struct ScaleApi {
    api: Api<Scale, Any>,
    /// The form that the server announces.
    kind: GroupVersionKind,
}

impl ScaleApi {
    /// Those in this namespace. For a kind that lives in no namespace this changes nothing.
    pub fn namespace(&self, namespace: &str) -> Self {
        ScaleApi { api: self.api.namespace(namespace), kind: self.kind.clone() }
    }

    /// The resource.
    pub fn resource(&self) -> &Arc<ResourceInfo> {
        self.api.resource()
    }

    /// Reads the scale of the object of this name.
    pub fn get(&self, name: &str) -> Call<Scale, verb::Get> {
        self.call(Method::GET, name)
    }

    /// Replaces the scale of the object that `scale` names. If it carries a resource version, only that version of it is
    /// replaced; else the last writer wins.
    pub fn update(&self, scale: &Scale) -> Call<Scale, verb::Write> {
        let name = scale.name().unwrap_or_default();
        let encoded = encode(scale, &self.kind);
        self.call(Method::PUT, &name).with(|request| match encoded {
            Ok(form) => self.api.check_namespace(request, scale).json(&form),
            Err(fault) => request.fault(fault),
        })
    }

    /// Changes something of the scale of the object of this name. The patch is sent as it is, so it is about the form that
    /// the server has; `spec.replicas` is the same in all of them.
    pub fn patch(&self, name: &str, patch: &Patch) -> Call<Scale, verb::Patch> {
        self.call(Method::PATCH, name).with(|request| add_patch(request, patch))
    }

    fn call<V>(&self, method: Method, name: &str) -> Call<Scale, V> {
        let request = self.api.request(method, Some(name), Some("scale"), Part::All);
        Call::new(request, self.api.resource(), |answer, _| decode(&answer))
    }
}

/// A scale in any form.
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
    /// Of older forms only, where the map cannot say everything.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    target_selector: String,
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum AnySelector {
    Text(String),
    Labels(BTreeMap<String, String>),
}

/// What the server answered, in the form that everybody gets to see.
fn decode(answer: &Answer) -> Result<Scale, Error> {
    answer.outcome()?;
    let AnyScale { api_version, kind, metadata, spec, status } = answer.json()?;
    if kind != "Scale" || (api_version != CURRENT && !OLDER.contains(&&*api_version)) {
        return Err(answer.unreadable(format!("it is a {kind:?} of {api_version:?}, and no scale in a form we know")));
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

/// The scale in the form that the server wants.
fn encode(scale: &Scale, wanted: &GroupVersionKind) -> Result<AnyScale, RequestError> {
    let api_version = wanted.api_version();
    let is_older = OLDER.contains(&&*api_version);
    if wanted.kind != "Scale" || (api_version != CURRENT && !is_older) {
        let problem = format!(
            "the server wants the scale as a {:?} of {api_version:?}, which is no form of it that we know",
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

/// The labels as the text of a selector: `app=web,tier=db`.
fn selector_of(labels: &BTreeMap<String, String>) -> String {
    labels.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(",")
}

/// The labels that a selector asks for, if that is all that it asks for.
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
