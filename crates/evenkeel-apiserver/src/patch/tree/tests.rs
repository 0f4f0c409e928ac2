use proptest::prelude::*;
use serde_json::json;

use super::*;

fn list(items: Vec<Value>) -> ChunkedList {
    ChunkedList::new(items)
}

#[test]
fn bud_6_an_insertion_moves_one_chunk() {
    // The cost of 10,000 insertions at the front does not grow with the list.
    let cost = |length: usize| {
        let mut list = list(vec![Value::Null; length]);
        let mut cost = 0;
        for _ in 0..10_000 {
            cost += list.cost_of_insert(0);
            list.insert(0, PatchTree::Plain(json!(1)));
        }
        assert_eq!(list.len(), length + 10_000);
        cost
    };
    // A plain list would move 5 billion items, and twice as many.
    let (one, two) = (cost(500_000), cost(1_000_000));
    assert!(one < 10_000 * (2 * CHUNK + 1_100), "{one}");
    assert!(two < 10_000 * (2 * CHUNK + 2_200), "{two}");
}

#[test]
fn an_opened_tree_equals_its_value() {
    let value = json!({"a": [1, {"b": null}, []], "c": {}, "d": "x"});
    let mut tree = PatchTree::Plain(value.clone());
    if let PatchTree::Object(fields) = tree.open() {
        for field in fields.values_mut() {
            field.open();
        }
    }
    assert!(tree == value);
    assert_eq!(tree.depth(), depth(&value));
    assert_eq!(tree.into_value(), value);
}

proptest! {
    #[test]
    fn a_chunked_list_is_a_list(
        length in 0_usize..2_000,
        operations in prop::collection::vec((any::<bool>(), any::<prop::sample::Index>()), 0..200),
    ) {
        let mut plain: Vec<Value> = (0..length).map(Value::from).collect();
        let mut chunked = list(plain.clone());
        for (number, (insert, index)) in operations.into_iter().enumerate() {
            if insert || plain.is_empty() {
                let index = index.index(plain.len() + 1);
                plain.insert(index, json!({ "n": number }));
                chunked.insert(index, PatchTree::Plain(json!({ "n": number })));
            } else {
                let index = index.index(plain.len());
                let removed = plain.remove(index);
                prop_assert!(chunked.remove(index).is_some_and(|item| item == removed));
            }
            prop_assert_eq!(chunked.len(), plain.len());
        }
        prop_assert!(chunked.remove(plain.len()).is_none());
        prop_assert!(chunked.get(plain.len()).is_none());
        prop_assert_eq!(PatchTree::List(chunked).into_value(), Value::Array(plain));
    }
}
