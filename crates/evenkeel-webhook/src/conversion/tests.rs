//! Conversions of a kind with three versions.

mod lost_fields;
mod stored;

use std::borrow::Cow;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use bytes::Bytes;
use k8s_openapi::ClusterResourceScope;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_core::Resource;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::*;
use crate::{RegisterError, WebhookServer, WebhookTarget};

/// Version `V` of a Foo, as JSON: converters can break every rule.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Foo<const V: u8> {
    #[serde(skip)]
    meta: ObjectMeta,
    #[serde(flatten)]
    json: serde_json::Map<String, Value>,
}

impl<const V: u8> Foo<V> {
    fn new(json: &Value) -> Self {
        Foo { meta: ObjectMeta::default(), json: json.as_object().unwrap().clone() }
    }

    fn json(&self) -> Value {
        Value::Object(self.json.clone())
    }
}

impl<const V: u8> Resource for Foo<V> {
    type DynamicType = ();
    type Scope = ClusterResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        "Foo".into()
    }

    fn group((): &()) -> Cow<'_, str> {
        "example.com".into()
    }

    fn version((): &()) -> Cow<'_, str> {
        format!("v{V}").into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        "foos".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.meta
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.meta
    }
}

/// v1 and v2 say how they were converted; the hub is v3.
fn conversion() -> Conversion<Foo<3>> {
    Conversion::hub::<Foo<3>>(&["v1", "v2", "v3"])
        .spoke::<Foo<1>>(|foo| add(&foo.json(), "v1→hub"), |hub| break_or_add(&hub.json(), "hub→v1"))
        .spoke::<Foo<2>>(|foo| add(&foo.json(), "v2→hub"), |hub| add(&hub.json(), "hub→v2"))
}

type BoxError = Box<dyn std::error::Error + Send + Sync>;

impl<H: 'static> Conversion<H> {
    fn served(self) -> Conversions {
        let conversions = Conversions::new();
        conversions.register(self).unwrap();
        conversions
    }
}

fn add<const V: u8>(json: &Value, step: &str) -> Result<Foo<V>, BoxError> {
    let mut json = json.clone();
    json["steps"] = format!("{} {step}", json["steps"].as_str().unwrap_or_default()).trim().into();
    Ok(Foo::new(&json))
}

/// Does what the object says in `spec.do`.
fn break_or_add(json: &Value, step: &str) -> Result<Foo<1>, BoxError> {
    let mut foo = add::<1>(json, step)?;
    match json["spec"]["do"].as_str() {
        Some("fail") => return Err("spec.size is too large for v1".into()),
        Some("panic") => panic!("out of cheese"),
        Some("uid") => foo.json["metadata"]["uid"] = json!("other"),
        Some("metadata") => drop(foo.json.remove("metadata")),
        Some("label") => foo.json["metadata"]["labels"] = json!({"a": 1}),
        Some("kind") => foo.json["kind"] = json!("Bar"),
        _ => {}
    }
    Ok(foo)
}

fn foo(version: u8, name: &str, action: &str) -> Value {
    json!({"apiVersion": format!("example.com/v{version}"), "kind": "Foo",
        "metadata": {"name": name, "namespace": "default", "uid": format!("uid-{name}")}, "spec": {"do": action}})
}

fn review(desired: &str, objects: &[Value]) -> Value {
    json!({"kind": "ConversionReview", "apiVersion": "apiextensions.k8s.io/v1",
        "request": {"uid": "a-b-c", "desiredAPIVersion": desired, "objects": objects}})
}

async fn send(conversions: &Conversions, review: &Value) -> Value {
    let response = conversions.respond(&Bytes::from(review.to_string())).await;
    assert_eq!(response.status(), 200);
    serde_json::from_slice(&response.into_body()).unwrap()
}

async fn failure(object: Value, desired: &str) -> String {
    let answer = send(&conversion().served(), &review(desired, &[foo(3, "ok", ""), object])).await;
    assert_eq!(answer["response"]["uid"], "a-b-c");
    assert_eq!(answer["response"]["result"]["status"], "Failure");
    assert_eq!(answer["response"]["convertedObjects"], json!([]));
    answer["response"]["result"]["message"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn cnv_001_what_is_no_review_is_400_without_a_body() {
    let conversions = conversion().served();
    let other = json!({"kind": "ConversionReview", "apiVersion": "apiextensions.k8s.io/v1"});
    for body in ["", "{", "{}", &other.to_string(), &review("v1", &[]).to_string().replace("/v1\"", "/v7\"")] {
        let response = conversions.respond(&Bytes::from(body.to_owned())).await;
        assert_eq!((response.status().as_u16(), response.into_body().len()), (400, 0), "{body}");
    }
}

#[tokio::test]
async fn cnv_002_cnv_003_and_cnv_008_objects_of_several_versions_are_converted_in_order() {
    let conversions = conversion().served();
    let mut question = review("example.com/v2", &[foo(3, "a", ""), foo(1, "b", ""), foo(3, "c", "")]);
    for version in ["apiextensions.k8s.io/v1", "apiextensions.k8s.io/v1beta1"] {
        question["apiVersion"] = json!(version);
        let answer = send(&conversions, &question).await;
        assert_eq!((&answer["kind"], &answer["apiVersion"]), (&json!("ConversionReview"), &json!(version)));
        assert_eq!(answer["request"], Value::Null);
        assert_eq!(answer["response"]["uid"], "a-b-c");
        assert_eq!(answer["response"]["result"], json!({"status": "Success"}));
        let objects = answer["response"]["convertedObjects"].as_array().unwrap();
        let names: Vec<_> = objects.iter().map(|object| object["metadata"]["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["a", "b", "c"]);
        assert!(objects.iter().all(|object| object["apiVersion"] == "example.com/v2" && object["kind"] == "Foo"));
    }
}

#[tokio::test]
async fn cnv_010_versions_are_converted_through_the_hub() {
    let conversions = conversion().served();
    for (from, to, steps) in [(1, 3, "v1→hub"), (3, 1, "hub→v1"), (1, 2, "v1→hub hub→v2"), (2, 1, "v2→hub hub→v1")]
    {
        let answer = send(&conversions, &review(&format!("example.com/v{to}"), &[foo(from, "a", "")])).await;
        assert_eq!(answer["response"]["convertedObjects"][0]["steps"], steps);
    }
    assert!(failure(foo(1, "a", ""), "example.com/v1").await.contains("has version v1 already"));
    let mut bar = foo(1, "a", "");
    bar["kind"] = json!("Bar");
    assert!(failure(bar, "example.com/v3").await.contains("there are no conversions of Bar.example.com"));
    assert!(failure(foo(1, "a", ""), "example.org/v3").await.contains("cannot become example.org"));
    assert!(failure(foo(7, "a", ""), "example.com/v2").await.contains("no converter for version v7"));
}

/// Two callers that wait for each other.
#[derive(Default)]
struct Meeting(Mutex<u8>, Condvar);

impl Meeting {
    /// Returns whether the other one came.
    fn wait(&self) -> bool {
        let mut present = self.0.lock().unwrap();
        *present += 1;
        self.1.notify_all();
        let (_present, wait) =
            self.1.wait_timeout_while(present, Duration::from_secs(20), |present| *present < 2).unwrap();
        !wait.timed_out()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn cnv_009_objects_of_one_request_are_converted_in_parallel_and_in_order() {
    // Objects of two batches wait for each other.
    let meeting = Arc::new(Meeting::default());
    let conversion = Conversion::hub::<Foo<3>>(&["v1", "v3"]).spoke::<Foo<1>>(
        |foo| add(&foo.json(), ""),
        move |hub| {
            let is_to_wait = ["foo-0", "foo-64"].contains(&hub.json["metadata"]["name"].as_str().unwrap());
            if is_to_wait && !meeting.wait() {
                return Err("the other batch is not converted at the same time".into());
            }
            add(&hub.json(), "")
        },
    );
    let objects: Vec<_> = (0..200).map(|number| foo(3, &format!("foo-{number}"), "")).collect();
    let answer = send(&conversion.served(), &review("example.com/v1", &objects)).await;
    assert_eq!(answer["response"]["result"], json!({"status": "Success"}));
    let converted = answer["response"]["convertedObjects"].as_array().unwrap();
    let names: Vec<_> = converted.iter().map(|object| object["metadata"]["name"].as_str().unwrap()).collect();
    assert_eq!(names, (0..200).map(|number| format!("foo-{number}")).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn cnv_013_a_panic_in_one_of_many_batches_is_a_failure() {
    let mut objects: Vec<_> = (0..200).map(|number| foo(3, &format!("foo-{number}"), "")).collect();
    objects[150] = foo(3, "foo-150", "panic");
    let answer = send(&conversion().served(), &review("example.com/v1", &objects)).await;
    assert_eq!(answer["response"]["result"]["message"], "internal error occurred during conversion");
}

#[tokio::test]
async fn cnv_004_and_cnv_005_one_bad_object_fails_the_request_and_is_named() {
    let message = failure(foo(3, "bad", "fail"), "example.com/v1").await;
    let expected = "Foo default/bad from example.com/v3 to example.com/v1: spec.size is too large for v1";
    assert_eq!(message, expected);
}

#[tokio::test]
async fn ohc_010_one_of_a_thousand_objects_is_named() {
    let conversions = conversion().served();
    let mut objects: Vec<_> = (0..1000).map(|number| foo(3, &format!("foo-{number}"), "")).collect();
    objects[700] = foo(3, "foo-700", "fail");
    let answer = send(&conversions, &review("example.com/v1", &objects)).await;
    let message = answer["response"]["result"]["message"].as_str().unwrap();
    assert!(message.contains("default/foo-700") && !message.contains("foo-1 "), "{message}");
    objects.iter_mut().for_each(|object| object["spec"]["do"] = json!("fail"));
    let answer = send(&conversions, &review("example.com/v1", &objects)).await;
    assert!(answer["response"]["result"]["message"].as_str().unwrap().ends_with("; and 990 more objects"));
}

#[tokio::test]
async fn ohc_011_cnv_006_and_cnv_007_converters_that_break_a_rule_are_refused() {
    for (action, expected) in [
        ("uid", "metadata.uid from \"uid-a\" to \"other\""),
        ("metadata", "missing metadata in converted object"),
        ("label", "metadata.labels[a] is no string"),
    ] {
        let message = failure(foo(3, "a", action), "example.com/v1").await;
        assert!(message.starts_with("Foo default/a from") && message.contains(expected), "{message}");
    }
    // Kind and version are set after the converter.
    let answer = send(&conversion().served(), &review("example.com/v1", &[foo(3, "a", "kind")])).await;
    assert_eq!(answer["response"]["convertedObjects"][0]["kind"], "Foo");
}

#[tokio::test]
async fn cnv_013_a_panic_is_a_failure_and_counted() {
    let recorder = Box::leak(Box::new(metrics_util::debugging::DebuggingRecorder::new()));
    let _guard = metrics::set_default_local_recorder(recorder);
    assert_eq!(failure(foo(3, "a", "panic"), "example.com/v1").await, "internal error occurred during conversion");
    let counted = recorder.snapshotter().snapshot().into_vec().into_iter().find_map(|(key, .., value)| {
        (key.key().name() == "controller_runtime_conversion_webhook_panics_total").then_some(value)
    });
    assert_eq!(counted, Some(metrics_util::debugging::DebugValue::Counter(1)));
}

#[test]
fn cnv_011_and_cnv_012_every_version_but_the_hub_needs_one_converter() {
    let v1 = |conversion: Conversion<Foo<3>>| {
        conversion.spoke::<Foo<1>>(|foo| add(&foo.json(), ""), |hub| add(&hub.json(), ""))
    };
    let register = |conversion| WebhookServer::builder().conversion(conversion).build().unwrap_err().to_string();
    let missing = register(v1(Conversion::hub(&["v1", "v2", "v3"])));
    assert_eq!(missing, "Foo.example.com: expected spoke converter for v1,v2 got spoke converter for v1");
    let double = register(v1(v1(Conversion::hub(&["v1", "v3"]))));
    assert_eq!(double, "Foo.example.com: expected spoke converter for v1 got spoke converter for v1,v1");
    let map = k8s_openapi::api::core::v1::ConfigMap::default;
    let foreign = v1(Conversion::hub(&["v1", "v3"]))
        .spoke::<k8s_openapi::api::core::v1::ConfigMap>(|_| add(&json!({}), ""), move |_| Ok(map()));
    assert!(register(foreign).contains("is for another kind"));
    let twice = WebhookServer::builder().conversion(conversion()).conversion(conversion()).build().unwrap_err();
    assert!(matches!(twice, RegisterError::Conversion(ConversionError::Duplicate { .. })));
}

#[test]
fn cnv_015_a_definition_gets_a_conversion_exactly_if_there_are_converters() {
    let definition = |kind: &str| -> CustomResourceDefinition {
        serde_json::from_value(json!({"metadata": {"name": "foos.example.com"}, "spec": {
            "group": "example.com", "scope": "Cluster", "names": {"kind": kind, "plural": "foos"}, "versions": [],
        }}))
        .unwrap()
    };
    let server = WebhookServer::builder().conversion(conversion()).build().unwrap();
    let target = WebhookTarget::service("shop", "shop-system", "hooks").ca_bundle("pem");
    let mut bar = definition("Bar");
    server.add_conversion(&mut bar, &target).unwrap();
    assert_eq!(bar.spec.conversion, None);
    let mut foo = definition("Foo");
    server.add_conversion(&mut foo, &target).unwrap();
    assert_eq!(
        serde_json::to_value(foo.spec.conversion).unwrap(),
        json!({"strategy": "Webhook", "webhook": {
            "conversionReviewVersions": ["v1"],
            "clientConfig": {
                "caBundle": "cGVt",
                "service": {"namespace": "shop-system", "name": "hooks", "path": "/convert"},
            },
        }})
    );
}

/// A version of a kind whose type requires `spec`, as derived ones do.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Strict<const V: u8> {
    metadata: ObjectMeta,
    spec: StrictSpec,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct StrictSpec {
    #[serde(default)]
    note: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    nested: Option<StrictNested>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct StrictNested {
    size: i32,
}

impl<const V: u8> Resource for Strict<V> {
    type DynamicType = ();
    type Scope = ClusterResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        Foo::<V>::kind(&())
    }

    fn group((): &()) -> Cow<'_, str> {
        Foo::<V>::group(&())
    }

    fn version((): &()) -> Cow<'_, str> {
        Foo::<V>::version(&())
    }

    fn plural((): &()) -> Cow<'_, str> {
        Foo::<V>::plural(&())
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

#[tokio::test]
async fn a_part_of_an_object_is_converted_and_one_without_a_required_field_is_an_error_with_a_remedy() {
    let conversion = Conversion::hub::<Strict<2>>(&["v1", "v2"]).spoke::<Strict<1>>(
        |old| Ok(Strict { metadata: old.metadata, spec: old.spec }),
        |new| Ok(Strict { metadata: new.metadata, spec: new.spec }),
    );
    let conversions = conversion.served();
    let converted = async |part: Value| {
        let mut object = json!({"apiVersion": "example.com/v1", "kind": "Foo", "metadata": {"name": "a"}});
        object.as_object_mut().unwrap().extend(part.as_object().unwrap().clone());
        let review = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
            "request": {"uid": "u", "desiredAPIVersion": "example.com/v2", "objects": [object]},
        });
        let response = conversions.respond(&Bytes::from(review.to_string())).await;
        serde_json::from_slice::<Value>(response.body()).unwrap()["response"].take()
    };
    let metadata = json!({"name": "a"});
    let whole = converted(json!({"spec": {"note": "n"}})).await;
    assert_eq!(whole["convertedObjects"][0]["spec"], json!({"note": "n"}));
    let part = converted(json!({})).await;
    assert_eq!(part["result"]["status"], "Success", "{part}");
    assert_eq!(part["convertedObjects"][0]["spec"], Value::Null);
    assert_eq!(part["convertedObjects"][0]["metadata"], metadata);
    let failed = converted(json!({"spec": {"nested": {}}})).await;
    let message = failed["result"]["message"].as_str().unwrap();
    assert!(message.contains("at spec.nested: missing field `size`"), "{message}");
    assert!(message.ends_with("API servers also convert parts of objects: give it a default"), "{message}");
}
