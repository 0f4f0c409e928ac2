//! [`Conversion`]: the converters of one kind.

use std::collections::BTreeMap;
use std::error::Error as StdError;
use std::fmt;

use kube_core::Resource;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::lost_fields::{self, Step};
use crate::admission::{DecodeObjectError, decode};

pub(super) type BoxError = Box<dyn StdError + Send + Sync>;
type ToHub<H> = Box<dyn Fn(&[u8]) -> Result<H, BoxError> + Send + Sync>;
type FromHub<H> = Box<dyn Fn(H) -> Result<Value, BoxError> + Send + Sync>;
type Reencode = Box<dyn Fn(&[u8]) -> Result<Value, BoxError> + Send + Sync>;

/// The converters of one kind: between each version and the hub. Versions that are not the hub are converted to each other
/// through it.
///
/// Converters have to carry over `metadata`; API servers take labels and annotations from the result and everything else from
/// the original.
///
/// API servers also convert parts of objects, for server-side apply in another version than the last. Fields of `spec` that may be
/// missing then need a default, such as `#[serde(default)]`. A part without `spec` becomes one without `spec`.
///
/// ```
/// use evenkeel_webhook::{Conversion, WebhookServer};
/// # use k8s_openapi::api::autoscaling::{v1, v2};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let autoscalers = Conversion::hub::<v2::HorizontalPodAutoscaler>(&["v1", "v2"]).spoke::<v1::HorizontalPodAutoscaler>(
///     |old| Ok(v2::HorizontalPodAutoscaler { metadata: old.metadata, ..Default::default() }),
///     |new| Ok(v1::HorizontalPodAutoscaler { metadata: new.metadata, ..Default::default() }),
/// );
/// let server = WebhookServer::builder().conversion(autoscalers).build()?; // served on /convert
/// # drop(server);
/// # Ok(())
/// # }
/// ```
#[must_use = "a conversion does nothing until a server serves it"]
pub struct Conversion<H> {
    group: String,
    kind: String,
    #[cfg(feature = "certificates")]
    plural: String,
    hub: String,
    /// The versions of the kind.
    versions: Vec<String>,
    spokes: Vec<Spoke<H>>,
    to_hub: ToHub<H>,
    from_hub: FromHub<H>,
    keeps_lost_fields: bool,
}

struct Spoke<H> {
    group: String,
    kind: String,
    version: String,
    to_hub: ToHub<H>,
    from_hub: FromHub<H>,
    /// Decodes an object of the version and encodes it again.
    reencode: Reencode,
}

/// Why a conversion cannot be served.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConversionError {
    /// The versions of the kind and its converters differ.
    #[error("{kind}: expected spoke converter for {} got spoke converter for {}", .expected.join(","), .found.join(","))]
    Versions {
        /// Group and kind.
        kind: String,
        /// The versions without the hub, sorted.
        expected: Vec<String>,
        /// The versions of the converters, sorted; a version twice if it has two.
        found: Vec<String>,
    },
    /// A converter is for another kind.
    #[error("{kind}: the converter for {foreign} is for another kind")]
    OtherKind {
        /// Group and kind of the hub.
        kind: String,
        /// Group, version and kind of the converter.
        foreign: String,
    },
    /// The kind has conversions already.
    #[error("{kind} has conversions already")]
    Duplicate {
        /// Group and kind.
        kind: String,
    },
}

impl Conversion<()> {
    /// Returns the conversions of the kind of `H`, the hub. `versions` are all versions of its CustomResourceDefinition.
    pub fn hub<H>(versions: &[&str]) -> Conversion<H>
    where
        H: Resource + Serialize + DeserializeOwned + 'static,
        H::DynamicType: Default,
    {
        let names = H::DynamicType::default();
        Conversion {
            group: H::group(&names).into(),
            kind: H::kind(&names).into(),
            #[cfg(feature = "certificates")]
            plural: H::plural(&names).into(),
            hub: H::version(&names).into(),
            versions: versions.iter().map(|version| (*version).to_owned()).collect(),
            spokes: Vec::new(),
            to_hub: Box::new(|json| Ok(decode::<H>("object", json)?)),
            from_hub: Box::new(|hub| Ok(serde_json::to_value(hub)?)),
            keeps_lost_fields: false,
        }
    }
}

impl<H: 'static> Conversion<H> {
    /// Adds the converters of another version: to the hub, and from it. An error fails the whole request of the API server.
    pub fn spoke<S>(
        mut self,
        to_hub: impl Fn(S) -> Result<H, BoxError> + Send + Sync + 'static,
        from_hub: impl Fn(H) -> Result<S, BoxError> + Send + Sync + 'static,
    ) -> Self
    where
        S: Resource + Serialize + DeserializeOwned + 'static,
        S::DynamicType: Default,
    {
        let names = S::DynamicType::default();
        self.spokes.push(Spoke {
            group: S::group(&names).into(),
            kind: S::kind(&names).into(),
            version: S::version(&names).into(),
            to_hub: Box::new(move |json| to_hub(decode("object", json)?)),
            from_hub: Box::new(move |hub| Ok(serde_json::to_value(from_hub(hub)?)?)),
            reencode: Box::new(|json| Ok(serde_json::to_value(decode::<S>("object", json)?)?)),
        });
        self
    }

    /// Keeps what a version has no field for: in one annotation, `<group>/conversion-data`, from which it comes back.
    ///
    /// Each object is converted there and back. Members of the object, such as `spec`, that would not come back as they were are
    /// stored in the annotation of the converted object. When that is converted back, changes that were made to it in the
    /// meantime are laid over what was stored, also in the elements of lists. An object that loses nothing gets no annotation, and
    /// one that was damaged is ignored.
    ///
    /// This costs up to five conversions instead of one. API servers limit the annotations of an object to 256 KiB.
    pub fn keep_lost_fields(mut self) -> Self {
        self.keeps_lost_fields = true;
        self
    }

    /// Converts between a version and the hub, and keeps what is lost.
    fn convert_keeping(&self, object: Value, spoke: &Spoke<H>, is_to_hub: bool) -> Result<Value, BoxError> {
        let to_hub = |object: &Value| (self.from_hub)((spoke.to_hub)(&serde_json::to_vec(object)?)?);
        let from_hub = |hub: &Value| (spoke.from_hub)((self.to_hub)(&serde_json::to_vec(hub)?)?);
        let of_spoke = |object: &Value| (spoke.reencode)(&serde_json::to_vec(object)?);
        let of_hub = |hub: &Value| (self.from_hub)((self.to_hub)(&serde_json::to_vec(hub)?)?);
        let annotation = lost_fields::annotation(&self.group);
        let step = if is_to_hub {
            Step { from: &spoke.version, to: &self.hub, there: &to_hub, back: &from_hub, reencode: &of_spoke }
        } else {
            Step { from: &self.hub, to: &spoke.version, there: &from_hub, back: &to_hub, reencode: &of_hub }
        };
        step.convert(object, &annotation)
    }
}

impl<H> Conversion<H> {
    /// Checks that every version but the hub has exactly one converter.
    pub(crate) fn check(&self) -> Result<(), ConversionError> {
        let kind = self.name();
        if let Some(spoke) = self.spokes.iter().find(|spoke| (&spoke.group, &spoke.kind) != (&self.group, &self.kind)) {
            let foreign = format!("{}/{} {}", spoke.group, spoke.version, spoke.kind);
            return Err(ConversionError::OtherKind { kind, foreign });
        }
        let mut expected: Vec<_> = self.versions.iter().filter(|version| **version != self.hub).cloned().collect();
        let mut found: Vec<_> = self.spokes.iter().map(|spoke| spoke.version.clone()).collect();
        expected.sort();
        found.sort();
        if expected == found { Ok(()) } else { Err(ConversionError::Versions { kind, expected, found }) }
    }

    /// Returns group and kind, such as `foos.example.com` is for a resource: `Foo.example.com`.
    pub(super) fn name(&self) -> String {
        format!("{}.{}", self.kind, self.group)
    }

    fn spoke_of(&self, version: &str) -> Option<&Spoke<H>> {
        self.spokes.iter().find(|spoke| spoke.version == version)
    }
}

/// Converts objects of one kind.
pub(crate) trait KindConverter: Send + Sync {
    /// Converts the JSON of an object from one version to another.
    fn convert(&self, object: &[u8], from: &str, to: &str) -> Result<Value, BoxError>;

    /// Decodes an object of a version and encodes it again.
    fn reencode(&self, object: &[u8], version: &str) -> Result<Value, BoxError>;

    fn group_and_kind(&self) -> (String, String);

    /// Returns the version of the hub, and the others.
    fn hub_and_spokes(&self) -> (&str, Vec<&str>);

    /// Returns the name of the CustomResourceDefinition.
    #[cfg(feature = "certificates")]
    fn definition(&self) -> String;
}

impl<H: 'static> Conversion<H> {
    fn convert_whole(&self, object: &[u8], from: &str, to: &str) -> Result<Value, BoxError> {
        let missing = |version: &str| format!("{} has no converter for version {version}", self.name());
        if from == to {
            return Err(format!("the object has version {to} already").into());
        }
        if self.keeps_lost_fields {
            let spoke = |version: &str| match self.spoke_of(version) {
                None if version != self.hub => Err(missing(version)),
                spoke => Ok(spoke),
            };
            let (first, second) = (spoke(from)?, spoke(to)?);
            let mut value: Value = serde_json::from_slice(object)?;
            if let Some(spoke) = first {
                value = self.convert_keeping(value, spoke, true)?;
            }
            if let Some(spoke) = second {
                value = self.convert_keeping(value, spoke, false)?;
            }
            return Ok(value);
        }
        let hub = match self.spoke_of(from) {
            Some(spoke) => (spoke.to_hub)(object)?,
            None if from == self.hub => (self.to_hub)(object)?,
            None => return Err(missing(from).into()),
        };
        match self.spoke_of(to) {
            Some(spoke) => (spoke.from_hub)(hub),
            None if to == self.hub => (self.from_hub)(hub),
            None => Err(missing(to).into()),
        }
    }

    /// Converts a part of an object that has no `spec`, which derived kinds require, to a part without one.
    fn convert_without_spec(&self, object: &[u8], from: &str, to: &str) -> Result<Value, BoxError> {
        let mut part: Map<String, Value> = serde_json::from_slice(object)?;
        part.insert("spec".to_owned(), Value::Object(Map::new()));
        let mut converted = self.convert_whole(&serde_json::to_vec(&part)?, from, to)?;
        if let Some(converted) = converted.as_object_mut() {
            converted.remove("spec");
        }
        Ok(converted)
    }
}

/// Returns the error of an object that lacks a field which its type requires.
fn missing_field(error: &BoxError) -> Option<&DecodeObjectError> {
    error.downcast_ref::<DecodeObjectError>().filter(|error| error.is_missing_field())
}

impl<H: 'static> KindConverter for Conversion<H> {
    /// To find out which fields an apply has removed, API servers also convert parts of objects, which lack fields that the schema
    /// requires.
    fn convert(&self, object: &[u8], from: &str, to: &str) -> Result<Value, BoxError> {
        let mut converted = self.convert_whole(object, from, to);
        if converted.as_ref().is_err_and(|error| missing_field(error).is_some_and(DecodeObjectError::is_missing_spec)) {
            converted = self.convert_without_spec(object, from, to);
        }
        converted.map_err(|error| match missing_field(&error) {
            Some(missing) => format!("{missing}; API servers also convert parts of objects: give it a default").into(),
            None => error,
        })
    }

    fn reencode(&self, object: &[u8], version: &str) -> Result<Value, BoxError> {
        match self.spoke_of(version) {
            Some(spoke) => (spoke.reencode)(object),
            None => (self.from_hub)((self.to_hub)(object)?),
        }
    }

    fn group_and_kind(&self) -> (String, String) {
        (self.group.clone(), self.kind.clone())
    }

    fn hub_and_spokes(&self) -> (&str, Vec<&str>) {
        (&self.hub, self.spokes.iter().map(|spoke| &*spoke.version).collect())
    }

    #[cfg(feature = "certificates")]
    fn definition(&self) -> String {
        format!("{}.{}", self.plural, self.group)
    }
}

/// The converters of all kinds, by group and kind.
pub(super) type Converters = BTreeMap<(String, String), std::sync::Arc<dyn KindConverter>>;

impl<H> fmt::Debug for Conversion<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Conversion")
            .field("kind", &self.name())
            .field("hub", &self.hub)
            .field("versions", &self.versions)
            .finish_non_exhaustive()
    }
}
