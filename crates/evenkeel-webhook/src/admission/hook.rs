//! [`Hook`]: what is called for the reviews of one kind, on one path.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use evenkeel_core::ResourceInfo;
use kube_core::Resource;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::mutating::Mutating;
use super::request::AdmissionRequest;
use super::validating::Validating;
use super::verdict::{HookError, HookErrorKind, Verdict};
use crate::configuration::EntrySettings;
use crate::path;

/// An admission hook: the kind it is for, the path it is served on, and the functions that decide.
///
/// ```
/// use evenkeel_webhook::{Hook, Verdict};
/// use k8s_openapi::api::apps::v1::Deployment;
///
/// // Served on /validate-apps-v1-deployment.
/// let replicas = Hook::validating::<Deployment>().on_create(|deployment, _| async move {
///     match deployment.spec.replicas {
///         Some(replicas) if replicas > 100 => Err("spec.replicas is limited to 100".into()),
///         _ => Ok(()),
///     }
/// });
///
/// // Served on /mutate-apps-v1-deployment.
/// let labels = Hook::mutating::<Deployment>().apply(|deployment, request| {
///     let user = request.user().username.clone().unwrap_or_default();
///     deployment.metadata.annotations.get_or_insert_default().insert("example.com/by".into(), user);
///     Ok(())
/// });
/// # drop((replicas, labels));
/// ```
#[must_use = "a hook does nothing until a server serves it"]
pub struct Hook<H> {
    pub(crate) settings: HookSettings,
    pub(crate) handler: H,
}

/// A hook of any kind.
pub(crate) type ErasedHook = Hook<Box<dyn HookHandler>>;

/// What a hook is called for, and where.
#[derive(Clone, Debug)]
pub(crate) struct HookSettings {
    /// The kind that objects are decoded as.
    pub(crate) object: ResourceInfo,
    /// The resource of the requests: that of the kind, or the one whose subresource has the kind.
    pub(crate) resource: ResourceInfo,
    /// Whether it is called for the resource itself.
    pub(crate) takes_main: bool,
    pub(crate) subresources: Vec<String>,
    pub(crate) path: String,
    /// Its entry in a configuration.
    pub(crate) entry: EntrySettings,
}

/// Whether a hook may change objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookKind {
    Mutating,
    Validating,
}

/// The functions of a hook: [`Mutating`] or [`Validating`].
pub trait HookHandler: Send + Sync + 'static {
    #[doc(hidden)]
    fn kind(&self) -> HookKind;

    /// Returns the operations that the hook has to be called for.
    #[doc(hidden)]
    fn operations(&self) -> Vec<&'static str>;

    #[doc(hidden)]
    fn review<'a>(&'a self, request: &'a AdmissionRequest) -> ReviewFuture<'a>;
}

/// The review of a request.
pub(super) type ReviewFuture<'a> = Pin<Box<dyn Future<Output = Result<Reviewed, ReviewFault>> + Send + 'a>>;

/// The result of a review.
#[derive(Debug)]
pub struct Reviewed {
    pub(crate) verdict: Verdict,
    /// A JSON patch.
    pub(crate) patch: Option<Vec<u8>>,
}

impl From<Verdict> for Reviewed {
    fn from(verdict: Verdict) -> Self {
        Reviewed { verdict, patch: None }
    }
}

/// Why a hook has not decided.
#[derive(Clone, Debug)]
pub struct ReviewFault {
    /// The HTTP status code of the answer.
    pub(crate) code: u16,
    pub(crate) message: String,
}

impl ReviewFault {
    /// The request is none that the hook can be asked.
    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        ReviewFault { code: 400, message: message.into() }
    }

    /// The hook failed.
    pub(crate) fn internal(message: impl fmt::Display) -> Self {
        ReviewFault { code: 500, message: message.to_string() }
    }

    /// There is no object where the operation has one.
    pub(crate) fn no_content() -> Self {
        Self::bad_request("there is no content to decode")
    }

    pub(crate) fn unknown_operation(request: &AdmissionRequest) -> Self {
        Self::bad_request(format!("unknown operation {:?}", request.operation().as_str()))
    }
}

/// Separates refusals from faults.
pub(super) fn verdict_of(returned: Result<Verdict, HookError>) -> Result<Verdict, ReviewFault> {
    match returned {
        Ok(verdict) => Ok(verdict),
        Err(HookError(HookErrorKind::Refusal(verdict))) => Ok(verdict),
        Err(HookError(HookErrorKind::Fault(error))) => Err(ReviewFault::internal(error)),
    }
}

impl Hook<()> {
    /// Returns a hook that checks objects of this kind.
    pub fn validating<K>() -> Hook<Validating<K>>
    where
        K: Resource + DeserializeOwned + Send + Sync + 'static,
        K::DynamicType: Default,
    {
        Hook::of(resource_of::<K>(), Validating::default())
    }

    /// Returns a hook that changes objects of this kind before they are validated and stored.
    pub fn mutating<K>() -> Hook<Mutating<K>>
    where
        K: Resource + Clone + PartialEq + Serialize + DeserializeOwned + Send + Sync + 'static,
        K::DynamicType: Default,
    {
        Hook::of(resource_of::<K>(), Mutating::default())
    }

    /// Returns a hook that checks objects of a kind without a Rust type, as JSON.
    pub fn validating_json(resource: ResourceInfo) -> Hook<Validating<Value>> {
        Hook::of(resource, Validating::default())
    }

    /// Returns a hook that changes objects of a kind without a Rust type, as JSON.
    pub fn mutating_json(resource: ResourceInfo) -> Hook<Mutating<Value>> {
        Hook::of(resource, Mutating::default())
    }
}

/// Returns the names of a kind. Its scope is not used: kinds of subresources such as `Scale` have none.
fn resource_of<K: Resource<DynamicType: Default>>() -> ResourceInfo {
    ResourceInfo::describe::<K>(&K::DynamicType::default(), true)
}

impl<H: HookHandler> Hook<H> {
    fn of(resource: ResourceInfo, handler: H) -> Self {
        let path = path::of_kind(handler.kind(), &resource);
        let object = resource.clone();
        let settings = HookSettings {
            object,
            resource,
            takes_main: true,
            subresources: Vec::new(),
            path,
            entry: EntrySettings::default(),
        };
        Hook { settings, handler }
    }

    /// Sets the path. Default: from the kind, such as `/validate-apps-v1-deployment` or `/mutate--v1-pod`.
    ///
    /// Each segment has to be a DNS subdomain, because API servers accept no other in a configuration. The server checks it.
    pub fn path(mut self, path: impl Into<String>) -> Self {
        self.settings.path = path.into();
        self
    }

    /// Also takes reviews of this subresource, whose objects have the same kind, such as `status`. Default: none.
    pub fn subresource(mut self, name: impl Into<String>) -> Self {
        self.settings.subresources.push(name.into());
        self
    }

    /// Takes only reviews of this subresource of `R`, whose objects have the kind of the hook: a hook for `Scale` is for the
    /// subresource `scale` of `Deployment`.
    pub fn subresource_of<R>(mut self, name: impl Into<String>) -> Self
    where
        R: Resource,
        R::DynamicType: Default,
    {
        self.settings.resource = resource_of::<R>();
        self.settings.takes_main = false;
        self.settings.subresources = vec![name.into()];
        self
    }

    pub(crate) fn erase(self) -> ErasedHook {
        Hook { settings: self.settings, handler: Box::new(self.handler) }
    }
}

impl<H> Hook<H> {
    pub(super) fn map(self, change: impl FnOnce(&mut H)) -> Self {
        let mut hook = self;
        change(&mut hook.handler);
        hook
    }
}

impl HookHandler for Box<dyn HookHandler> {
    fn kind(&self) -> HookKind {
        (**self).kind()
    }

    fn operations(&self) -> Vec<&'static str> {
        (**self).operations()
    }

    fn review<'a>(&'a self, request: &'a AdmissionRequest) -> ReviewFuture<'a> {
        (**self).review(request)
    }
}

impl ErasedHook {
    /// Returns the name of the hook in errors and logs.
    pub(crate) fn describe(&self) -> String {
        let kind = match self.handler.kind() {
            HookKind::Mutating => "mutating",
            HookKind::Validating => "validating",
        };
        format!("{kind} hook for {}", self.settings.describe())
    }

    /// Reviews a request, if it is for this hook.
    pub(crate) fn review<'a>(&'a self, request: &'a AdmissionRequest) -> ReviewFuture<'a> {
        match self.settings.check(request) {
            Ok(()) => self.handler.review(request),
            Err(fault) => Box::pin(std::future::ready(Err(fault))),
        }
    }
}

impl HookSettings {
    fn describe(&self) -> String {
        let mut text = format!("{} {}", self.object.api_version(), self.object.kind());
        if !self.subresources.is_empty() {
            let main = if self.takes_main { "and the subresources" } else { "as the subresource" };
            text = format!("{text} {main} {} of {}", self.subresources.join(", "), self.resource.plural());
        }
        text
    }

    /// Returns an error for a request of another kind or subresource: its object would be decoded as the wrong type.
    fn check(&self, request: &AdmissionRequest) -> Result<(), ReviewFault> {
        let kind = request.kind();
        let is_kind = kind.kind == self.object.kind()
            && kind.version == self.object.version()
            && kind.group == self.object.group();
        let is_connect = *request.operation() == super::Operation::Connect;
        let is_taken = match request.subresource() {
            None => self.takes_main,
            Some(name) => self.subresources.iter().any(|taken| taken == name),
        };
        if is_taken && (is_kind || is_connect) {
            return Ok(());
        }
        let subresource = request.subresource().map(|name| format!(", the subresource {name:?}")).unwrap_or_default();
        Err(ReviewFault::bad_request(format!(
            "the hook is for {}, and the review is of {} {}{subresource}; add the subresource to the hook or correct the rules of the webhook",
            self.describe(),
            kind.api_version(),
            kind.kind,
        )))
    }
}

impl<H> fmt::Debug for Hook<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hook")
            .field("path", &self.settings.path)
            .field("for", &self.settings.describe())
            .finish_non_exhaustive()
    }
}
