//! [`Ingest`]: what every object goes through on its way into the store, whether a list brings it or a watch.

use std::sync::Arc;

use evenkeel_core::pack::Packer;
use evenkeel_core::{ObjectKey, ResourceInfo};

use super::error::ReflectorError;
use crate::Object;
use crate::source::BoxError;

/// Changes objects before they are stored: drops what nobody reads, above all.
///
/// It is run once for each state of an object that is stored, before anybody sees it. It must not change which object it is:
/// name and namespace stay. What it leaves of uid and resource version is what the store knows of them; without those, the
/// object is transformed again whenever a list brings it.
pub type Transform = Arc<dyn Fn(Object) -> Result<Object, BoxError> + Send + Sync>;

/// What happens to an object that cannot be transformed. It is the same in lists and in watches, and it is always reported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnTransformError {
    /// The object stays as it was last stored; if it was not, it is left out. Others are not affected.
    #[default]
    Skip,
    /// The object is stored as it came.
    KeepRaw,
    /// The list or the watch fails, and all objects are asked for again, after a wait: as long as there is such an object,
    /// the copy is not up to date.
    Fail,
}

/// What every object goes through.
pub(super) struct Ingest {
    pub(super) resource: Arc<ResourceInfo>,
    /// Objects may be their metadata only.
    pub(super) is_metadata_only: bool,
    pub(super) transform: Option<Transform>,
    pub(super) on_transform_error: OnTransformError,
    /// Unless objects are to rest as they came.
    pub(super) packer: Option<Packer>,
}

/// What came of an object.
#[derive(Debug)]
pub(super) enum Taken {
    /// It can be stored.
    Object(Object),
    /// It can be stored, though something is wrong with it.
    Raw(Object, ReflectorError),
    /// It cannot; what was stored before stays.
    Stale(ReflectorError),
    /// It does not belong here at all.
    Stranger(ReflectorError),
    /// It cannot, and nothing can be made of the rest without it.
    Fail(ReflectorError),
}

impl Ingest {
    /// Whether the object is one of those that were asked for. Those that do not say are.
    pub(super) fn check(&self, object: &Object) -> Result<(), ReflectorError> {
        let (kind, version) = (object.kind(), object.api_version());
        if kind == self.resource.kind() && version == self.resource.api_version() {
            return Ok(());
        }
        if self.is_metadata_only && kind == "PartialObjectMetadata" && version.starts_with("meta.k8s.io/") {
            return Ok(());
        }
        Err(self.stranger(object))
    }

    #[cold]
    fn stranger(&self, object: &Object) -> ReflectorError {
        ReflectorError::OtherKind {
            key: object.key().clone(),
            expected: format!("{} {}", self.resource.api_version(), self.resource.kind()),
            found: format!("{} {}", object.api_version(), object.kind()),
        }
    }

    /// Takes an object of a list. One whose state is known already is the known one.
    pub(super) fn listed(&mut self, object: Object, known: impl FnOnce(&ObjectKey) -> Option<Object>) -> Taken {
        if let Err(stranger) = self.check(&object) {
            return Taken::Stranger(stranger);
        }
        match known(object.key()) {
            Some(known) if known.is_same_state_as(&object) => Taken::Object(known),
            _ => self.changed(object),
        }
    }

    /// Takes an object that has changed, which has been [checked](Self::check).
    pub(super) fn changed(&mut self, object: Object) -> Taken {
        let Some(transform) = &self.transform else { return Taken::Object(self.lay_down(object)) };
        let raw = (self.on_transform_error == OnTransformError::KeepRaw).then(|| object.clone());
        match (apply(transform, object), raw) {
            (Ok(transformed), raw) => {
                // If it is what the transform has left alone, it is to be the only one.
                drop(raw);
                Taken::Object(self.lay_down(transformed))
            }
            (Err(error), Some(raw)) => Taken::Raw(self.lay_down(raw), error),
            (Err(error), None) if self.on_transform_error == OnTransformError::Fail => Taken::Fail(error),
            (Err(error), None) => Taken::Stale(error),
        }
    }

    /// The object as it is to lie in the store: it must not keep the chunk that it came in.
    fn lay_down(&mut self, object: Object) -> Object {
        match &mut self.packer {
            Some(packer) => packer.pack(object),
            None => object.into_detached(),
        }
    }
}

fn apply(transform: &Transform, object: Object) -> Result<Object, ReflectorError> {
    let key = object.key().clone();
    let transformed = match transform(object) {
        Ok(transformed) => transformed,
        Err(source) => return Err(ReflectorError::Transform { key, source }),
    };
    if *transformed.key() != key {
        return Err(ReflectorError::TransformChangedKey { key, became: transformed.key().clone() });
    }
    Ok(transformed)
}
