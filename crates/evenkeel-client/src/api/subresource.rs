//! [`Subresource`]: a subresource of the objects of a kind.

use evenkeel_core::Obj;
use http::Method;
use k8s_openapi::api::autoscaling::v1::Scale;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::request::{ApiRequest, read_json, verb};
use super::scope::{Addressable, Scope};
use super::{Api, Changes, Object, Patch, Patched, Representation, add_patch};
use crate::rest::RequestError;
use crate::wire::ResponseShape;

/// A subresource of the objects of a kind, such as status or scale. `T` is the type of its content.
///
/// ```
/// # async fn example(client: evenkeel_client::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use evenkeel_client::Patch;
/// use serde_json::json;
///
/// let deployments = client.apps_v1().deployments("default");
/// let scale = deployments.scale().get("web").await?.typed()?;
/// println!("{:?}", scale.spec.as_ref().and_then(|spec| spec.replicas));
/// deployments.scale().patch("web", &Patch::merge(&json!({"spec": {"replicas": 5}}))).await?;
/// # Ok(())
/// # }
/// ```
pub struct Subresource<T, S> {
    api: Api<T, S>,
    subresource: Box<str>,
}

impl<K, S: Scope> Api<K, S> {
    /// Returns the status subresource.
    pub fn status(&self) -> Subresource<K, S> {
        self.subresource("status")
    }

    /// Returns the scale subresource.
    pub fn scale(&self) -> Subresource<Scale, S> {
        self.subresource("scale")
    }

    /// Returns another subresource, whose content is a `T`.
    pub fn subresource<T>(&self, name: &str) -> Subresource<T, S> {
        // A subresource cannot be read as metadata only.
        let representation = if self.is_metadata_only() { Representation::Typed } else { self.representation };
        Subresource { api: self.converted(self.scope.clone(), representation), subresource: name.into() }
    }
}

impl<T, S: Addressable> Subresource<T, S> {
    /// Reads the subresource.
    pub fn get(&self, name: &str) -> ApiRequest<Obj<T>, verb::Get> {
        self.api.named(Method::GET, name, Some(&self.subresource))
    }

    /// Patches the subresource.
    pub fn patch(&self, name: &str, patch: &Patch) -> ApiRequest<Obj<T>, verb::Patch> {
        self.api.named(Method::PATCH, name, Some(&self.subresource)).with(|request| add_patch(request, patch))
    }

    /// Patches the subresource with the difference between a read of the object and a changed value; see
    /// [`Api::patch_changes`].
    pub fn patch_changes(&self, changes: &Changes<T>) -> ApiRequest<Patched<T>, verb::Patch> {
        self.api.changes_to(Some(&self.subresource), changes)
    }

    /// Applies fields of the subresource and takes ownership of them; see [`Api::apply`].
    pub fn apply<F: Object + ?Sized>(
        &self,
        name: &str,
        field_manager: &str,
        fields: &F,
    ) -> ApiRequest<Obj<T>, verb::Apply> {
        self.api.apply_to(name, Some(&self.subresource), field_manager, fields)
    }

    /// Makes the subresource have these fields, by the client's field manager; see [`Api::enforce`].
    pub fn enforce<F: Object + ?Sized>(&self, name: &str, fields: &F) -> ApiRequest<Obj<T>, verb::Apply> {
        self.api.apply_to(name, Some(&self.subresource), "", fields).force()
    }

    /// Posts to the subresource, for subresources that are verbs: a token request, a binding. `R` is the type of the
    /// response.
    pub fn post<B: Serialize, R: DeserializeOwned + 'static>(
        &self,
        name: &str,
        body: &B,
    ) -> ApiRequest<R, verb::Write> {
        let request =
            self.api.request(Method::POST, Some(name), Some(&self.subresource), ResponseShape::Full).value(body);
        ApiRequest::new(request, &self.api.info, read_json)
    }
}

impl<T: Object, S: Addressable> Subresource<T, S> {
    /// Replaces the subresource of the object that `object` names. The server ignores the other fields of `object`.
    pub fn update(&self, object: &T) -> ApiRequest<Obj<T>, verb::Write> {
        self.api.update_of(object, Some(&self.subresource))
    }
}

impl<T, S: Addressable> Subresource<T, S> {
    /// Posts an object that names itself, such as a [`Binding`](k8s_openapi::api::core::v1::Binding).
    pub(super) fn post_named<B: Object, R: DeserializeOwned + 'static>(&self, body: &B) -> ApiRequest<R, verb::Write> {
        match body.name() {
            Some(name) => self.post(&name, body),
            None => {
                let problem = format!("a body posted to {:?} must contain the name of its object", self.subresource);
                self.post("", body).with(|request| request.invalid(RequestError::Invalid { problem }))
            }
        }
    }
}

impl<T, S: Scope> std::fmt::Debug for Subresource<T, S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Subresource").field("api", &self.api).field("subresource", &self.subresource).finish()
    }
}
