use proptest::prelude::*;
use serde_json::{Value, json};

use super::write_value;

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
        "[a-z\"\\\\\u{0}-\u{1f}\u{7f}é]{0,20}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map(any::<String>(), inner, 0..5)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

proptest! {
    /// STO-6: the bytes are those of any other encoder of compact JSON.
    #[test]
    fn sto_6_values_are_written_as_serde_json_writes_them(value in value()) {
        let mut bytes = Vec::new();
        write_value(&mut bytes, &value);
        prop_assert_eq!(String::from_utf8(bytes).unwrap(), value.to_string());
    }
}

#[test]
fn sto_6_empty_values_and_escapes_are_written() {
    let value = json!({"": [], "a": {}, "q\"": "\\\u{8}\u{7f}\u{2028}", "n": [1, -0.5, 1e300, null, true, false]});
    let mut bytes = Vec::new();
    write_value(&mut bytes, &value);
    assert_eq!(bytes, value.to_string().as_bytes());
}
