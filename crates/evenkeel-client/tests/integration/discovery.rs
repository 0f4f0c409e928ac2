//! Discovery, names and schemas of an API server in this process.

use std::time::Duration;

use evenkeel_apiserver::{Action, ApiServer, Rule, ServerVersion};
use evenkeel_client::discovery::{Discovered, DiskCache, RestMapper};
use evenkeel_client::wait::wait_for_crd;
use evenkeel_client::{ListParams, manifest};
use evenkeel_core::{ResourceInfo, Status};
use kube_core::{GroupVersion, GroupVersionKind};
use serde_json::{Value, json};

fn definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "foos.sample.example.com"},
        "spec": {
            "group": "sample.example.com", "scope": "Namespaced",
            "names": {"plural": "foos", "singular": "foo", "kind": "Foo", "shortNames": ["fo"], "categories": ["all"]},
            "versions": [{
                "name": "v1alpha1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object", "properties": {"replicas": {"type": "integer"}}}}}},
            }],
        },
    })
}

fn names(discovered: &Discovered) -> Vec<String> {
    discovered.resources.iter().map(|list| list.group_version.api_version()).collect()
}

/// Everything that discovery returns about every resource.
fn flat(discovered: &Discovered) -> Vec<String> {
    let resources = discovered.resources.iter().flat_map(|list| &list.resources);
    resources
        .map(|resource| {
            let subresources = resource.subresources.iter().map(|sub| format!("{} {:?}", sub.name, sub.kind));
            let subresources: Vec<_> = subresources.collect();
            let (info, singular) = (&resource.info, &resource.singular);
            let (short_names, categories, verbs) = (&resource.short_names, &resource.categories, &resource.verbs);
            format!("{info:?} {singular} {short_names:?} {categories:?} {verbs:?} {subresources:?}")
        })
        .collect()
}

#[tokio::test(start_paused = true)]
async fn dsc_005_both_formats_give_the_same_result() {
    let server = ApiServer::start().await.unwrap();
    server.install_crds([definition()]).await.unwrap();
    let discovery = server.client().discovery();

    let aggregated = discovery.groups_and_resources().await.unwrap().complete().unwrap();
    let requests = server.requests().len();
    let legacy = discovery.clone().legacy().groups_and_resources().await.unwrap().complete().unwrap();
    let lists = aggregated.resources.len();
    assert_eq!(server.requests().len(), requests + 2 + lists, "two roots, and one request per version");

    assert_eq!(names(&aggregated), names(&legacy));
    assert_eq!(aggregated.groups, legacy.groups);
    assert_eq!(flat(&aggregated), flat(&legacy));

    assert_eq!(aggregated.groups[0].name, "");
    let core = aggregated.list(&GroupVersion::gv("", "v1")).unwrap();
    let pods = core.resource("pods").unwrap();
    assert_eq!(*pods.info, ResourceInfo::new("", "v1", "Pod", "pods", true));
    assert_eq!((pods.singular.as_str(), &pods.short_names[..]), ("pod", &["po".to_owned()][..]));
    assert!(pods.has_verb("watch") && pods.categories.contains(&"all".to_owned()));
    assert!(pods.subresource("log").is_some());
    let apps = aggregated.list(&GroupVersion::gv("apps", "v1")).unwrap();
    let scale = apps.resource("deployments").unwrap().subresource("scale").unwrap();
    assert_eq!(scale.kind, GroupVersionKind::gvk("autoscaling", "v1", "Scale"));
    assert!(aggregated.group("autoscaling").unwrap().preferred.as_deref() == Some("v2"));
}

#[tokio::test(start_paused = true)]
async fn resource_names_resolve_as_in_kubectl() {
    let server = ApiServer::start().await.unwrap();
    let mapper = RestMapper::new(server.client().discovery().cached());
    for (argument, api_version, plural) in [
        ("po", "v1", "pods"),
        ("svc", "v1", "services"),
        ("deploy", "apps/v1", "deployments"),
        ("Deployment", "apps/v1", "deployments"),
        ("cj", "batch/v1", "cronjobs"),
        ("ing", "networking.k8s.io/v1", "ingresses"),
        ("ev", "v1", "events"),
        ("events.events.k8s.io", "events.k8s.io/v1", "events"),
        ("hpa", "autoscaling/v2", "horizontalpodautoscalers"),
        ("crd", "apiextensions.k8s.io/v1", "customresourcedefinitions"),
        ("pdb", "policy/v1", "poddisruptionbudgets"),
        ("endpoints", "v1", "endpoints"),
        ("lease.coordination", "coordination.k8s.io/v1", "leases"),
    ] {
        let info = mapper.resolve(argument).await.unwrap();
        assert_eq!((info.api_version(), info.plural()), (api_version, plural), "{argument}");
    }
    let all = mapper.expand("all").await.unwrap().unwrap();
    let all: Vec<_> = all.iter().map(|info| info.plural()).collect();
    assert_eq!(all[..2], ["pods", "replicationcontrollers"]);
    assert!(all.contains(&"deployments") && all.contains(&"horizontalpodautoscalers"));
    // Every resource is found by all of its names.
    let discovered = mapper.discovery().groups_and_resources().await.unwrap();
    for resource in discovered.resources.iter().flat_map(|list| &list.resources) {
        let info = &resource.info;
        let found = mapper.mapping(info.group(), info.kind(), &[info.version()]).await.unwrap();
        assert_eq!(found, *info);
        let argument = format!("{}.{}.{}", info.plural(), info.version(), info.group());
        if !info.group().is_empty() {
            assert_eq!(mapper.resolve(&argument).await.unwrap(), *info, "{argument}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn chc_22_a_new_definition_is_found_on_the_first_miss() {
    // Better than client-go, which finds it only after a reset unless its cache is on disk.
    let server = ApiServer::start().await.unwrap();
    let mapper = RestMapper::new(server.client().discovery().cached());
    mapper.resolve("pods").await.unwrap();
    server.install_crds([definition()]).await.unwrap();
    let foos = mapper.mapping("sample.example.com", "Foo", &[]).await.unwrap();
    assert_eq!(*foos, ResourceInfo::new("sample.example.com", "v1alpha1", "Foo", "foos", true));
    assert_eq!(mapper.resolve("fo").await.unwrap(), foos);
    assert!(mapper.expand("all").await.unwrap().unwrap().contains(&foos));
}

#[tokio::test(start_paused = true)]
async fn chc_22_a_new_definition_is_found_with_a_disk_cache_of_another_process() {
    let directory = tempfile::tempdir().unwrap();
    let server = ApiServer::start().await.unwrap();
    let on_disk = || {
        let cache = DiskCache::new(directory.path(), Duration::from_secs(600));
        RestMapper::new(server.client().discovery().cached_on_disk(cache))
    };
    on_disk().resolve("pods").await.unwrap();
    server.install_crds([definition()]).await.unwrap();
    let requests = server.requests().len();
    let mapper = on_disk();
    mapper.resolve("pods").await.unwrap();
    assert_eq!(server.requests().len(), requests, "the disk knows");
    assert_eq!(mapper.resolve("foos").await.unwrap().kind(), "Foo");
}

#[tokio::test(start_paused = true)]
async fn dsc_023_etags_avoid_downloads() {
    let server = ApiServer::start().await.unwrap();
    let cached = server.client().discovery().cached();
    let first = cached.groups_and_resources().await.unwrap();
    cached.openapi().index().await.unwrap();
    cached.invalidate();
    let before = server.requests().len();
    assert_eq!(cached.groups_and_resources().await.unwrap(), first);
    cached.openapi().index().await.unwrap();
    let codes: Vec<_> = server.requests()[before..].iter().map(|request| request.status.unwrap().as_u16()).collect();
    assert_eq!(codes, [304, 304, 304]);
}

#[tokio::test(start_paused = true)]
async fn oap_001_every_group_version_has_a_schema() {
    let server = ApiServer::start().await.unwrap();
    server.install_crds([definition()]).await.unwrap();
    let client = server.client();
    let openapi = client.openapi();
    let index = openapi.index().await.unwrap();
    let mut served: Vec<_> = names(&client.discovery().groups_and_resources().await.unwrap());
    let mut described: Vec<_> = index.group_versions().iter().map(GroupVersion::api_version).collect();
    served.sort();
    described.sort();
    assert_eq!(described, served);
    let schema = openapi.schema_value(&GroupVersion::gv("sample.example.com", "v1alpha1")).await.unwrap();
    let schemas = schema["components"]["schemas"].as_object().unwrap();
    assert!(schemas.keys().any(|name| name.ends_with(".Foo")), "{:?}", schemas.keys());

    // The index is outdated: the server redirects to the new document.
    let mut changed = definition();
    changed["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["description"] = json!("changed");
    let renewed = client.openapi();
    renewed.index().await.unwrap();
    server.install_crds([changed]).await.unwrap();
    let schema = renewed.schema(&GroupVersion::gv("sample.example.com", "v1alpha1")).await.unwrap();
    assert!(String::from_utf8_lossy(&schema).contains("changed"));
}

#[tokio::test(start_paused = true)]
async fn dsc_012_the_server_version_is_read() {
    for (version, minor) in [(ServerVersion::V1_33, "33"), (ServerVersion::V1_37, "37")] {
        let server = ApiServer::builder().version(version).start().await.unwrap();
        let warnings = server.client().server_version().await.unwrap();
        assert_eq!((warnings.major.as_str(), warnings.minor.as_str()), ("1", minor));
        assert_eq!(warnings.git_version, format!("v1.{minor}.0+evenkeel"));
    }
}

#[tokio::test(start_paused = true)]
async fn dsc_020_a_failing_server_is_requested_again() {
    let server = ApiServer::start().await.unwrap();
    let cached = server.client().discovery().cached();
    server.faults().fail_next(2, 500, None);
    assert!(cached.groups().await.unwrap_err().is_transient());
    assert!(cached.groups().await.unwrap().len() > 10);
}

#[tokio::test(start_paused = true)]
async fn wco_006_a_definition_is_usable_when_discovery_lists_it() {
    let server = ApiServer::start().await.unwrap();
    let client = server.client();
    let waiting = tokio::spawn({
        let client = client.clone();
        async move { wait_for_crd(&client, "foos.sample.example.com").await }
    });
    tokio::time::sleep(Duration::from_secs(1)).await;
    server.install_crds([definition()]).await.unwrap();
    let found = tokio::time::timeout(Duration::from_secs(60), waiting).await.unwrap().unwrap().unwrap();
    assert_eq!(found.key().name(), "foos.sample.example.com");
    let path = "/apis/sample.example.com/v1alpha1";
    let asked = || server.requests().iter().filter(|request| request.path == path).count();
    assert_eq!(asked(), 1);
    // Established, and not listed yet.
    let missing = Status::failure(404, "NotFound".into(), "the server could not find the requested resource");
    server.faults().add(Rule::new(Action::Status(Box::new(missing))).skip(1).times(2));
    tokio::time::timeout(Duration::from_secs(60), wait_for_crd(&client, "foos.sample.example.com"))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(asked(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_manifest_is_applied_object_by_object() {
    let server = ApiServer::start().await.unwrap();
    server.install_crds([definition()]).await.unwrap();
    let client = server.client();
    let mapper = RestMapper::new(client.discovery().cached());
    let text = "\
apiVersion: v1
kind: Namespace
metadata: {name: other}
---
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {x: \"1\"}}
- {apiVersion: sample.example.com/v1alpha1, kind: Foo, metadata: {name: b, namespace: other}, spec: {replicas: 2}}
";
    for item in manifest::parse(text).unwrap() {
        let api = manifest::api_of(&client, &mapper, &item.object).await.unwrap();
        api.apply(item.name(), "test", &item.object).await.unwrap();
    }
    let foos = mapper.resolve("foos").await.unwrap();
    let foos = client.dynamic(&foos).list(&ListParams::default()).await.unwrap();
    assert_eq!(foos.items.iter().map(|foo| foo.key().as_str()).collect::<Vec<_>>(), ["other/b"]);
    let maps = mapper.resolve("configmaps").await.unwrap();
    assert!(client.dynamic(&maps).namespace("default").get("a").await.is_ok());
    let unknown = manifest::parse("apiVersion: v1\nkind: Unknown\n").unwrap().remove(0);
    let error = manifest::api_of(&client, &mapper, &unknown.object).await.unwrap_err();
    assert!(error.is_not_found(), "{error}");
}
