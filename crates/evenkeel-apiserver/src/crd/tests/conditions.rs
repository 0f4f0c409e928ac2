use serde_json::{Value, json};

use super::{LATER, NOW, admitted, decoded, foos};
use crate::crd::conditions::{establish, instances_deleted, instances_terminating, is_established, start_deletion};
use crate::crd::{CLEANUP_FINALIZER, admit, compile, list, text};

fn conditions(definition: &Value) -> Vec<(String, String, String, String)> {
    list(definition, &["status", "conditions"])
        .iter()
        .map(|condition| {
            let part = |key| text(condition, &[key]).to_owned();
            (part("type"), part("status"), part("reason"), part("message"))
        })
        .collect()
}

fn condition(kind: &str, status: &str, reason: &str, message: &str) -> (String, String, String, String) {
    (kind.to_owned(), status.to_owned(), reason.to_owned(), message.to_owned())
}

#[test]
fn crd_2_conditions_of_the_recorded_scenario() {
    let mut definition = admitted(foos());
    assert!(establish(&mut definition, [], NOW));
    assert_eq!(
        definition["status"],
        json!({"acceptedNames":
                {"kind": "Foo", "listKind": "FooList", "plural": "foos", "shortNames": ["fo"], "singular": "foo"},
            "conditions": [
                {"lastTransitionTime": NOW, "message": "no conflicts found", "reason": "NoConflicts", "status": "True",
                    "type": "NamesAccepted"},
                {"lastTransitionTime": NOW, "message": "the initial names have been accepted",
                    "reason": "InitialNamesAccepted", "status": "True", "type": "Established"}],
            "storedVersions": ["v1"]})
    );
    assert!(is_established(&definition));
    assert!(!establish(&mut definition, [], LATER), "nothing changes the second time");
}

#[test]
fn crd_2_names_in_use_are_not_accepted() {
    let mut first = admitted(foos());
    establish(&mut first, [], NOW);
    let mut second = foos();
    second["metadata"]["name"] = json!("fos.sample.evenkeel.dev");
    second["spec"]["names"] = json!({"kind": "Foo", "plural": "fos", "shortNames": ["fo", "foo"]});
    let mut second = admitted(second);
    establish(&mut second, [&first], NOW);
    assert_eq!(
        conditions(&second),
        [
            condition("NamesAccepted", "False", "ListKindConflict", "\"FooList\" is already in use"),
            condition("Established", "False", "NotAccepted", "not all names are accepted"),
        ]
    );
    assert_eq!(second["status"]["acceptedNames"], json!({"kind": "", "plural": "fos"}));
    assert!(!is_established(&second));

    let mut other_group = second.clone();
    other_group["spec"]["group"] = json!("other.dev");
    assert!(establish(&mut other_group, [&first], LATER));
    assert!(is_established(&other_group));

    // The names are free once the first definition is deleted.
    assert!(establish(&mut second, [], LATER));
    assert!(is_established(&second));
    assert_eq!(second["status"]["conditions"][0]["lastTransitionTime"], LATER);
}

#[test]
fn crd_2_short_names_may_conflict_alone() {
    let mut first = admitted(foos());
    establish(&mut first, [], NOW);
    let mut second = foos();
    second["metadata"]["name"] = json!("bars.sample.evenkeel.dev");
    second["spec"]["names"] = json!({"kind": "Bar", "plural": "bars", "shortNames": ["fo", "foos"]});
    let mut second = admitted(second);
    establish(&mut second, [&first], NOW);
    assert_eq!(
        conditions(&second)[0],
        condition(
            "NamesAccepted",
            "False",
            "ShortNamesConflict",
            "[\"fo\" is already in use, \"foos\" is already in use]"
        )
    );
}

#[test]
fn crd_2_protected_groups_need_approval() {
    let mut definition = foos();
    definition["metadata"]["name"] = json!("foos.sample.k8s.io");
    definition["spec"]["group"] = json!("sample.k8s.io");
    let errors = admit::create(&mut decoded(definition.clone()));
    assert!(errors[0].to_string().starts_with(
        "metadata.annotations[api-approved.kubernetes.io]: Required value: protected groups must have approval"
    ));
    definition["metadata"]["annotations"] = json!({"api-approved.kubernetes.io": "unapproved, experimental"});
    let mut definition = admitted(definition);
    establish(&mut definition, [], NOW);
    assert_eq!(conditions(&definition)[2].2, "UnapprovedAnnotation");
}

#[test]
fn crd_15_a_definition_is_deleted_after_its_objects() {
    let mut definition = admitted(foos());
    establish(&mut definition, [], NOW);
    definition["metadata"]["deletionTimestamp"] = json!(LATER);
    start_deletion(&mut definition, LATER);
    start_deletion(&mut definition, LATER);
    assert_eq!(definition["metadata"]["finalizers"], json!([CLEANUP_FINALIZER]));
    assert_eq!(
        conditions(&definition)[2],
        condition(
            "Terminating",
            "True",
            "InstanceDeletionPending",
            "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon"
        )
    );
    instances_terminating(&mut definition, LATER);
    assert_eq!(conditions(&definition)[2].2, "InstanceDeletionInProgress");
    let resource = compile::resources(&definition).unwrap().remove(0);
    assert!(resource.custom.unwrap().terminating);
    instances_deleted(&mut definition, LATER);
    assert_eq!(
        conditions(&definition)[2],
        condition("Terminating", "False", "InstanceDeletionCompleted", "removed all instances")
    );
    assert_eq!(definition["metadata"].get("finalizers"), None);
}
