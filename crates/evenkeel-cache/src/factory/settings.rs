//! [`Settings`]: the options of all informers of a factory, and of single kinds.

use std::collections::HashMap;
use std::sync::Arc;

use evenkeel_client::api::scope::Any;
use evenkeel_client::{Api, Client, Wire};
use evenkeel_core::status::qualified;
use evenkeel_core::{FieldOperator, FieldSelector, FieldTerm, LabelSelector, ResourceInfo, Untyped};

use super::invalid_source::InvalidSource;
use super::kind_options::{KindOptions, Selection};
use super::registry::{InformerScope, Key};
use crate::informer::{InformerOptions, InformerShards};
use crate::namespaces::Scope;
use crate::source::{ApiSource, ListerWatcher};
use crate::transform::drop_paths;
use crate::{NamespaceSet, SharedInformer};

/// The options of all informers of a factory, and of single kinds.
#[derive(Clone, Debug, Default)]
pub(super) struct Settings {
    pub(super) name: Option<String>,
    pub(super) all: KindOptions<Untyped>,
    /// The namespaces of all informers, except those of a namespace of their own.
    pub(super) namespaces: Option<NamespaceSet>,
    /// The label selector that determines them.
    pub(super) labelled: Option<String>,
    pub(super) kinds: HashMap<Key, KindOptions<Untyped>>,
    /// The settings of the factory that this one narrows.
    pub(super) widest: Option<Arc<Settings>>,
}

impl Settings {
    /// Changes the options of one kind.
    pub(super) fn configure<K: 'static>(&mut self, key: Key, configure: impl FnOnce(KindOptions<K>) -> KindOptions<K>) {
        let options = self.kinds.remove(&key).unwrap_or_default();
        self.kinds.insert(key, configure(options.cast()).cast());
    }

    /// Returns the options that are set for a kind: those of exactly this key, or of the kind as it was served when they were set.
    fn own(&self, key: &Key) -> Option<&KindOptions<Untyped>> {
        let of_kind = || self.kinds.iter().find(|(own, _)| own.configures(key)).map(|(_, options)| options);
        self.kinds.get(key).or_else(of_kind)
    }

    /// Returns the options of an informer.
    pub(super) fn options(&self, key: &Key) -> KindOptions<Untyped> {
        self.own(key).cloned().unwrap_or_default().or(&self.all)
    }

    /// Returns the objects that an informer lists, with selectors in one form, and the set of namespaces unless the informer has one
    /// of its own.
    pub(super) fn scope(&self, key: &Key, namespaced: bool) -> (InformerScope, Option<&NamespaceSet>) {
        let options = self.options(key);
        let shards = options.settings.shards.as_ref().map(InformerShards::identity);
        let (Selection { namespace, labels, fields, query, .. }, set) = self.placed(options.selection);
        let (labels, fields) = (labels.unwrap_or_default(), fields.unwrap_or_default());
        let scope = InformerScope {
            namespace: namespace.filter(|_| namespaced).unwrap_or_default(),
            // An invalid selector stays as it is: the informer reports it.
            labels: LabelSelector::parse(&labels).map_or(labels, |parsed| parsed.to_string()),
            fields: FieldSelector::parse(&fields).map_or(fields, |parsed| parsed.to_string()),
            query: query.unwrap_or_default(),
            shards,
        };
        (scope, set)
    }

    /// Finds the namespace of an informer.
    fn placed(&self, mut selection: Selection) -> (Selection, Option<&NamespaceSet>) {
        // A role in that namespace suffices then.
        let selected = || selection.fields.as_deref().and_then(selected_namespace);
        selection.namespace = selection.namespace.take().or_else(selected);
        let set = self.namespaces.as_ref().filter(|_| selection.namespace.is_none());
        (selection, set)
    }

    /// Returns a new informer.
    pub(super) fn informer(&self, client: &Client, key: &Key, info: &Arc<ResourceInfo>) -> SharedInformer<Untyped> {
        let (options, selection) = self.options(key).split();
        let (Selection { namespace, labels, fields, query, wire }, set) = self.placed(selection);
        let mut api = Api::<Untyped, Any>::of(client, info);
        if let Some(namespace) = &namespace {
            api = api.namespace(namespace);
        }
        // Kinds that are only known at run time are JSON, as with `Client::dynamic`.
        let own = matches!(key, Key::Dynamic(_) | Key::Definitions).then_some(Wire::Json);
        if let Some(wire) = wire.or(own) {
            api = api.wire(wire);
        }
        let has_set = set.is_some() && info.namespaced();
        if let Some(problem) = self.contradiction(key, info, has_set.then_some(&options)) {
            let name = options.settings.name.clone().unwrap_or_else(|| self.name_of(key, info));
            let mut options = options;
            // One without places would sync.
            options.settings.shards = None;
            return SharedInformer::with_source(Arc::new(InvalidSource { problem }), info, options, name);
        }
        let (labels, fields) = (labels.unwrap_or_default(), fields.unwrap_or_default());
        let query = query.unwrap_or_default();
        let mut name = options.settings.name.clone().unwrap_or_else(|| self.name_of(key, info));
        if let Some(widest) = &self.widest {
            name += &narrowed_by(&widest.scope(key, info.namespaced()).0, &self.scope(key, info.namespaced()).0);
        }
        let is_metadata = matches!(key, Key::Metadata(_) | Key::LabelledNamespaces);
        let source = move |api: Api<Untyped, Any>, fields: String| -> Arc<dyn ListerWatcher> {
            match is_metadata {
                true => Arc::new(ApiSource::new(api.metadata()).labels(&labels).fields(fields).query(query.clone())),
                false => Arc::new(ApiSource::new(api).labels(&labels).fields(fields).query(query.clone())),
            }
        };
        let Some(set) = set.filter(|_| info.namespaced()) else {
            return SharedInformer::with_source(source(api, fields), info, options, name);
        };
        let source_of = move |scope: &Scope| {
            let terms = [fields.clone(), scope.field_selector()];
            let fields = terms.into_iter().filter(|terms| !terms.is_empty()).collect::<Vec<_>>().join(",");
            source(api.clone().namespace(scope.namespace()), fields)
        };
        SharedInformer::with_namespaces(set, source_of, info, options, name)
    }

    /// Returns why the options of a kind cannot be used.
    ///
    /// `of_set` are the options of an informer of several namespaces.
    fn contradiction(
        &self,
        key: &Key,
        info: &ResourceInfo,
        of_set: Option<&InformerOptions<Untyped>>,
    ) -> Option<String> {
        if let Some(InformerShards::Scope(..)) = of_set.and_then(|options| options.settings.shards.as_ref()) {
            let kind = qualified(info.group(), info.plural());
            return Some(format!("the informer of {kind} has several namespaces and a scope of places; remove one"));
        }
        let namespace = self.own(key)?.selection.namespace.as_deref().filter(|namespace| !namespace.is_empty())?;
        let kind = qualified(info.group(), info.plural());
        let problem =
            || format!("{kind} have no namespace, but their options select namespace {namespace:?}; remove it");
        (!info.namespaced()).then(problem)
    }

    /// Returns the informer of the Namespaces with these labels.
    pub(super) fn labelled_namespaces(&self, client: &Client, selector: &str) -> SharedInformer<Untyped> {
        let info = Arc::new(ResourceInfo::new("", "v1", "Namespace", "namespaces", false));
        let all = KindOptions::default().labels(selector);
        let own = Settings { name: self.name.clone(), all, ..Settings::default() };
        own.informer(client, &Key::LabelledNamespaces, &info)
    }

    /// Returns the informer of all CustomResourceDefinitions, without their schemas.
    pub(super) fn definitions(&self, client: &Client) -> SharedInformer<Untyped> {
        let (group, plural) = ("apiextensions.k8s.io", "customresourcedefinitions");
        let info = Arc::new(ResourceInfo::new(group, "v1", "CustomResourceDefinition", plural, false));
        let mut all = KindOptions::default();
        // Schemas are most of a definition, and decide nothing here.
        if let Ok(lighter) = drop_paths(["metadata.managedFields", "metadata.annotations", "spec.versions[*].schema"]) {
            all = all.transform(lighter);
        }
        let own = Settings { name: self.name.clone(), all, ..Settings::default() };
        own.informer(client, &Key::Definitions, &info)
    }

    /// Returns the name of an informer: `deployments.apps`, after the name of the factory if it has one.
    fn name_of(&self, key: &Key, info: &ResourceInfo) -> String {
        let mut name = qualified(info.group(), info.plural());
        match key {
            Key::Typed(_) | Key::Served(..) | Key::Dynamic(_) => {}
            Key::Metadata(_) => name.push_str(" (metadata)"),
            Key::LabelledNamespaces => name.push_str(" (labelled)"),
            Key::Definitions => name.push_str(" (installed)"),
        }
        match &self.name {
            Some(factory) => format!("{factory}/{name}"),
            None => name,
        }
    }
}

/// Describes what a factory that narrows another one adds to the scope of an informer, for the informer's name.
fn narrowed_by(widest: &InformerScope, scope: &InformerScope) -> String {
    let parts = [
        ("namespace", &widest.namespace, &scope.namespace),
        ("labels", &widest.labels, &scope.labels),
        ("fields", &widest.fields, &scope.fields),
    ];
    let mut parts: Vec<_> = parts
        .into_iter()
        .filter(|(_, wide, narrow)| wide != narrow)
        .map(|(what, _, narrow)| format!("{what} {narrow}"))
        .collect();
    if widest.shards != scope.shards {
        parts.push("sharded".to_owned());
    }
    if parts.is_empty() { String::new() } else { format!(" ({})", parts.join(", ")) }
}

/// Returns the namespace that a field selector selects, if it selects one.
fn selected_namespace(fields: &str) -> Option<String> {
    let selector = FieldSelector::parse(fields).ok()?;
    let is_namespace = |term: &&FieldTerm| {
        term.field == "metadata.namespace" && term.operator == FieldOperator::Equals && !term.value.is_empty()
    };
    selector.terms().iter().find(is_namespace).map(|term| term.value.clone())
}
