use proptest::prelude::*;

use super::*;

#[test]
fn bin_1_an_envelope_names_version_and_kind_and_ends_in_two_empty_fields() {
    let whole = envelope("v1", "Pod", b"message");
    assert_eq!(&whole[..], b"k8s\0\x0a\x09\x0a\x02v1\x12\x03Pod\x12\x07message\x1a\0\x22\0");
    assert_eq!(whole.len(), envelope_size("v1", "Pod", 7));
}

#[test]
fn bin_2_a_frame_is_a_length_and_an_event_around_an_envelope() {
    let frame = event("ADDED", "v1", "Pod", b"message");
    let (length, event) = frame.split_first_chunk().unwrap();
    assert_eq!(u32::from_be_bytes(*length) as usize, event.len());
    let object = envelope("v1", "Pod", b"message");
    let inner = u8::try_from(object.len()).unwrap();
    let head = [b"\x0a\x05ADDED\x12".as_slice(), &[inner + 2, 0x0a, inner]].concat();
    assert_eq!(event, [&head[..], &object[..]].concat());
}

#[test]
fn lengths_take_as_many_bytes_as_they_need() {
    for length in [0, 1, 127, 128, 16_383, 16_384, 2_097_151, 2_097_152, 300_000_000] {
        let mut out = Vec::new();
        put_header(&mut out, 2, length);
        assert_eq!(out.len() + length, field_size(length), "{length}");
        let (number, decoded) = out.split_first().unwrap();
        let decoded = decoded.iter().rev().fold(0, |sum, byte| sum << 7 | usize::from(byte & 0x7f));
        assert_eq!((*number, decoded), (0x12, length));
        assert!(out.iter().skip(1).rev().skip(1).all(|byte| byte & 0x80 != 0) && out[out.len() - 1] & 0x80 == 0);
    }
}

proptest! {
    #[test]
    fn text_serialises_as_the_tree_that_it_is_the_text_of(value in any_json()) {
        let text = value.to_string();
        prop_assert_eq!(serde_json::to_value(JsonText(text.as_bytes())).unwrap(), value);
    }
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        (-1000..1000i32).prop_map(|number| Value::from(f64::from(number) / 8.0)),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::hash_map(any::<String>(), inner, 0..6)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

#[test]
fn text_that_is_cut_is_an_error() {
    assert!(serde_json::to_value(JsonText(b"{\"a\":[1,")).is_err());
}

#[test]
fn bin_1_every_built_in_kind_and_its_list_can_be_written() {
    let registry = crate::registry::Registry::builtin();
    let mut missing = Vec::new();
    for resource in registry.resources() {
        let version = resource.api_version();
        let lists = resource.has_verb("list").then_some(&resource.list_kind);
        for kind in [&resource.kind].into_iter().chain(lists).filter(|kind| !has_form(&version, kind)) {
            missing.push(format!("{version} {kind}"));
        }
    }
    assert_eq!(missing, [""; 0]);
    for kind in ["PartialObjectMetadata", "PartialObjectMetadataList"] {
        assert!(has_form("meta.k8s.io/v1", kind) && has_form("meta.k8s.io/v1beta1", kind), "{kind}");
    }
    assert!(has_form("v1", "Status") && has_form("autoscaling/v1", "Scale"));
    assert!(has_form("authentication.k8s.io/v1", "TokenRequest"));
}

#[test]
fn text_is_read_to_its_end_where_fields_are_left_out() {
    let pod = json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "a"}, "spec": {"nodeName": "n"}});
    let (tree, text) = (message("v1", "Pod", &pod), message("v1", "Pod", &JsonText(pod.to_string().as_bytes())));
    assert_eq!(tree.unwrap(), text.unwrap());
}
