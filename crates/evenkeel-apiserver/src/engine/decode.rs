//! Decodes the body of a request into an object of the resource.

use evenkeel_core::Status;
use serde_json::Value;

use super::options::FieldValidation;
use crate::crd::{self, PrepareFault};
use crate::http_types::ApiRequest;
use crate::limits::object_too_large;
use crate::negotiate::{self, BodyMedia};
use crate::registry::{Registry, Resource};
use crate::schema::json::{self, Parsed};
use crate::schema::{DecodeFault, Schema};
use crate::{go_json, kinds, protobuf};

/// How many bytes of an undecodable body the error shows.
const SHOWN: usize = 30;

/// An object and the warnings about its encoding.
#[derive(Debug)]
pub(crate) struct Incoming {
    pub(crate) object: Value,
    pub(crate) warnings: Vec<String>,
}

/// Decodes the body of a create or an update.
pub(crate) fn object(
    registry: &Registry,
    resource: &Resource,
    request: &ApiRequest,
    validation: FieldValidation,
) -> Result<Incoming, Status> {
    let Parsed { value: mut object, duplicates } = read(request, &resource.kind, resource.custom.is_some())?;
    check_kind(registry, resource, &mut object)?;
    let unknown = normalise(resource, &mut object)?;
    let complaints = json::complaints(&unknown, &duplicates);
    let warnings = apply_validation(&resource.kind, &resource.version, complaints, validation)?;
    Ok(Incoming { object, warnings })
}

/// Parses a body without checking its kind.
pub(crate) fn parse(request: &ApiRequest, expected: &str) -> Result<Parsed, Status> {
    read(request, expected, false)
}

fn read(request: &ApiRequest, expected: &str, custom: bool) -> Result<Parsed, Status> {
    let media = negotiate::body_media(&request.headers, custom)?;
    let unrecognized = |why: String| {
        Status::bad_request(format!(
            "the object provided is unrecognized (must be of type {expected}): couldn't get version/kind; json parse \
             error: {why} ({})",
            summary(&request.body)
        ))
    };
    let parsed = match media {
        BodyMedia::Json => json::parse(&request.body).map_err(|fault| unrecognized(fault.to_string()))?,
        BodyMedia::Yaml => {
            let text = std::str::from_utf8(&request.body).map_err(|error| unrecognized(error.to_string()))?;
            let value = serde_saphyr::from_str(text).map_err(|error| {
                // The first line names the fault and its position; the others repeat the body.
                unrecognized(error.to_string().lines().next().unwrap_or_default().to_owned())
            })?;
            Parsed { value, duplicates: Vec::new() }
        }
        BodyMedia::Protobuf => {
            let value = protobuf::decode(&request.body).map_err(|fault| {
                Status::bad_request(format!(
                    "the object provided is unrecognized (must be of type {expected}): {fault}"
                ))
            })?;
            Parsed { value, duplicates: Vec::new() }
        }
    };
    if parsed.value.is_object() {
        return Ok(parsed);
    }
    if parsed.value.is_null() {
        return Err(unrecognized("unexpected end of JSON input".into()));
    }
    let found = go_json::kind_of(&parsed.value);
    let target = "struct { APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \
                  \"json:\\\"kind,omitempty\\\"\" }";
    Err(unrecognized(format!("json: cannot unmarshal {found} into Go value of type {target}")))
}

fn summary(body: &[u8]) -> String {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let shown = body.get(..SHOWN).unwrap_or(body);
    let dots = if body.len() > SHOWN { " ..." } else { "" };
    match body.first() {
        None => "<empty>".to_owned(),
        Some(b'{') => format!("{}{dots}", String::from_utf8_lossy(shown)),
        Some(_) => format!("{}{dots}", hex(shown)),
    }
}

/// OBJ-4: the body must be of the resource's kind and version. Either is taken from the URL if absent.
fn check_kind(registry: &Registry, resource: &Resource, object: &mut Value) -> Result<(), Status> {
    let expected = resource.api_version();
    let (kind, api_version) = header(object).map_err(Status::bad_request)?;
    let (kind, api_version) = (kind.to_owned(), api_version.to_owned());
    let same_kind = kind.is_empty() || kind == resource.kind;
    let same_version = api_version.is_empty() || api_version == expected;
    if same_kind && same_version {
        set_kind(resource, object);
        return Ok(());
    }
    let kind = if kind.is_empty() { resource.kind.clone() } else { kind };
    let version = if api_version.is_empty() { expected.clone() } else { api_version };
    let (group, short) = version.split_once('/').unwrap_or(("", &version));
    let known = registry.lookup_kind(group, short, &kind).is_some();
    if resource.custom.is_some() || (known && same_kind) {
        return Err(Status::bad_request(format!(
            "the API version in the data ({version}) does not match the expected API version ({expected})"
        )));
    }
    let why = if known {
        let internal = resource.group.split('.').next().filter(|name| !name.is_empty()).unwrap_or("core");
        format!("converting ({short}.{kind}) to ({internal}.{}): unknown conversion", resource.kind)
    } else {
        format!(
            "no kind {kind:?} is registered for version {version:?} in scheme \"pkg/api/legacyscheme/scheme.go:30\""
        )
    };
    Err(cannot_be_handled(resource, &kind, short, &why))
}

/// Returns kind and version of an object, each empty if absent.
fn header(object: &Value) -> Result<(&str, &str), String> {
    let field = |key: &str| match object.get(key) {
        None | Some(Value::Null) => Ok(""),
        Some(Value::String(text)) => Ok(text.as_str()),
        Some(other) => Err(format!("couldn't get version/kind; the {key} is no string: {other}")),
    };
    Ok((field("kind")?, field("apiVersion")?))
}

/// Checks that a patch has not changed kind and version, and restores them if it removed them.
pub(crate) fn keep_kind(resource: &Resource, object: &mut Value) -> Result<(), String> {
    let expected = resource.api_version();
    let (kind, api_version) = header(object)?;
    if !kind.is_empty() && kind != resource.kind {
        return Err(format!("the kind in the data ({kind}) does not match the expected kind ({})", resource.kind));
    }
    if !api_version.is_empty() && api_version != expected {
        return Err(format!(
            "the API version in the data ({api_version}) does not match the expected API version ({expected})"
        ));
    }
    set_kind(resource, object);
    Ok(())
}

fn set_kind(resource: &Resource, object: &mut Value) {
    if let Some(fields) = object.as_object_mut() {
        fields.insert("kind".into(), resource.kind.as_str().into());
        fields.insert("apiVersion".into(), resource.api_version().into());
    }
}

fn cannot_be_handled(resource: &Resource, kind: &str, version: &str, why: &str) -> Status {
    Status::bad_request(format!("{kind} in version {version:?} cannot be handled as a {}: {why}", resource.kind))
}

/// Removes unknown fields from an object and applies defaults. Returns the paths of the unknown fields.
pub(crate) fn normalise(resource: &Resource, object: &mut Value) -> Result<Vec<String>, Status> {
    let unhandled = |fault: DecodeFault| fault.status(&resource.kind, &resource.version);
    let unknown = match (resource.schema(), &resource.custom) {
        (Some(schema), None) => schema.decode_builtin(object).map_err(unhandled)?,
        (Some(schema), Some(_)) => crd::prepare(schema, object).map_err(|fault| match fault {
            PrepareFault::Decode(fault) => unhandled(fault),
            PrepareFault::TooLarge => object_too_large(),
        })?,
        (None, _) => Vec::new(),
    };
    if resource.custom.is_none() {
        kinds::default_object(&resource.group, &resource.version, &resource.kind, object);
    }
    Ok(unknown)
}

/// Checks a Scale against its schema and returns the warnings. The Scale itself is not changed: custom resources
/// distinguish absent replicas from zero (SUB-7).
pub(crate) fn check_scale(
    scale: &Value,
    duplicates: &[String],
    validation: FieldValidation,
) -> Result<Vec<String>, Status> {
    let unknown = match Schema::builtin(super::subresources::scale::SCALE) {
        Some(schema) => schema.decode_builtin(&mut scale.clone()).map_err(|fault| fault.status("Scale", "v1"))?,
        None => Vec::new(),
    };
    apply_validation("Scale", "v1", json::complaints(&unknown, duplicates), validation)
}

/// Turns complaints into nothing, warnings or an error, by the field validation (DRY-4).
fn apply_validation(
    kind: &str,
    version: &str,
    complaints: Vec<String>,
    validation: FieldValidation,
) -> Result<Vec<String>, Status> {
    match validation {
        FieldValidation::Ignore => Ok(Vec::new()),
        FieldValidation::Warn => Ok(complaints),
        FieldValidation::Strict if complaints.is_empty() => Ok(complaints),
        FieldValidation::Strict => Err(DecodeFault::strict(&complaints).status(kind, version)),
    }
}
