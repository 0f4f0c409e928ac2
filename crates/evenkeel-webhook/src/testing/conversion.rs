//! [`ConversionTester`]: whether objects survive a conversion and the way back.

use evenkeel_core::difference::{ListPatch, json_patch};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde::Serialize;
use serde_json::{Value, json};

use super::generate::Generator;
use crate::conversion::KindConverter;
use crate::{Conversion, ConversionError};

/// Converts objects of a kind to another version and back, and compares them.
///
/// ```
/// use evenkeel_webhook::Conversion;
/// use evenkeel_webhook::testing::{ConversionTestError, ConversionTester};
/// use k8s_openapi::api::autoscaling::{v1, v2};
/// use serde_json::json;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let conversion = || {
///     // Carries over the names alone.
///     Conversion::hub::<v2::HorizontalPodAutoscaler>(&["v1", "v2"]).spoke::<v1::HorizontalPodAutoscaler>(
///         |old| Ok(v2::HorizontalPodAutoscaler { metadata: old.metadata, ..Default::default() }),
///         |new| Ok(v1::HorizontalPodAutoscaler { metadata: new.metadata, ..Default::default() }),
///     )
/// };
/// let object = json!({
///     "apiVersion": "autoscaling/v1", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "web"},
///     "spec": {"maxReplicas": 3, "scaleTargetRef": {"kind": "Deployment", "name": "web"}},
/// });
/// let lost = ConversionTester::new(conversion())?.round_trip(&object).unwrap_err();
/// assert!(lost.to_string().contains("/spec"), "{lost}");
/// ConversionTester::new(conversion().keep_lost_fields())?.round_trip(&object)?;
/// # Ok(())
/// # }
/// ```
pub struct ConversionTester {
    converter: Box<dyn KindConverter>,
}

/// Why a conversion is not ready for an API server.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConversionTestError {
    /// A converter failed.
    #[error("cannot convert from {from} to {to}: {problem}; the object is {object}")]
    Failed {
        /// The version of the object.
        from: String,
        /// The version that it was to become.
        to: String,
        /// The error of the converter.
        problem: String,
        /// The object.
        object: Value,
    },
    /// An object comes back changed.
    #[error("{from} to {to} and back changes the object by {patch}; the object is {object}")]
    Changed {
        /// The version of the object.
        from: String,
        /// The version in between.
        to: String,
        /// The JSON patch from the object to what came back.
        patch: Value,
        /// The object.
        object: Value,
    },
    /// There is no object to convert.
    #[error("cannot test the conversion: {problem}")]
    NoObject {
        /// What is missing.
        problem: String,
    },
}

impl ConversionTester {
    /// Returns a tester of these converters.
    ///
    /// # Errors
    /// If a version has no converter or two.
    pub fn new<H: 'static>(conversion: Conversion<H>) -> Result<Self, ConversionError> {
        conversion.check()?;
        Ok(ConversionTester { converter: Box::new(conversion) })
    }

    /// Converts an object and back: one of the hub to every other version, any other to the hub.
    ///
    /// # Errors
    /// If a converter fails, or if the object comes back changed.
    pub fn round_trip(&self, object: &impl Serialize) -> Result<(), ConversionTestError> {
        let no_object = |problem: String| ConversionTestError::NoObject { problem };
        let object = serde_json::to_value(object).map_err(|error| no_object(error.to_string()))?;
        let (hub, spokes) = self.converter.hub_and_spokes();
        let api_version = object["apiVersion"].as_str().unwrap_or_default();
        let version = api_version.rsplit('/').next().unwrap_or_default();
        if version == hub {
            spokes.iter().try_for_each(|spoke| self.there_and_back(&object, hub, spoke))
        } else if spokes.contains(&version) {
            self.there_and_back(&object, version, hub)
        } else {
            Err(no_object(format!("{api_version:?} is no version of the kind: it has {hub}, {}", spokes.join(", "))))
        }
    }

    /// Generates objects from the schemas of a definition, `count` of every version, and converts each and back. The same
    /// objects are generated every time.
    ///
    /// Schemas cannot say everything: objects need not fit validation rules. A required text with a pattern takes the `default`
    /// or `example` of its schema. Objects of your own are tested with [`round_trip`](Self::round_trip).
    ///
    /// # Errors
    /// If a converter fails, if an object comes back changed, or if a version has no schema from which objects can be made.
    pub fn generated(&self, definition: &CustomResourceDefinition, count: u32) -> Result<(), ConversionTestError> {
        let no_object = |problem: String| ConversionTestError::NoObject { problem };
        let spec = &definition.spec;
        for version in &spec.versions {
            let schema = version.schema.as_ref().and_then(|schema| schema.open_api_v3_schema.as_ref());
            let schema = schema.ok_or_else(|| no_object(format!("version {} has no schema", version.name)))?;
            let schema = serde_json::to_value(schema).map_err(|error| no_object(error.to_string()))?;
            for number in 0..count {
                let generated = Generator::new(number.into()).object(&schema);
                let mut object =
                    generated.map_err(|problem| no_object(format!("version {}: {problem}", version.name)))?;
                object["apiVersion"] = json!(format!("{}/{}", spec.group, version.name));
                object["kind"] = json!(spec.names.kind);
                object["metadata"] = json!({
                    "name": format!("generated-{number}"), "namespace": "default", "uid": format!("uid-{number}"),
                    "labels": {"app": "generated"}, "annotations": {"example.com/number": number.to_string()},
                });
                self.round_trip(&object)?;
            }
        }
        Ok(())
    }

    fn there_and_back(&self, object: &Value, from: &str, to: &str) -> Result<(), ConversionTestError> {
        let failed = |from: &str, to: &str, problem: String, object: &Value| ConversionTestError::Failed {
            from: from.to_owned(),
            to: to.to_owned(),
            problem,
            object: object.clone(),
        };
        let convert = |object: &Value, from: &str, to: &str| {
            let converted = self.converter.convert(object.to_string().as_bytes(), from, to);
            converted.map_err(|error| failed(from, to, error.to_string(), object))
        };
        let before = self.converter.reencode(object.to_string().as_bytes(), from);
        let before = before.map_err(|error| failed(from, from, error.to_string(), object))?;
        let after = convert(&convert(&before, from, to)?, to, from)?;
        if before == after {
            return Ok(());
        }
        let patch = json!(json_patch(&before, &after, ListPatch::Elements));
        let (from, to) = (from.to_owned(), to.to_owned());
        Err(ConversionTestError::Changed { from, to, patch, object: before })
    }
}

impl std::fmt::Debug for ConversionTester {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ConversionTester").field("kind", &self.converter.group_and_kind()).finish()
    }
}
