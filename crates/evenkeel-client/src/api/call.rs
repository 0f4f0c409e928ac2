//! [`Call`]: a verb that is about to happen.

use std::fmt;
use std::future::{Future, IntoFuture};
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;

use evenkeel_core::{Obj, ResourceInfo, Status};
use k8s_openapi::api::policy::v1::Eviction;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{DeleteOptions, ObjectMeta};
use serde::de::DeserializeOwned;

use crate::error::Error;
use crate::rest::{Answer, Request};

/// A verb that is about to happen. Add to it what it needs, then await it; it does nothing until then.
///
/// Which methods there are depends on the verb: only writes can be tried out with [`dry_run`](Self::dry_run), only a delete
/// has a [`grace_period`](Self::grace_period).
#[must_use = "a call does nothing until it is awaited"]
pub struct Call<T, V> {
    request: Request,
    info: Arc<ResourceInfo>,
    read: Read<T>,
    delete: Option<Box<DeleteBody>>,
    verb: PhantomData<fn() -> V>,
}

/// The body of a delete, written when the call is made.
struct DeleteBody {
    options: DeleteOptions,
    /// Of the pod, if it is not to be deleted but evicted.
    evicted: Option<ObjectMeta>,
}

/// How an answer becomes what the call returns.
pub(super) type Read<T> = fn(Answer, &Arc<ResourceInfo>) -> Result<T, Error>;

/// The verbs of a [`Call`]; types only, they have no values.
pub mod verb {
    /// Reading one object.
    #[derive(Debug)]
    pub enum Get {}
    /// Creating or updating an object.
    #[derive(Debug)]
    pub enum Write {}
    /// Patching an object.
    #[derive(Debug)]
    pub enum Patch {}
    /// Applying an object.
    #[derive(Debug)]
    pub enum Apply {}
    /// Deleting one object or many.
    #[derive(Debug)]
    pub enum Delete {}

    /// The verbs that change something.
    pub trait Changes: sealed::Sealed {}
    impl Changes for Write {}
    impl Changes for Patch {}
    impl Changes for Apply {}

    /// The verbs that may take fields away from other managers.
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

/// What a server does with fields that it does not know, or that come twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldValidation {
    /// Drop them silently.
    Ignore,
    /// Drop them and warn. What servers do unless told otherwise.
    Warn,
    /// Refuse the request.
    Strict,
}

/// What happens to the objects that the deleted one owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    /// They stay.
    Orphan,
    /// They are deleted after it.
    Background,
    /// They are deleted before it.
    Foreground,
}

/// What a delete answers.
#[derive(Clone, Debug)]
pub enum Deleted<K> {
    /// The object is on its way out: its grace period runs, or finalizers hold it. This is its state now.
    Terminating(Obj<K>),
    /// The object is gone. The server's word for it.
    Gone(Box<Status>),
}

impl<T, V> Call<T, V> {
    pub(super) fn new(request: Request, info: &Arc<ResourceInfo>, read: Read<T>) -> Self {
        Call { request, info: Arc::clone(info), read, delete: None, verb: PhantomData }
    }

    /// Changes the request in a way that this type has no method for: a parameter, a header, a time limit.
    pub fn with(mut self, change: impl FnOnce(Request) -> Request) -> Self {
        self.request = change(self.request);
        self
    }

    fn query(self, name: &'static str, value: impl Into<String>) -> Self {
        let value: String = value.into();
        self.with(|request| request.query(name, value))
    }

    /// Makes the call and hands out the answer as it came, with its code and headers.
    pub async fn answer(self) -> Result<Answer, Error> {
        let request = match self.delete.map(|body| *body) {
            None => self.request,
            Some(DeleteBody { options, evicted: None }) => self.request.value(&options),
            Some(DeleteBody { options, evicted: Some(metadata) }) => {
                self.request.value(&Eviction { metadata, delete_options: Some(options) })
            }
        };
        request.send().await
    }
}

impl<T> Call<T, verb::Get> {
    /// A state at least as new as this version; `0` takes whatever the server has at hand.
    pub fn not_older_than(self, version: impl Into<String>) -> Self {
        self.query("resourceVersion", version)
    }
}

impl<T, V: verb::Changes> Call<T, V> {
    /// Do everything but store it.
    pub fn dry_run(self) -> Self {
        self.query("dryRun", "All")
    }

    /// Who is said to own the fields that are written; the server derives a name from the user agent otherwise.
    pub fn field_manager(self, name: impl Into<String>) -> Self {
        self.query("fieldManager", name)
    }

    /// What to do with fields that the server does not know.
    pub fn field_validation(self, validation: FieldValidation) -> Self {
        let validation = match validation {
            FieldValidation::Ignore => "Ignore",
            FieldValidation::Warn => "Warn",
            FieldValidation::Strict => "Strict",
        };
        self.query("fieldValidation", validation)
    }
}

impl<T, V: verb::Forces> Call<T, V> {
    /// Take fields away from whoever owns them. For patches of the form [`Patch::apply`](super::Patch::apply).
    pub fn force(self) -> Self {
        self.query("force", "true")
    }
}

impl<T> Call<T, verb::Delete> {
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
        let mut call = Call::new(request, info, read);
        call.delete = Some(Box::new(DeleteBody { options, evicted }));
        call
    }

    fn options(mut self, change: impl FnOnce(&mut DeleteOptions)) -> Self {
        if let Some(body) = &mut self.delete {
            change(&mut body.options);
        }
        self
    }

    /// How long the object may take to end; 0 ends it at once.
    pub fn grace_period(self, seconds: u32) -> Self {
        self.options(|options| options.grace_period_seconds = Some(seconds.into()))
    }

    /// What happens to the objects that it owns.
    pub fn propagation(self, propagation: Propagation) -> Self {
        let policy = match propagation {
            Propagation::Orphan => "Orphan",
            Propagation::Background => "Background",
            Propagation::Foreground => "Foreground",
        };
        self.options(|options| options.propagation_policy = Some(policy.into()))
    }

    /// Only if the object has this uid: not a later one of the same name.
    pub fn only_uid(self, uid: impl Into<String>) -> Self {
        let uid = uid.into();
        self.options(|options| options.preconditions.get_or_insert_default().uid = Some(uid))
    }

    /// Only if the object has this resource version: not if somebody has changed it since.
    pub fn only_version(self, version: impl Into<String>) -> Self {
        let version = version.into();
        self.options(|options| {
            options.preconditions.get_or_insert_default().resource_version = Some(version);
        })
    }

    /// Do everything but delete it.
    pub fn dry_run(self) -> Self {
        self.options(|options| options.dry_run = Some(vec!["All".into()])).with(Request::without_effect)
    }
}

impl<T: 'static, V: 'static> IntoFuture for Call<T, V> {
    type Output = Result<T, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Result<T, Error>> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        let (info, read) = (Arc::clone(&self.info), self.read);
        Box::pin(async move { read(self.answer().await?, &info) })
    }
}

impl<T, V> fmt::Debug for Call<T, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Call").field(&self.request).finish()
    }
}

pub(super) fn read_object<K>(answer: Answer, info: &Arc<ResourceInfo>) -> Result<Obj<K>, Error> {
    answer.object(info)
}

pub(super) fn read_json<T: DeserializeOwned>(answer: Answer, _: &Arc<ResourceInfo>) -> Result<T, Error> {
    answer.json()
}

/// The objects that a server shows when it has deleted a collection; some show none.
pub(super) fn read_collection<K>(answer: Answer, info: &Arc<ResourceInfo>) -> Result<Vec<Obj<K>>, Error> {
    match answer.outcome()? {
        Some(_) => Ok(Vec::new()),
        None => answer.list(info).map(|list| list.items),
    }
}

pub(super) fn read_deleted<K>(answer: Answer, info: &Arc<ResourceInfo>) -> Result<Deleted<K>, Error> {
    match answer.outcome()? {
        Some(status) => Ok(Deleted::Gone(Box::new(status))),
        None => answer.object(info).map(Deleted::Terminating),
    }
}
