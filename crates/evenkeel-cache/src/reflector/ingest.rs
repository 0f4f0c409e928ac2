//! [`Ingest`]: checks, transforms and packs every object of a list or watch before it is sent to the sink.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use evenkeel_base::planted::{Defect, is_planted};
use evenkeel_core::ResourceInfo;
use evenkeel_core::pack::Packer;
use evenkeel_core::shard::ShardKey;

use super::error::ReflectorError;
use super::sink::DeltaSink;
use crate::delta::Delta;
use crate::source::BoxError;
use crate::{Deleted, Object};

/// Changes objects before they are stored, mostly to drop fields that no reader needs.
///
/// It runs once for each stored state of an object, before any reader sees it. It must keep name and namespace. If it removes uid
/// or resource version, the object is transformed again with every list. A panic is an error of its object.
pub type Transform = Arc<dyn Fn(Object) -> Result<Object, BoxError> + Send + Sync>;

/// What happens to an object that cannot be transformed, in lists and in watches. The error is always reported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnTransformError {
    /// The object stays as it was last stored, or is left out if it was not. Other objects are not affected.
    #[default]
    Skip,
    /// The object is stored untransformed.
    KeepRaw,
    /// The list or watch fails, and the reflector relists with backoff. As long as there is such an object, the store is not up
    /// to date.
    Fail,
}

/// Checks, transforms and packs objects.
pub(super) struct Ingest {
    pub(super) resource: Arc<ResourceInfo>,
    /// Objects may be `PartialObjectMetadata`.
    pub(super) is_metadata_only: bool,
    pub(super) transform: Option<Transform>,
    /// A transform must keep the place by this key, and the version.
    pub(super) kept_key: Option<ShardKey>,
    pub(super) on_transform_error: OnTransformError,
    /// `None` if objects are stored as they were received.
    pub(super) packer: Option<Packer>,
}

/// The outcome for one object: what to store, and what to report. There may be both, one of them, or neither.
#[derive(Debug)]
pub(super) struct Ingested<T> {
    pub(super) accepted: Option<T>,
    pub(super) error: Option<ReflectorError>,
}

impl<T> Ingested<T> {
    fn accepted(value: T) -> Self {
        Ingested { accepted: Some(value), error: None }
    }
}

impl Ingest {
    /// Checks that the object is of the requested kind. Objects without a kind are.
    pub(super) fn check(&self, object: &Object) -> Result<(), ReflectorError> {
        let (kind, version) = (object.kind(), object.api_version());
        if kind == self.resource.kind() && version == self.resource.api_version() {
            return Ok(());
        }
        if self.is_metadata_only && kind == "PartialObjectMetadata" && version.starts_with("meta.k8s.io/") {
            return Ok(());
        }
        Err(self.other_kind(object))
    }

    #[cold]
    fn other_kind(&self, object: &Object) -> ReflectorError {
        ReflectorError::OtherKind {
            key: object.key().clone(),
            expected: format!("{} {}", self.resource.api_version(), self.resource.kind()),
            found: format!("{} {}", object.api_version(), object.kind()),
        }
    }

    /// Prepares an object of a list, which has been [checked](Self::check). An object whose state is stored already is the stored one.
    ///
    /// # Errors
    /// If the policy is [`OnTransformError::Fail`] and the transform failed.
    pub(super) fn listed(&mut self, object: Object, sink: &dyn DeltaSink) -> Result<Ingested<Object>, ReflectorError> {
        let known = sink.known(object.key());
        match known {
            Some(known) if known.is_same_state_as(&object) => Ok(Ingested::accepted(known)),
            Some(_) if is_planted(Defect::TransformOnAddOnly) => {
                Ok(Ingested::accepted(self.detach(object, Some(sink))))
            }
            Some(known)
                if is_planted(Defect::VersionsAsText) && known.resource_version() >= object.resource_version() =>
            {
                Ok(Ingested::accepted(known))
            }
            known => {
                let mut ingested = self.object(object, Some(sink))?;
                ingested.accepted = ingested.accepted.or(known);
                Ok(ingested)
            }
        }
    }

    /// Prepares the object of a delta, which has been [checked](Self::check).
    ///
    /// # Errors
    /// If the policy is [`OnTransformError::Fail`] and the transform failed.
    pub(super) fn delta(&mut self, delta: Delta, sink: &dyn DeltaSink) -> Result<Ingested<Delta>, ReflectorError> {
        let (object, rebuild): (Object, fn(Object) -> Delta) = match delta {
            Delta::Added(object) => (object, Delta::Added),
            Delta::Updated(object) if is_planted(Defect::TransformOnAddOnly) => {
                return Ok(Ingested::accepted(Delta::Updated(self.detach(object, Some(sink)))));
            }
            Delta::Updated(object) => (object, Delta::Updated),
            Delta::Deleted(Deleted::Observed(object)) => {
                let key = self.transform.is_some().then(|| object.key().clone());
                let Ingested { accepted, error } = self.object(object, None)?;
                // The object is deleted whatever its last state was. Deletes of unknown objects are ignored.
                let last = accepted.or_else(|| sink.known(&key?));
                return Ok(Ingested { accepted: last.map(|object| Delta::Deleted(object.into())), error });
            }
            other => return Ok(Ingested::accepted(other)),
        };
        let Ingested { accepted, error } = self.object(object, Some(sink))?;
        Ok(Ingested { accepted: accepted.map(rebuild), error })
    }

    /// Transforms and packs an object. A `sink` that will store it prepares it in between.
    fn object(&mut self, object: Object, sink: Option<&dyn DeltaSink>) -> Result<Ingested<Object>, ReflectorError> {
        let Some(transform) = &self.transform else { return Ok(Ingested::accepted(self.detach(object, sink))) };
        let raw = (self.on_transform_error == OnTransformError::KeepRaw).then(|| object.clone());
        match apply(transform, object, self.kept_key) {
            Ok(transformed) => {
                // If the transform returned its argument, this makes it the only reference.
                drop(raw);
                Ok(Ingested::accepted(self.detach(transformed, sink)))
            }
            Err(error) if self.on_transform_error == OnTransformError::Fail => Err(error),
            Err(error) => Ok(Ingested { accepted: raw.map(|raw| self.detach(raw, sink)), error: Some(error) }),
        }
    }

    /// Returns the object as it is stored: it must not retain the chunk that it was read from.
    fn detach(&mut self, object: Object, sink: Option<&dyn DeltaSink>) -> Object {
        match &mut self.packer {
            Some(packer) => {
                if let Some(sink) = sink {
                    sink.prepare(&object);
                }
                packer.pack(object)
            }
            None => object.into_detached(),
        }
    }
}

/// Applies a transform to an object, which must keep its place by a key.
pub(crate) fn apply(
    transform: &Transform,
    object: Object,
    kept_key: Option<ShardKey>,
) -> Result<Object, ReflectorError> {
    let key = object.key().clone();
    let place_of = |object: &Object, by: ShardKey| (by.place_of(object.header()), object.header().version());
    let place = kept_key.map(|by| place_of(&object, by));
    // A transform that panics is contained: its object is one that cannot be transformed.
    let transformed = match catch_unwind(AssertUnwindSafe(|| transform(object))) {
        Ok(Ok(transformed)) => transformed,
        Ok(Err(source)) => return Err(ReflectorError::Transform { key, source }),
        Err(panic) => {
            let message = crate::panic_message(&*panic).to_owned();
            return Err(ReflectorError::TransformPanicked { key, message });
        }
    };
    if *transformed.key() != key {
        return Err(ReflectorError::TransformChangedKey { key, became: transformed.key().clone() });
    }
    if kept_key.map(|by| place_of(&transformed, by)) != place {
        return Err(ReflectorError::TransformChangedPlace { key });
    }
    Ok(transformed)
}
