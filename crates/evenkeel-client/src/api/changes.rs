//! [`Changes`]: the difference between an object that was read and a changed value of it, as a patch.

use std::fmt;

use evenkeel_core::Obj;
use evenkeel_core::difference::{ListPatch, json_patch, overlay};
use evenkeel_core::merge_rules::MergeType;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::difference::{merge_difference, strategic_difference};
use super::patch::Patch;
use crate::error::Error;
use crate::rest::RequestError;

/// The difference between an object that was read and a changed value of it. Made by [`Patch::merge_from`],
/// [`Patch::strategic_from`] and [`Patch::json_from`], sent by [`Api::patch_changes`](super::Api::patch_changes).
///
/// The patch is bound to the version that was read (optimistic lock): if the object has changed since, the server returns a
/// conflict. [`unlocked`](Self::unlocked) removes that. Without a difference there is no patch, and no request.
///
/// Fields that the type does not have are never changed. They are in the patch only if they are in an item of a list that was
/// changed, because a merge patch replaces lists as a whole.
pub struct Changes<K> {
    before: Obj<K>,
    media: PatchMedia,
    /// The difference without the lock.
    difference: Option<Value>,
    locked: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PatchMedia {
    Merge,
    Strategic,
    Json,
}

/// The result of [`Api::patch_changes`](super::Api::patch_changes), with the object as the server stores it.
#[derive(Clone)]
pub enum Patched<K> {
    /// The object was patched.
    Updated(Obj<K>),
    /// There was no difference; nothing was sent. The object as it was read.
    Unchanged(Obj<K>),
}

impl<K> Patched<K> {
    /// Returns the object.
    pub fn object(&self) -> &Obj<K> {
        match self {
            Patched::Updated(object) | Patched::Unchanged(object) => object,
        }
    }

    /// Returns whether something was written.
    pub fn is_changed(&self) -> bool {
        matches!(self, Patched::Updated(_))
    }
}

impl<K> fmt::Debug for Patched<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = if self.is_changed() { "Updated" } else { "Unchanged" };
        f.debug_tuple(name).field(self.object()).finish()
    }
}

impl Patch {
    /// Computes the merge patch from an object that was read to a changed value of it, bound to the version that was read.
    ///
    /// What is missing afterwards is `null`; lists are replaced as a whole. See [`Changes`].
    ///
    /// ```
    /// # async fn example(client: evenkeel_client::Client) -> Result<(), evenkeel_client::Error> {
    /// use evenkeel_client::{Patch, Patched};
    /// use k8s_openapi::api::apps::v1::Deployment;
    ///
    /// let deployments = client.apps_v1().deployments("default");
    /// let before = deployments.get("web").await?;
    /// let mut after = Deployment::clone(&*before.typed()?);
    /// after.spec.replicas = Some(3);
    /// match deployments.patch_changes(&Patch::merge_from(&before, &after)?).await? {
    ///     Patched::Updated(web) => println!("{} has version {}", web.key(), web.resource_version()),
    ///     Patched::Unchanged(web) => println!("{} had three replicas", web.key()),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The object does not fit `K`, or the value cannot be encoded. If the object was read without a resource version, sending
    /// the patch is an error unless it is [`unlocked`](Changes::unlocked).
    pub fn merge_from<K>(before: &Obj<K>, after: &K) -> Result<Changes<K>, Error>
    where
        K: Serialize + DeserializeOwned + Send + Sync + 'static,
    {
        Changes::new(before, after, PatchMedia::Merge, merge_difference)
    }

    /// Computes the strategic merge patch from an object that was read to a changed value of it, bound to the version that was
    /// read: like [`merge_from`](Self::merge_from), but lists with keys are merged item by item, so that changes of other
    /// clients to other items are kept.
    ///
    /// # Errors
    /// Those of `merge_from`; and the kind is a custom resource, for which servers have no strategic merge patches.
    pub fn strategic_from<K>(before: &Obj<K>, after: &K) -> Result<Changes<K>, Error>
    where
        K: Serialize + DeserializeOwned + Send + Sync + 'static,
    {
        let (api_version, kind) = (before.api_version(), before.kind());
        let types = MergeType::of_kind(api_version, kind).ok_or_else(|| RequestError::Invalid {
            problem: format!(
                "{kind} of {api_version} has no strategic merge patch, which built-in kinds alone have: use `Patch::merge_from`"
            ),
        })?;
        Changes::new(before, after, PatchMedia::Strategic, |before, after| strategic_difference(before, after, types))
    }
}

impl Patch {
    /// Computes the JSON patch from an object that was read to a changed value of it, bound to the version that was read: like
    /// [`merge_from`](Self::merge_from), for servers and policies that need single operations, and for fields whose value is
    /// null. Lists are replaced as a whole.
    ///
    /// If the object has changed so that an operation cannot be applied, such as the removal of what is not there any more, the
    /// server returns an invalid request instead of a conflict.
    ///
    /// # Errors
    /// Those of `merge_from`.
    pub fn json_from<K>(before: &Obj<K>, after: &K) -> Result<Changes<K>, Error>
    where
        K: Serialize + DeserializeOwned + Send + Sync + 'static,
    {
        // Whole lists: if the patch is not bound to a version, an index may name another element by then.
        Changes::new(before, after, PatchMedia::Json, |before, after| {
            let operations = json_patch(before, after, ListPatch::Whole);
            (!operations.is_empty()).then(|| json!(operations))
        })
    }
}

impl<K> Changes<K> {
    fn new(
        before: &Obj<K>,
        after: &K,
        media: PatchMedia,
        difference: impl FnOnce(&Value, &Value) -> Option<Value>,
    ) -> Result<Self, Error>
    where
        K: Serialize + DeserializeOwned + Send + Sync + 'static,
    {
        let raw = raw_value(before)?;
        let wanted = wanted_value(&raw, &*before.typed()?, after)?;
        Ok(Changes { before: before.clone(), media, difference: difference(&raw, &wanted), locked: true })
    }

    /// Removes the lock: the patch is applied to whatever version the server has.
    pub fn unlocked(mut self) -> Self {
        self.locked = false;
        self
    }

    /// Returns whether there is no difference.
    pub fn is_empty(&self) -> bool {
        self.difference.is_none()
    }

    /// Returns the object that was read.
    pub fn before(&self) -> &Obj<K> {
        &self.before
    }

    /// Returns the patch; `None` if there is no difference.
    pub fn patch(&self) -> Option<Patch> {
        let mut patch = self.difference.clone()?;
        if self.locked {
            match self.before.resource_version() {
                "" => {
                    let problem = format!(
                        "{:?} has no resource version to which the patch could be bound: call `unlocked`",
                        self.before
                    );
                    return Some(Patch::invalid(RequestError::Invalid { problem }));
                }
                version => lock(&mut patch, version),
            }
        }
        Some(match self.media {
            PatchMedia::Merge => Patch::merge(&patch),
            PatchMedia::Strategic => Patch::strategic(&patch),
            PatchMedia::Json => Patch::json(&patch),
        })
    }
}

/// Shows the object and whether it changed, never the content.
impl<K> fmt::Debug for Changes<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Changes")
            .field("before", &self.before)
            .field("media", &self.media)
            .field("is_empty", &self.is_empty())
            .field("locked", &self.locked)
            .finish_non_exhaustive()
    }
}

/// Returns the JSON of an object as it was read, with fields that its type does not have.
pub(super) fn raw_value<K>(object: &Obj<K>) -> Result<Value, Error> {
    serde_json::from_slice(&object.json()?).map_err(|error| encode_error::<K>(&error))
}

/// Returns the JSON of an object that was read, with the change from one typed value to the other. The resource version
/// never changes.
pub(super) fn wanted_value<K: Serialize>(raw: &Value, before: &K, after: &K) -> Result<Value, Error> {
    let typed = |value: &K| serde_json::to_value(value).map_err(|error| encode_error::<K>(&error));
    let mut wanted = raw.clone();
    overlay(&mut wanted, &typed(before)?, typed(after)?);
    let version = raw.get("metadata").and_then(|metadata| metadata.get("resourceVersion"));
    match (wanted.get_mut("metadata").and_then(Value::as_object_mut), version) {
        (Some(metadata), Some(version)) => _ = metadata.insert("resourceVersion".to_owned(), version.clone()),
        (Some(metadata), None) => _ = metadata.remove("resourceVersion"),
        (None, _) => {}
    }
    Ok(wanted)
}

/// Binds a patch to a version. In a JSON patch that is a replacement: a `test` would make another version an invalid request
/// instead of a conflict.
pub(super) fn lock(patch: &mut Value, version: &str) {
    if let Some(operations) = patch.as_array_mut() {
        operations.push(json!({"op": "replace", "path": "/metadata/resourceVersion", "value": version}));
    }
    if let Some(members) = patch.as_object_mut() {
        let metadata = members.entry("metadata").or_insert_with(|| Map::new().into());
        if let Some(metadata) = metadata.as_object_mut() {
            metadata.insert("resourceVersion".to_owned(), version.into());
        }
    }
}

fn encode_error<K>(error: &serde_json::Error) -> Error {
    RequestError::Body { what: std::any::type_name::<K>().to_owned(), problem: error.to_string() }.into()
}
