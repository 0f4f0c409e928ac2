//! Content negotiation: the form of a response, and the encoding of a request body.
use bytes::Bytes;
use evenkeel_core::{Reason, Status, StatusDetails};
use http::header::{self, HeaderMap, HeaderValue};

use crate::engine::encode;
use crate::http_types::Body;
use crate::query::{Query, go_bool};

/// The form of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Representation {
    pub(crate) media: Media,
    pub(crate) transform: Transform,
    /// Indented (NEG-7).
    pub(crate) pretty: bool,
}

impl Representation {
    /// The default: compact JSON.
    pub(crate) const JSON: Representation =
        Representation { media: Media::Json, transform: Transform::None, pretty: false };
}

/// The encoding of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Media {
    Json,
    Yaml,
    /// Kubernetes' protobuf.
    Protobuf,
}

/// The transform of an object or list before it is encoded (NEG-4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Transform {
    #[default]
    None,
    Table(MetaVersion),
    PartialObjectMetadata(MetaVersion),
    PartialObjectMetadataList(MetaVersion),
}

/// The version of `meta.k8s.io` of a transformed response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MetaVersion {
    V1,
    V1beta1,
}

impl MetaVersion {
    /// Returns the `apiVersion` of the response.
    pub(crate) fn api_version(self) -> &'static str {
        match self {
            MetaVersion::V1 => "meta.k8s.io/v1",
            MetaVersion::V1beta1 => "meta.k8s.io/v1beta1",
        }
    }
}

/// The content of an endpoint's response, which decides the possible transforms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Endpoint {
    /// One object.
    Object,
    /// A list.
    List,
    /// A stream of objects, each transformed by itself; YAML cannot be streamed.
    Watch,
    /// A document without transforms.
    Plain,
}

impl Media {
    /// All media types; the first one is chosen for a client that accepts anything.
    const ALL: [Media; 3] = [Media::Json, Media::Yaml, Media::Protobuf];

    fn subtype(self) -> &'static str {
        match self {
            Media::Json => "json",
            Media::Yaml => "yaml",
            Media::Protobuf => "vnd.kubernetes.protobuf",
        }
    }

    /// Returns the value of `Content-Type`.
    pub(crate) fn content_type(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            Media::Json => "application/json",
            Media::Yaml => "application/yaml",
            Media::Protobuf => "application/vnd.kubernetes.protobuf",
        })
    }

    /// Returns the value of `Content-Type` of a watch (WAT-1).
    pub(crate) fn stream_content_type(self) -> HeaderValue {
        match self {
            Media::Protobuf => HeaderValue::from_static("application/vnd.kubernetes.protobuf;stream=watch"),
            Media::Json | Media::Yaml => self.content_type(),
        }
    }

    /// Returns whether this media type can encode a transform. In protobuf, whole objects depend on their kind, Tables
    /// have no form, and metadata always has one (NEG-5).
    fn carries(self, transform: Transform, protobuf: impl Fn() -> bool) -> bool {
        self != Media::Protobuf
            || match transform {
                Transform::None => protobuf(),
                Transform::Table(_) => false,
                Transform::PartialObjectMetadata(_) | Transform::PartialObjectMetadataList(_) => true,
            }
    }
}

/// One clause of an Accept header.
struct Clause<'a> {
    media: &'a str,
    subtype: &'a str,
    parameters: &'a str,
    /// In thousandths.
    quality: u16,
}

impl<'a> Clause<'a> {
    fn parse(text: &'a str) -> Option<Clause<'a>> {
        let (range, parameters) = text.split_once(';').unwrap_or((text, ""));
        let range = range.trim();
        // Old Java clients send a single star for "anything".
        let (media, subtype) = if range == "*" { ("*", "*") } else { range.split_once('/')? };
        let mut clause = Clause { media, subtype, parameters, quality: 1000 };
        if let Some(quality) = clause.parameter("q") {
            clause.quality = quality_of(quality).unwrap_or(1000);
        }
        Some(clause)
    }

    fn parameter(&self, name: &str) -> Option<&'a str> {
        self.parameters.split(';').find_map(|parameter| {
            let (key, value) = parameter.split_once('=')?;
            let value = value.trim().trim_matches('"');
            key.trim().eq_ignore_ascii_case(name).then_some(value)
        })
    }

    fn matches(&self, media: &str, subtype: &str) -> bool {
        (self.media == "*" || self.media.eq_ignore_ascii_case(media))
            && (self.subtype == "*" || self.subtype.eq_ignore_ascii_case(subtype))
    }

    /// Returns the number of wildcards: of equal clauses the most specific one is preferred.
    fn vagueness(&self) -> u8 {
        u8::from(self.media == "*") + u8::from(self.subtype == "*")
    }
}

/// Parses a quality: `0.5` is 500. Returns `None` if it is invalid.
fn quality_of(text: &str) -> Option<u16> {
    let quality: f32 = text.parse().ok()?;
    (0.0..=1.0).contains(&quality).then_some((quality * 1000.0) as u16)
}

/// Returns the clauses of all Accept headers, best first, without refused ones (`q=0`).
fn clauses(headers: &HeaderMap) -> Vec<Clause<'_>> {
    let mut clauses: Vec<Clause<'_>> = headers
        .get_all(header::ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(Clause::parse)
        .filter(|clause| clause.quality > 0)
        .collect();
    clauses.sort_by_key(|clause| (std::cmp::Reverse(clause.quality), clause.vagueness()));
    clauses
}

fn accepts_anything(headers: &HeaderMap) -> bool {
    headers.get_all(header::ACCEPT).iter().all(|value| value.as_bytes().trim_ascii().is_empty())
}

/// Chooses the form of the response (NEG-1, NEG-4 to NEG-7). `protobuf` returns whether whole objects of the endpoint have
/// a protobuf form; custom resources have none (BIN-3). It is called only if needed.
pub(crate) fn negotiate(
    headers: &HeaderMap,
    query: &Query,
    endpoint: Endpoint,
    protobuf: impl Fn() -> bool,
) -> Result<Representation, Status> {
    let pretty = wants_pretty(headers, query);
    if accepts_anything(headers) {
        return Ok(Representation { pretty, ..Representation::JSON });
    }
    let mut known = false;
    for clause in clauses(headers) {
        for media in Media::ALL.into_iter().filter(|media| clause.matches("application", media.subtype())) {
            known = true;
            let Some(transform) = transform_of(&clause, endpoint) else {
                continue;
            };
            if (media == Media::Yaml && endpoint == Endpoint::Watch) || !media.carries(transform, &protobuf) {
                continue;
            }
            let refusal = match (transform, endpoint) {
                (Transform::PartialObjectMetadata(_), Endpoint::List) => {
                    "you requested PartialObjectMetadata, but the requested object is a list"
                }
                (Transform::PartialObjectMetadataList(_), Endpoint::Object | Endpoint::Watch) => {
                    "you requested PartialObjectMetadataList, but the requested object is not a list"
                }
                _ => {
                    let pretty = pretty || clause.parameter("pretty").is_some_and(|value| go_bool(value) == Some(true));
                    return Ok(Representation { media, transform, pretty });
                }
            };
            return Err(Status::failure(406, Reason::NOT_ACCEPTABLE, refusal));
        }
    }
    // Built-in resources refuse unknown media types first, with another message.
    Err(if known || !protobuf() { none_fits(endpoint) } else { not_acceptable() })
}

/// Returns the form of a Status. It is JSON if no other media type fits, so that the client can read the error.
pub(crate) fn negotiate_status(headers: &HeaderMap, query: &Query) -> Representation {
    negotiate(headers, query, Endpoint::Plain, || true).unwrap_or(Representation::JSON)
}

/// Returns the transform that a clause requests; `None` if the endpoint does not support it.
fn transform_of(clause: &Clause<'_>, endpoint: Endpoint) -> Option<Transform> {
    let Some(kind) = clause.parameter("as") else {
        return Some(Transform::None);
    };
    if endpoint == Endpoint::Plain || clause.parameter("g") != Some("meta.k8s.io") {
        return None;
    }
    let version = match clause.parameter("v") {
        Some("v1") => MetaVersion::V1,
        Some("v1beta1") => MetaVersion::V1beta1,
        _ => return None,
    };
    match kind {
        "Table" => Some(Transform::Table(version)),
        "PartialObjectMetadata" => Some(Transform::PartialObjectMetadata(version)),
        "PartialObjectMetadataList" => Some(Transform::PartialObjectMetadataList(version)),
        _ => None,
    }
}

fn wants_pretty(headers: &HeaderMap, query: &Query) -> bool {
    if let Some(value) = query.non_empty("pretty") {
        return go_bool(value).unwrap_or(false);
    }
    headers
        .get(header::USER_AGENT)
        .and_then(|agent| agent.to_str().ok())
        .is_some_and(|agent| ["curl", "Wget", "Mozilla/5.0"].iter().any(|browser| agent.starts_with(browser)))
}

/// Returns the index of the first offer that the best clause matches. An offer is a media type and the parameters that a
/// clause must have; an offer without parameters matches only clauses without a transform.
pub(crate) fn choose(headers: &HeaderMap, offers: &[(&str, &[(&str, &str)])]) -> Result<usize, Status> {
    if accepts_anything(headers) {
        return offers.iter().position(|(_, parameters)| parameters.is_empty()).ok_or_else(not_acceptable);
    }
    for clause in clauses(headers) {
        let chosen = offers.iter().position(|(offer, parameters)| {
            let Some((media, subtype)) = offer.split_once('/') else {
                return false;
            };
            clause.matches(media, subtype)
                && parameters.iter().all(|(key, value)| clause.parameter(key) == Some(*value))
                && (!parameters.is_empty() || clause.parameter("as").is_none())
        });
        if let Some(chosen) = chosen {
            return Ok(chosen);
        }
    }
    Err(not_acceptable())
}

/// The media types are known, but not with these parameters or for this resource (NEG-2).
fn none_fits(endpoint: Endpoint) -> Status {
    let accepted = match endpoint {
        Endpoint::Watch => "application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch",
        _ => "application/json, application/yaml, application/vnd.kubernetes.protobuf",
    };
    let message = format!("only the following media types are accepted: {accepted}");
    Status::failure(406, Reason::NOT_ACCEPTABLE, message)
}

/// No clause of the Accept header names a known media type (NEG-2).
pub(crate) fn not_acceptable() -> Status {
    Status::failure(
        406,
        Reason::NOT_ACCEPTABLE,
        "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml, \
         application/vnd.kubernetes.protobuf",
    )
    .with_details(StatusDetails::default())
}

/// Returns the media type of `Content-Type` without parameters; `None` if the header is absent or empty.
fn content_type(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::CONTENT_TYPE)?;
    // A value that is not text matches no media type.
    let value = value.to_str().unwrap_or("unreadable");
    let media = value.split_once(';').map_or(value, |(media, _)| media).trim();
    (!media.is_empty()).then_some(media)
}

/// The encoding of a request body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyMedia {
    /// JSON.
    Json,
    /// YAML.
    Yaml,
    /// Kubernetes' protobuf, which only built-in kinds have.
    Protobuf,
}

/// Returns the encoding of the body of a create or update (NEG-3, BIN-3). The default is JSON.
pub(crate) fn body_media(headers: &HeaderMap, custom: bool) -> Result<BodyMedia, Status> {
    const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
    match content_type(headers) {
        None => Ok(BodyMedia::Json),
        Some(media) if media.eq_ignore_ascii_case("application/json") => Ok(BodyMedia::Json),
        Some(media) if media.eq_ignore_ascii_case("application/yaml") => Ok(BodyMedia::Yaml),
        Some(media) if media.eq_ignore_ascii_case(PROTOBUF) && !custom => Ok(BodyMedia::Protobuf),
        Some(_) if custom => Err(unknown_format("application/json, application/yaml")),
        Some(_) => Err(unknown_format("application/json, application/yaml, application/vnd.kubernetes.protobuf")),
    }
}

/// The kinds of patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PatchType {
    /// RFC 6902.
    Json,
    /// RFC 7386.
    Merge,
    /// Kubernetes' own, driven by merge keys in the schema; built-in kinds only.
    StrategicMerge,
    /// Server-side apply.
    Apply,
}

impl PatchType {
    /// All kinds of patch, in the order in which errors list them.
    pub(crate) const ALL: [PatchType; 4] =
        [PatchType::Json, PatchType::Merge, PatchType::StrategicMerge, PatchType::Apply];

    /// Returns the media type.
    pub(crate) fn media_type(self) -> &'static str {
        match self {
            PatchType::Json => "application/json-patch+json",
            PatchType::Merge => "application/merge-patch+json",
            PatchType::StrategicMerge => "application/strategic-merge-patch+json",
            PatchType::Apply => "application/apply-patch+yaml",
        }
    }

    /// Returns the kind of patch of a request. Custom resources have no strategic merge.
    pub(crate) fn of(headers: &HeaderMap, custom: bool) -> Result<PatchType, Status> {
        let media = content_type(headers).unwrap_or_default();
        PatchType::ALL
            .into_iter()
            .filter(|kind| !(custom && *kind == PatchType::StrategicMerge))
            .find(|kind| media.eq_ignore_ascii_case(kind.media_type()))
            .ok_or_else(|| {
                if custom {
                    unknown_format(
                        "application/json-patch+json, application/merge-patch+json, \
                         application/apply-patch+yaml",
                    )
                } else {
                    Status::failure(415, Reason::UNSUPPORTED_MEDIA_TYPE, "415: Unsupported Media Type")
                        .with_details(StatusDetails::default())
                }
            })
    }
}

fn unknown_format(accepted: &str) -> Status {
    Status::failure(
        415,
        Reason::UNSUPPORTED_MEDIA_TYPE,
        format!("the body of the request was in an unknown format - accepted media types include: {accepted}"),
    )
}

/// Returns a Status as a response in JSON. Its retry-after is also a header (ERR-18).
pub(crate) fn status_response(status: &Status) -> http::Response<Body> {
    status_response_in(status, Representation::JSON)
}

/// Returns a Status as a response in the form that the request accepts.
pub(crate) fn status_response_to(headers: &HeaderMap, uri: &http::Uri, status: &Status) -> http::Response<Body> {
    status_response_in(status, negotiate_status(headers, &Query::parse(uri.query())))
}

/// Returns a Status as a response in this form. A 406 is always JSON (NEG-2).
pub(crate) fn status_response_in(status: &Status, representation: Representation) -> http::Response<Body> {
    let json = Bytes::from(serde_json::to_vec(status).unwrap_or_default());
    let wanted = Representation { transform: Transform::None, ..representation };
    let written = if status.is_not_acceptable() { None } else { encode(json.clone(), wanted).ok() };
    let (body, media) = written.map_or((json, Media::Json), |body| (body, wanted.media));
    let mut reply = http::Response::new(Body::whole(body));
    *reply.status_mut() = http::StatusCode::from_u16(status.code).unwrap_or(http::StatusCode::INTERNAL_SERVER_ERROR);
    reply.headers_mut().insert(header::CONTENT_TYPE, media.content_type());
    if let Some(wait) = status.retry_after() {
        reply.headers_mut().insert(header::RETRY_AFTER, wait.as_secs().into());
    }
    reply
}

#[cfg(test)]
mod tests;
