//! [`AdmissionRequest`]: what an API server asks a hook.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use evenkeel_client::Client;
use evenkeel_core::ObjectKey;
use evenkeel_core::json::JsonValue;
use k8s_openapi::api::authentication::v1::UserInfo;
use kube_core::gvk::{GroupVersionKind, GroupVersionResource};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::decode::{DecodeObjectError, decode, decode_for_hook};
use super::verdict::HookError;

/// What a client of the API server wants to do with the object.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Operation {
    /// The object is created.
    Create,
    /// The object is updated or patched.
    Update,
    /// The object is deleted.
    Delete,
    /// A client connects to a subresource such as `pods/exec`; the object is the options of that.
    Connect,
    /// An operation that this version does not know.
    Other(Box<str>),
}

impl Operation {
    /// Returns the operation as in the review, such as `CREATE`.
    pub fn as_str(&self) -> &str {
        match self {
            Operation::Create => "CREATE",
            Operation::Update => "UPDATE",
            Operation::Delete => "DELETE",
            Operation::Connect => "CONNECT",
            Operation::Other(name) => name,
        }
    }
}

impl From<Cow<'_, str>> for Operation {
    fn from(name: Cow<'_, str>) -> Self {
        match &*name {
            "CREATE" => Operation::Create,
            "UPDATE" => Operation::Update,
            "DELETE" => Operation::Delete,
            "CONNECT" => Operation::Connect,
            _ => Operation::Other(name.into()),
        }
    }
}

/// The request of an admission review. Cheap to clone.
///
/// Everything but the objects is parsed on arrival. Objects stay as bytes until they are decoded, so a hook that looks at the
/// user alone costs no decoding.
///
/// | operation | [`object`](Self::object) | [`old_object`](Self::old_object) |
/// |---|---|---|
/// | create | the new object | |
/// | update | the new object | the stored object |
/// | delete | | the stored object |
/// | connect | the options, such as `PodExecOptions` | |
#[derive(Clone)]
pub struct AdmissionRequest {
    parts: Arc<RequestParts>,
    /// The client of the server, if it has one.
    client: Option<Client>,
}

struct RequestParts {
    uid: Box<str>,
    kind: GroupVersionKind,
    resource: GroupVersionResource,
    subresource: Box<str>,
    name: Box<str>,
    namespace: Box<str>,
    operation: Operation,
    user: UserInfo,
    is_dry_run: bool,
    object: Option<Bytes>,
    old_object: Option<Bytes>,
    options: Option<Bytes>,
}

/// A request as it is in the JSON of a review.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct WireRequest<'a> {
    #[serde(borrow)]
    uid: Cow<'a, str>,
    #[serde(borrow)]
    kind: WireKind<'a>,
    #[serde(borrow)]
    resource: WireResource<'a>,
    #[serde(borrow, default)]
    sub_resource: Cow<'a, str>,
    #[serde(borrow, default)]
    name: Cow<'a, str>,
    #[serde(borrow, default)]
    namespace: Cow<'a, str>,
    #[serde(borrow)]
    operation: Cow<'a, str>,
    #[serde(default)]
    user_info: UserInfo,
    #[serde(default)]
    dry_run: Option<bool>,
    #[serde(borrow, default)]
    object: Option<&'a RawValue>,
    #[serde(borrow, default)]
    old_object: Option<&'a RawValue>,
    #[serde(borrow, default)]
    options: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct WireKind<'a> {
    #[serde(borrow, default)]
    group: Cow<'a, str>,
    #[serde(borrow)]
    version: Cow<'a, str>,
    #[serde(borrow)]
    kind: Cow<'a, str>,
}

#[derive(Deserialize)]
struct WireResource<'a> {
    #[serde(borrow, default)]
    group: Cow<'a, str>,
    #[serde(borrow)]
    version: Cow<'a, str>,
    #[serde(borrow)]
    resource: Cow<'a, str>,
}

impl AdmissionRequest {
    /// Returns the request whose raw parts are slices of `body`.
    pub(super) fn new(body: &Bytes, wire: WireRequest<'_>) -> Self {
        let slice = |raw: Option<&RawValue>| raw.map(|raw| body.slice_ref(raw.get().as_bytes()));
        let WireKind { group, version, kind } = wire.kind;
        let kind = GroupVersionKind { group: group.into(), version: version.into(), kind: kind.into() };
        let WireResource { group, version, resource } = wire.resource;
        let resource = GroupVersionResource::gvr(&group, &version, &resource);
        let parts = RequestParts {
            uid: wire.uid.into(),
            kind,
            resource,
            subresource: wire.sub_resource.into(),
            name: wire.name.into(),
            namespace: wire.namespace.into(),
            operation: wire.operation.into(),
            user: wire.user_info,
            is_dry_run: wire.dry_run.unwrap_or(false),
            object: slice(wire.object),
            old_object: slice(wire.old_object),
            options: slice(wire.options),
        };
        AdmissionRequest { parts: Arc::new(parts), client: None }
    }

    pub(crate) fn with_client(mut self, client: Option<&Client>) -> Self {
        self.client = client.cloned();
        self
    }

    /// Returns the uid of the review, which the answer repeats. It is not that of the object.
    pub fn uid(&self) -> &str {
        &self.parts.uid
    }

    /// Returns the kind of the object as the hook's rule names it; the API server converts to it.
    pub fn kind(&self) -> &GroupVersionKind {
        &self.parts.kind
    }

    /// Returns the resource as the hook's rule names it.
    pub fn resource(&self) -> &GroupVersionResource {
        &self.parts.resource
    }

    /// Returns the subresource, such as `status`; `None` for the object itself.
    pub fn subresource(&self) -> Option<&str> {
        Some(&*self.parts.subresource).filter(|name| !name.is_empty())
    }

    /// Returns the namespace; `None` for kinds without namespaces.
    pub fn namespace(&self) -> Option<&str> {
        Some(&*self.parts.namespace).filter(|name| !name.is_empty())
    }

    /// Returns the operation.
    pub fn operation(&self) -> &Operation {
        &self.parts.operation
    }

    /// Returns the user who sent the request to the API server.
    pub fn user(&self) -> &UserInfo {
        &self.parts.user
    }

    /// Returns whether nothing will be stored. A hook must not have side effects then.
    pub fn is_dry_run(&self) -> bool {
        self.parts.is_dry_run
    }

    /// Returns a client for the hook: that of the [server](crate::WebhookServerBuilder::client). In a review of a dry run it is a
    /// [dry-run client](Client::dry_run), so that the hook has no side effects.
    ///
    /// ```
    /// use evenkeel_webhook::{Hook, WebhookServer};
    /// use k8s_openapi::api::core::v1::{ConfigMap, Pod};
    ///
    /// # fn example(client: evenkeel_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// let pods = Hook::validating::<Pod>().side_effects_unless_dry_run().on_create(|pod, request| async move {
    ///     let seen = ConfigMap { metadata: pod.metadata.clone(), ..Default::default() };
    ///     request.client()?.api::<ConfigMap>().namespace("audit").create(&seen).await?;
    ///     Ok(())
    /// });
    /// let server = WebhookServer::builder().client(&client).hook(pods).build()?;
    /// # drop(server);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// If the server has no client: a fault of the hook.
    pub fn client(&self) -> Result<Client, HookError> {
        match &self.client {
            Some(client) if self.is_dry_run() => Ok(client.dry_run()),
            Some(client) => Ok(client.clone()),
            None => {
                Err(HookError::fault("the webhook server has no client: set one with WebhookServerBuilder::client"))
            }
        }
    }

    /// Returns the key of the object.
    ///
    /// The name of the request is empty in reviews of a collection that is deleted; it is then read from the object. `None` if
    /// the object has no name yet: it is created with `generateName`, and the API server generates the name later.
    pub fn key(&self) -> Option<ObjectKey> {
        if !self.parts.name.is_empty() {
            return Some(ObjectKey::new(self.namespace(), &self.parts.name));
        }
        let stored = self.parts.old_object.as_ref().or(self.parts.object.as_ref())?;
        let text = std::str::from_utf8(stored).ok()?;
        let name = JsonValue::at_path(text, "metadata.name").ok().flatten()?.as_str()?.into_owned();
        Some(ObjectKey::new(self.namespace(), &name)).filter(|_| !name.is_empty())
    }

    /// Decodes the object: what the client wants to store, or the options of a connect.
    ///
    /// # Errors
    /// If the object does not fit the type.
    pub fn object<T: DeserializeOwned>(&self) -> Result<Option<T>, DecodeObjectError> {
        self.raw_object().map(|json| decode("object", json)).transpose()
    }

    /// Decodes the object that is stored.
    ///
    /// # Errors
    /// If the object does not fit the type.
    pub fn old_object<T: DeserializeOwned>(&self) -> Result<Option<T>, DecodeObjectError> {
        self.raw_old_object().map(|json| decode("oldObject", json)).transpose()
    }

    /// Decodes the options of the request, such as `CreateOptions`.
    ///
    /// # Errors
    /// If the options do not fit the type.
    pub fn options<T: DeserializeOwned>(&self) -> Result<Option<T>, DecodeObjectError> {
        self.parts.options.as_deref().map(|json| decode("options", json)).transpose()
    }

    /// Decodes the object for the functions of a hook, without `managedFields`.
    pub(super) fn object_for_hook<T: DeserializeOwned>(&self) -> Result<Option<T>, DecodeObjectError> {
        self.raw_object().map(|json| decode_for_hook("object", json)).transpose()
    }

    /// Decodes the stored object for the functions of a hook, without `managedFields`.
    pub(super) fn old_object_for_hook<T: DeserializeOwned>(&self) -> Result<Option<T>, DecodeObjectError> {
        self.raw_old_object().map(|json| decode_for_hook("oldObject", json)).transpose()
    }

    /// Returns the JSON of the object.
    pub fn raw_object(&self) -> Option<&[u8]> {
        self.parts.object.as_deref()
    }

    /// Returns the JSON of the object that is stored.
    pub fn raw_old_object(&self) -> Option<&[u8]> {
        self.parts.old_object.as_deref()
    }
}

/// Shows no object, and nothing of the user but the name.
impl fmt::Debug for AdmissionRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AdmissionRequest")
            .field("uid", &self.parts.uid)
            .field("operation", &self.parts.operation)
            .field("kind", &self.parts.kind)
            .field("subresource", &self.parts.subresource)
            .field("key", &self.key())
            .field("user", &self.parts.user.username)
            .finish_non_exhaustive()
    }
}
