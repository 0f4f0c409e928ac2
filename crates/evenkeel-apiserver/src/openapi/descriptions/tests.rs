use serde_json::json;

use super::*;

fn read_document(document: &Value) -> Result<Descriptions, OpenApiError> {
    let mut descriptions = Descriptions::default();
    descriptions.add_document(document.to_string().as_bytes())?;
    Ok(descriptions)
}

fn pod() -> Value {
    json!({
        "description": "a group of containers",
        "properties": {"spec": {"description": "what it should be"}, "kind": {"description": "its kind"}, "other": true},
    })
}

#[test]
fn oav_004_documents_of_both_versions_describe_kinds_and_fields() {
    let name = "io.k8s.api.core.v1.Pod";
    for document in [
        json!({"swagger": "2.0", "paths": {}, "definitions": {name: pod(), "com.example.v1.Foo": pod()}}),
        json!({"openapi": "3.0.0", "components": {"schemas": {name: pod()}}}),
    ] {
        let descriptions = read_document(&document).unwrap();
        assert_eq!(descriptions.0.len(), 1, "definitions that the server does not publish are left out");
        let mut schema = json!({"properties": {"spec": {"type": "object"}, "status": {}}});
        descriptions.add_to(name, &mut schema);
        assert_eq!(schema["description"], "a group of containers");
        assert_eq!(schema["properties"]["spec"], json!({"type": "object", "description": "what it should be"}));
        assert_eq!(schema["properties"]["status"], json!({}));
        let mut custom = json!({"description": "own", "properties": {"kind": {}, "spec": {}}});
        descriptions.add_common_to(&mut custom);
        let expected = json!({"description": "own", "properties": {"kind": {"description": "its kind"}, "spec": {}}});
        assert_eq!(custom, expected);
    }
}

#[test]
fn oav_004_documents_add_up() {
    let mut descriptions = Descriptions::default();
    for name in ["io.k8s.api.core.v1.Pod", "io.k8s.api.apps.v1.Deployment"] {
        let document = json!({"components": {"schemas": {name: pod()}}});
        descriptions.add_document(document.to_string().as_bytes()).unwrap();
    }
    assert_eq!(descriptions.0.len(), 2);
}

#[test]
fn oav_004_another_file_is_refused_with_the_command_that_makes_the_right_one() {
    let index = json!({"paths": {"api/v1": {"serverRelativeURL": "/openapi/v3/api/v1?hash=0"}}});
    let undescribed = json!({"definitions": {"io.k8s.api.core.v1.Pod": {"properties": {"spec": {}}}}});
    let foreign = json!({"definitions": {"com.example.v1.Foo": pod()}});
    let misshapen = json!({"definitions": [1]});
    for (document, expected) in [
        (index, "neither `definitions` (v2) nor `components.schemas` (v3)"),
        (undescribed, "describes no built-in kind"),
        (foreign, "describes no built-in kind"),
        (misshapen, "not valid JSON of that form"),
    ] {
        let error = read_document(&document).unwrap_err().to_string();
        assert!(error.contains(expected) && error.contains("kubectl get --raw /openapi/v2"), "{error}");
    }
    let mut descriptions = Descriptions::default();
    assert!(matches!(descriptions.add_document(b"kind: Pod"), Err(OpenApiError::Malformed(_))));
    let large = vec![b' '; MAX_BYTES + 1];
    assert!(matches!(descriptions.add_document(&large), Err(OpenApiError::TooLarge { limit: MAX_BYTES })));
    let folder = std::env::temp_dir();
    assert!(matches!(read(&folder), Err(OpenApiError::NotAFile { path }) if path == folder));
    assert!(matches!(read(Path::new("/nonexistent/openapi")), Err(OpenApiError::Read { .. })));
}
