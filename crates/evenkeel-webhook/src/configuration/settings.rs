//! What a hook's entry in a configuration says.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use crate::admission::{Hook, HookHandler, Mutating};

/// What happens to a request if the webhook cannot be called or fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum FailurePolicy {
    /// The request is refused.
    #[default]
    Fail,
    /// The request is treated as allowed.
    Ignore,
}

/// The settings of the entry that a hook has in a configuration.
#[derive(Clone, Debug, Default)]
pub(crate) struct EntrySettings {
    pub(crate) name: Option<String>,
    pub(crate) failure_policy: FailurePolicy,
    pub(crate) timeout_seconds: Option<i32>,
    pub(crate) has_side_effects: bool,
    pub(crate) namespace_selector: Option<LabelSelector>,
    pub(crate) object_selector: Option<LabelSelector>,
    pub(crate) is_reinvoked: bool,
    pub(crate) includes_own_namespace: bool,
}

impl<H: HookHandler> Hook<H> {
    /// Sets the name of the webhook in the configuration: a domain name of at least three segments. Default: from path and
    /// Service, such as `mutate--v1-pod.hooks.shop.svc`.
    pub fn name(self, name: impl Into<String>) -> Self {
        self.entry(|entry| entry.name = Some(name.into()))
    }

    /// Sets what happens to a request if the webhook cannot be called or fails. Default: [`FailurePolicy::Fail`].
    pub fn failure_policy(self, policy: FailurePolicy) -> Self {
        self.entry(|entry| entry.failure_policy = policy)
    }

    /// Sets how long API servers wait for the answer: 1 to 30 seconds. Default: 10, the API server's.
    pub fn timeout_seconds(self, seconds: i32) -> Self {
        self.entry(|entry| entry.timeout_seconds = Some(seconds))
    }

    /// States that the hook writes something, though not for a [dry run](crate::AdmissionRequest::is_dry_run). Default: it writes
    /// nothing.
    pub fn side_effects_unless_dry_run(self) -> Self {
        self.entry(|entry| entry.has_side_effects = true)
    }

    /// Restricts the hook to objects in namespaces with these labels.
    pub fn namespace_selector(self, selector: LabelSelector) -> Self {
        self.entry(|entry| entry.namespace_selector = Some(selector))
    }

    /// Restricts the hook to objects with these labels. Clients can avoid it by leaving the labels out.
    pub fn object_selector(self, selector: LabelSelector) -> Self {
        self.entry(|entry| entry.object_selector = Some(selector))
    }

    /// Calls the hook also for objects in the program's own namespace.
    ///
    /// By default, hooks for built-in kinds with [`FailurePolicy::Fail`] are not: a pod of the program could not be created
    /// while no pod of the program answers.
    pub fn including_own_namespace(self) -> Self {
        self.entry(|entry| entry.includes_own_namespace = true)
    }

    fn entry(mut self, change: impl FnOnce(&mut EntrySettings)) -> Self {
        change(&mut self.settings.entry);
        self
    }
}

impl<K> Hook<Mutating<K>>
where
    Mutating<K>: HookHandler,
{
    /// Calls the hook again if a later webhook has changed the object. Default: once.
    pub fn reinvoke_if_needed(self) -> Self {
        self.entry(|entry| entry.is_reinvoked = true)
    }
}
