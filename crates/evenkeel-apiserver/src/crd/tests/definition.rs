use serde_json::json;

use super::{NOW, admitted, decoded, foos, refused};
use crate::crd::conditions::establish;
use crate::crd::{admit, compile, prepare};
use crate::registry::{ScalePaths, SelectableField, UnknownField};

#[test]
fn crd_1_names_versions_and_conversion_are_defaulted() {
    let definition = admitted(foos());
    assert_eq!(
        definition["spec"]["names"],
        json!({"kind": "Foo", "listKind": "FooList", "plural": "foos", "shortNames": ["fo"], "singular": "foo"})
    );
    assert_eq!(definition["spec"]["conversion"], json!({"strategy": "None"}));
    assert_eq!(
        definition["status"],
        json!({"acceptedNames": {"kind": "", "plural": ""}, "conditions": null, "storedVersions": ["v1"]})
    );
}

#[test]
fn crd_1_the_name_is_plural_and_group() {
    assert_eq!(
        refused("/metadata/name", json!("bars.sample.evenkeel.dev")),
        ["metadata.name: Invalid value: \"bars.sample.evenkeel.dev\": must be spec.names.plural+\".\"+spec.group"]
    );
}

#[test]
fn crd_1_the_spec_is_validated() {
    let mut definition =
        decoded(json!({"metadata": {"name": "."}, "spec": {"group": "", "names": {"plural": "", "kind": ""},
        "scope": "", "versions": []}}));
    let errors: Vec<String> = admit::create(&mut definition).iter().map(ToString::to_string).collect();
    assert_eq!(
        errors,
        [
            "spec.group: Required value",
            "spec.scope: Required value",
            "spec.versions: Required value",
            "spec.names.plural: Required value",
            "spec.names.singular: Required value",
            "spec.names.kind: Required value",
            "spec.names.listKind: Required value",
        ]
    );
    assert_eq!(
        refused("/spec/scope", json!("World")),
        ["spec.scope: Unsupported value: \"World\": supported values: \"Cluster\", \"Namespaced\""]
    );
    assert!(refused("/spec/group", json!("dotless"))[1].ends_with("should be a domain with at least one dot"));
    assert!(
        refused("/spec/versions/0/name", json!("V1"))[0]
            .starts_with("spec.versions[0].name: Invalid value: \"V1\": a DNS-1035 label")
    );
    assert!(
        refused("/spec/versions/0/storage", json!(false))[0]
            .ends_with("must have exactly one version marked as storage version")
    );
    assert_eq!(
        refused("/spec/versions/0/schema", json!({})),
        ["spec.versions[0].schema.openAPIV3Schema: Required value"]
    );
    assert_eq!(
        refused("/spec/names/shortNames", json!(["No"]))[0].split(": a DNS").next(),
        Some("spec.names.shortNames[0]: Invalid value: \"No\"")
    );
}

#[test]
fn crd_1_two_versions_need_two_names() {
    let mut definition = decoded(foos());
    let version = definition["spec"]["versions"][0].clone();
    definition["spec"]["versions"].as_array_mut().unwrap().push(version);
    let errors: Vec<String> = admit::create(&mut definition).iter().map(ToString::to_string).collect();
    assert!(errors[0].ends_with("must contain unique version names"));
    assert!(errors[1].ends_with("must have exactly one version marked as storage version"));
}

#[test]
fn crd_1_columns_scale_and_selectable_fields() {
    let mut definition = decoded(foos());
    let version = &mut definition["spec"]["versions"][0];
    version["additionalPrinterColumns"] = json!([{"name": "", "type": "colour", "jsonPath": "spec"}]);
    version["subresources"]["scale"] = json!({"specReplicasPath": ".status.x", "statusReplicasPath": ""});
    version["selectableFields"] =
        json!([{"jsonPath": ".spec.replicas"}, {"jsonPath": ".spec.nope"}, {"jsonPath": ".spec"}]);
    let errors: Vec<String> = admit::create(&mut definition).iter().map(ToString::to_string).collect();
    assert_eq!(
        errors,
        [
            "spec.versions[0].subresources.scale.specReplicasPath: Invalid value: \".status.x\": should be a json path \
             under .spec",
            "spec.versions[0].subresources.scale.statusReplicasPath: Required value",
            "spec.versions[0].additionalPrinterColumns[0].name: Required value",
            "spec.versions[0].additionalPrinterColumns[0].type: Invalid value: \"colour\": must be one of \
             boolean,date,integer,number,string",
            "spec.versions[0].additionalPrinterColumns[0].JSONPath: Invalid value: \"spec\": must be a simple json path \
             starting with .",
            "spec.versions[0].selectableFields[1].jsonPath: Invalid value: \".spec.nope\": is an invalid path: does not \
             refer to a valid field",
            "spec.versions[0].selectableFields[2].jsonPath: Invalid value: \".spec\": must point to a field of type \
             string, boolean or integer. Enum string fields and strings with formats are allowed.",
        ]
    );
}

#[test]
fn crd_6_pruned_then_defaulted_then_validated() {
    let resource = compile::resources(&admitted(foos())).unwrap().remove(0);
    let schema = resource.schema().unwrap();
    let mut foo = json!({"apiVersion": "sample.evenkeel.dev/v1", "kind": "Foo",
        "metadata": {"name": "a", "bogus": 1, "labels": {}, "creationTimestamp": null},
        "spec": {"bogus": "x", "deploymentName": "d", "replicas": null}});
    assert_eq!(prepare(schema, &mut foo).unwrap(), ["metadata.bogus", "spec.bogus"]);
    assert_eq!(
        foo,
        json!({"apiVersion": "sample.evenkeel.dev/v1", "kind": "Foo", "metadata": {"name": "a"},
            "spec": {"deploymentName": "d", "replicas": 1}})
    );
    assert!(schema.validate(&foo).is_empty());
    let mut foo = json!({"metadata": {"labels": {"a": 1}}});
    assert_eq!(
        prepare(schema, &mut foo).unwrap_err().to_string(),
        "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.labels of type string"
    );
}

#[test]
fn crd_8_unknown_formats_cause_warnings() {
    let mut definition = admitted(foos());
    assert_eq!(admit::warnings(&definition), [""; 0]);
    let pointer = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/replicas";
    *definition.pointer_mut(pointer).unwrap() =
        json!({"type": "array", "items": {"type": "string", "format": "semver"}});
    assert_eq!(admit::warnings(&definition), ["unrecognized format \"semver\""]);
}

#[test]
fn crd_13_deprecated_versions_warn() {
    let mut definition = foos();
    let version = definition["spec"]["versions"][0].clone();
    let versions = definition["spec"]["versions"].as_array_mut().unwrap();
    for name in ["v2beta1", "v2", "v1alpha1"] {
        let mut version = version.clone();
        version["name"] = json!(name);
        version["storage"] = json!(false);
        version["deprecated"] = json!(name == "v1alpha1");
        versions.push(version);
    }
    versions[0]["deprecated"] = json!(true);
    versions[1]["served"] = json!(false);
    let resources = compile::resources(&admitted(definition)).unwrap();
    let warnings: Vec<_> = resources
        .iter()
        .map(|resource| (resource.version.as_str(), resource.custom.as_ref().unwrap().deprecation_warning.as_deref()))
        .collect();
    assert_eq!(
        warnings,
        [
            ("v1", Some("sample.evenkeel.dev/v1 Foo is deprecated; use sample.evenkeel.dev/v2 Foo")),
            ("v2", None),
            ("v1alpha1", Some("sample.evenkeel.dev/v1alpha1 Foo is deprecated; use sample.evenkeel.dev/v2 Foo")),
        ]
    );
    assert!(resources.iter().all(|resource| &*resource.storage == "sample.evenkeel.dev/foos"));
    assert!(resources.iter().all(|resource| resource.custom.as_ref().unwrap().storage_version == "v1"));
}

#[test]
fn crd_14_names_are_immutable_once_established() {
    let mut old = admitted(foos());
    let mut new = old.clone();
    new["spec"]["names"]["kind"] = json!("Foe");
    assert_eq!(admit::update(&mut new.clone(), &old), []);
    establish(&mut old, [], NOW);
    new["spec"]["scope"] = json!("Cluster");
    new["spec"]["names"]["plural"] = json!("foes");
    let errors: Vec<String> = admit::update(&mut new, &old).iter().map(ToString::to_string).collect();
    assert_eq!(
        errors,
        [
            "spec.scope: Invalid value: \"Cluster\": field is immutable",
            "spec.names.kind: Invalid value: \"Foe\": field is immutable",
            "spec.names.plural: Invalid value: \"foes\": field is immutable",
        ]
    );
}

#[test]
fn crd_14_stored_versions_are_kept() {
    let old = admitted(foos());
    let mut new = decoded(foos());
    let mut v2 = new["spec"]["versions"][0].clone();
    v2["name"] = json!("v2");
    new["spec"]["versions"][0]["storage"] = json!(false);
    new["spec"]["versions"].as_array_mut().unwrap().push(v2);
    assert_eq!(admit::update(&mut new, &old), []);
    assert_eq!(new["status"]["storedVersions"], json!(["v1", "v2"]));

    let mut without = new.clone();
    without["spec"]["versions"].as_array_mut().unwrap().remove(0);
    let errors: Vec<String> = admit::update(&mut without, &new).iter().map(ToString::to_string).collect();
    assert_eq!(
        errors,
        ["status.storedVersions[0]: Invalid value: \"v1\": missing from spec.versions; v1 was previously a storage \
          version, and must remain in spec.versions until a storage migration ensures no data remains persisted in v1 \
          and removes v1 from status.storedVersions"]
    );
}

#[test]
fn dis_9_verbs_and_subresources() {
    let mut definition = foos();
    let version = &mut definition["spec"]["versions"][0];
    version["subresources"]["scale"] =
        json!({"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.availableReplicas"});
    version["selectableFields"] = json!([{"jsonPath": ".spec.deploymentName"}]);
    let mut definition = admitted(definition);
    let resource = compile::resources(&definition).unwrap().remove(0);
    assert_eq!(resource.verbs, ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"]);
    assert_eq!((resource.plural.as_str(), resource.singular.as_str()), ("foos", "foo"));
    assert_eq!((resource.kind.as_str(), resource.list_kind.as_str()), ("Foo", "FooList"));
    assert_eq!(resource.short_names, ["fo"]);
    assert!(resource.namespaced);
    let names: Vec<&str> = resource.subresources.iter().map(|sub| sub.name.as_str()).collect();
    assert_eq!(names, ["status", "scale"]);
    assert!(resource.subresources.iter().all(|sub| sub.verbs == ["get", "patch", "update"]));
    assert_eq!(resource.subresource("scale").unwrap().response_group, "autoscaling");
    assert_eq!(resource.subresource("status").unwrap().response_kind, "Foo");
    let strategy = &resource.strategy;
    assert!(strategy.tracks_generation && strategy.has_status && !strategy.unconditional_update);
    assert_eq!(strategy.unknown_field, UnknownField::NotSupported);
    assert_eq!(
        strategy.selectable,
        [SelectableField { label: "spec.deploymentName".into(), path: vec!["spec".into(), "deploymentName".into()] }]
    );
    let facts = resource.custom.unwrap();
    assert_eq!(
        facts.scale,
        Some(ScalePaths {
            spec_replicas: ".spec.replicas".into(),
            status_replicas: ".status.availableReplicas".into(),
            label_selector: None
        })
    );
    assert_eq!(facts.definition, "foos.sample.evenkeel.dev");
    definition["metadata"]["deletionTimestamp"] = json!(NOW);
    let resource = compile::resources(&definition).unwrap().remove(0);
    assert_eq!(resource.verbs, ["delete", "deletecollection", "get", "list", "watch"]);
}

#[test]
fn dis_15_the_published_schema_names_the_kind() {
    let resource = compile::resources(&admitted(foos())).unwrap().remove(0);
    let published = &resource.custom.as_ref().unwrap().published_schema;
    assert_eq!(
        published["x-kubernetes-group-version-kind"],
        json!([{"group": "sample.evenkeel.dev", "kind": "Foo", "version": "v1"}])
    );
    assert_eq!(published["properties"]["kind"]["type"], "string");
    assert!(published["properties"]["spec"].is_object());
    assert_eq!(resource.custom.as_ref().unwrap().columns[0].name, "Age");
}
