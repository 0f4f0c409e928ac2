use std::collections::HashSet;

use serde_json::Value;

use super::*;

/// Returns all objects of a set as values, and their mean size in JSON.
fn values(objects: &dyn Objects) -> (Vec<Value>, usize) {
    let mut bytes = 0;
    let values = (0..objects.len()).map(|number| {
        let mut text = String::from("{");
        objects.write(&mut text, number);
        text.push('}');
        bytes += text.len();
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    });
    let values: Vec<Value> = values.collect();
    (values, bytes / objects.len())
}

#[test]
fn objects_are_distinct_and_have_the_versions_of_lists() {
    for data in [Data::Secrets, Data::Endpointslices, Data::Documents, Data::Kinds] {
        for (kind, objects) in data.kinds(if data == Data::Documents { 20 } else { 200 }) {
            let (values, _) = values(objects.as_ref());
            let names: HashSet<String> = values.iter().map(|value| value["metadata"]["name"].to_string()).collect();
            let uids: HashSet<String> = values.iter().map(|value| value["metadata"]["uid"].to_string()).collect();
            assert_eq!((names.len(), uids.len()), (values.len(), values.len()), "{}", kind.kind);
            for (number, value) in values.iter().enumerate() {
                assert_eq!(value["metadata"]["resourceVersion"], (FIRST_VERSION + number).to_string());
            }
            assert_eq!(objects.list_version(), FIRST_VERSION + values.len());
        }
    }
}

#[test]
fn sets_have_their_documented_sizes() {
    let mean = |data: Data| values(data.kinds(60)[0].1.as_ref()).1;
    let documents = mean(Data::Documents);
    assert!((95_000..110_000).contains(&documents), "{documents}");
    let secrets = mean(Data::Secrets);
    assert!((2_000..6_000).contains(&secrets), "{secrets}");
    let slices = mean(Data::Endpointslices);
    assert!((4_000..20_000).contains(&slices), "{slices}");
}

#[test]
fn twenty_kinds_share_the_objects() {
    let kinds = Data::Kinds.kinds(205);
    assert_eq!(kinds.len(), 20);
    assert_eq!(kinds.iter().map(|(_, objects)| objects.len()).sum::<usize>(), 205);
    let paths: HashSet<&str> = kinds.iter().map(|(kind, _)| kind.path).collect();
    assert_eq!(paths.len(), 20);
}

#[test]
fn templates_are_joined_and_filled() {
    let mut out = String::new();
    fill(&mut out, "{\"a\":\"<x>\",\n    \"b\":<y>}", |slot| if slot == "x" { "1 2" } else { "3" });
    assert_eq!(out, r#"{"a":"1 2","b":3}"#);
}
