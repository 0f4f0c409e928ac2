//! Malformed requests: the server responds to each of them, and a refused one changes nothing.

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::api::{Api, JSON_PATCH, MERGE};
use crate::*;

/// A request as the generator writes it.
#[derive(Clone, Debug)]
struct Request {
    method: &'static str,
    path: String,
    content_type: &'static str,
    body: String,
}

/// Collections, and an object that each would take.
fn collections() -> Vec<(&'static str, Value)> {
    let service = json!({"metadata": {"name": "a"}, "spec": {"type": "NodePort", "ports": [{"port": 80}]}});
    let job = json!({"metadata": {"name": "a"}, "spec": {"template": {"spec": {
        "restartPolicy": "Never", "containers": [{"name": "main", "image": "app"}]}}}});
    let event = json!({"metadata": {"name": "a"}, "involvedObject": {"namespace": "default"}});
    let budget =
        json!({"metadata": {"name": "a"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}}});
    let role =
        json!({"metadata": {"name": "a"}, "rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]});
    let scaler = json!({"metadata": {"name": "a"}, "spec": {"maxReplicas": 3,
        "scaleTargetRef": {"kind": "Deployment", "name": "a", "apiVersion": "apps/v1"}}});
    let scale = json!({"metadata": {"name": "a"}, "spec": {"replicas": 3}});
    let eviction =
        json!({"metadata": {"name": "a"}, "deleteOptions": {"gracePeriodSeconds": 0, "preconditions": {"uid": "x"}}});
    let binding = json!({"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "n"}});
    let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 3, "dryRun": ["All"],
                         "preconditions": {"uid": "x", "resourceVersion": "5"}, "propagationPolicy": "Orphan"});
    vec![
        (CONFIG_MAPS, held_config_map("a")),
        (PODS, running_pod("a")),
        (PODS, options.clone()),
        (CONFIG_MAPS, options),
        ("/api/v1/namespaces/default/pods/a/eviction", eviction),
        ("/api/v1/namespaces/default/pods/a/binding", binding),
        (DEPLOYMENTS, deployment("a")),
        ("/apis/apps/v1/namespaces/default/deployments/a/scale", scale),
        (LEASES, lease("a", "me")),
        (NAMESPACES, namespace("n")),
        (DEFINITIONS, widgets()),
        (WIDGETS, widget("a")),
        ("/api/v1/namespaces/default/services", service),
        ("/apis/batch/v1/namespaces/default/jobs", job),
        ("/api/v1/namespaces/default/events", event.clone()),
        ("/apis/events.k8s.io/v1/namespaces/default/events", event),
        ("/apis/policy/v1/namespaces/default/poddisruptionbudgets", budget),
        ("/apis/rbac.authorization.k8s.io/v1/clusterroles", role),
        ("/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers", scaler),
    ]
}

fn junk() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        Just(json!(true)),
        prop::sample::select(vec![-1, 0, 1, i64::MAX, i64::MIN]).prop_map(Value::from),
        Just(json!(u64::MAX)),
        Just(json!(1.5e300)),
        prop::sample::select(vec![
            "",
            "a",
            "A_b",
            "a/b%",
            "é\u{0}\n",
            "0",
            "1",
            "orphan",
            "All",
            "2030-01-01T00:00:00Z"
        ])
        .prop_map(Value::from),
        Just(json!("x".repeat(300))),
        Just(json!([])),
        Just(json!({})),
        Just(json!([[[]], null])),
        Just(json!({"a": {"b": [null, {"name": 7}]}})),
        Just(json!([{"name": "a"}, {"name": "a"}])),
    ]
}

/// A path into a JSON value and the value to set there; `None` removes it.
type Mutation = (Vec<prop::sample::Index>, Option<String>, Option<Value>);

fn mutation() -> impl Strategy<Value = Mutation> {
    let keys = vec![
        "metadata",
        "spec",
        "status",
        "finalizers",
        "labels",
        "name",
        "generateName",
        "uid",
        "replicas",
        "resourceVersion",
        "deletionTimestamp",
        "ownerReferences",
        "conditions",
        "dryRun",
        "generation",
        "managedFields",
    ];
    let key = prop::option::of(prop::sample::select(keys).prop_map(str::to_owned));
    (prop::collection::vec(any::<prop::sample::Index>(), 0..5), key, prop::option::of(junk()))
}

fn mutate(tree: &mut Value, (steps, key, value): Mutation) {
    let mut place = tree;
    for step in steps {
        let length = match &*place {
            Value::Object(fields) => fields.len(),
            Value::Array(items) => items.len(),
            _ => 0,
        };
        if length == 0 {
            break;
        }
        place = match place {
            Value::Object(fields) => fields.values_mut().nth(step.index(length)).unwrap(),
            Value::Array(items) => &mut items[step.index(length)],
            _ => unreachable!(),
        };
    }
    match (place, key, value) {
        (Value::Object(fields), Some(key), Some(value)) => drop(fields.insert(key, value)),
        (Value::Object(fields), Some(key), None) => drop(fields.remove(&key)),
        (Value::Array(items), _, None) => drop(items.pop()),
        (place, _, Some(value)) => *place = value,
        (place, _, None) => *place = Value::Null,
    }
}

fn body(sample: Value) -> impl Strategy<Value = String> {
    let mutations = prop::collection::vec(mutation(), 0..4);
    let mutated = mutations.prop_map(move |mutations| {
        let mut tree = sample.clone();
        mutations.into_iter().for_each(|mutation| mutate(&mut tree, mutation));
        tree.to_string()
    });
    let operations = (
        prop::sample::select(vec!["add", "remove", "replace", "move", "copy", "test"]),
        "(/[a-z0-9~-]{0,8}){0,3}",
        junk(),
    )
        .prop_map(|(op, path, value)| {
            json!([{"op": op, "path": path, "from": "/metadata", "value": value}]).to_string()
        });
    prop_oneof![
        8 => mutated,
        1 => operations,
        1 => Just(String::new()),
        1 => "[\\[\\]{}\":,a-z0-9 \\\\]{0,40}",
        1 => Just("[".repeat(5000)),
    ]
}

fn request() -> impl Strategy<Value = Request> {
    let methods = vec!["GET", "POST", "POST", "PUT", "PATCH", "PATCH", "DELETE", "HEAD", "OPTIONS"];
    let names = vec![
        "",
        "",
        "",
        "/a",
        "/a",
        "/a",
        "/n",
        "/widgets.example.com",
        "/default",
        "/%2e%2e",
        "/%25",
        "/%C3%A9",
        "/a%2Fb",
        "//",
    ];
    let subresources = vec![
        "",
        "",
        "",
        "",
        "/status",
        "/scale",
        "/finalize",
        "/eviction",
        "/binding",
        "/resize",
        "/exec",
        "/x",
        "/ephemeralcontainers",
    ];
    let queries = vec![
        "",
        "",
        "",
        "",
        "?dryRun=All",
        "?dryRun=x",
        "?fieldValidation=Strict",
        "?fieldManager=one",
        "?fieldManager=two",
        "?fieldManager=two&force=true",
        "?fieldManager=kubectl&dryRun=All",
        "?limit=1",
        "?limit=x",
        "?gracePeriodSeconds=-9223372036854775808",
        "?gracePeriodSeconds=9223372036854775807",
        "?propagationPolicy=Foreground",
        "?orphanDependents=true",
        "?fieldManager=%00",
        "?timeout=x",
        "?labelSelector=a%20in%20(",
        "?resourceVersion=3",
        "?pretty=true&force=true",
        "?continue=x",
    ];
    let types = vec![
        "application/json",
        "application/json",
        MERGE,
        MERGE,
        JSON_PATCH,
        "application/yaml",
        "application/strategic-merge-patch+json",
        "application/apply-patch+yaml",
        "text/plain",
    ];
    let known = (
        prop::sample::select(collections()),
        prop::sample::select(methods),
        prop::sample::select(names),
        prop::sample::select(subresources),
        prop::sample::select(queries),
        prop::sample::select(types),
    )
        .prop_flat_map(|((collection, sample), method, name, subresource, query, content_type)| {
            let subresource = if name.is_empty() { "" } else { subresource };
            let path = format!("{collection}{name}{subresource}{query}");
            body(sample).prop_map(move |body| Request { method, path: path.clone(), content_type, body })
        });
    let strange = ("/(api|apis|openapi|healthz|version|metrics|x)?(/[a-z0-9.%{}~-]{0,12}){0,6}(\\?[a-z=&%;+.]{0,12})?")
        .prop_map(|path| Request { method: "GET", path, content_type: "application/json", body: String::new() });
    prop_oneof![19 => known, 1 => strange]
}

/// Sends one request and checks the response.
async fn check(api: &Api, request: &Request) -> Result<(), TestCaseError> {
    if request.path.parse::<http::Uri>().is_err() {
        return Ok(());
    }
    let before = api.revision(NAMESPACES).await;
    let headers = [("content-type", request.content_type)];
    let response = api.send(request.method, &request.path, &headers, request.body.clone()).await;
    let plain = response.header("content-type").starts_with("text/plain") || request.method == "HEAD";
    if response.status >= 400 {
        prop_assert_eq!(api.revision(NAMESPACES).await, before, "a refused request changed something: {:?}", response);
        if !plain {
            prop_assert_eq!(&response.body["kind"], "Status", "{:?}", response);
            prop_assert_eq!(&response.body["status"], "Failure", "{:?}", response);
            prop_assert_eq!(&response.body["code"], response.status, "{:?}", response);
            prop_assert!(response.body["message"].as_str().is_some_and(|text| !text.is_empty()), "{:?}", response);
        }
        let expected = response.status < 500
            || response.status == 501
            || response.text.contains("Too large resource version")
            || response.text.contains("failed to create typed patch object")
            || response.text.contains("more than one PodDisruptionBudget")
            || response.text.contains("resourceVersion should not be set");
        prop_assert!(expected, "unexpected server error: {:?}", response);
    } else if !plain && (200..300).contains(&response.status) {
        prop_assert!(response.body.is_object(), "{:?}", response);
        let is_object = response.body["kind"].is_string() && response.body["apiVersion"].is_string();
        let resource = request.path.starts_with("/api/v1/") || request.path.matches('/').count() > 3;
        prop_assert!(is_object || !resource || request.path.starts_with("/openapi"), "{:?}", response);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, max_shrink_iters: 200, ..ProptestConfig::default() })]

    #[test]
    fn fuz_20_acc_8_every_request_gets_a_response_and_a_refused_one_changes_nothing(
        requests in prop::collection::vec(request(), 1..60),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let api = Api::start().await;
            api.post(DEFINITIONS, &widgets()).await.expect(201);
            for (collection, object) in collections() {
                // Objects of other collections are refused; the others give the requests something to work on.
                if !collection.contains("/a/") {
                    api.post(collection, &object).await;
                }
            }
            for request in &requests {
                tokio::time::advance(std::time::Duration::from_secs(1)).await;
                check(&api, request).await.map_err(|error| TestCaseError::fail(format!("{request:?}: {error}")))?;
            }
            Ok::<(), TestCaseError>(())
        })?;
    }
}
