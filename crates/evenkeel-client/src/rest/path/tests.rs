use evenkeel_core::ResourceInfo;
use proptest::prelude::*;

use super::*;

fn deployments() -> ResourceInfo {
    ResourceInfo::new("apps", "v1", "Deployment", "deployments", true)
}

fn pods() -> ResourceInfo {
    ResourceInfo::new("", "v1", "Pod", "pods", true)
}

fn problem(path: Path<'_>) -> String {
    path.build("").unwrap_err().to_string()
}

#[test]
fn req_003_parts_have_one_order_whatever_the_order_of_calls() {
    let info = deployments();
    let expected = "/apis/apps/v1/namespaces/ns/deployments/web/proxy/a/b/";
    let one = Path::resource(&info).namespace("ns").name("web").subresource("proxy").suffix("a/b/");
    let other = Path::resource(&info).suffix("/a/b/").subresource("proxy").name("web").namespace("ns");
    assert_eq!(one.build("").unwrap(), expected);
    assert_eq!(other.build("").unwrap(), expected);
    assert_eq!(Path::resource(&pods()).namespace("").build("").unwrap(), "/api/v1/pods");
    let shouting = ResourceInfo::new("", "v1", "Pod", "PODS", true);
    assert_eq!(Path::resource(&shouting).build("").unwrap(), "/api/v1/pods");
}

#[test]
fn cfg_004_group_and_version_lead_the_path_and_the_core_group_has_none() {
    let built = |group, base| {
        let info = ResourceInfo::new(group, "v1beta2", "Thing", "things", true);
        Path::resource(&info).build(base).unwrap()
    };
    assert_eq!(built("", ""), "/api/v1beta2/things");
    assert_eq!(built("apps", ""), "/apis/apps/v1beta2/things");
    assert_eq!(built("example.com", "/clusters/one"), "/clusters/one/apis/example.com/v1beta2/things");
}

#[test]
fn cfg_005_a_resource_without_a_version_is_not_requested() {
    // client-go checks this when a client is created for one group and version. Here every kind has its own; one
    // without a version is rejected before anything is sent.
    let info = ResourceInfo::new("apps", "", "Deployment", "deployments", true);
    assert_eq!(problem(Path::resource(&info)), r#""" is no version: it is empty"#);
    assert_eq!(Path::raw("/version").build("").unwrap(), "/version", "what has no version is asked for by its path");
}

#[test]
fn req_004_setting_a_part_twice_is_an_error() {
    let info = pods();
    assert_eq!(problem(Path::resource(&info).name("a").name("a")), "the request's name is set twice");
    assert_eq!(problem(Path::resource(&info).namespace("").namespace("")), "the request's namespace is set twice");
    let subresource = Path::resource(&info).subresource("status").subresource("scale");
    assert_eq!(problem(subresource), "the request's subresource is set twice");
    assert_eq!(problem(Path::resource(&info).suffix("a").suffix("b")), "the request's suffix is set twice");
}

#[test]
fn req_005_all_problems_of_a_segment_are_reported_at_once() {
    let info = pods();
    assert_eq!(
        problem(Path::resource(&info).name("a/b%c")),
        r#""a/b%c" is no name: it may not contain '/', it may not contain '%'"#
    );
    assert_eq!(problem(Path::resource(&info).namespace("..")), r#"".." is no namespace: it may not be '..'"#);
    assert_eq!(problem(Path::resource(&info).subresource(".")), r#""." is no subresource: it may not be '.'"#);
    let odd = ResourceInfo::new("", "v1", "Pod", "../secrets", true);
    assert_eq!(problem(Path::resource(&odd)), r#""../secrets" is no resource: it may not contain '/'"#);
    let odd = ResourceInfo::new("a/b", "v1", "Pod", "pods", true);
    assert_eq!(problem(Path::resource(&odd)), r#""a/b" is no group: it may not contain '/'"#);
}

#[test]
fn req_006_a_name_is_not_empty_but_a_namespace_may_be() {
    let info = pods();
    assert_eq!(problem(Path::resource(&info).name("")), r#""" is no name: it is empty"#);
    assert!(Path::resource(&info).namespace("").build("").is_ok());
    assert!(Path::resource(&info).name("Not_A_DNS_Label!").build("").is_ok());
}

#[test]
fn req_007_unusual_names_are_escaped() {
    let path = Path::resource(&pods()).name("system:a b é").build("").unwrap();
    assert_eq!(path, "/api/v1/pods/system:a%20b%20%C3%A9");
}

#[test]
fn req_008_no_raw_path_leaves_the_base() {
    // Better than client-go, which resolves dots, so that a path can leave the base path.
    for raw in [
        "../x",
        "/a/../b",
        "/a/./b",
        "/..",
        "/%2e%2E/x",
        "/a/.%2e",
        "/a//b",
        "//host/x",
        "//",
        "/a#b",
        "/a\\b",
        "/a b",
        "/é",
    ] {
        assert!(Path::raw(raw).build("/ctx").is_err(), "{raw}");
    }
    for suffix in ["..", "a/../b", "a?b", "a#b", "./a", "a\\b", "a\nb"] {
        assert!(Path::resource(&pods()).suffix(suffix).build("").is_err(), "{suffix}");
    }
    assert_eq!(Path::raw("/a%2Fb").build("/ctx").unwrap(), "/ctx/a%2Fb");
    assert_eq!(Path::resource(&pods()).suffix("a%2Fb").build("").unwrap(), "/api/v1/pods/a%252Fb");
}

#[test]
fn req_009_a_raw_path_is_below_the_base_path() {
    for (base, raw, expected) in [
        ("", "", "/"),
        ("", "/", "/"),
        ("", "/api", "/api"),
        ("", "/api/", "/api/"),
        ("", "apis", "/apis"),
        ("/p1", "", "/p1"),
        ("/p1", "/", "/p1/"),
        ("/p1", "/api", "/p1/api"),
        ("/p1", "/api/", "/p1/api/"),
        ("/p1/p2", "/api/r1", "/p1/p2/api/r1"),
        ("/p1/api/p2", "/api", "/p1/api/p2/api"),
    ] {
        assert_eq!(Path::raw(raw).build(base).unwrap(), expected, "{base:?} {raw:?}");
    }
}

#[test]
fn req_010_a_slash_at_the_end_stays_only_if_nothing_follows() {
    assert_eq!(Path::raw("/foo/").build("").unwrap(), "/foo/");
    assert_eq!(Path::raw("/foo/").name("a").build("").unwrap(), "/foo/a");
    assert_eq!(Path::raw("/foo/").namespace("ns").suffix("a").build("").unwrap(), "/foo/namespaces/ns/a");
    assert_eq!(Path::raw("/foo/").suffix("/a").build("").unwrap(), "/foo/a");
}

#[test]
fn req_011_a_raw_path_brings_its_query() {
    let path = Path::raw("/foo?a=1&b=x%20y&a=2");
    assert_eq!(path.build("").unwrap(), "/foo");
    assert_eq!(path.own_query(), Some("a=1&b=x%20y&a=2"));
    assert_eq!(Path::raw("/foo/?a=1").name("n").build("").unwrap(), "/foo/n");
}

#[test]
fn req_020_an_empty_namespace_is_refused_where_one_is_needed() {
    let info = pods();
    let empty = Path::resource(&info).namespace("");
    let check = |path: &Path<'_>, method| path.preflight(&method).is_ok();
    assert!(!check(&empty, Method::POST));
    assert!(check(&empty, Method::GET), "a list of all namespaces");
    let named = empty.name("a");
    // PATCH too, which client-go does not check.
    for method in [Method::GET, Method::PUT, Method::DELETE, Method::PATCH] {
        assert!(!check(&named, method));
    }
    assert!(check(&Path::resource(&info).name("a"), Method::GET), "only if it was set");
    let nodes = ResourceInfo::new("", "v1", "Node", "nodes", false);
    assert!(check(&Path::resource(&nodes).namespace(""), Method::POST), "a node needs no namespace");
}

/// Strings with a high chance of trouble.
fn trouble() -> impl Strategy<Value = String> {
    prop_oneof![
        ".*",
        r"[./%\\?#&=:;@ a-z\x00-\x1f]{0,12}",
        Just("..".to_owned()),
        Just("%2e%2e".to_owned()),
        Just("a%2fb".to_owned()),
    ]
}

proptest! {
    #[test]
    fn sec_35_a_segment_is_rejected_or_unchanged(
        namespace in trouble(), name in trouble(), subresource in trouble(), plural in trouble(), group in trouble(),
    ) {
        let info = ResourceInfo::new(&group, "v1", "Thing", &plural, true);
        let path = Path::resource(&info).namespace(&namespace).name(&name).subresource(&subresource);
        let Ok(built) = path.build("/base") else { return Ok(()) };
        let uri: http::Uri = built.parse().expect("a path that can be sent");
        prop_assert_eq!(uri.query(), None);
        let segments: Vec<String> = uri.path().split('/').map(|segment| {
            percent_encoding::percent_decode_str(segment).decode_utf8().expect("text").into_owned()
        }).collect();
        let plural = plural.to_lowercase();
        let mut expected = vec!["", "base"];
        if group.is_empty() {
            expected.push("api");
        } else {
            expected.extend(["apis", &group]);
        }
        expected.push("v1");
        if !namespace.is_empty() {
            expected.extend(["namespaces", &namespace]);
        }
        expected.extend([plural.as_str(), &name, &subresource]);
        prop_assert_eq!(segments, expected);
    }

    #[test]
    fn sec_35_raw_paths_and_suffixes_stay_below_the_base(text in trouble()) {
        for path in [Path::raw(&text), Path::raw("/proxy").suffix(&text)] {
            let Ok(built) = path.build("/base") else { continue };
            prop_assert!(built.starts_with("/base"));
            let climbs = built.split('/').any(|segment| {
                let plain = percent_encoding::percent_decode_str(segment).collect::<Vec<u8>>();
                plain == b"." || plain == b".."
            });
            prop_assert!(!climbs);
        }
    }
}
