//! [`KindSettings`]: what is said of the informers of a factory, or of one of them.

use std::collections::HashMap;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_client::api::scope::Any;
use evenkeel_client::{Api, Client, Wire};
use evenkeel_core::status::qualified;
use evenkeel_core::{Obj, ResourceInfo, Untyped};

use super::registry::Key;
use crate::informer::InformerBuilder;
use crate::reflector::Transform;
use crate::source::{ApiSource, BoxError};
use crate::{Object, SharedInformer};

/// What is said of the informer of one kind. What is not said is as for all informers of the factory.
#[must_use = "nothing is said until this is given back"]
pub struct KindSettings<K> {
    said: Said,
    kind: PhantomData<fn() -> K>,
}

impl<K: 'static> KindSettings<K> {
    /// How often handlers that do not say otherwise are told of all objects again; zero for never.
    pub fn resync(mut self, period: Duration) -> Self {
        self.said.resync = Some(period);
        self
    }

    /// Only objects in this namespace; empty for all of them. A kind that lives in no namespace is not affected.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.said.namespace = Some(namespace.into());
        self
    }

    /// Only objects whose labels match: a text such as `app=web`, or a [`LabelSelector`](evenkeel_core::LabelSelector).
    pub fn labels(mut self, selector: impl ToString) -> Self {
        self.said.labels = Some(selector.to_string());
        self
    }

    /// Only objects whose fields match: a text such as `spec.nodeName=n1`, or a
    /// [`FieldSelector`](evenkeel_core::FieldSelector).
    pub fn fields(mut self, selector: impl ToString) -> Self {
        self.said.fields = Some(selector.to_string());
        self
    }

    /// The form that objects have on their way, whatever the client says. See [`ApiSource::wire`].
    pub fn wire(mut self, wire: Wire) -> Self {
        self.said.wire = Some(wire);
        self
    }

    /// Changes objects before they are stored, instead of the transform for all informers. See
    /// [`InformerBuilder::transform`].
    pub fn transform(mut self, transform: impl Fn(Obj<K>) -> Result<Obj<K>, BoxError> + Send + Sync + 'static) -> Self {
        self.said.transform = Some(Arc::new(move |object: Object| transform(object.cast()).map(Obj::cast)));
        self
    }

    /// Anything else that can be said of an informer before it begins, such as its indexes. This is called whenever an
    /// informer of the kind is made, after everything else has been said.
    pub fn informer(
        mut self,
        change: impl Fn(InformerBuilder<K>) -> InformerBuilder<K> + Send + Sync + 'static,
    ) -> Self {
        self.said.changes.push(Arc::new(move |builder: InformerBuilder<Untyped>| change(builder.cast()).cast()));
        self
    }
}

impl<K> fmt::Debug for KindSettings<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KindSettings").field("said", &self.said).finish()
    }
}

type Change = Arc<dyn Fn(InformerBuilder<Untyped>) -> InformerBuilder<Untyped> + Send + Sync>;

/// What was said, of all informers or of one.
#[derive(Clone, Default)]
pub(super) struct Said {
    pub(super) resync: Option<Duration>,
    pub(super) namespace: Option<String>,
    pub(super) labels: Option<String>,
    pub(super) fields: Option<String>,
    pub(super) wire: Option<Wire>,
    pub(super) transform: Option<Transform>,
    changes: Vec<Change>,
}

impl fmt::Debug for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Said")
            .field("resync", &self.resync)
            .field("namespace", &self.namespace)
            .field("labels", &self.labels)
            .field("fields", &self.fields)
            .field("wire", &self.wire)
            .finish_non_exhaustive()
    }
}

/// Everything that a factory was told.
#[derive(Debug, Default)]
pub(super) struct Settings {
    pub(super) name: Option<String>,
    pub(super) all: Said,
    kinds: HashMap<Key, Said>,
}

impl Settings {
    /// Says something of one informer, on top of what was said before.
    pub(super) fn configure<K>(&mut self, key: Key, say: impl FnOnce(KindSettings<K>) -> KindSettings<K>) {
        let said = self.kinds.remove(&key).unwrap_or_default();
        self.kinds.insert(key, say(KindSettings { said, kind: PhantomData }).said);
    }

    /// Returns the namespace, label selector and field selector of an informer.
    pub(super) fn selection(&self, key: &Key) -> (Option<&str>, Option<&str>, Option<&str>) {
        let (one, all) = (self.kinds.get(key), &self.all);
        let own = |option: fn(&Said) -> &Option<String>| {
            one.and_then(|one| option(one).as_deref()).or_else(|| option(all).as_deref())
        };
        (own(|said| &said.namespace), own(|said| &said.labels), own(|said| &said.fields))
    }

    /// Makes an informer.
    pub(super) fn informer(&self, client: &Client, key: &Key, info: &Arc<ResourceInfo>) -> SharedInformer<Untyped> {
        let nothing = Said::default();
        let (one, all) = (self.kinds.get(key).unwrap_or(&nothing), &self.all);
        let mut api = Api::<Untyped, Any>::of(client, info);
        if let Some(namespace) = one.namespace.as_ref().or(all.namespace.as_ref()) {
            api = api.namespace(namespace);
        }
        // Of a kind that is only known now everything is wanted, as `Client::dynamic` gives it.
        let own = matches!(key, Key::Dynamic(_)).then_some(Wire::Json);
        if let Some(wire) = one.wire.or(all.wire).or(own) {
            api = api.wire(wire);
        }
        let labels = one.labels.as_ref().or(all.labels.as_ref()).map_or("", String::as_str);
        let fields = one.fields.as_ref().or(all.fields.as_ref()).map_or("", String::as_str);
        let builder = match key {
            Key::Typed(_) | Key::Dynamic(_) => {
                SharedInformer::builder(ApiSource::new(api).labels(labels).fields(fields), info)
            }
            Key::Metadata(_) => {
                SharedInformer::builder(ApiSource::new(api.metadata()).labels(labels).fields(fields), info)
            }
        };
        let mut builder = builder.name(self.name_of(key, info)).resync(one.resync.or(all.resync).unwrap_or_default());
        if let Some(transform) = one.transform.as_ref().or(all.transform.as_ref()) {
            let transform = Arc::clone(transform);
            builder = builder.transform(move |object| transform(object));
        }
        one.changes.iter().fold(builder, |builder, change| change(builder)).build()
    }

    /// What an informer is called: `deployments.apps`, after the name of the factory if it has one.
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
