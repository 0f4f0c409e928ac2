//! [`ApiRequest`]: a verb with its options, not yet sent.

use std::fmt;
use std::future::{Future, IntoFuture};
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;

use evenkeel_core::{Obj, ResourceInfo, Status};
use k8s_openapi::api::policy::v1::Eviction;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{DeleteOptions, ObjectMeta};
use serde::de::DeserializeOwned;

use super::changes::Patched;
use crate::error::Error;
use crate::rest::{Request, Response};

/// A verb with its options. It does nothing until it is awaited.
///
/// The methods depend on the verb: only writes have [`dry_run`](Self::dry_run), only a delete has a
/// [`grace_period`](Self::grace_period).
#[must_use = "a request does nothing until it is awaited"]
pub struct ApiRequest<T, V> {
    request: Request,
    info: Arc<ResourceInfo>,
    read: Read<T>,
    delete: Option<Box<DeleteBody>>,
    /// The result without a request, if there is nothing to write.
    unchanged: Option<T>,
    verb: PhantomData<fn() -> V>,
}

/// The body of a delete, encoded when the request is sent.
struct DeleteBody {
    options: DeleteOptions,
    /// The metadata of the pod, if it is evicted instead of deleted.
    evicted: Option<ObjectMeta>,
}

/// Decodes the response.
pub(super) type Read<T> = fn(Response, &Arc<ResourceInfo>) -> Result<T, Error>;

/// The verbs of an [`ApiRequest`]. Types only; they have no values.
pub mod verb {
    /// Reads one object.
    #[derive(Debug)]
    pub enum Get {}
    /// Creates or updates an object.
    #[derive(Debug)]
    pub enum Write {}
    /// Patches an object.
    #[derive(Debug)]
    pub enum Patch {}
    /// Applies an object.
    #[derive(Debug)]
    pub enum Apply {}
    /// Deletes one object or a collection.
    #[derive(Debug)]
    pub enum Delete {}

    /// The verbs that write an object.
    pub trait Writes: sealed::Sealed {}
    impl Writes for Write {}
    impl Writes for Patch {}
    impl Writes for Apply {}

    /// The verbs that may take fields from other field managers.
    pub trait Forces: sealed::Sealed {}
    impl Forces for Patch {}
    impl Forces for Apply {}

    mod sealed {
        pub trait Sealed {}
        impl Sealed for super::Write {}
        impl Sealed for super::Patch {}
        impl Sealed for super::Apply {}
    }
}

/// What the server does with unknown and duplicate fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldValidation {
    /// Drops them.
    Ignore,
    /// Drops them and returns a warning. The server's default.
    Warn,
    /// Rejects the request.
    Strict,
}

impl FieldValidation {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            FieldValidation::Ignore => "Ignore",
            FieldValidation::Warn => "Warn",
            FieldValidation::Strict => "Strict",
        }
    }
}

/// What happens to the dependents of a deleted object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    /// They are kept.
    Orphan,
    /// They are deleted after their owner.
    Background,
    /// They are deleted before their owner.
    Foreground,
}

/// The result of a delete.
#[derive(Clone, Debug)]
pub enum Deleted<K> {
    /// The object still exists: its grace period has not ended, or it has finalizers. This is its current state.
    Terminating(Obj<K>),
    /// The object was removed. The server's `Status`.
    Gone(Box<Status>),
}

impl<T, V> ApiRequest<T, V> {
    pub(super) fn new(request: Request, info: &Arc<ResourceInfo>, read: Read<T>) -> Self {
        ApiRequest { request, info: Arc::clone(info), read, delete: None, unchanged: None, verb: PhantomData }
    }

    /// Makes the request return this value without sending anything.
    pub(super) fn unchanged(mut self, result: T) -> Self {
        self.unchanged = Some(result);
        self
    }

    /// Writes the underlying request: a query parameter, a header, a timeout.
    pub fn with(mut self, change: impl FnOnce(Request) -> Request) -> Self {
        self.request = change(self.request);
        self
    }

    fn query(self, name: &'static str, value: impl Into<String>) -> Self {
        let value: String = value.into();
        self.with(|request| request.query(name, value))
    }

    /// Sends the request and returns the response without decoding it, with its status and headers.
    pub async fn send(self) -> Result<Response, Error> {
        let is_dry_run = self.request.client().is_dry_run();
        let this = if is_dry_run { self.dry_delete() } else { self };
        let request = match this.delete.map(|body| *body) {
            None => this.request,
            Some(DeleteBody { options, evicted: None }) => this.request.value(&options),
            Some(DeleteBody { options, evicted: Some(metadata) }) => {
                this.request.value(&Eviction { metadata, delete_options: Some(options) })
            }
        };
        request.send().await
    }

    /// Makes a delete a dry run; has no effect on other verbs.
    fn dry_delete(mut self) -> Self {
        let Some(body) = &mut self.delete else { return self };
        body.options.dry_run = Some(vec!["All".into()]);
        self.with(Request::dry_run_body)
    }
}

impl<T> ApiRequest<T, verb::Get> {
    /// Reads a version that is not older than this one; `0` reads any version from the server's cache.
    pub fn not_older_than(self, version: impl Into<String>) -> Self {
        self.query("resourceVersion", version)
    }
}

impl<T, V: verb::Writes> ApiRequest<T, V> {
    /// Runs all checks on the server and stores nothing.
    pub fn dry_run(self) -> Self {
        self.query("dryRun", "All")
    }

    /// Sets the field manager. Otherwise it is the client's ([`Client::with_field_manager`](crate::Client::with_field_manager)),
    /// or the server derives it from the user agent.
    pub fn field_manager(self, name: impl Into<String>) -> Self {
        self.query("fieldManager", name)
    }

    /// Sets what the server does with unknown fields. Otherwise it is the client's
    /// ([`Client::with_field_validation`](crate::Client::with_field_validation)), or the server's default.
    pub fn field_validation(self, validation: FieldValidation) -> Self {
        self.query("fieldValidation", validation.as_str())
    }
}

impl<T, V: verb::Forces> ApiRequest<T, V> {
    /// Takes fields from other field managers. For [`Patch::apply`](super::Patch::apply) and
    /// [`Api::apply`](super::Api::apply).
    pub fn force(self) -> Self {
        self.query("force", "true")
    }
}

impl<T> ApiRequest<T, verb::Delete> {
    pub(super) fn delete(request: Request, info: &Arc<ResourceInfo>, read: Read<T>) -> Self {
        Self::with_body(request, info, read, None)
    }

    pub(super) fn evict(request: Request, info: &Arc<ResourceInfo>, read: Read<T>, pod: ObjectMeta) -> Self {
        Self::with_body(request, info, read, Some(pod))
    }

    fn with_body(request: Request, info: &Arc<ResourceInfo>, read: Read<T>, evicted: Option<ObjectMeta>) -> Self {
        let options = DeleteOptions {
            api_version: Some("v1".into()),
            kind: Some("DeleteOptions".into()),
            ..DeleteOptions::default()
        };
        let mut request = ApiRequest::new(request, info, read);
        request.delete = Some(Box::new(DeleteBody { options, evicted }));
        request
    }

    fn options(mut self, change: impl FnOnce(&mut DeleteOptions)) -> Self {
        if let Some(body) = &mut self.delete {
            change(&mut body.options);
        }
        self
    }

    /// Sets the grace period; 0 deletes immediately.
    pub fn grace_period(self, seconds: u32) -> Self {
        self.options(|options| options.grace_period_seconds = Some(seconds.into()))
    }

    /// Sets what happens to the dependents.
    pub fn propagation(self, propagation: Propagation) -> Self {
        let policy = match propagation {
            Propagation::Orphan => "Orphan",
            Propagation::Background => "Background",
            Propagation::Foreground => "Foreground",
        };
        self.options(|options| options.propagation_policy = Some(policy.into()))
    }

    /// Deletes only an object with this uid, not a later one of the same name.
    pub fn only_uid(self, uid: impl Into<String>) -> Self {
        let uid = uid.into();
        self.options(|options| options.preconditions.get_or_insert_default().uid = Some(uid))
    }

    /// Deletes only this resource version of the object.
    pub fn only_version(self, version: impl Into<String>) -> Self {
        let version = version.into();
        self.options(|options| {
            options.preconditions.get_or_insert_default().resource_version = Some(version);
        })
    }

    /// Runs all checks on the server and deletes nothing.
    pub fn dry_run(self) -> Self {
        self.dry_delete()
    }
}

impl<T: Send + 'static, V: 'static> IntoFuture for ApiRequest<T, V> {
    type Output = Result<T, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Result<T, Error>> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        let mut this = self;
        if let Some(result) = this.unchanged.take() {
            return Box::pin(std::future::ready(Ok(result)));
        }
        let (info, read) = (Arc::clone(&this.info), this.read);
        Box::pin(async move { read(this.send().await?, &info) })
    }
}

impl<T, V> fmt::Debug for ApiRequest<T, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ApiRequest").field(&self.request).finish()
    }
}

pub(super) fn read_object<K>(response: Response, info: &Arc<ResourceInfo>) -> Result<Obj<K>, Error> {
    response.object(info)
}

pub(super) fn read_patched<K>(response: Response, info: &Arc<ResourceInfo>) -> Result<Patched<K>, Error> {
    response.object(info).map(Patched::Updated)
}

pub(super) fn read_json<T: DeserializeOwned>(response: Response, _: &Arc<ResourceInfo>) -> Result<T, Error> {
    response.json()
}

/// Decodes the response to the deletion of a collection. Some servers return no objects.
pub(super) fn read_collection<K>(response: Response, info: &Arc<ResourceInfo>) -> Result<Vec<Obj<K>>, Error> {
    match response.decode_status()? {
        Some(_) => Ok(Vec::new()),
        None => response.list(info).map(|list| list.items),
    }
}

pub(super) fn read_deleted<K>(response: Response, info: &Arc<ResourceInfo>) -> Result<Deleted<K>, Error> {
    match response.decode_status()? {
        Some(status) => Ok(Deleted::Gone(Box::new(status))),
        None => response.object(info).map(Deleted::Terminating),
    }
}
