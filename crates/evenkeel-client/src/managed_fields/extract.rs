//! [`Partial::extract`]: the fields that a manager applied.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use evenkeel_core::Obj;
use evenkeel_core::merge_rules::MergeType;
use kube_core::GroupVersion;
use serde_json::{Map, Value};
use tokio::time::Instant;

use super::entries::{ManagedObject, is_leaf, is_of};
use super::schema::FieldType;
use super::{Extracted, ManagedFieldsError};
use crate::api::Partial;
use crate::client::Client;
use crate::error::Error;

impl<K> Partial<K> {
    /// Returns the fields of an object that a manager owns by an apply, with the object's kind, API version, name and
    /// namespace. Change them and apply them again: nothing that the manager owns is lost.
    ///
    /// A manager that owns nothing has the identity of the object alone.
    ///
    /// ```
    /// # async fn example(client: evenkeel_client::Client) -> Result<(), evenkeel_client::Error> {
    /// use evenkeel_client::{Partial, apply};
    /// use k8s_openapi::api::apps::v1::Deployment;
    ///
    /// let deployments = client.apps_v1().deployments("default");
    /// let web = deployments.get("web").await?;
    /// let ours = Partial::extract(&web, "my-operator")?;
    /// let more = ours.with(apply!(Deployment { spec: { replicas: 5 } }));
    /// deployments.apply("web", "my-operator", &more).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The object has no managed fields, for example because a cache dropped them: applying the result would remove all fields
    /// of the manager. Or they cannot be read; or the kind is not built in, which needs an [`Extractor`].
    pub fn extract(object: &Obj<K>, manager: &str) -> Extracted<K> {
        Self::extract_subresource(object, manager, "")
    }

    /// Returns the fields that a manager owns by an apply to a subresource, such as `status`; see [`extract`](Self::extract).
    pub fn extract_subresource(object: &Obj<K>, manager: &str, subresource: &str) -> Extracted<K> {
        let types = built_in(object).ok_or_else(|| ManagedFieldsError::UnknownSchema {
            api_version: object.api_version().to_owned(),
            kind: object.kind().to_owned(),
        })?;
        extract_as(object, manager, subresource, types)
    }
}

fn built_in<K>(object: &Obj<K>) -> Option<FieldType<'static>> {
    MergeType::of_kind(object.api_version(), object.kind()).map(FieldType::BuiltIn)
}

/// Extracts the fields of managers from objects of all kinds: like [`Partial::extract`], with the schemas of custom resources
/// from the server.
///
/// A schema is read when it is first needed, and again after a minute. Clones share it.
///
/// ```
/// # async fn example(
/// #     client: evenkeel_client::Client,
/// #     foo: evenkeel_core::Obj<evenkeel_client::Unstructured>,
/// # ) -> Result<(), evenkeel_client::Error> {
/// use evenkeel_client::managed_fields::Extractor;
///
/// let extractor = Extractor::new(&client);
/// let ours = extractor.extract(&foo, "my-operator", "").await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Extractor {
    client: Client,
    documents: Arc<Mutex<HashMap<String, ReadDocument>>>,
}

struct ReadDocument {
    document: Arc<Value>,
    read_at: Instant,
}

impl Extractor {
    /// How long a schema is used.
    const LIFETIME: Duration = Duration::from_secs(60);
    /// The maximal number of API versions whose schemas are kept.
    const MAX_DOCUMENTS: usize = 64;

    /// Returns an extractor that reads schemas with this client.
    pub fn new(client: &Client) -> Self {
        Extractor { client: client.clone(), documents: Arc::default() }
    }

    /// Returns the fields of an object that a manager owns by an apply; to a subresource unless that is empty.
    ///
    /// # Errors
    /// Those of [`Partial::extract`]; or the schema cannot be read.
    pub async fn extract<K>(&self, object: &Obj<K>, manager: &str, subresource: &str) -> Result<Partial<K>, Error> {
        if let Some(types) = built_in(object) {
            return Ok(extract_as(object, manager, subresource, types)?);
        }
        let (group, version) = object.api_version().split_once('/').unwrap_or(("", object.api_version()));
        let document = self.document(group, version).await?;
        let types = FieldType::in_document(&document, group, version, object.kind());
        let types = types.ok_or_else(|| ManagedFieldsError::UnknownSchema {
            api_version: object.api_version().to_owned(),
            kind: object.kind().to_owned(),
        })?;
        Ok(extract_as(object, manager, subresource, types)?)
    }

    async fn document(&self, group: &str, version: &str) -> Result<Arc<Value>, Error> {
        let group_version = GroupVersion::gv(group, version);
        let key = group_version.api_version();
        let now = Instant::now();
        if let Some(known) = self.documents().get(&key).filter(|known| now - known.read_at < Self::LIFETIME) {
            return Ok(Arc::clone(&known.document));
        }
        let document = Arc::new(self.client.openapi().schema_value(&group_version).await?);
        let mut documents = self.documents();
        if documents.len() >= Self::MAX_DOCUMENTS {
            documents.clear();
        }
        documents.insert(key, ReadDocument { document: Arc::clone(&document), read_at: now });
        Ok(document)
    }

    fn documents(&self) -> std::sync::MutexGuard<'_, HashMap<String, ReadDocument>> {
        self.documents.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Extractor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Extractor").field("documents", &self.documents().len()).finish_non_exhaustive()
    }
}

fn extract_as<K>(object: &Obj<K>, manager: &str, subresource: &str, types: FieldType<'_>) -> Extracted<K> {
    let managed = ManagedObject::of(object)?;
    let entry = managed.entries()?.iter().find(|entry| is_of(entry, manager, "Apply", subresource));
    let mut extracted = match entry {
        None => Map::new(),
        Some(entry) => match owned(&managed.value, managed.fields(entry)?, types) {
            Value::Object(members) => members,
            _ => Map::new(),
        },
    };
    extracted.insert("apiVersion".to_owned(), object.api_version().into());
    extracted.insert("kind".to_owned(), object.kind().into());
    let metadata = extracted.entry("metadata").or_insert_with(|| Map::new().into());
    if let Some(metadata) = metadata.as_object_mut() {
        metadata.insert("name".to_owned(), object.key().name().into());
        if let Some(namespace) = object.key().namespace() {
            metadata.insert("namespace".to_owned(), namespace.into());
        }
    }
    Ok(Partial::of_value(extracted.into()))
}

/// Returns the parts of a value that are owned. Values that do not exist any more, and elements of an unknown kind, are left out.
fn owned(value: &Value, fields: &Map<String, Value>, types: FieldType<'_>) -> Value {
    match value {
        Value::Object(members) => {
            let named = fields.iter().filter_map(|(element, below)| {
                let name = element.strip_prefix("f:")?;
                let (value, types) = (members.get(name)?, types.field(name));
                Some((name.to_owned(), owned_at(value, below.as_object()?, types)))
            });
            Value::Object(named.collect())
        }
        Value::Array(items) => {
            let elements: Vec<_> = fields.iter().filter_map(|(name, below)| ListElement::read(name, below)).collect();
            let kept = items.iter().enumerate().filter_map(|(position, item)| {
                // An exact match first: an item may lack a key that has a default.
                let exact = elements.iter().find(|element| element.matches(position, item, false));
                let element =
                    exact.or_else(|| elements.iter().find(|element| element.matches(position, item, true)))?;
                let mut part = owned_at(item, element.below, types.items());
                if let (ItemId::Keys(keys), Some(part)) = (&element.id, part.as_object_mut()) {
                    // Without its keys an item would be another one. A key with its default is the same without.
                    let present = keys.keys().filter_map(|key| Some((key, item.get(key)?)));
                    let needed = present.filter(|(key, value)| !types.items().is_default(key, value));
                    part.extend(needed.map(|(key, value)| (key.clone(), value.clone())));
                }
                Some(part)
            });
            Value::Array(kept.collect())
        }
        other => other.clone(),
    }
}

/// Returns the owned parts of a value at a path of which these elements below are owned.
fn owned_at(value: &Value, below: &Map<String, Value>, types: FieldType<'_>) -> Value {
    match value {
        _ if !is_leaf(below) => owned(value, below, types),
        // The manager owns the map or list and none of its contents.
        Value::Object(_) if !types.is_atomic(value) => Value::Object(Map::new()),
        Value::Array(_) if !types.is_atomic(value) => Value::Array(Vec::new()),
        _ => value.clone(),
    }
}

/// An element of a list, and what is owned below it.
struct ListElement<'a> {
    id: ItemId,
    below: &'a Map<String, Value>,
}

enum ItemId {
    /// `k:{"name":"x"}`
    Keys(Map<String, Value>),
    /// `v:"x"`
    Value(Value),
    /// `i:0`
    Position(usize),
}

impl<'a> ListElement<'a> {
    fn read(element: &str, below: &'a Value) -> Option<Self> {
        let (kind, rest) = element.split_once(':')?;
        let id = match kind {
            "k" => ItemId::Keys(serde_json::from_str(rest).ok()?),
            "v" => ItemId::Value(serde_json::from_str(rest).ok()?),
            "i" => ItemId::Position(rest.parse().ok()?),
            _ => return None,
        };
        Some(ListElement { id, below: below.as_object()? })
    }

    fn matches(&self, position: usize, item: &Value, lenient: bool) -> bool {
        match &self.id {
            ItemId::Keys(keys) => {
                let shared = || keys.iter().any(|(key, _)| item.get(key).is_some());
                let equal = keys.iter().all(|(key, value)| item.get(key).map_or(lenient, |own| own == value));
                equal && shared()
            }
            ItemId::Value(value) => value == item,
            ItemId::Position(at) => *at == position,
        }
    }
}
