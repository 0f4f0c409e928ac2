use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::json;

use super::*;

fn one_of(texts: &'static [&'static str]) -> impl Strategy<Value = String> {
    select(texts).prop_map(str::to_owned)
}

/// Objects over few names, so that two of them often share paths.
fn object() -> impl Strategy<Value = Value> {
    let port = (1..4u8, 0..2u8).prop_map(|(port, name)| json!({"port": port, "name": name.to_string()}));
    let spec = (proptest::option::of(0..3u8), vec(port, 0..4), vec(one_of(&["a", "b"]), 0..3))
        .prop_map(|(replicas, ports, args)| json!({"replicas": replicas, "ports": ports, "args": args}));
    (
        btree_map(one_of(&["a", "b", "c"]), one_of(&["x", "y"]), 0..3),
        btree_map(one_of(&["a", "b", "c"]), one_of(&["x", "y"]), 0..3),
        proptest::option::of(spec),
    )
        .prop_map(|(labels, data, spec)| {
            let mut object = json!({"metadata": {"labels": labels}, "data": data});
            // An object with nothing to own would not be tracked.
            object["metadata"]["labels"]["keep"] = json!("x");
            if let Some(spec) = spec {
                object["spec"] = spec;
            }
            object
        })
}

/// Sets over few names, as `fieldsV1`.
fn fields() -> impl Strategy<Value = Value> {
    let leaf = Just(json!({}));
    leaf.prop_recursive(3, 12, 3, |inner| {
        btree_map(one_of(&["f:a", "f:b", "f:c", "v:1", "v:2", "."]), inner, 0..4).prop_map(|mut map| {
            map.entry(".".to_owned()).and_modify(|member| *member = json!({}));
            Value::Object(map.into_iter().collect())
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10_000))]

    #[test]
    fn fuz_1_set_algebra(a in fields(), b in fields()) {
        let (a, b) = (FieldSet::decode(&a).unwrap(), FieldSet::decode(&b).unwrap());
        let mut a_and_b = a.clone();
        a_and_b.absorb(b.clone());
        let mut b_and_a = b.clone();
        b_and_a.absorb(a.clone());
        prop_assert_eq!(&a_and_b, &b_and_a);
        let mut only_a = a.clone();
        only_a.subtract(&b);
        let common = a.intersection(&b);
        prop_assert_eq!(&common, &b.intersection(&a));
        prop_assert!(only_a.intersection(&b).is_empty());
        let mut rest = a.clone();
        rest.subtract(&only_a);
        prop_assert_eq!(&rest, &common);
        rest.absorb(only_a);
        prop_assert_eq!(&rest, &a);
        let encoded = a_and_b.encode();
        prop_assert_eq!(FieldSet::decode(&encoded).unwrap(), a_and_b);
    }

    /// The entry of a create is written without a set, and is the one that the set would give.
    #[test]
    fn ssa_2_the_text_of_a_create_is_that_of_its_set(
        mut object in object(),
        odd in one_of(&["null", "{}", "[]", "\"\"", "{\"a\": {}}", "[null, 1, 1]"]),
        path in one_of(&["/spec", "/metadata/labels", "/metadata/annotations", "/data", "/spec/ports", "/spec/args"]),
        typed in any::<bool>(),
        resets_status in any::<bool>(),
    ) {
        object["kind"] = json!("Workload");
        object["status"] = json!({"phase": "x"});
        object["metadata"]["name"] = json!("a");
        let (parent, name) = path.rsplit_once('/').unwrap();
        if let Some(Value::Object(parent)) = object.pointer_mut(parent) {
            parent.insert(name.to_owned(), serde_json::from_str(&odd).unwrap());
        }
        let types = typed.then_some(&*WORKLOAD);
        let write = Write { reset: if resets_status { &["status"] } else { &[] }, ..write("m", T1) };
        let mut set = compare::created(&object, types);
        set.remove_subtrees(write.reset);
        let expected = (!set.is_empty()).then(|| entry::encode_text(vec![acting_entry(set, &write)]));
        let text = first_managed_fields(&mut object.clone(), types, &write);
        prop_assert_eq!(text.map(String::from_utf8), expected.map(String::from_utf8));
    }

    /// For any sequence of writes, every field has exactly one owner, and nothing else is owned.
    #[test]
    fn fuz_1_every_field_has_one_owner(writes in vec((object(), one_of(&["a", "b", "c"])), 1..4)) {
        let mut live: Option<Value> = None;
        for (mut object, manager) in writes {
            track(live.as_ref(), &mut object, Some(&*WORKLOAD), &write(&manager, T1));
            let mut all = FieldSet::default();
            for entry in entry::decode(&object["metadata"]["managedFields"]).unwrap() {
                prop_assert!(all.intersection(&entry.fields).is_empty());
                all.absorb(entry.fields);
            }
            prop_assert_eq!(all.encode(), FieldSet::of(&object, Some(&*WORKLOAD)).encode());
            live = Some(object);
        }
    }
}

proptest! {
    #[test]
    fn fuz_1_arbitrary_owners_never_panic(
        keys in vec("(f|k|v|i|x)?:?.{0,8}", 0..4),
        old in object(),
        new in object(),
    ) {
        let fields: Map<String, Value> = keys.into_iter().map(|key| (key, json!({}))).collect();
        let mut old = old;
        old["metadata"]["managedFields"] =
            json!([{"manager": "x", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": fields}]);
        stored(Some(&old), new, &write("m", T1));
    }
}

proptest! {
    /// A small set beside a large one is compared by searching the large one. The result is that of reading both.
    #[test]
    fn bud_5_small_sets_beside_large_ones(names in vec(0..400_u32, 0..6), large in vec(0..400_u32, 150..250)) {
        let encode = |names: &[u32]| -> Value {
            json!({"f:data": names.iter().map(|name| (format!("f:{name}"), json!({}))).collect::<Map<_, _>>()})
        };
        let (small_json, large_json) = (encode(&names), encode(&large));
        let (small, large_set) = (FieldSet::decode(&small_json).unwrap(), FieldSet::decode(&large_json).unwrap());
        let (common, only): (Vec<u32>, Vec<u32>) = names.iter().partition(|name| large.contains(name));
        let keep = |names: &[u32]| if names.is_empty() { json!({}) } else { encode(names) };
        if !names.is_empty() {
            prop_assert_eq!(small.intersection(&large_set).encode(), keep(&common));
            let mut rest = small.clone();
            rest.subtract(&large_set);
            prop_assert_eq!(rest.encode(), keep(&only));
        }
        let parts: Vec<Value> = large.iter().map(|name| encode(&[*name])).collect();
        let union = FieldSet::union(parts.iter().map(|part| FieldSet::decode(part).unwrap()).collect());
        prop_assert_eq!(union, large_set);
    }
}
