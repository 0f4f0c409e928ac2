//! The permissions that a controller needs, from its sources.

use std::sync::Arc;

use evenkeel_client::access::RbacRules;
use evenkeel_core::ResourceInfo;
use k8s_openapi::api::rbac::v1::PolicyRule;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

use super::Controller;

/// The verbs of an informer, and of a reconcile that reads past it.
const READ: [&str; 3] = ["get", "list", "watch"];

/// A kind that a controller watches.
pub(super) struct WatchedResource {
    pub(super) resource: Arc<ResourceInfo>,
    /// Whether its objects are owned by objects of the controller's kind.
    pub(super) is_owned: bool,
    /// Whether the source waits for the CustomResourceDefinition.
    pub(super) is_awaited: bool,
}

impl<K: 'static> Controller<K> {
    /// Returns the rules that the controller needs for what it watches: `get`, `list` and `watch` of its own kind and of each
    /// source, within its [namespace](Self::namespace) if it has one.
    ///
    /// If it owns objects, also `update` of `finalizers` of its own kind, which clusters that protect owner references require
    /// (the admission plugin `OwnerReferencesPermissionEnforcement`, as in OpenShift). If it waits for a kind to be
    /// [installed](super::Source::when_installed), also `list` and `watch` of CustomResourceDefinitions. If it is
    /// [sharded](Self::sharded), also the Leases in the namespace of its ring. What the reconcile writes is not known here. Namespaces
    /// of shared informers are not considered: the rules are those for all namespaces.
    ///
    /// ```
    /// use evenkeel_client::Client;
    /// use evenkeel_runtime::Controller;
    /// use k8s_openapi::api::core::v1::{ConfigMap, Secret};
    ///
    /// let controller = Controller::<ConfigMap>::new(&Client::disconnected()).reads::<Secret>().namespace("web");
    /// let rules = controller.permissions();
    /// assert_eq!(rules.namespaces["web"][0].resources, Some(vec!["configmaps".to_owned(), "secrets".to_owned()]));
    /// assert_eq!(rules.namespaces["web"][0].verbs, ["get", "list", "watch"]);
    /// ```
    pub fn permissions(&self) -> RbacRules {
        let mut rules = RbacRules::default();
        let mut grant = |resource: &ResourceInfo, subresource: &str, verbs: &[&str]| {
            let namespace =
                Some(&self.scope.namespace).filter(|namespace| !namespace.is_empty() && resource.namespaced());
            let rule = PolicyRule {
                api_groups: Some(vec![resource.group().to_owned()]),
                resources: Some(vec![format!("{}{subresource}", resource.plural())]),
                verbs: verbs.iter().map(|verb| (*verb).to_owned()).collect(),
                ..PolicyRule::default()
            };
            match namespace {
                Some(namespace) => rules.namespaces.entry(namespace.clone()).or_default().push(rule),
                None => rules.cluster.push(rule),
            }
        };
        grant(&self.owner, "", &READ);
        self.watched.iter().for_each(|watched| grant(&watched.resource, "", &READ));
        if self.watched.iter().any(|watched| watched.is_owned) {
            grant(&self.owner, "/finalizers", &["update"]);
        }
        if self.primary.watched().is_awaited || self.watched.iter().any(|watched| watched.is_awaited) {
            grant(&ResourceInfo::of::<CustomResourceDefinition>(), "", &["list", "watch"]);
        }
        if let Some(ring) = &self.ring {
            let rule = PolicyRule {
                api_groups: Some(vec!["coordination.k8s.io".to_owned()]),
                resources: Some(vec!["leases".to_owned()]),
                verbs: READ.into_iter().chain(["create", "update", "delete"]).map(str::to_owned).collect(),
                ..PolicyRule::default()
            };
            rules.namespaces.entry(ring.ring().lease_namespace().to_owned()).or_default().push(rule);
        }
        rules.merged()
    }
}
