//! Definitions that the builder installs.

use std::path::PathBuf;

use evenkeel_apiserver::{ApiServer, InstallError, StartError};
use serde_json::json;

use crate::api::{Api, DEFINITIONS, FOOS, definition, foo_definition, version};

const YAML: &str = "
apiVersion: v1
kind: ConfigMap
metadata: {name: passed-over}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: bars.example.com}
spec:
  group: example.com
  scope: Cluster
  names: {plural: bars, kind: Bar}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}
---
";

/// A folder that is removed after the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str, files: &[(&str, &str)]) -> Self {
        let path = std::env::temp_dir().join(format!("evenkeel-crds-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        for (file, text) in files {
            std::fs::write(path.join(file), text).unwrap();
        }
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[tokio::test(start_paused = true)]
async fn crd_18_values_and_texts_are_installed_and_served_when_the_call_returns() {
    let api = Api::start().await;
    let names = api.server.install_crds([foo_definition()]).await.unwrap();
    assert_eq!(names, ["foos.example.com"]);
    api.get(FOOS).await.expect(200);
    assert_eq!(api.server.install_crds([YAML]).await.unwrap(), ["bars.example.com"]);
    api.get("/apis/example.com/v1/bars").await.expect(200);

    // Again, with a change.
    let two = definition("foos", "Foo", json!([version("v1", true), version("v2", false)]));
    api.server.install_crds([two]).await.unwrap();
    api.get(&FOOS.replace("v1", "v2")).await.expect(200);
}

#[tokio::test(start_paused = true)]
async fn crd_18_an_install_error_names_the_definition_and_the_reason() {
    let api = Api::start().await;
    let mut wrong = foo_definition();
    wrong["spec"]["scope"] = "Galactic".into();
    let error = api.server.install_crds([foo_definition(), wrong]).await.unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, InstallError::Refused { .. }), "{text}");
    assert!(text.starts_with(r#"definition source 2: the definition "foos.example.com" was refused: "#), "{text}");
    assert!(text.contains("spec.scope"), "{text}");
    for name in ["foos.example.com/status", "foos?", ""] {
        let mut misnamed = foo_definition();
        misnamed["metadata"]["name"] = name.into();
        let error = api.server.install_crds([misnamed]).await.unwrap_err();
        assert!(matches!(error, InstallError::Refused { .. }), "{name}: {error}");
    }
    let rival = definition("foolikes", "Foo", json!([version("v1", true)]));
    let error = api.server.install_crds([rival]).await.unwrap_err();
    assert!(matches!(error, InstallError::NotEstablished { .. }), "{error}");
    assert!(error.to_string().ends_with(r#""FooList" is already in use"#), "{error}");
    let error = api.server.install_crds(["a: [b"]).await.unwrap_err();
    assert!(matches!(error, InstallError::Syntax { .. }), "{error}");
}

#[tokio::test(start_paused = true)]
async fn crd_18_definitions_of_a_folder_are_installed_at_start() {
    let json = foo_definition().to_string();
    let folder = Folder::new("good", &[("a.json", &json), ("b.yaml", YAML), ("notes.txt", "not: [this")]);
    let server = ApiServer::builder().in_process_only().crd_dir(&folder.0).start().await.unwrap();
    let api = Api::of(server);
    api.get(FOOS).await.expect(200);
    api.get("/apis/example.com/v1/bars").await.expect(200);
    let list = api.get(DEFINITIONS).await.expect(200);
    assert_eq!(list["items"].as_array().unwrap().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn crd_18_an_invalid_folder_error_names_the_file_and_the_reason() {
    let start =
        async |folder: &Folder| ApiServer::builder().in_process_only().crd_dir(&folder.0).start().await.unwrap_err();
    let folder = Folder::new("syntax", &[("ok.yaml", YAML), ("torn.yaml", "a: [b")]);
    let error = start(&folder).await;
    assert!(matches!(error, StartError::Crds(InstallError::Syntax { .. })), "{error}");
    assert!(error.to_string().contains("torn.yaml is not YAML: "), "{error}");

    let wrong = YAML.replace("Cluster", "Galactic");
    let folder = Folder::new("refused", &[("wrong.yaml", &wrong)]);
    let text = start(&folder).await.to_string();
    assert!(text.contains("wrong.yaml: the definition \"bars.example.com\" was refused: "), "{text}");
    assert!(text.contains("spec.scope"), "{text}");

    let nowhere = Folder(PathBuf::from("/nowhere/at/all"));
    let error = start(&nowhere).await;
    assert!(error.to_string().contains("cannot read /nowhere/at/all"), "{error}");
}
