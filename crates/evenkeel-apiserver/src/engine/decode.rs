//! From the bytes of a request to an object of the resource it was sent to.

use evenkeel_core::Status;
use serde_json::Value;

use super::options::FieldValidation;
use crate::http_types::ApiRequest;
use crate::negotiate::{self, BodyMedia};
use crate::registry::{Registry, Resource};
use crate::schema::json::{self, Parsed};
use crate::schema::{DecodeFault, Schema};
use crate::{crd, go_json, kinds, protobuf};

/// How much of a body that is not JSON is shown in the error.
const SHOWN: usize = 30;

/// An object and what there is to say about how it was written.
#[derive(Debug)]
pub(super) struct Incoming {
    pub(super) object: Value,
    pub(super) warnings: Vec<String>,
}

/// Reads the body of a create or an update.
pub(super) fn object(
    registry: &Registry,
    resource: &Resource,
    request: &ApiRequest,
    validation: FieldValidation,
) -> Result<Incoming, Status> {
    let Parsed { value: mut object, duplicates } = read(request, &resource.kind, resource.custom.is_some())?;
    check_kind(registry, resource, &mut object)?;
    let unknown = normalise(resource, &mut object)?;
    let complaints = json::complaints(&unknown, &duplicates);
    let warnings = judge(&resource.kind, &resource.version, complaints, validation)?;
    Ok(Incoming { object, warnings })
}

/// Reads a body without a view on what it is.
pub(super) fn parse(request: &ApiRequest, expected: &str) -> Result<Parsed, Status> {
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
                // The first line says what is wrong and where; the others repeat the client's text.
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

/// The body must be of the resource's kind and version; what it leaves out is taken from the URL (OBJ-4).
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

/// Kind and version of an object, each empty if absent; or why they cannot be read.
fn header(object: &Value) -> Result<(&str, &str), String> {
    let field = |key: &str| match object.get(key) {
        None | Some(Value::Null) => Ok(""),
        Some(Value::String(text)) => Ok(text.as_str()),
        Some(other) => Err(format!("couldn't get version/kind; the {key} is no string: {other}")),
    };
    Ok((field("kind")?, field("apiVersion")?))
}

/// A patch may leave kind and version out, but not change them.
pub(super) fn keep_kind(resource: &Resource, object: &mut Value) -> Result<(), String> {
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

/// Brings an object into the form of its kind: unknown fields go, defaults come. Answers with the unknown fields.
pub(super) fn normalise(resource: &Resource, object: &mut Value) -> Result<Vec<String>, Status> {
    let unhandled = |fault: DecodeFault| fault.status(&resource.kind, &resource.version);
    let unknown = match (resource.schema(), &resource.custom) {
        (Some(schema), None) => schema.decode_builtin(object).map_err(unhandled)?,
        (Some(schema), Some(_)) => crd::prepare(schema, object).map_err(unhandled)?,
        (None, _) => Vec::new(),
    };
    if resource.custom.is_none() {
        kinds::default_object(&resource.group, &resource.version, &resource.kind, object);
    }
    Ok(unknown)
}

/// Holds a Scale to its schema; it is no object of a resource of its own. Answers with what to warn of. The Scale itself
/// stays as it was sent: whether replicas were named matters to custom resources (SUB-7).
pub(super) fn check_scale(
    scale: &Value,
    duplicates: &[String],
    validation: FieldValidation,
) -> Result<Vec<String>, Status> {
    let unknown = match Schema::builtin(super::scale::SCALE) {
        Some(schema) => schema.decode_builtin(&mut scale.clone()).map_err(|fault| fault.status("Scale", "v1"))?,
        None => Vec::new(),
    };
    judge("Scale", "v1", json::complaints(&unknown, duplicates), validation)
}

/// What becomes of complaints: nothing, warnings, or a refusal (DRY-4).
fn judge(
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
