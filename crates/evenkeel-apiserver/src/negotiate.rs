//! Content negotiation: in which form an answer is wanted, and in which form a body came.
use evenkeel_core::{Reason, Status, StatusDetails};
use http::header::{self, HeaderMap, HeaderValue};

use crate::exchange::Body;
use crate::query::{Query, go_bool};

/// How an answer is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Representation {
    pub(crate) media: Media,
    pub(crate) transform: Transform,
    /// Indented, for people (NEG-7).
    pub(crate) pretty: bool,
}

/// The encoding of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Media {
    Json,
    Yaml,
}

/// What is made of the object or list before it is written (NEG-4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Transform {
    #[default]
    None,
    Table(MetaVersion),
    PartialObjectMetadata(MetaVersion),
    PartialObjectMetadataList(MetaVersion),
}

/// The version of `meta.k8s.io` in which a transformed answer is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MetaVersion {
    V1,
    V1beta1,
}

impl MetaVersion {
    /// As it stands in the answer's `apiVersion`.
    pub(crate) fn api_version(self) -> &'static str {
        match self {
            MetaVersion::V1 => "meta.k8s.io/v1",
            MetaVersion::V1beta1 => "meta.k8s.io/v1beta1",
        }
    }
}

/// What an endpoint answers with, and so which transforms make sense there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Endpoint {
    /// One object.
    Object,
    /// A list.
    List,
    /// A stream of objects, each transformed by itself; JSON only.
    Watch,
    /// Something that is always written as it is.
    Plain,
}

impl Media {
    /// The value of `Content-Type`.
    pub(crate) fn content_type(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            Media::Json => "application/json",
            Media::Yaml => "application/yaml",
        })
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
        // A lone star is what old Java clients send for "anything".
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

    /// How exact the range is: a star is the last choice among equals.
    fn vagueness(&self) -> u8 {
        u8::from(self.media == "*") + u8::from(self.subtype == "*")
    }
}

/// `0.5` as 500; `None` for what is no quality.
fn quality_of(text: &str) -> Option<u16> {
    let quality: f32 = text.parse().ok()?;
    (0.0..=1.0).contains(&quality).then_some((quality * 1000.0) as u16)
}

/// The clauses of all Accept headers, best first. Refused ones (`q=0`) are left out. No header is no clause.
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

/// Chooses the form of the answer (NEG-1, NEG-4 to NEG-7).
pub(crate) fn negotiate(headers: &HeaderMap, query: &Query, endpoint: Endpoint) -> Result<Representation, Status> {
    let pretty = wants_pretty(headers, query);
    if accepts_anything(headers) {
        return Ok(Representation { media: Media::Json, transform: Transform::None, pretty });
    }
    for clause in clauses(headers) {
        let media = if clause.matches("application", "json") {
            Media::Json
        } else if clause.matches("application", "yaml") && endpoint != Endpoint::Watch {
            Media::Yaml
        } else {
            continue;
        };
        let Some(transform) = transform_of(&clause, endpoint) else {
            continue;
        };
        let refusal = match (transform, endpoint) {
            (Transform::PartialObjectMetadata(_), Endpoint::List) => {
                "you requested PartialObjectMetadata, but the requested object is a list"
            }
            (Transform::PartialObjectMetadataList(_), Endpoint::Object | Endpoint::Watch) => {
                "you requested PartialObjectMetadataList, but the requested object is not a list"
            }
            _ => {
                return Ok(Representation {
                    media,
                    transform,
                    pretty: pretty || clause.parameter("pretty").is_some_and(|value| go_bool(value) == Some(true)),
                });
            }
        };
        return Err(Status::failure(406, Reason::NOT_ACCEPTABLE, refusal));
    }
    Err(not_acceptable())
}

/// The transform that a clause asks for; `None` when it is one that this endpoint does not make.
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

/// Which of several fixed representations is wanted: the index of the first offer that the best clause matches. An offer
/// is a media type and the parameters that a clause must carry; an offer without parameters takes only clauses that ask
/// for no conversion.
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

/// No clause of the Accept header can be met (NEG-2).
pub(crate) fn not_acceptable() -> Status {
    Status::failure(
        406,
        Reason::NOT_ACCEPTABLE,
        "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml, \
         application/vnd.kubernetes.protobuf",
    )
    .with_details(StatusDetails::default())
}

/// The media type of a request's `Content-Type` without its parameters; `None` when the header is absent or empty.
fn content_type(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::CONTENT_TYPE)?;
    // A value that is not text is no media type that anyone reads.
    let value = value.to_str().unwrap_or("unreadable");
    let media = value.split_once(';').map_or(value, |(media, _)| media).trim();
    (!media.is_empty()).then_some(media)
}

/// How a body is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyMedia {
    /// JSON.
    Json,
    /// YAML.
    Yaml,
    /// Kubernetes' protobuf, which only built-in kinds have.
    Protobuf,
}

/// How the body of a create or update is encoded (NEG-3, BIN-3). Absent means JSON.
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
    /// Every kind of patch, in the order in which refusals list them.
    pub(crate) const ALL: [PatchType; 4] =
        [PatchType::Json, PatchType::Merge, PatchType::StrategicMerge, PatchType::Apply];

    /// The media type.
    pub(crate) fn media_type(self) -> &'static str {
        match self {
            PatchType::Json => "application/json-patch+json",
            PatchType::Merge => "application/merge-patch+json",
            PatchType::StrategicMerge => "application/strategic-merge-patch+json",
            PatchType::Apply => "application/apply-patch+yaml",
        }
    }

    /// The kind of patch that a request carries. Custom resources have no strategic merge.
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

/// A Status as an answer: always JSON, whatever was asked for (NEG-2). Its retry-after becomes a header too (ERR-18).
pub(crate) fn status_reply(status: &Status) -> http::Response<Body> {
    let body = serde_json::to_vec(status).unwrap_or_default();
    let mut reply = http::Response::new(Body::whole(body));
    *reply.status_mut() = http::StatusCode::from_u16(status.code).unwrap_or(http::StatusCode::INTERNAL_SERVER_ERROR);
    reply.headers_mut().insert(header::CONTENT_TYPE, Media::Json.content_type());
    if let Some(wait) = status.retry_after() {
        reply.headers_mut().insert(header::RETRY_AFTER, wait.as_secs().into());
    }
    reply
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| (header::HeaderName::from_static(name), HeaderValue::from_str(value).unwrap()))
            .collect()
    }

    fn accept(value: &str, endpoint: Endpoint) -> Result<(Media, Transform), Status> {
        negotiate(&headers(&[("accept", value)]), &Query::default(), endpoint)
            .map(|chosen| (chosen.media, chosen.transform))
    }

    #[test]
    fn neg_1_the_best_clause_wins_and_json_is_the_default() {
        let plain = |media| Ok((media, Transform::None));
        let object = |value: &str| accept(value, Endpoint::Object);
        assert_eq!(object("application/json"), plain(Media::Json));
        assert_eq!(object("application/yaml"), plain(Media::Yaml));
        assert_eq!(object("*/*"), plain(Media::Json));
        assert_eq!(object("application/*"), plain(Media::Json));
        assert_eq!(object("application/json;q=0.5, application/yaml;q=0.9"), plain(Media::Yaml));
        assert_eq!(object("*/*, application/yaml"), plain(Media::Yaml));
        assert_eq!(object("application/vnd.kubernetes.protobuf,application/json"), plain(Media::Json));
        assert_eq!(object("application/json;q=0, application/yaml;q=0.1"), plain(Media::Yaml));
        assert_eq!(object("text/html, image/gif, *; q=.2, */*; q=.2"), plain(Media::Json));
        assert_eq!(object(""), plain(Media::Json));
        assert_eq!(accept("application/json;stream=watch", Endpoint::Watch), plain(Media::Json));
        let none = negotiate(&HeaderMap::new(), &Query::default(), Endpoint::List).unwrap();
        assert_eq!((none.media, none.pretty), (Media::Json, false));
    }

    #[test]
    fn neg_1_several_accept_headers_are_one() {
        let mut two = headers(&[("accept", "application/xml")]);
        two.append("accept", HeaderValue::from_static("application/yaml"));
        let chosen = negotiate(&two, &Query::default(), Endpoint::Object).unwrap();
        assert_eq!(chosen.media, Media::Yaml);
    }

    #[test]
    fn neg_2_nothing_matches_is_406_in_json() {
        for value in ["application/xml", "application/vnd.kubernetes.protobuf", "application/json;q=0"] {
            let status = accept(value, Endpoint::Object).unwrap_err();
            assert_eq!(
                serde_json::to_value(&status).unwrap(),
                serde_json::json!({
                    "apiVersion": "v1", "code": 406, "details": {}, "kind": "Status",
                    "message": "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml, \
                                application/vnd.kubernetes.protobuf",
                    "metadata": {}, "reason": "NotAcceptable", "status": "Failure"
                })
            );
            let reply = status_reply(&status);
            assert_eq!(reply.status(), 406);
            assert_eq!(reply.headers()["content-type"], "application/json");
        }
        assert!(accept("application/yaml", Endpoint::Watch).is_err());
    }

    #[test]
    fn neg_3_bin_3_body_media() {
        let of = |value: &str, custom| body_media(&headers(&[("content-type", value)]), custom);
        assert_eq!(body_media(&HeaderMap::new(), true), Ok(BodyMedia::Json));
        assert_eq!(of("application/json; charset=utf-8", true), Ok(BodyMedia::Json));
        assert_eq!(of("application/yaml", false), Ok(BodyMedia::Yaml));
        assert_eq!(of("application/vnd.kubernetes.protobuf", false), Ok(BodyMedia::Protobuf));
        assert_eq!(of("application/vnd.kubernetes.protobuf", true).unwrap_err().code, 415);
        let status = of("application/xml", false).unwrap_err();
        assert_eq!((status.code, status.reason.as_str()), (415, "UnsupportedMediaType"));
        assert!(status.message.starts_with(
            "the body of the request was in an unknown format - accepted media types include: application/json"
        ));
    }

    #[test]
    fn neg_3_pat_1_patch_types_and_their_refusals() {
        let of = |value: &str, custom| PatchType::of(&headers(&[("content-type", value)]), custom);
        for kind in PatchType::ALL {
            assert_eq!(of(kind.media_type(), false), Ok(kind));
        }
        assert_eq!(of("application/merge-patch+json; charset=utf-8", true), Ok(PatchType::Merge));
        for refused in ["application/xml", "application/json", ""] {
            assert_eq!(
                serde_json::to_value(of(refused, false).unwrap_err()).unwrap(),
                serde_json::json!({
                    "apiVersion": "v1", "code": 415, "details": {}, "kind": "Status", "metadata": {},
                    "message": "415: Unsupported Media Type", "reason": "UnsupportedMediaType", "status": "Failure"
                })
            );
        }
        assert_eq!(
            serde_json::to_value(of("application/strategic-merge-patch+json", true).unwrap_err()).unwrap(),
            serde_json::json!({
                "apiVersion": "v1", "code": 415, "kind": "Status", "metadata": {},
                "message": "the body of the request was in an unknown format - accepted media types include: \
                            application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml",
                "reason": "UnsupportedMediaType", "status": "Failure"
            })
        );
    }

    #[test]
    fn neg_4_transforms_and_the_way_down_to_plain_json() {
        let table = Transform::Table(MetaVersion::V1);
        let kubectl = "application/json;as=Table;v=v1;g=meta.k8s.io,\
                       application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
        assert_eq!(accept(kubectl, Endpoint::List), Ok((Media::Json, table)));
        assert_eq!(accept(kubectl, Endpoint::Object), Ok((Media::Json, table)));
        assert_eq!(accept(kubectl, Endpoint::Watch), Ok((Media::Json, table)));
        assert_eq!(accept(kubectl, Endpoint::Plain), Ok((Media::Json, Transform::None)));
        assert_eq!(
            accept("application/json;as=Table;v=v9;g=meta.k8s.io,application/json", Endpoint::List),
            Ok((Media::Json, Transform::None))
        );
        assert_eq!(
            accept("application/json;as=Table;v=v1beta1;g=meta.k8s.io", Endpoint::List),
            Ok((Media::Json, Transform::Table(MetaVersion::V1beta1)))
        );
        assert_eq!(accept("application/json;as=Table", Endpoint::List).unwrap_err().code, 406);
        assert_eq!(MetaVersion::V1beta1.api_version(), "meta.k8s.io/v1beta1");
    }

    #[test]
    fn neg_5_tables_in_yaml() {
        assert_eq!(
            accept(
                "application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io,\
                 application/yaml;as=Table;v=v1;g=meta.k8s.io",
                Endpoint::List
            ),
            Ok((Media::Yaml, Transform::Table(MetaVersion::V1)))
        );
    }

    #[test]
    fn neg_6_partial_metadata_where_it_belongs() {
        let one = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
        let many = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
        let (partial, partial_list) =
            (Transform::PartialObjectMetadata(MetaVersion::V1), Transform::PartialObjectMetadataList(MetaVersion::V1));
        assert_eq!(accept(one, Endpoint::Object), Ok((Media::Json, partial)));
        assert_eq!(accept(one, Endpoint::Watch), Ok((Media::Json, partial)));
        assert_eq!(accept(many, Endpoint::List), Ok((Media::Json, partial_list)));
        assert_eq!(accept(one, Endpoint::List).unwrap_err().code, 406);
        let status = accept(many, Endpoint::Object).unwrap_err();
        assert!(status.is_not_acceptable() && status.message.contains("is not a list"));
    }

    #[test]
    fn neg_7_pretty_for_people() {
        let pretty = |agent: &str, query: &str| {
            negotiate(&headers(&[("user-agent", agent)]), &Query::parse(Some(query)), Endpoint::Object).unwrap().pretty
        };
        assert!(pretty("curl/8.0", "") && pretty("Wget/1", "") && pretty("Mozilla/5.0 (X11)", ""));
        assert!(!pretty("kubectl/v1.32.0", "") && pretty("kubectl/v1.32.0", "pretty=true"));
        assert!(!pretty("curl/8.0", "pretty=false"));
        let clause =
            negotiate(&headers(&[("accept", "application/json;pretty=1")]), &Query::default(), Endpoint::Object);
        assert!(clause.unwrap().pretty);
    }
}
