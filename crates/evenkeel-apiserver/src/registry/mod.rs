//! The served resources, built-in and custom, as data.

mod builtin;
mod deprecation;
mod snapshot;
mod strategy;
#[cfg(test)]
pub(crate) mod tests;

use std::sync::{Arc, OnceLock};

use base64::Engine as _;
use sha2::{Digest, Sha256};

use crate::engine::ConversionWebhook;
use crate::engine::strategies::{CustomResourceHooks, KindHooks};
use crate::schema::Schema;

pub(crate) use builtin::schema_id as builtin_schema_id;
pub(crate) use deprecation::deprecation_warning;
pub(crate) use snapshot::{Group, Registry, Version};

/// One resource in one version: what the URL's group, version and plural select.
#[derive(Debug)]
pub(crate) struct Resource {
    /// Empty for the core group.
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) kind: String,
    pub(crate) list_kind: String,
    pub(crate) plural: String,
    pub(crate) singular: String,
    pub(crate) short_names: Vec<String>,
    pub(crate) categories: Vec<String>,
    pub(crate) namespaced: bool,
    /// In the order in which discovery shows them.
    pub(crate) verbs: Vec<String>,
    pub(crate) subresources: Vec<Subresource>,
    /// The store of the objects. All versions of a resource share it.
    pub(crate) storage: Arc<str>,
    pub(crate) strategy: KindStrategy,
    pub(crate) schema: Option<SchemaHandle>,
    /// Set for resources that a CustomResourceDefinition made.
    pub(crate) custom: Option<Arc<CustomFacts>>,
}

/// A schema that lives as long as the process (built-in) or as long as its definition (custom).
#[derive(Clone, Debug)]
pub(crate) enum SchemaHandle {
    Builtin(BuiltinSchema),
    Custom(Arc<Schema>),
}

/// The schema of a built-in kind, loaded when it is first used.
#[derive(Clone, Debug)]
pub(crate) struct BuiltinSchema {
    id: String,
    schema: OnceLock<Option<&'static Schema>>,
}

impl BuiltinSchema {
    /// `id` is the OpenAPI name, e.g. `io.k8s.api.core.v1.Pod`.
    pub(crate) fn new(id: String) -> Self {
        BuiltinSchema { id, schema: OnceLock::new() }
    }

    pub(crate) fn id(&self) -> &str {
        &self.id
    }
}

/// `pods/log`, `deployments/scale`, …
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Subresource {
    pub(crate) name: String,
    pub(crate) verbs: Vec<String>,
    /// The kind of the response; for `scale` this is `autoscaling/v1 Scale`.
    pub(crate) response_group: String,
    pub(crate) response_version: String,
    pub(crate) response_kind: String,
}

/// The rule that a kind's names follow (OBJ-10).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum NameRule {
    #[default]
    DnsSubdomain,
    DnsLabel,
    Dns1035Label,
    /// Any valid URL path segment.
    PathSegment,
}

/// The strategy of a kind: the data and functions by which it differs from other kinds in the verbs.
#[derive(Clone, Debug)]
pub(crate) struct KindStrategy {
    pub(crate) names: NameRule,
    /// `metadata.generation` counts changes of the specification (SUB-9).
    pub(crate) tracks_generation: bool,
    /// An update may leave out the resource version (UPD-4).
    pub(crate) unconditional_update: bool,
    /// PUT of a missing object creates it (UPD-6).
    pub(crate) create_on_update: bool,
    /// DELETE returns the object rather than a Status (DEL-5).
    pub(crate) delete_returns_object: bool,
    /// A delete orphans dependents by default (DEL-12).
    pub(crate) orphans_by_default: bool,
    /// `status` is written through its own subresource only (SUB-2).
    pub(crate) has_status: bool,
    /// What a write of the status does to the metadata.
    pub(crate) status_metadata: StatusMetadata,
    /// Field selectors besides `metadata.name` and `metadata.namespace` (SEL-3).
    pub(crate) selectable: Vec<SelectableField>,
    /// The error for an unknown field selector (SEL-4).
    pub(crate) unknown_field: UnknownField,
    /// A delete ignores the propagation policy: the objects have no dependents.
    pub(crate) ignores_propagation: bool,
    /// What the kind adds to the verbs.
    pub(crate) hooks: &'static dyn KindHooks,
}

impl Default for KindStrategy {
    /// Returns the strategy of a custom resource without subresources.
    fn default() -> Self {
        KindStrategy {
            names: NameRule::default(),
            tracks_generation: false,
            unconditional_update: false,
            create_on_update: false,
            delete_returns_object: false,
            orphans_by_default: false,
            has_status: false,
            status_metadata: StatusMetadata::Kept,
            selectable: Vec::new(),
            unknown_field: UnknownField::default(),
            ignores_propagation: false,
            hooks: &CustomResourceHooks,
        }
    }
}

/// What a write through `status` does to labels, annotations, finalizers and owner references.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StatusMetadata {
    /// It writes them like any update.
    Written,
    /// It writes all but the labels.
    WrittenButLabels,
    /// It writes all but the owner references.
    WrittenButOwners,
    /// It leaves them as they are.
    Kept,
}

impl StatusMetadata {
    /// Returns the fields of written metadata that are left as they are.
    pub(crate) fn kept_fields(self) -> &'static [&'static str] {
        match self {
            StatusMetadata::Written | StatusMetadata::Kept => &[],
            StatusMetadata::WrittenButLabels => &["labels"],
            StatusMetadata::WrittenButOwners => &["ownerReferences"],
        }
    }
}

/// A field that lists and watches may select on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SelectableField {
    /// As the selector spells it.
    pub(crate) label: String,
    /// The path of the value.
    pub(crate) path: Vec<String>,
}

/// The message for an unknown field selector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum UnknownField {
    /// `"x" is not a known field selector: only "metadata.name", "metadata.namespace"`
    #[default]
    OnlyMetadata,
    /// `field label not supported: x`
    NotSupported,
    /// `field label "x" not supported for Job`
    NotSupportedForKind,
}

/// The properties of one version of a CustomResourceDefinition beyond names and schema.
#[derive(Debug, Default)]
pub(crate) struct CustomFacts {
    /// The name of the CustomResourceDefinition.
    pub(crate) definition: String,
    pub(crate) columns: Vec<PrinterColumn>,
    pub(crate) scale: Option<ScalePaths>,
    /// The Warning of responses while this version is deprecated.
    pub(crate) deprecation_warning: Option<String>,
    /// The version in which objects are stored.
    pub(crate) storage_version: String,
    /// The definition is being deleted and refuses creates.
    pub(crate) terminating: bool,
    /// Changes with the definition: objects with another stamp were written under another schema.
    pub(crate) schema_stamp: u64,
    /// An estimate of the memory of the compiled and the published schema, and of the rules.
    pub(crate) memory: usize,
    /// The rules of the schema, if it has any.
    pub(crate) rules: Option<crate::crd::rules::RuleTree>,
    /// The webhook that converts objects between versions.
    pub(crate) conversion: Option<ConversionWebhook>,
    /// The schema as published, for OpenAPI.
    pub(crate) published_schema: serde_json::Value,
}

/// One of `additionalPrinterColumns`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PrinterColumn {
    pub(crate) name: String,
    /// `string`, `integer`, `number`, `boolean` or `date`.
    pub(crate) kind: String,
    pub(crate) format: String,
    pub(crate) description: String,
    pub(crate) priority: i32,
    pub(crate) json_path: String,
}

/// The fields of a custom resource that a Scale shows (SUB-7), as dotted paths with a leading dot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ScalePaths {
    pub(crate) spec_replicas: String,
    pub(crate) status_replicas: String,
    pub(crate) label_selector: Option<String>,
}

impl Resource {
    /// `v1`, or `apps/v1`.
    pub(crate) fn api_version(&self) -> String {
        group_version(&self.group, &self.version)
    }

    pub(crate) fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|subresource| subresource.name == name)
    }

    /// Returns the schema of the kind, if it has one.
    pub(crate) fn schema(&self) -> Option<&Schema> {
        match self.schema.as_ref()? {
            SchemaHandle::Builtin(builtin) => *builtin.schema.get_or_init(|| Schema::builtin(&builtin.id)),
            SchemaHandle::Custom(schema) => Some(schema),
        }
    }

    /// Returns whether the resource itself has this verb.
    pub(crate) fn has_verb(&self, verb: &str) -> bool {
        self.verbs.iter().any(|known| known == verb)
    }

    /// Returns the value of an absent field for field selectors (SEL-3): Go's zero value, which kube-apiserver prints for
    /// numbers and booleans.
    pub(crate) fn absent_field(&self, label: &str) -> &'static str {
        match (&self.custom, label) {
            (None, "spec.hostNetwork" | "spec.unschedulable") => "false",
            (None, "status.replicas" | "status.successful") => "0",
            _ => "",
        }
    }

    /// Returns group and version in which objects are stored.
    pub(crate) fn storage_version(&self) -> (&str, &str) {
        match &self.custom {
            Some(custom) => (&self.group, &custom.storage_version),
            None => match &*self.storage {
                "events" => ("", "v1"),
                "horizontalpodautoscalers.autoscaling" => ("autoscaling", "v2"),
                _ => (&self.group, &self.version),
            },
        }
    }

    /// Returns a hash of the stored form (DIS-3). Resources with equal hashes share a store. Resources that are not stored
    /// have none.
    pub(crate) fn storage_version_hash(&self) -> Option<String> {
        if self.custom.is_none() && !self.has_verb("update") {
            return None;
        }
        let (group, version) = self.storage_version();
        let digest = Sha256::digest(format!("{group}/{version}/{}", self.kind));
        Some(base64::engine::general_purpose::STANDARD.encode(digest.get(..8)?))
    }
}

/// `v1`, or `apps/v1`.
pub(crate) fn group_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

/// Returns the name of the store of a resource: `pods`, `deployments.apps`. Events of both groups share one.
pub(crate) fn storage_key(group: &str, plural: &str) -> String {
    match (group, plural) {
        ("events.k8s.io", "events") => "events".to_owned(),
        _ => evenkeel_core::status::qualified(group, plural),
    }
}
