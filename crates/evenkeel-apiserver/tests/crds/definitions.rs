//! Validation of definitions, and how they come into force.

use serde_json::{Value, json};

use crate::api::{Api, DEFINITIONS, FOOS, definition, foo, foo_definition, version};

#[tokio::test(start_paused = true)]
async fn crd_1_names_and_conversion_are_filled_in() {
    let api = Api::start().await;
    let created = api.post(DEFINITIONS, &foo_definition()).await.expect(201);
    assert_eq!(
        created["spec"]["names"],
        json!({"plural": "foos", "singular": "foo", "kind": "Foo", "listKind": "FooList"})
    );
    assert_eq!(created["spec"]["conversion"], json!({"strategy": "None"}));
    assert_eq!(created["status"]["storedVersions"], json!(["v1"]));
}

#[tokio::test(start_paused = true)]
async fn crd_1_invalid_definitions_are_refused_by_field() {
    let api = Api::start().await;
    let cases: [(&str, Value, &str); 7] = [
        ("/metadata/name", json!("bars.example.com"), "metadata.name"),
        ("/spec/group", json!("nodots"), "spec.group"),
        ("/spec/scope", json!("Galactic"), "spec.scope"),
        ("/spec/versions/0/name", json!("V_1"), "spec.versions[0].name"),
        ("/spec/versions/0/storage", json!(false), "spec.versions"),
        ("/spec/versions/0/schema", Value::Null, "spec.versions[0].schema.openAPIV3Schema"),
        ("/spec/names/kind", json!("not a kind"), "spec.names.kind"),
    ];
    for (pointer, value, field) in cases {
        let mut wrong = foo_definition();
        *wrong.pointer_mut(pointer).unwrap() = value;
        let response = api.post(DEFINITIONS, &wrong).await;
        assert_eq!(response.code, 422, "{pointer}: {}", response.body);
        assert!(response.fields().contains(&field), "{pointer}: {:?}", response.fields());
    }
    let two = definition("foos", "Foo", json!([version("v1", true), version("v2", true)]));
    assert_eq!(api.post(DEFINITIONS, &two).await.code, 422, "two storage versions");
    let twice = definition("foos", "Foo", json!([version("v1", true), version("v1", false)]));
    assert_eq!(api.post(DEFINITIONS, &twice).await.code, 422, "one name for two versions");
    let mut old = foo_definition();
    old["apiVersion"] = "apiextensions.k8s.io/v1beta1".into();
    assert_eq!(api.post(DEFINITIONS, &old).await.code, 400);
    let path = DEFINITIONS.replace("v1", "v1beta1");
    assert_eq!(api.post(&path, &old).await.code, 404);
}

#[tokio::test(start_paused = true)]
async fn crd_2_conditions_of_an_accepted_definition() {
    let api = Api::with_foos().await;
    let stored = api.get(&format!("{DEFINITIONS}/foos.example.com")).await.expect(200);
    let short = |condition: &Value| {
        let text = |key: &str| condition[key].as_str().unwrap().to_owned();
        (text("type"), text("status"), text("reason"), text("message"))
    };
    let conditions: Vec<_> = stored["status"]["conditions"].as_array().unwrap().iter().map(short).collect();
    let line = |parts: [&str; 4]| (parts[0].into(), parts[1].into(), parts[2].into(), parts[3].into());
    let expected: Vec<(String, String, String, String)> = vec![
        line(["NamesAccepted", "True", "NoConflicts", "no conflicts found"]),
        line(["Established", "True", "InitialNamesAccepted", "the initial names have been accepted"]),
    ];
    assert_eq!(conditions, expected);
    assert_eq!(stored["status"]["acceptedNames"], stored["spec"]["names"]);
}

#[tokio::test(start_paused = true)]
async fn crd_2_a_definition_with_a_taken_name_is_not_served() {
    let api = Api::with_foos().await;
    let rival = definition("foolikes", "Foo", json!([version("v1", true)]));
    api.post(DEFINITIONS, &rival).await.expect(201);
    let names = api.condition("foolikes.example.com", "NamesAccepted").await.unwrap();
    assert_eq!((&names["status"], &names["reason"]), (&json!("False"), &json!("ListKindConflict")));
    assert_eq!(names["message"], r#""FooList" is already in use"#);
    let established = api.condition("foolikes.example.com", "Established").await.unwrap();
    assert_eq!((&established["status"], &established["reason"]), (&json!("False"), &json!("NotAccepted")));
    api.get("/apis/example.com/v1/foolikes").await.expect(404);
    api.get(FOOS).await.expect(200);
}

#[tokio::test(start_paused = true)]
async fn crd_2_released_names_establish_waiting_definitions() {
    let api = Api::start().await;
    let mut first = foo_definition();
    first["spec"]["names"]["shortNames"] = json!(["f"]);
    api.post(DEFINITIONS, &first).await.expect(201);
    let mut second = definition("bars", "Bar", json!([version("v1", true)]));
    second["spec"]["names"]["shortNames"] = json!(["f"]);
    api.post(DEFINITIONS, &second).await.expect(201);
    api.get("/apis/example.com/v1/bars").await.expect(404);

    // A change of names frees one.
    let change = json!({"spec": {"names": {"shortNames": ["fo"]}}});
    api.merge(&format!("{DEFINITIONS}/foos.example.com"), &change).await.expect(200);
    assert_eq!(api.condition("bars.example.com", "Established").await.unwrap()["status"], "True");
    api.get("/apis/example.com/v1/bars").await.expect(200);

    // So does the end of a definition.
    let rival = definition("barlikes", "Bar", json!([version("v1", true)]));
    api.post(DEFINITIONS, &rival).await.expect(201);
    api.get("/apis/example.com/v1/barlikes").await.expect(404);
    api.delete(&format!("{DEFINITIONS}/bars.example.com")).await.expect(200);
    assert_eq!(api.condition("barlikes.example.com", "NamesAccepted").await.unwrap()["status"], "True");
    api.get("/apis/example.com/v1/barlikes").await.expect(200);
}

#[tokio::test(start_paused = true)]
async fn crd_3_crd_4_a_definition_is_in_force_when_its_create_returns() {
    let api = Api::start().await;
    let began = tokio::time::Instant::now();
    let created = api.post(DEFINITIONS, &foo_definition()).await.expect(201);
    assert_eq!(created["status"]["conditions"], Value::Null, "the response is the object as it was created");
    let stored = api.get(&format!("{DEFINITIONS}/foos.example.com")).await.expect(200);
    let revision = |object: &Value| object["metadata"]["resourceVersion"].as_str().unwrap().parse::<u64>().unwrap();
    assert_eq!(revision(&stored), revision(&created) + 1, "established in the next revision");
    let since = &stored["status"]["conditions"][1]["lastTransitionTime"];
    assert_eq!(since, &created["metadata"]["creationTimestamp"], "in the same instant");
    api.post(FOOS, &foo("a", json!({}))).await.expect(201);
    assert_eq!(began.elapsed(), std::time::Duration::ZERO, "no time has passed");
}

#[tokio::test(start_paused = true)]
async fn crd_3_an_established_definition_is_served() {
    let api = Api::start().await;
    let mut watch = api.watch(&format!("{DEFINITIONS}?watch=true")).await;
    api.post(DEFINITIONS, &foo_definition()).await.expect(201);
    let added = watch.next().await.unwrap();
    assert_eq!((&added["type"], &added["object"]["status"]["conditions"]), (&json!("ADDED"), &Value::Null));
    let established = watch.next().await.unwrap();
    assert_eq!(established["type"], "MODIFIED");
    assert_eq!(established["object"]["status"]["conditions"][1]["type"], "Established");
    api.get(FOOS).await.expect(200);
}

#[tokio::test(start_paused = true)]
async fn crd_5_schemas_must_be_structural() {
    let api = Api::start().await;
    let root = "spec.validation.openAPIV3Schema";
    let cases: [(Value, &str); 5] = [
        (json!({"type": "object", "properties": {"spec": {}}}), ".properties[spec].type"),
        (json!({"type": "string"}), ".type"),
        (json!({"type": "object", "additionalProperties": {"type": "string"}}), ".additionalProperties"),
        (
            json!({"type": "object", "properties": {"a": {"type": "string", "anyOf": [{"description": "no"}]}}}),
            ".properties[a].anyOf[0].description",
        ),
        (
            json!({"type": "object", "properties": {"a": {
                "type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "map"}}}),
            ".properties[a].x-kubernetes-list-map-keys",
        ),
    ];
    for (schema, field) in cases {
        let mut wrong = foo_definition();
        wrong["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = schema.clone();
        let response = api.post(DEFINITIONS, &wrong).await;
        assert_eq!(response.code, 422, "{schema}: {}", response.body);
        let field = format!("{root}{field}");
        assert!(response.fields().contains(&field.as_str()), "{schema}: {:?}", response.fields());
    }
}

#[tokio::test(start_paused = true)]
async fn crd_8_unchecked_formats_return_a_warning() {
    let api = Api::start().await;
    let mut odd = foo_definition();
    odd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["mode"] =
        json!({"type": "string", "format": "haiku"});
    let created = api.post(DEFINITIONS, &odd).await;
    assert_eq!(created.warnings(), [r#"299 - "unrecognized format \"haiku\"""#]);
    created.expect(201);
    let change = json!({"metadata": {"labels": {"a": "b"}}});
    let changed = api.merge(&format!("{DEFINITIONS}/foos.example.com"), &change).await;
    assert_eq!(changed.warnings().len(), 1);
    let plain = Api::start().await.post(DEFINITIONS, &foo_definition()).await;
    assert!(plain.warnings().is_empty(), "{:?}", plain.warnings());
}

#[tokio::test(start_paused = true)]
async fn crd_14_names_stay_once_established() {
    let api = Api::with_foos().await;
    let path = format!("{DEFINITIONS}/foos.example.com");
    for (change, field) in [
        (json!({"spec": {"names": {"kind": "Bar"}}}), "spec.names.kind"),
        (json!({"spec": {"names": {"plural": "bars"}}}), "spec.names.plural"),
        (json!({"spec": {"scope": "Cluster"}}), "spec.scope"),
        (json!({"spec": {"group": "example.org"}}), "spec.group"),
    ] {
        let response = api.merge(&path, &change).await;
        assert_eq!(response.code, 422, "{change}: {}", response.body);
        assert!(response.fields().contains(&field), "{change}: {:?}", response.fields());
    }
    api.merge(&path, &json!({"spec": {"names": {"singular": "foolet"}}})).await.expect(200);
    let list = api.get("/apis/example.com/v1").await.expect(200);
    assert_eq!(list["resources"][0]["singularName"], "foolet");
}

#[tokio::test(start_paused = true)]
async fn crd_16_dis_8_discovery_and_openapi_show_it_at_once() {
    let api = Api::start().await;
    let groups = |body: &Value| body["groups"].as_array().unwrap().iter().any(|group| group["name"] == "example.com");
    assert!(!groups(&api.get("/apis").await.expect(200)));
    let etag = api.get("/openapi/v3").await.expect(200);
    assert!(etag["paths"].get("apis/example.com/v1").is_none());

    api.post(DEFINITIONS, &foo_definition()).await.expect(201);
    assert!(groups(&api.get("/apis").await.expect(200)));
    let resources = api.get("/apis/example.com/v1").await.expect(200);
    let names: Vec<&str> =
        resources["resources"].as_array().unwrap().iter().map(|resource| resource["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["foos", "foos/status"]);
    let index = api.get("/openapi/v3").await.expect(200);
    let url = index["paths"]["apis/example.com/v1"]["serverRelativeURL"].as_str().unwrap();
    let document = api.get(url).await.expect(200);
    let schema = &document["components"]["schemas"]["com.example.v1.Foo"];
    assert_eq!(schema["properties"]["spec"]["properties"]["replicas"]["minimum"], 0, "{schema}");
    assert!(document["paths"].get("/apis/example.com/v1/namespaces/{namespace}/foos").is_some());

    // A change of the schema is a new document.
    let change =
        json!([{"op": "add", "path": "/spec/versions/0/schema/openAPIV3Schema/description", "value": "A Foo."}]);
    let path = format!("{DEFINITIONS}/foos.example.com");
    api.patch(&path, "application/json-patch+json", &change.to_string()).await.expect(200);
    let index = api.get("/openapi/v3").await.expect(200);
    let renewed = index["paths"]["apis/example.com/v1"]["serverRelativeURL"].as_str().unwrap();
    assert_ne!(renewed, url);
    let document = api.get(renewed).await.expect(200);
    assert_eq!(document["components"]["schemas"]["com.example.v1.Foo"]["description"], "A Foo.");

    api.delete(&path).await.expect(200);
    assert!(!groups(&api.get("/apis").await.expect(200)));
    assert!(api.get("/openapi/v3").await.expect(200)["paths"].get("apis/example.com/v1").is_none());
}
