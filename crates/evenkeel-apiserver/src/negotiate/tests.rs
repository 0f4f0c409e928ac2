use super::*;

fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
    pairs
        .iter()
        .map(|(name, value)| (header::HeaderName::from_static(name), HeaderValue::from_str(value).unwrap()))
        .collect()
}

fn accept(value: &str, endpoint: Endpoint) -> Result<(Media, Transform), Status> {
    negotiate(&headers(&[("accept", value)]), &Query::default(), endpoint, || true)
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
    assert_eq!(object("application/vnd.kubernetes.protobuf,application/json"), plain(Media::Protobuf));
    assert_eq!(object("application/json,application/vnd.kubernetes.protobuf"), plain(Media::Json));
    assert_eq!(object("application/json;q=0.8,application/vnd.kubernetes.protobuf"), plain(Media::Protobuf));
    assert_eq!(object("application/vnd.kubernetes.protobuf, */*"), plain(Media::Protobuf));
    assert_eq!(object("*/*, application/vnd.kubernetes.protobuf;q=0.9"), plain(Media::Json));
    assert_eq!(object("application/vnd.kubernetes.protobuf;q=0, application/yaml"), plain(Media::Yaml));
    assert_eq!(object("application/json;q=0, application/yaml;q=0.1"), plain(Media::Yaml));
    assert_eq!(object("text/html, image/gif, *; q=.2, */*; q=.2"), plain(Media::Json));
    assert_eq!(object(""), plain(Media::Json));
    assert_eq!(accept("application/json;stream=watch", Endpoint::Watch), plain(Media::Json));
    let stream = "application/vnd.kubernetes.protobuf;stream=watch,application/json;stream=watch";
    assert_eq!(accept(stream, Endpoint::Watch), plain(Media::Protobuf));
    let none = negotiate(&HeaderMap::new(), &Query::default(), Endpoint::List, || true).unwrap();
    assert_eq!((none.media, none.pretty), (Media::Json, false));
}

#[test]
fn neg_1_several_accept_headers_are_one() {
    let mut two = headers(&[("accept", "application/xml")]);
    two.append("accept", HeaderValue::from_static("application/yaml"));
    let chosen = negotiate(&two, &Query::default(), Endpoint::Object, || true).unwrap();
    assert_eq!(chosen.media, Media::Yaml);
}

#[test]
fn neg_2_no_match_is_406_in_json() {
    for value in ["application/xml", "application/cbor", "application/json;q=0"] {
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
        let protobuf = Representation { media: Media::Protobuf, ..Representation::JSON };
        let reply = status_response_in(&status, protobuf);
        assert_eq!(reply.status(), 406);
        assert_eq!(reply.headers()["content-type"], "application/json");
    }
    let status = accept("application/yaml", Endpoint::Watch).unwrap_err();
    let streams = "application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch";
    assert_eq!(status.message, format!("only the following media types are accepted: {streams}"));
}

#[test]
fn bin_3_custom_resources_have_no_protobuf_but_their_metadata_has() {
    let custom = |value: &str, endpoint| {
        negotiate(&headers(&[("accept", value)]), &Query::default(), endpoint, || false)
            .map(|chosen| (chosen.media, chosen.transform))
    };
    let json = Ok((Media::Json, Transform::None));
    assert_eq!(custom("application/vnd.kubernetes.protobuf,application/json", Endpoint::Object), json);
    assert_eq!(custom("application/vnd.kubernetes.protobuf;stream=watch, */*", Endpoint::Watch), json);
    for only in ["application/vnd.kubernetes.protobuf", "application/xml"] {
        let status = custom(only, Endpoint::Object).unwrap_err();
        assert_eq!(
            serde_json::to_value(&status).unwrap(),
            serde_json::json!({
                "apiVersion": "v1", "code": 406, "kind": "Status", "metadata": {}, "reason": "NotAcceptable",
                "status": "Failure", "message": "only the following media types are accepted: application/json, \
                    application/yaml, application/vnd.kubernetes.protobuf"
            })
        );
    }
    let one = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
    let metadata = Transform::PartialObjectMetadata(MetaVersion::V1);
    assert_eq!(custom(one, Endpoint::Object), Ok((Media::Protobuf, metadata)));
    assert_eq!(custom(one, Endpoint::Watch), Ok((Media::Protobuf, metadata)));
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
fn neg_4_transforms_and_the_fallback_to_plain_json() {
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
fn neg_5_no_tables_in_protobuf() {
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
fn neg_5_metadata_in_protobuf() {
    let list = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";
    let metadata = Transform::PartialObjectMetadataList(MetaVersion::V1);
    assert_eq!(accept(list, Endpoint::List), Ok((Media::Protobuf, metadata)));
    let table = "application/vnd.kubernetes.protobuf;as=Table;g=meta.k8s.io;v=v1";
    let status = accept(table, Endpoint::List).unwrap_err();
    assert_eq!(status.code, 406);
    assert!(status.message.starts_with("only the following media types are accepted: application/json, "));
}

#[test]
fn a_status_is_in_the_clients_form_and_in_json_without_one() {
    let form = |value: &str| negotiate_status(&headers(&[("accept", value)]), &Query::default()).media;
    assert_eq!(form("application/vnd.kubernetes.protobuf,application/json"), Media::Protobuf);
    assert_eq!(form("application/yaml"), Media::Yaml);
    assert_eq!(form("application/json;as=Table;v=v1;g=meta.k8s.io,application/json"), Media::Json);
    assert_eq!(form("application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"), Media::Json);
    assert_eq!(form("application/xml"), Media::Json);
}

#[test]
fn neg_6_partial_metadata_is_accepted_for_matching_endpoints() {
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
        negotiate(&headers(&[("user-agent", agent)]), &Query::parse(Some(query)), Endpoint::Object, || true)
            .unwrap()
            .pretty
    };
    assert!(pretty("curl/8.0", "") && pretty("Wget/1", "") && pretty("Mozilla/5.0 (X11)", ""));
    assert!(!pretty("kubectl/v1.32.0", "") && pretty("kubectl/v1.32.0", "pretty=true"));
    assert!(!pretty("curl/8.0", "pretty=false"));
    let clause =
        negotiate(&headers(&[("accept", "application/json;pretty=1")]), &Query::default(), Endpoint::Object, || true);
    assert!(clause.unwrap().pretty);
}
