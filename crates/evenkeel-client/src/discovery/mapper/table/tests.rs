use serde_json::{Value, json};

use super::*;
use crate::discovery::testing::{group, resource};
use crate::discovery::wire::{AGGREGATED, Root, read_listing};

fn discovered(items: Value) -> Discovered {
    let body = json!({"items": items}).to_string();
    read_listing(Root::Groups, AGGREGATED, body.as_bytes()).unwrap().found
}

fn short(plural: &str, kind: &str, short_names: &[&str]) -> Value {
    let mut resource = resource(plural, kind);
    resource["shortNames"] = json!(short_names);
    resource
}

fn in_category(plural: &str, kind: &str, category: &str) -> Value {
    let mut resource = resource(plural, kind);
    resource["categories"] = json!([category]);
    resource
}

fn cluster() -> KindTable {
    KindTable::new(&discovered(json!([
        group(
            "",
            &[(
                "v1",
                vec![short("pods", "Pod", &["po"]), resource("endpoints", "Endpoints"), resource("events", "Event")]
            )]
        ),
        group("apps", &[("v1", vec![short("deployments", "Deployment", &["deploy"])])]),
        group("events.k8s.io", &[("v1", vec![resource("events", "Event")])]),
        group(
            "autoscaling",
            &[
                ("v2", vec![short("horizontalpodautoscalers", "HorizontalPodAutoscaler", &["hpa"])]),
                (
                    "v1",
                    vec![
                        short("horizontalpodautoscalers", "HorizontalPodAutoscaler", &["hpa"]),
                        resource("olds", "Old")
                    ]
                ),
            ]
        ),
        group("storage.k8s.io", &[("v1", vec![short("storageclasses", "StorageClass", &["sc"])])]),
    ])))
}

fn name(info: &ResourceInfo) -> String {
    format!("{} {}", info.api_version(), info.plural())
}

fn found(table: &KindTable, query: impl Into<ResourceQuery>) -> String {
    name(&table.resource_for(&query.into()).unwrap())
}

#[test]
fn map_001_priority_is_core_then_groups_in_order_then_preferred_versions() {
    let table = cluster();
    assert_eq!(found(&table, "events"), "v1 events");
    assert_eq!(found(&table, "horizontalpodautoscalers"), "autoscaling/v2 horizontalpodautoscalers");
    let all = table.resources_for(&"events".into()).unwrap();
    assert_eq!(all.iter().map(|info| name(info)).collect::<Vec<_>>(), ["v1 events", "events.k8s.io/v1 events"]);

    let mut groups = discovered(json!([
        group("b", &[("v1", vec![resource("foos", "Foo")]), ("v2", vec![resource("foos", "Foo")])]),
        group("a", &[("v1", vec![resource("foos", "Foo")])]),
    ]));
    groups.groups[0].preferred = Some("v2".into());
    assert_eq!(found(&KindTable::new(&groups), "foos"), "b/v2 foos");
}

#[test]
fn map_001_two_in_the_same_version_are_ambiguous() {
    // Better than client-go, where the last resource of a kind hides the others.
    let table = KindTable::new(&discovered(json!([group(
        "external.metrics.k8s.io",
        &[("v1beta1", vec![resource("queue", "MetricList"), resource("load", "MetricList")])]
    )])));
    let error = table.mapping("external.metrics.k8s.io", "MetricList", &[]).unwrap_err();
    let DiscoveryError::AmbiguousKind { matches, .. } = &error else { panic!("{error}") };
    assert_eq!(matches.len(), 2);
    assert!(error.to_string().contains("queue of external.metrics.k8s.io/v1beta1"));

    let mut twins = vec![resource("foos", "Foo"), resource("bars", "Bar")];
    twins[1]["singularResource"] = json!("foo");
    let table = KindTable::new(&discovered(json!([group("g", &[("v1", twins)])])));
    let error = table.resource_for(&"foo".into()).unwrap_err();
    assert!(matches!(error, DiscoveryError::AmbiguousResource { ref matches, .. } if matches.len() == 2), "{error}");
}

#[test]
fn map_002_kinds_lower_case_kinds_and_lists_are_mapped() {
    let table = cluster();
    let pod = table.mapping("", "Pod", &[]).unwrap();
    assert_eq!(*pod, ResourceInfo::new("", "v1", "Pod", "pods", true));
    assert_eq!(table.mapping("", "pod", &[]).unwrap(), pod, "and the kind is the server's");
    let list = table.mapping("", "PodList", &[]).unwrap();
    assert_eq!(*list, ResourceInfo::new("", "v1", "PodList", "podlists", true));
    let any = table.mapping("apps", "List", &["v1"]).unwrap();
    assert_eq!(*any, ResourceInfo::new("apps", "v1", "List", "lists", false));

    let mut unnamed = resource("policies", "Policy");
    unnamed["singularResource"] = json!("");
    let table = KindTable::new(&discovered(json!([group("g", &[("v1", vec![unnamed])])])));
    assert_eq!(found(&table, "policy"), "g/v1 policies");
}

#[test]
fn map_002_a_listed_kind_is_not_hidden_by_a_guessed_one() {
    let resources = vec![resource("foos", "Foo"), resource("foolists", "FooList")];
    let table = KindTable::new(&discovered(json!([group("g", &[("v1", resources)])])));
    assert_eq!(table.mapping("g", "FooList", &[]).unwrap().plural(), "foolists");
    assert_eq!(found(&table, "foolist"), "g/v1 foolists");
}

#[test]
fn map_004_names_match_in_any_case_and_groups_by_prefix() {
    let table = cluster();
    assert_eq!(found(&table, "PODS"), "v1 pods");
    assert_eq!(found(&table, "pod"), "v1 pods");
    assert_eq!(found(&table, "endpoints"), "v1 endpoints");
    assert_eq!(
        found(&table, ResourceQuery::new("storageclasses").group("storage")),
        "storage.k8s.io/v1 storageclasses"
    );
    assert_eq!(found(&table, ResourceQuery::new("events").group("events")), "events.k8s.io/v1 events");
    assert_eq!(
        found(&table, ResourceQuery::new("horizontalpodautoscalers").version("v1")),
        "autoscaling/v1 horizontalpodautoscalers"
    );
    for query in [
        ResourceQuery::new("widgets"),
        ResourceQuery::new("pods").group("apps"),
        ResourceQuery::new("pods").version("v2"),
        ResourceQuery::new("storageclasses").group("storage").version("v1"),
        ResourceQuery::new(""),
    ] {
        let error = table.resource_for(&query).unwrap_err();
        assert!(matches!(&error, DiscoveryError::NoResource { query: requests } if *requests == query), "{error}");
        assert!(error.is_not_found());
    }
    let error = table.mapping("apps", "Widget", &[]).unwrap_err();
    assert!(matches!(error, DiscoveryError::NoKind { .. }));
    assert_eq!(error.to_string(), "the server has no kind \"Widget\" in the group \"apps\"");
}

#[test]
fn map_004_an_exact_group_has_priority_over_a_longer_one() {
    // Better than client-go, where the order decides between a group and one that has it as a prefix.
    let table = KindTable::new(&discovered(json!([
        group("storage.k8s.io", &[("v1", vec![resource("foos", "Foo")])]),
        group("storage", &[("v1", vec![resource("foos", "Foo")])]),
    ])));
    assert_eq!(found(&table, ResourceQuery::new("foos").group("storage")), "storage/v1 foos");
}

#[test]
fn map_005_the_first_known_version_wins_and_unknown_versions_do_not_match() {
    let table = cluster();
    let hpa = |versions: &[&str]| table.mapping("autoscaling", "HorizontalPodAutoscaler", versions);
    assert_eq!(hpa(&[]).unwrap().version(), "v2");
    assert_eq!(hpa(&["v1", "v2"]).unwrap().version(), "v1");
    assert_eq!(hpa(&["v7", "v2"]).unwrap().version(), "v2");
    let error = hpa(&["v7"]).unwrap_err();
    assert!(matches!(&error, DiscoveryError::NoKind { versions, .. } if *versions == ["v7"]));
    assert_eq!(table.mapping("autoscaling", "Old", &[]).unwrap().version(), "v1", "only an older version has it");
}

#[test]
fn map_008_short_names_are_expanded_unless_they_are_names() {
    let table = cluster();
    assert_eq!(found(&table, "po"), "v1 pods");
    assert_eq!(found(&table, "deploy"), "apps/v1 deployments");
    assert_eq!(found(&table, "hpa"), "autoscaling/v2 horizontalpodautoscalers");
    assert_eq!(found(&table, ResourceQuery::new("hpa").version("v1")), "autoscaling/v1 horizontalpodautoscalers");
    assert_eq!(found(&table, ResourceQuery::new("sc").group("storage")), "storage.k8s.io/v1 storageclasses");
    assert!(table.resource_for(&ResourceQuery::new("po").group("apps")).is_err());

    let table = KindTable::new(&discovered(json!([
        group("a", &[("v1", vec![short("pods", "Pod", &["po", "foo"])])]),
        group("b", &[("v1", vec![resource("po", "Panda"), short("bars", "Bar", &["pod"])])]),
    ])));
    assert_eq!(found(&table, "po"), "b/v1 po", "a plural has priority over a short name");
    assert_eq!(found(&table, "pod"), "a/v1 pods", "a singular has priority over a short name");
    assert_eq!(found(&table, "foo"), "a/v1 pods");
    let unchanged = table.expand_short_name(&"nothing".into());
    assert_eq!(unchanged, Expansion { query: "nothing".into(), others: vec![] });
}

#[test]
fn map_008_the_first_of_several_short_names_wins_and_the_others_are_named() {
    let table = KindTable::new(&discovered(json!([
        group("a", &[("v2", vec![short("foos", "Foo", &["f"])]), ("v1", vec![short("foos", "Foo", &["f"])])]),
        group("b", &[("v1", vec![short("fees", "Fee", &["f"])])]),
        group("c", &[("v2", vec![short("fans", "Fan", &["f"])]), ("v1", vec![short("fans", "Fan", &["f"])])]),
    ])));
    let expansion = table.expand_short_name(&"f".into());
    assert_eq!(expansion.query, ResourceQuery::new("foos").group("a"));
    assert_eq!(expansion.others, ["fees.b", "fans.c"], "other versions of the same resource are no others");
    let narrowed = table.expand_short_name(&ResourceQuery::new("f").group("b"));
    assert_eq!(narrowed, Expansion { query: ResourceQuery::new("fees").group("b"), others: vec![] });
}

#[test]
fn map_010_a_category_is_expanded_in_order_without_repetition() {
    let table = KindTable::new(&discovered(json!([
        group("", &[("v1", vec![in_category("pods", "Pod", "all"), resource("secrets", "Secret")])]),
        group(
            "apps",
            &[
                ("v1beta1", vec![in_category("deployments", "Deployment", "all")]),
                ("v1", vec![in_category("deployments", "Deployment", "all")])
            ]
        ),
    ])));
    let all = table.expand("all").unwrap();
    assert_eq!(all.iter().map(|info| name(info)).collect::<Vec<_>>(), ["v1 pods", "apps/v1beta1 deployments"]);
    assert_eq!(table.expand("nothing"), None);
}

#[test]
fn arguments_are_read_as_kubectl_reads_them() {
    let table = cluster();
    for (argument, expected) in [
        ("pods", "v1 pods"),
        ("pod", "v1 pods"),
        ("po", "v1 pods"),
        ("Pod", "v1 pods"),
        ("deployments.apps", "apps/v1 deployments"),
        ("deployments.v1.apps", "apps/v1 deployments"),
        ("deploy.v1.apps", "apps/v1 deployments"),
        ("Deployment", "apps/v1 deployments"),
        ("Deployment.apps", "apps/v1 deployments"),
        ("Deployment.v1.apps", "apps/v1 deployments"),
        ("hpa.v1.autoscaling", "autoscaling/v1 horizontalpodautoscalers"),
        ("storageclass.storage", "storage.k8s.io/v1 storageclasses"),
        ("storageclasses.storage.k8s.io", "storage.k8s.io/v1 storageclasses"),
        ("storageclasses.v1.storage.k8s.io", "storage.k8s.io/v1 storageclasses"),
        ("events.events.k8s.io", "events.k8s.io/v1 events"),
        ("HorizontalPodAutoscaler.v1.autoscaling", "autoscaling/v1 horizontalpodautoscalers"),
    ] {
        assert_eq!(name(&table.resolve(argument).unwrap()), expected, "{argument}");
    }
    for argument in ["widgets", "pods.apps", "deployments.v7.apps", "", ".", "..", "pods."] {
        match table.resolve(argument) {
            Ok(info) => assert_eq!((argument, name(&info).as_str()), ("pods.", "v1 pods")),
            Err(error) => assert!(error.is_no_match(), "{argument}: {error}"),
        }
    }
}

#[test]
fn map_005_all_mappings_are_in_order_of_priority_or_of_the_versions() {
    let table = cluster();
    let names = |versions: &[&str]| -> Vec<String> {
        let found = table.mappings("autoscaling", "HorizontalPodAutoscaler", versions).unwrap();
        found.iter().map(|info| name(info)).collect()
    };
    let (v1, v2) = ("autoscaling/v1 horizontalpodautoscalers", "autoscaling/v2 horizontalpodautoscalers");
    assert_eq!(names(&[]), [v2, v1]);
    assert_eq!(names(&["v1", "v2"]), [v1, v2]);
    assert_eq!(names(&["v1"]), [v1]);
    assert!(table.mappings("autoscaling", "HorizontalPodAutoscaler", &["v3"]).unwrap_err().is_no_match());
    assert!(table.mappings("apps", "Pod", &[]).unwrap_err().is_no_match());
}

#[test]
fn map_002_the_singular_of_a_resource_is_the_servers_and_of_an_unknown_name_the_name() {
    let table = cluster();
    assert_eq!(table.singular("pods"), "pod");
    assert_eq!(table.singular("Pods"), "pod");
    assert_eq!(table.singular("pod"), "pod");
    assert_eq!(table.singular("storageclasses"), "storageclass");
    assert_eq!(table.singular("endpoints"), "endpoints");
    assert_eq!(table.singular("unknowns"), "unknowns");
}
