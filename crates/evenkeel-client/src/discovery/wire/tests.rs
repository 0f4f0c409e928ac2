use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::discovery::testing::{group, legacy_list, resource};

fn aggregated(items: Value) -> Discovered {
    let body = json!({"kind": "APIGroupDiscoveryList", "items": items}).to_string();
    let listing = read_listing(Root::Groups, AGGREGATED, body.as_bytes()).unwrap();
    assert!(!listing.legacy);
    listing.found
}

#[test]
fn dsc_003_the_parameters_identify_the_format_in_any_order() {
    for media_type in [
        AGGREGATED,
        "application/json; as=APIGroupDiscoveryList; v=v2; g=apidiscovery.k8s.io",
        "application/json;charset=utf-8;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
        "Application/JSON;g=\"apidiscovery.k8s.io\";v=v2;as=APIGroupDiscoveryList;profile=nopeer",
    ] {
        assert!(is_aggregated(media_type), "{media_type}");
    }
    for media_type in [
        "application/json",
        "",
        "text/html",
        "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList",
        "application/json;g=apidiscovery.k8s.io;v=v2",
        "application/cbor;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
    ] {
        assert!(!is_aggregated(media_type), "{media_type}");
    }
}

#[test]
fn dsc_006_stale_versions_are_failures_and_the_first_other_one_is_preferred() {
    let mut stale = group("g", &[("v3", vec![resource("foos", "Foo")]), ("v2", vec![resource("foos", "Foo")])]);
    stale["versions"][0]["freshness"] = json!("Stale");
    let found = aggregated(json!([stale]));
    assert_eq!(found.groups, [ApiGroup::new("g".into(), vec!["v2".into()], Some("v2".into()))]);
    assert_eq!(found.resources.len(), 1);
    assert_eq!(found.failures.len(), 1);
    assert_eq!(found.failures[0].group_version, GroupVersion::gv("g", "v3"));
    assert!(matches!(found.failures[0].error, DiscoveryError::Stale { .. }));

    let mut all_stale = group("g", &[("v1", vec![])]);
    all_stale["versions"][0]["freshness"] = json!("Stale");
    let found = aggregated(json!([all_stale]));
    assert_eq!(found.groups, [ApiGroup::new("g".into(), vec![], None)]);
}

#[test]
fn dsc_006_a_resource_without_a_kind_is_skipped_but_its_subresources_are_kept() {
    let mut foos = resource("foos", "Foo");
    foos["subresources"] = json!([
        {"subresource": "scale", "responseKind": {"group": "autoscaling", "version": "v1", "kind": "Scale"}, "verbs": ["get"]},
        {"subresource": "status", "responseKind": {"group": "", "version": "", "kind": "Foo"}, "verbs": ["update"]},
        {"subresource": "proxy", "verbs": ["get"]},
        {"subresource": "attach", "responseKind": {"group": "", "version": "", "kind": ""}, "verbs": ["get"]},
    ]);
    let mut nameless = resource("bars", "");
    nameless["scope"] = json!("Cluster");
    nameless["subresources"] = json!([{"subresource": "status", "responseKind": {"kind": "Bar"}, "verbs": null}]);
    let found = aggregated(json!([group("g", &[("v1", vec![foos, nameless])])]));
    let list = &found.resources[0];

    let [foos] = list.resources.as_slice() else { panic!("one resource has a kind") };
    assert_eq!(*foos.info, ResourceInfo::new("g", "v1", "Foo", "foos", true));
    assert_eq!((foos.singular.as_str(), foos.has_verb("list"), foos.has_verb("watch")), ("foo", true, false));
    let names: Vec<_> = foos.subresources.iter().map(|subresource| subresource.name.as_str()).collect();
    assert_eq!(names, ["scale", "status"]);
    let scale = foos.subresource("scale").unwrap();
    assert_eq!(scale.kind, GroupVersionKind::gvk("autoscaling", "v1", "Scale"));
    assert!(scale.namespaced);
    assert_eq!(foos.subresource("status").unwrap().kind, GroupVersionKind::gvk("g", "v1", "Foo"));

    let [orphan] = list.orphans.as_slice() else { panic!("the subresource of what has no kind") };
    assert_eq!((orphan.resource.as_str(), orphan.name.as_str(), orphan.namespaced), ("bars", "status", false));
    assert_eq!(orphan.kind, GroupVersionKind::gvk("g", "v1", "Bar"));
}

#[test]
fn dsc_011_the_servers_order_is_kept() {
    // Better than client-go, whose maps shuffle the lists of aggregated discovery in every process.
    let names = ["zeta", "alpha", "mid", "beta"];
    let groups: Vec<_> = names
        .iter()
        .map(|name| group(name, &[("v2", vec![resource("zs", "Z"), resource("as", "A")]), ("v1", vec![])]))
        .collect();
    let found = aggregated(json!(groups));
    let order: Vec<_> = found.resources.iter().map(|list| list.group_version.api_version()).collect();
    let expected: Vec<_> = names.iter().flat_map(|name| [format!("{name}/v2"), format!("{name}/v1")]).collect();
    assert_eq!(order, expected);
    let plurals: Vec<_> = found.resources[0].resources.iter().map(|resource| resource.info.plural()).collect();
    assert_eq!(plurals, ["zs", "as"]);
    let preferred: Vec<_> = found.preferred().resources[0].resources.iter().map(|r| r.info.kind().to_owned()).collect();
    assert_eq!(preferred, ["Z", "A"]);
}

#[test]
fn the_older_form_is_nested_too() {
    let list = legacy_list(
        "apps/v1",
        &[
            json!({"name": "deployments/scale", "namespaced": true, "group": "autoscaling", "version": "v1", "kind": "Scale", "verbs": ["get"]}),
            json!({"name": "deployments", "singularName": "deployment", "namespaced": true, "kind": "Deployment", "verbs": ["get"], "shortNames": ["deploy"], "categories": ["all"]}),
            json!({"name": "deployments/status", "namespaced": true, "kind": "Deployment", "verbs": null}),
            json!({"name": "nodes/proxy", "kind": "NodeProxyOptions", "verbs": ["get"]}),
            json!({"name": "nothing", "kind": "", "verbs": []}),
        ],
    );
    let group_version = GroupVersion::gv("apps", "v1");
    let list = read_resources(&group_version, list.to_string().as_bytes()).unwrap();
    let [deployments] = list.resources.as_slice() else { panic!("one resource") };
    assert_eq!(deployments.short_names, ["deploy"]);
    assert_eq!(deployments.categories, ["all"]);
    let names: Vec<_> = deployments.subresources.iter().map(|subresource| subresource.name.as_str()).collect();
    assert_eq!(names, ["scale", "status"]);
    assert_eq!(deployments.subresource("scale").unwrap().kind, GroupVersionKind::gvk("autoscaling", "v1", "Scale"));
    assert_eq!(list.orphans.len(), 1);
}

#[test]
fn null_and_absent_are_empty_and_other_kinds_are_refused() {
    for body in ["{}", r#"{"groups":null}"#, r#"{"kind":"APIGroupList","groups":[]}"#] {
        let listing = read_listing(Root::Groups, "application/json", body.as_bytes()).unwrap();
        assert!(listing.legacy && listing.found.groups.is_empty(), "{body}");
    }
    for body in ["", "[", "[]", "null", "<html>", r#"{"kind":"Status","code":200}"#, r#"{"groups":7}"#] {
        assert!(read_listing(Root::Groups, "application/json", body.as_bytes()).is_err(), "{body}");
        assert!(read_listing(Root::Core, AGGREGATED, body.as_bytes()).is_err() || body.contains("groups"), "{body}");
    }
    let found = aggregated(json!([{"metadata": null, "versions": null}]));
    assert_eq!(found.groups, [ApiGroup::new(String::new(), vec![], None)]);
}

#[test]
fn sec_48_names_that_are_invalid_in_a_path_never_become_part_of_one() {
    for name in ["..", ".", "", "a/b", "a%2fb", "a?b", "a#b", "a b", "a\\b", "ä", "a\r\nb", &"x".repeat(300)] {
        assert!(!is_path_segment(name), "{name:?}");
    }
    for name in ["v1", "apps", "networking.k8s.io", "a_b", "A-1"] {
        assert!(is_path_segment(name), "{name:?}");
    }
    let found = aggregated(json!([
        group("../../evil", &[("v1", vec![resource("foos", "Foo")])]),
        group(
            "good",
            &[
                ("v1?x", vec![]),
                ("v1", vec![resource("../pods", "Foo"), resource("bars", "Bar"), resource("bells", "Bell\u{7}")]),
            ]
        ),
    ]));
    let failed: Vec<_> = found.failures.iter().map(|failure| failure.group_version.clone()).collect();
    assert_eq!(failed, [GroupVersion::gv("../../evil", "v1"), GroupVersion::gv("good", "v1?x")]);
    assert!(found.failures.iter().all(|failure| matches!(failure.error, DiscoveryError::Unusable { .. })));
    assert_eq!(found.resources.len(), 1);
    let plurals: Vec<_> = found.resources[0].resources.iter().map(|resource| resource.info.plural()).collect();
    assert_eq!(plurals, ["bars"], "one bad name is not held against the others");
}

#[test]
fn documents_above_the_limits_are_rejected() {
    let many: Vec<_> = (0..=MAX_GROUP_VERSIONS)
        .map(|n| json!({"metadata": {"name": format!("g{n}")}, "versions": [{"version": "v1"}]}))
        .collect();
    let body = json!({"items": many}).to_string();
    assert!(read_listing(Root::Groups, AGGREGATED, body.as_bytes()).unwrap_err().contains("5001 versions"));
    let many: Vec<_> = (0..=MAX_RESOURCES).map(|n| json!({"resource": format!("r{n}")})).collect();
    let found = aggregated(json!([group("g", &[("v1", many)]), group("h", &[("v1", vec![])])]));
    assert_eq!(found.failures.len(), 1);
    assert_eq!(found.resources.len(), 1, "the other group is still there");
}

proptest! {
    #[test]
    fn no_document_causes_a_panic(
        body in prop_oneof![any::<Vec<u8>>(), documents()],
        media_type in prop_oneof![Just(AGGREGATED), Just(LEGACY), Just("")],
    ) {
        for root in [Root::Core, Root::Groups] {
            if let Ok(listing) = read_listing(root, media_type, &body) {
                let lists = &listing.found.resources;
                for resource in lists.iter().flat_map(|list| &list.resources) {
                    let path = resource.info.url_path(None);
                    prop_assert!(path.split('/').skip(1).all(is_path_segment), "{path}");
                }
            }
        }
        let _ = read_resources(&GroupVersion::gv("g", "v1"), &body);
    }
}

/// Documents that are almost valid.
fn documents() -> impl Strategy<Value = Vec<u8>> {
    let name = prop_oneof![Just("v1".to_owned()), Just("..".to_owned()), Just("a/b".to_owned()), "[ -~]{0,8}"];
    let names = proptest::collection::vec(name, 6);
    (names, any::<bool>()).prop_map(|(names, stale)| {
        let [group, version, plural, kind, subresource, scope] = &names[..] else { unreachable!() };
        let freshness = if stale { "Stale" } else { "Current" };
        let document = json!({
            "items": [{"metadata": {"name": group}, "versions": [{"version": version, "freshness": freshness, "resources": [{
                "resource": plural, "responseKind": {"kind": kind}, "scope": scope,
                "subresources": [{"subresource": subresource, "responseKind": {"kind": kind}}],
            }]}]}],
            "groups": [{"name": group, "versions": [{"version": version}]}],
            "versions": [version],
            "resources": [{"name": format!("{plural}/{subresource}"), "kind": kind}, {"name": plural, "kind": kind}],
        });
        document.to_string().into_bytes()
    })
}

#[test]
fn a_failure_prints_no_control_characters_of_the_servers() {
    let found = aggregated(json!([group(&format!("\u{1b}[31m{}", "x".repeat(1000)), &[("v1", vec![])])]));
    let text = found.failures[0].to_string();
    assert!(text.starts_with("\\u{1b}[31mxxx"), "{text}");
    assert!(text.len() < 600 && !text.chars().any(char::is_control), "{text}");
}
