//! [`Conversion`]: the converters of one kind.

use std::collections::BTreeMap;
use std::error::Error as StdError;
use std::fmt;

use kube_core::Resource;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::admission::decode;

type BoxError = Box<dyn StdError + Send + Sync>;
type ToHub<H> = Box<dyn Fn(&[u8]) -> Result<H, BoxError> + Send + Sync>;
type FromHub<H> = Box<dyn Fn(H) -> Result<Value, BoxError> + Send + Sync>;

/// The converters of one kind: between each version and the hub. Versions that are not the hub are converted to each other
/// through it.
///
/// Converters have to carry over `metadata`; API servers take labels and annotations from the result and everything else from
/// the original.
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
    hub: String,
    /// The versions of the kind.
    versions: Vec<String>,
    spokes: Vec<Spoke<H>>,
    to_hub: ToHub<H>,
    from_hub: FromHub<H>,
}

struct Spoke<H> {
    group: String,
    kind: String,
    version: String,
    to_hub: ToHub<H>,
    from_hub: FromHub<H>,
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
            hub: H::version(&names).into(),
            versions: versions.iter().map(|version| (*version).to_owned()).collect(),
            spokes: Vec::new(),
            to_hub: Box::new(|json| Ok(decode::<H>("object", json)?)),
            from_hub: Box::new(|hub| Ok(serde_json::to_value(hub)?)),
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
        });
        self
    }
}

impl<H> Conversion<H> {
    /// Checks that every version but the hub has exactly one converter.
    pub(super) fn check(&self) -> Result<(), ConversionError> {
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
pub(super) trait KindConverter: Send + Sync {
    /// Converts the JSON of an object from one version to another.
    fn convert(&self, object: &[u8], from: &str, to: &str) -> Result<Value, BoxError>;

    fn group_and_kind(&self) -> (String, String);
}

impl<H: 'static> KindConverter for Conversion<H> {
    fn convert(&self, object: &[u8], from: &str, to: &str) -> Result<Value, BoxError> {
        let missing = |version: &str| format!("{} has no converter for version {version}", self.name());
        if from == to {
            return Err(format!("the object has version {to} already").into());
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

    fn group_and_kind(&self) -> (String, String) {
        (self.group.clone(), self.kind.clone())
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
