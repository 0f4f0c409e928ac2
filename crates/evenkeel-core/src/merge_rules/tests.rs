use super::*;

/// The type at a path from a kind; `[]` are the items of a list.
fn at(api_version: &str, kind: &str, path: &str) -> MergeType {
    let root = MergeType::of_kind(api_version, kind).unwrap();
    path.split('.').fold(root, |place, step| match step {
        "[]" => place.items().unwrap(),
        name => place.field(name).unwrap(),
    })
}

#[test]
fn every_rule_is_about_a_field_of_a_message() {
    assert!(RULES.fields.len() > 90 && RULES.atomic.len() > 25, "{} {}", RULES.fields.len(), RULES.atomic.len());
    for ((package, name), field) in RULES.fields.keys() {
        assert!(!field.contains(['=', '+', '!', '*', '~', '?']), "{package}.{name} {field}");
    }
    for line in TEXT.lines().filter(|line| !line.starts_with(['#', '/'])) {
        assert!(line.split(' ').all(|word| !word.is_empty()), "{line:?}");
    }
}

#[test]
fn lists_and_objects_have_the_rules_of_their_fields() {
    let ports = at("apps/v1", "Deployment", "spec.template.spec.containers.[].ports");
    assert_eq!(ports.list_ownership(), ListOwnership::Map(&["containerPort", "protocol"]));
    assert_eq!(ports.patch_rule(), PatchRule::Merge(Some("containerPort")));
    let finalizers = at("v1", "Pod", "metadata.finalizers");
    assert_eq!((finalizers.list_ownership(), finalizers.patch_rule()), (ListOwnership::Set, PatchRule::Merge(None)));
    let tolerations = at("v1", "Pod", "spec.tolerations");
    assert_eq!((tolerations.list_ownership(), tolerations.patch_rule()), (ListOwnership::Atomic, PatchRule::Default));
    assert!(at("apps/v1", "Deployment", "spec.selector").is_atomic(), "by its type");
    assert!(at("v1", "Service", "spec.selector").is_atomic(), "by its field");
    assert!(!at("v1", "PersistentVolume", "spec.claimRef").is_atomic(), "the field overrides the type");
    assert!(!at("v1", "Pod", "metadata.labels").is_atomic() && !at("v1", "Pod", "metadata.labels").has_fields());
    assert!(at("v1", "Pod", "metadata.labels").field("any").is_some());
    assert_eq!(at("policy/v1", "PodDisruptionBudget", "spec.selector").patch_rule(), PatchRule::Replace);
}

#[test]
fn kinds_without_rules_are_unknown() {
    for (api_version, kind) in [("example.com/v1", "Foo"), ("apps/v1beta1", "Deployment"), ("v1", "Nothing")] {
        assert!(MergeType::of_kind(api_version, kind).is_none(), "{api_version} {kind}");
    }
}
