use std::collections::BTreeSet;

use super::*;

fn all() -> &'static [Message] {
    let table: &'static Table = &TABLE;
    &table.messages
}

fn of(api_version: &str, kind: &str) -> &'static Message {
    Message::of_kind(api_version, kind).unwrap_or_else(|| panic!("{api_version} {kind}"))
}

#[test]
fn pb_003_the_table_is_read_whole_and_is_small() {
    assert!(TEXT.len() < 100_000, "{}", TEXT.len());
    assert!(all().len() > 1350, "{}", all().len());
    let fields: usize = all().iter().map(|message| message.fields.iter().flatten().count()).sum();
    assert!(fields > 4500, "{fields}");
    // Every field of the text became a field, and every line a message.
    for line in TEXT.lines().filter(|line| !line.starts_with(['#', '/'])) {
        let (name, fields) = line.split_once(' ').unwrap_or((line, ""));
        let name = name.trim_start_matches('!');
        let same = || all().iter().filter(|message| message.name == name);
        assert!(same().count() > 0, "{name}");
        if !fields.starts_with(['*', '=']) {
            let expected = fields.split_whitespace().count();
            assert!(same().any(|message| message.fields.iter().flatten().count() == expected), "{line}");
        }
    }
    let names: BTreeSet<(&str, &str)> = all().iter().map(|message| (message.package, message.name)).collect();
    assert_eq!(names.len(), all().len());
}

#[test]
fn pb_010_numbers_fit_the_bitmap_and_names_are_unique() {
    for message in all() {
        assert!(message.fields.len() <= 64, "{message:?}");
        for (at, field) in message.fields.iter().enumerate() {
            let Some(field) = field else { continue };
            assert_eq!(usize::from(field.number), at);
            assert!(!field.elide || field.cardinality == Cardinality::One, "{message:?}.{}", field.name);
            assert!(!field.is_inline() || field.of.kind == FieldKind::Message, "{message:?}.{}", field.number);
        }
        assert!(message.names.windows(2).all(|pair| pair[0].name < pair[1].name), "{message:?}");
        assert!(message.names.iter().enumerate().all(|(at, named)| named.index == at), "{message:?}");
    }
}

#[test]
fn pb_011_types_are_those_of_the_proto_files() {
    let kind = |message: &'static Message, name| message.named(name).unwrap().field.of.kind;
    let pod = of("v1", "Pod").named("spec").unwrap().field.of.message();
    assert_eq!((kind(pod, "priority"), kind(pod, "hostUsers")), (FieldKind::Int32, FieldKind::Bool));
    assert_eq!(kind(of("v1", "DeleteOptions"), "propagationPolicy"), FieldKind::Text);
    assert_eq!(kind(of("scheduling.k8s.io/v1", "PriorityClass"), "value"), FieldKind::Int32);
    let list = of("v1", "PodList").named("metadata").unwrap().field.of.message();
    assert_eq!(kind(list, "remainingItemCount"), FieldKind::Int64);
}

#[test]
fn pb_012_names_are_those_of_json() {
    let webhooks = of("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration");
    assert_eq!(webhooks.field(2).unwrap().name, "webhooks");
    let definition = of("apiextensions.k8s.io/v1", "CustomResourceDefinition");
    let spec = definition.named("spec").unwrap().field.of.message();
    let version = spec.named("versions").unwrap().field.of.message();
    let schema = version.named("schema").unwrap().field.of.message();
    let properties = schema.named("openAPIV3Schema").unwrap().field.of.message();
    for name in ["$ref", "$schema", "x-kubernetes-int-or-string", "additionalProperties"] {
        assert!(properties.named(name).is_some(), "{name}");
    }
    assert!(properties.named("ref").is_none());
    assert_eq!(properties.named("items").unwrap().field.of.message(), properties, "a schema has schemas");
}

#[test]
fn pb_013_types_with_no_form_of_their_own_are_followed() {
    assert!(of("v1", "List").named("items").is_some());
    let policy = of("admissionregistration.k8s.io/v1alpha1", "ValidatingAdmissionPolicy");
    let spec = policy.named("spec").unwrap().field.of.message();
    let condition = spec.named("matchConditions").unwrap().field.of.message();
    assert_eq!(condition.field(1).unwrap().name, "name");
}

#[test]
fn pb_014_kinds_are_found() {
    for (api_version, kind) in [
        ("v1", "Pod"),
        ("v1", "PodList"),
        ("apps/v1", "DeploymentList"),
        ("autoscaling/v1", "Scale"),
        ("policy/v1", "Eviction"),
        ("authentication.k8s.io/v1", "TokenRequest"),
        ("apiextensions.k8s.io/v1", "CustomResourceDefinitionList"),
        ("apiregistration.k8s.io/v1", "APIService"),
        ("metrics.k8s.io/v1beta1", "PodMetricsList"),
        ("meta.k8s.io/v1", "PartialObjectMetadata"),
        ("meta.k8s.io/v1", "PartialObjectMetadataList"),
        ("v1", "Status"),
        ("apps/v1", "Status"),
        ("stable.example.com/v1", "DeleteOptions"),
        ("", "WatchEvent"),
    ] {
        assert_eq!(of(api_version, kind).name(), kind);
    }
    for (api_version, kind) in [
        ("v1", "pod"),
        ("v1", "Deployment"),
        ("apps/v1", "PodSpec"),
        ("v1", "PodSpec"),
        ("example.com/v1", "Foo"),
        ("", ""),
    ] {
        assert_eq!(Message::of_kind(api_version, kind), None, "{api_version} {kind}");
    }
    let list = of("apps/v1", "DeploymentList");
    assert_eq!(list.named("items").unwrap().field.of.message(), of("apps/v1", "Deployment"));
    assert_eq!(list.named("items").unwrap().field.cardinality, Cardinality::List);
}

#[test]
fn pb_029_inline_messages_are_found_by_the_names_in_them() {
    let sites: usize =
        all().iter().map(|message| message.fields.iter().flatten().filter(|f| f.is_inline()).count()).sum();
    assert!(sites >= 27, "{sites}");
    let configuration = of("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicyBinding");
    let spec = configuration.named("spec").unwrap().field.of.message();
    let resources = spec.named("matchResources").unwrap().field.of.message();
    let rule = resources.named("resourceRules").unwrap().field.of.message();
    assert_eq!(rule.named("resourceNames").unwrap().path, [0, 0]);
    assert_eq!(rule.named("operations").unwrap().path, [2, 0]);
    assert_eq!(rule.named("apiGroups").unwrap().path, [2, 2], "two levels down");
    assert_eq!(rule.inlines().len(), 2);
    // No site is deeper than a field reader can follow.
    fn depth(message: &'static Message) -> usize {
        let inner = message.fields.iter().flatten().filter(|field| field.is_inline());
        inner.map(|field| 1 + depth(field.of.message())).max().unwrap_or(0)
    }
    assert_eq!(all().iter().map(depth).max(), Some(INLINE_LEVELS));
}

#[test]
fn pb_051_only_plain_values_with_omitempty_are_left_out_when_zero() {
    let spec = of("v1", "Pod").named("spec").unwrap().field.of.message();
    let elide = |name| spec.named(name).unwrap().field.elide;
    assert!(elide("nodeName") && elide("hostNetwork"));
    assert!(!elide("terminationGracePeriodSeconds") && !elide("automountServiceAccountToken"), "pointers");
    let container = spec.named("containers").unwrap().field.of.message();
    assert!(!container.named("name").unwrap().field.elide, "it has no omitempty");
    let metadata = of("v1", "Pod").named("metadata").unwrap().field.of.message();
    let times = all().iter().flat_map(|message| message.fields.iter().flatten());
    let elided = times.filter(|field| field.elide && field.of.kind == FieldKind::Time).count();
    assert!(metadata.named("creationTimestamp").unwrap().field.elide && elided == 1, "the one with omitzero (PB-052)");
}

#[test]
fn pb_002_fields_removed_in_the_newest_version_are_kept() {
    let spec = of("v1", "Pod").named("spec").unwrap().field.of.message();
    assert!(spec.named("schedulingGroup").is_some(), "of the newer version");
    assert!(Message::of_kind("scheduling.k8s.io/v1alpha2", "Workload").is_some(), "of the older one");
    assert!(Message::of_kind("scheduling.k8s.io/v1alpha3", "Workload").is_some(), "of the newer one");
}
