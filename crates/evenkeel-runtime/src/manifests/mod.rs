//! The manifests of a program: what a cluster needs to run it, made from code.
//!
//! ```
//! use evenkeel_client::Client;
//! use evenkeel_runtime::Controller;
//! use evenkeel_runtime::manifests::Manifests;
//! use k8s_openapi::api::core::v1::{ConfigMap, Secret};
//!
//! fn controller(client: &Client) -> Controller<ConfigMap> {
//!     Controller::new(client).owns::<Secret>()
//! }
//!
//! let manifests = Manifests::new("mirror")
//!     .image("registry.example.com/mirror:1.0")
//!     .controller(controller)             // get, list and watch of what it watches
//!     .writes::<Secret>(["create", "patch"]) // what its reconcile writes
//!     .election();
//! for file in manifests.files()? {
//!     println!("{}: {} bytes", file.path, file.text.len());
//! }
//! # Ok::<(), evenkeel_runtime::manifests::ManifestsError>(())
//! ```
//!
//! | file | objects |
//! |---|---|
//! | `crds/<group>_<plural>.yaml` | a CustomResourceDefinition |
//! | `namespace.yaml` | the namespace of the program, which enforces the restricted pod standard |
//! | `rbac.yaml` | ServiceAccount, roles and their bindings |
//! | `deployment.yaml` | Deployment, and the Service of secured metrics |
//! | `kustomization.yaml` | the list of the others, for `kubectl apply -k` and overlays |
//!
//! # Guarantees
//! - Equal code gives equal bytes.
//! - The Deployment meets the restricted pod standard: non-root, a read-only root, no capabilities, the default seccomp profile.
//! - [`write`](Manifests::write) touches no file that it has not made, and [`check`](Manifests::check) none at all.
//!
//! # Not guaranteed
//! - That writes are declared. A test with an [`AccessRecorder`](evenkeel_client::access::AccessRecorder) checks
//!   [`rules`](Manifests::rules).

mod command;
mod error;
mod files;
mod line_diff;
mod objects;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use evenkeel_client::Client;
use evenkeel_client::access::RbacRules;
use evenkeel_core::ResourceInfo;
use k8s_openapi::api::core::v1::ResourceRequirements;
use k8s_openapi::api::rbac::v1::PolicyRule;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::controller::{Controller, StaticKind};

pub use self::error::ManifestsError;
pub use self::files::ManifestFile;

/// Describes a program, and makes its manifests. See the [module](self).
#[derive(Clone, Debug)]
#[must_use = "a description does nothing until its files are written or its objects applied"]
pub struct Manifests {
    name: String,
    namespace: String,
    image: String,
    replicas: i32,
    labels: BTreeMap<String, String>,
    environment: BTreeMap<String, String>,
    resources: ResourceRequirements,
    definitions: Vec<CustomResourceDefinition>,
    rules: RbacRules,
    /// Rules in the namespace of the program.
    own_rules: Vec<PolicyRule>,
    has_secured_metrics: bool,
}

impl Manifests {
    /// Describes a program. All its objects have this name; its namespace is `<name>-system` and its image `<name>:latest`, unless
    /// others are set.
    pub fn new(name: impl Into<String>) -> Self {
        let name = name.into();
        let quantity = |kind: &str, amount: &str| (kind.to_owned(), Quantity(amount.to_owned()));
        Manifests {
            namespace: format!("{name}-system"),
            image: format!("{name}:latest"),
            replicas: 1,
            labels: BTreeMap::new(),
            environment: BTreeMap::new(),
            resources: ResourceRequirements {
                requests: Some([quantity("cpu", "10m"), quantity("memory", "64Mi")].into()),
                limits: Some([quantity("memory", "256Mi")].into()),
                ..ResourceRequirements::default()
            },
            definitions: Vec::new(),
            rules: RbacRules::default(),
            own_rules: Vec::new(),
            has_secured_metrics: false,
            name,
        }
    }

    /// Sets the namespace of the program.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = namespace.into();
        self
    }

    /// Sets the image.
    pub fn image(mut self, image: impl Into<String>) -> Self {
        self.image = image.into();
        self
    }

    /// Sets the number of replicas. Default: 1. More than one needs an [election](Self::election).
    pub fn replicas(mut self, replicas: i32) -> Self {
        self.replicas = replicas;
        self
    }

    /// Adds a label to all objects and to the pods. The selector of the Deployment does not have it.
    pub fn label(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(key.into(), value.into());
        self
    }

    /// Sets an environment variable of the program.
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.environment.insert(name.into(), value.into());
        self
    }

    /// Sets requests and limits of the container. Default: requests of `10m` and `64Mi`, a memory limit of `256Mi`.
    pub fn resources(mut self, resources: ResourceRequirements) -> Self {
        self.resources = resources;
        self
    }

    /// Adds a kind: `Foo::crd()`.
    pub fn crd(mut self, definition: CustomResourceDefinition) -> Self {
        self.definitions.push(definition);
        self
    }

    /// Adds a controller, for its [permissions](Controller::permissions). The function gets a client without a server.
    pub fn controller<K: 'static>(self, controller: impl FnOnce(&Client) -> Controller<K>) -> Self {
        let permissions = controller(&Client::disconnected()).permissions();
        self.rules_of(permissions)
    }

    /// Declares that the program writes objects of kind `T`, in all namespaces: verbs such as `create`, `update`, `patch` and
    /// `delete`. An apply is a `patch`, and a `create` as well if the object may not exist.
    pub fn writes<T: StaticKind>(self, verbs: impl IntoIterator<Item = &'static str>) -> Self {
        self.uses(&ResourceInfo::of::<T>(), "", verbs)
    }

    /// Declares that the program writes a subresource of kind `T`, such as `status`, in all namespaces.
    pub fn writes_subresource<T: StaticKind>(
        self,
        subresource: &str,
        verbs: impl IntoIterator<Item = &'static str>,
    ) -> Self {
        self.uses(&ResourceInfo::of::<T>(), subresource, verbs)
    }

    fn uses(self, info: &ResourceInfo, subresource: &str, verbs: impl IntoIterator<Item = &'static str>) -> Self {
        let resource = match subresource {
            "" => info.plural().to_owned(),
            subresource => format!("{}/{subresource}", info.plural()),
        };
        let rule = rule([info.group()], [resource.as_str()], verbs);
        self.rules_of(RbacRules { cluster: vec![rule], ..RbacRules::default() })
    }

    /// Adds rules: what the program needs beyond its controllers and the writes that are declared by kind.
    pub fn rules_of(mut self, rules: RbacRules) -> Self {
        self.rules = self.rules.and(rules);
        self
    }

    /// Declares that the program records events in all namespaces.
    pub fn events(self) -> Self {
        let events = rule(["", "events.k8s.io"], ["events"], ["create", "patch"]);
        self.rules_of(RbacRules { cluster: vec![events], ..RbacRules::default() })
    }

    /// Declares that the program has an election over a Lease of its name, in its namespace.
    pub fn election(mut self) -> Self {
        let leases = |verbs: &[&'static str]| rule(["coordination.k8s.io"], ["leases"], verbs.iter().copied());
        let named = PolicyRule { resource_names: Some(vec![self.name.clone()]), ..leases(&["get", "update"]) };
        self.own_rules.extend([leases(&["create"]), named]);
        self
    }

    /// Declares that the program serves secured metrics on port 8443: the permission to review tokens, a Service, and a
    /// ClusterRole `<name>-metrics-reader` to bind to scrapers.
    pub fn secured_metrics(mut self) -> Self {
        self.has_secured_metrics = true;
        let tokens = rule(["authentication.k8s.io"], ["tokenreviews"], ["create"]);
        let access = rule(["authorization.k8s.io"], ["subjectaccessreviews"], ["create"]);
        self.rules_of(RbacRules { cluster: vec![tokens, access], ..RbacRules::default() })
    }

    /// Returns the rules of the program's roles.
    pub fn rules(&self) -> RbacRules {
        let own = BTreeMap::from([(self.namespace.clone(), self.own_rules.clone())]);
        self.rules.clone().and(RbacRules { namespaces: own, ..RbacRules::default() })
    }
}

fn rule<'a, 'v>(
    groups: impl IntoIterator<Item = &'a str>,
    resources: impl IntoIterator<Item = &'a str>,
    verbs: impl IntoIterator<Item = &'v str>,
) -> PolicyRule {
    PolicyRule {
        api_groups: Some(groups.into_iter().map(str::to_owned).collect()),
        resources: Some(resources.into_iter().map(str::to_owned).collect()),
        verbs: verbs.into_iter().map(str::to_owned).collect(),
        ..PolicyRule::default()
    }
}
