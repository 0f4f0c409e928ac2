//! Conversion reviews: from the body of a request to the body of its answer. Sans-IO.

use std::borrow::Cow;
use std::fmt::Write;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use super::kind::Converters;
use super::rules;

/// A message names this many objects that cannot be converted.
const MAX_NAMED: usize = 10;

/// A conversion review.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ConversionReview<'a> {
    #[serde(borrow)]
    api_version: Cow<'a, str>,
    #[serde(borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) request: ConversionRequest<'a>,
}

#[derive(Deserialize)]
pub(super) struct ConversionRequest<'a> {
    #[serde(borrow)]
    pub(super) uid: Cow<'a, str>,
    #[serde(borrow, rename = "desiredAPIVersion")]
    pub(super) desired_api_version: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(super) objects: Vec<&'a RawValue>,
}

/// The names of an object.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ObjectHead<'a> {
    #[serde(borrow, default)]
    pub(super) api_version: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(super) kind: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(super) metadata: ObjectNames<'a>,
}

#[derive(Default, Deserialize)]
pub(super) struct ObjectNames<'a> {
    #[serde(borrow, default)]
    pub(super) name: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(super) namespace: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(super) uid: Cow<'a, str>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WireAnswer<'a> {
    kind: &'a str,
    api_version: &'a str,
    response: WireResponse<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WireResponse<'a> {
    uid: &'a str,
    converted_objects: &'a [Value],
    result: WireResult<'a>,
}

#[derive(Serialize)]
struct WireResult<'a> {
    status: &'static str,
    #[serde(skip_serializing_if = "str::is_empty")]
    message: &'a str,
}

impl<'a> ConversionReview<'a> {
    /// Parses a review; `None` if it is none.
    pub(super) fn parse(body: &'a [u8]) -> Option<Self> {
        let review: Self = serde_json::from_slice(body).ok()?;
        let is_known = matches!(&*review.api_version, "apiextensions.k8s.io/v1" | "apiextensions.k8s.io/v1beta1");
        (is_known && review.kind == "ConversionReview").then_some(review)
    }

    /// Writes the answer: all objects, or why there are none.
    pub(super) fn answer(&self, converted: Result<&[Value], &str>) -> Result<Vec<u8>, serde_json::Error> {
        let (converted_objects, result) = match converted {
            Ok(objects) => (objects, WireResult { status: "Success", message: "" }),
            Err(message) => (&[][..], WireResult { status: "Failure", message }),
        };
        let response = WireResponse { uid: &self.request.uid, converted_objects, result };
        serde_json::to_vec(&WireAnswer { kind: &self.kind, api_version: &self.api_version, response })
    }
}

/// Collects the objects that cannot be converted.
#[derive(Debug, Default)]
pub(super) struct Failures {
    count: usize,
    message: String,
}

impl Failures {
    pub(super) fn add(&mut self, failure: &str) {
        self.count += 1;
        if self.count <= MAX_NAMED {
            let separator = if self.message.is_empty() { "" } else { "; " };
            let _ = write!(self.message, "{separator}{failure}");
        }
    }

    /// Returns the message, if there is a failure.
    pub(super) fn message(self) -> Option<String> {
        match self.count {
            0 => None,
            count if count > MAX_NAMED => Some(format!("{}; and {} more objects", self.message, count - MAX_NAMED)),
            _ => Some(self.message),
        }
    }
}

/// Converts an object, and checks what the converter has made. The error names the object and both versions.
pub(super) fn convert(converters: &Converters, json: &[u8], desired: &str) -> Result<Value, String> {
    let head: ObjectHead<'_> =
        serde_json::from_slice(json).map_err(|_| "an object of the request has no names".to_owned())?;
    let convert = || {
        let (group, from) = split(&head.api_version);
        let (desired_group, to) = split(desired);
        if group != desired_group {
            return Err(format!("the group {group} cannot become {desired_group}"));
        }
        let converter = converters.get(&(group.to_owned(), head.kind.clone().into_owned()));
        let converter = converter.ok_or_else(|| format!("there are no conversions of {}.{group}", head.kind))?;
        let mut converted = converter.convert(json, from, to).map_err(|error| error.to_string())?;
        rules::finish(&mut converted, &head, desired)?;
        Ok(converted)
    };
    convert().map_err(|problem| {
        let ObjectNames { name, namespace, .. } = &head.metadata;
        let separator = if namespace.is_empty() { "" } else { "/" };
        format!("{} {namespace}{separator}{name} from {} to {desired}: {problem}", head.kind, head.api_version)
    })
}

/// Splits an API version into group and version.
fn split(api_version: &str) -> (&str, &str) {
    api_version.rsplit_once('/').unwrap_or(("", api_version))
}
