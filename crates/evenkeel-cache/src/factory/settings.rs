//! [`Settings`]: the options of all informers of a factory, and of single kinds.

use std::collections::HashMap;
use std::sync::Arc;

use evenkeel_client::api::scope::Any;
use evenkeel_client::{Api, Client, Wire};
use evenkeel_core::status::qualified;
use evenkeel_core::{ResourceInfo, Untyped};

use super::kind_options::{KindOptions, Selection};
use super::registry::Key;
use crate::SharedInformer;
use crate::source::ApiSource;

/// The options of all informers of a factory, and of single kinds.
#[derive(Debug, Default)]
pub(super) struct Settings {
    pub(super) name: Option<String>,
    pub(super) all: KindOptions<Untyped>,
    kinds: HashMap<Key, KindOptions<Untyped>>,
}

impl Settings {
    /// Changes the options of one kind.
    pub(super) fn configure<K: 'static>(&mut self, key: Key, configure: impl FnOnce(KindOptions<K>) -> KindOptions<K>) {
        let options = self.kinds.remove(&key).unwrap_or_default();
        self.kinds.insert(key, configure(options.cast()).cast());
    }

    /// Returns the options of an informer.
    fn options(&self, key: &Key) -> KindOptions<Untyped> {
        self.kinds.get(key).cloned().unwrap_or_default().or(&self.all)
    }

    /// Returns the namespace, label selector and field selector of an informer.
    pub(super) fn selection(&self, key: &Key) -> (Option<String>, Option<String>, Option<String>) {
        let selection = self.options(key).selection;
        (selection.namespace, selection.labels, selection.fields)
    }

    /// Returns a new informer.
    pub(super) fn informer(&self, client: &Client, key: &Key, info: &Arc<ResourceInfo>) -> SharedInformer<Untyped> {
        let (options, selection) = self.options(key).split();
        let Selection { namespace, labels, fields, wire } = selection;
        let mut api = Api::<Untyped, Any>::of(client, info);
        if let Some(namespace) = &namespace {
            api = api.namespace(namespace);
        }
        // Kinds that are only known at run time are JSON, as with `Client::dynamic`.
        let own = matches!(key, Key::Dynamic(_)).then_some(Wire::Json);
        if let Some(wire) = wire.or(own) {
            api = api.wire(wire);
        }
        let (labels, fields) = (labels.unwrap_or_default(), fields.unwrap_or_default());
        let name = options.settings.name.clone().unwrap_or_else(|| self.name_of(key, info));
        match key {
            Key::Typed(_) | Key::Dynamic(_) => {
                SharedInformer::with_source(ApiSource::new(api).labels(labels).fields(fields), info, options, name)
            }
            Key::Metadata(_) => {
                let source = ApiSource::new(api.metadata()).labels(labels).fields(fields);
                SharedInformer::with_source(source, info, options, name)
            }
        }
    }

    /// Returns the name of an informer: `deployments.apps`, after the name of the factory if it has one.
    fn name_of(&self, key: &Key, info: &ResourceInfo) -> String {
        let mut name = qualified(info.group(), info.plural());
        if matches!(key, Key::Metadata(_)) {
            name.push_str(" (metadata)");
        }
        match &self.name {
            Some(factory) => format!("{factory}/{name}"),
            None => name,
        }
    }
}
