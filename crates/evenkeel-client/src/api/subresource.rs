//! [`Subresource`]: a part of an object that has an address, and often a type, of its own.

use evenkeel_core::Obj;
use http::Method;
use k8s_openapi::api::autoscaling::v1::Scale;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::call::{Call, read_json, verb};
use super::scope::{Addressable, Scope};
use super::{Api, Extent, Object, Patch, add_patch};
use crate::rest::RequestError;
use crate::wire::Part;

/// A part of every object of a kind: its status, its scale, or another that the kind has. `T` is what is read and written
/// there.
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
    part: Box<str>,
}

impl<K, S: Scope> Api<K, S> {
    /// What controllers report of the objects.
    pub fn status(&self) -> Subresource<K, S> {
        self.subresource("status")
    }

    /// How many copies of something the objects ask for, whatever their kind.
    pub fn scale(&self) -> Subresource<Scale, S> {
        self.subresource("scale")
    }

    /// Another part, which is read and written as a `T`.
    pub fn subresource<T>(&self, part: &str) -> Subresource<T, S> {
        // Of a part there is no metadata to be had alone.
        let extent = if self.is_metadata_only() { Extent::Known } else { self.extent };
        Subresource { api: self.seen_as(self.scope.clone(), extent), part: part.into() }
    }
}

impl<T, S: Addressable> Subresource<T, S> {
    /// Reads the part.
    pub fn get(&self, name: &str) -> Call<Obj<T>, verb::Get> {
        self.api.one(Method::GET, name, Some(&self.part))
    }

    /// Changes something of the part.
    pub fn patch(&self, name: &str, patch: &Patch) -> Call<Obj<T>, verb::Patch> {
        self.api.one(Method::PATCH, name, Some(&self.part)).with(|request| add_patch(request, patch))
    }

    /// Says what fields of the part shall be, and takes ownership of them; see [`Api::apply`].
    pub fn apply<F: Object + ?Sized>(&self, name: &str, field_manager: &str, fields: &F) -> Call<Obj<T>, verb::Apply> {
        self.api.apply_to(name, Some(&self.part), field_manager, fields)
    }

    /// Posts something to the part, for parts that are really verbs: a token to be made, a binding. `R` is what comes
    /// back.
    pub fn post<B: Serialize, R: DeserializeOwned + 'static>(&self, name: &str, body: &B) -> Call<R, verb::Write> {
        let request = self.api.request(Method::POST, Some(name), Some(&self.part), Part::All).value(body);
        Call::new(request, &self.api.info, read_json)
    }
}

impl<T: Object, S: Addressable> Subresource<T, S> {
    /// Replaces the part of the object that `object` names. Whatever else `object` says is ignored by the server.
    pub fn update(&self, object: &T) -> Call<Obj<T>, verb::Write> {
        self.api.update_of(object, Some(&self.part))
    }
}

impl<T, S: Addressable> Subresource<T, S> {
    /// Posts an object that names itself, as a [`Binding`](k8s_openapi::api::core::v1::Binding) does.
    pub(super) fn post_named<B: Object, R: DeserializeOwned + 'static>(&self, body: &B) -> Call<R, verb::Write> {
        match body.name() {
            Some(name) => self.post(&name, body),
            None => {
                let problem = format!("what is posted to {:?} must carry the name of its object", self.part);
                self.post("", body).with(|request| request.fault(RequestError::Invalid { problem }))
            }
        }
    }
}

impl<T, S: Scope> std::fmt::Debug for Subresource<T, S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Subresource").field("api", &self.api).field("part", &self.part).finish()
    }
}
