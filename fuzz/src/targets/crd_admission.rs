//! The admission of definitions of custom resources (FUZ-21). The first byte selects a whole definition or a schema.

use evenkeel_apiserver::internals::{admit_definition, compile_definition};
use serde_json::Value;

use super::crd_schema::definition;
use crate::budget::{TREE, within};
use crate::input::Input;

/// The costs of rules are estimated with types made of the schema.
const ADMISSION: u64 = 20 * TREE;

pub(super) fn run(data: &[u8]) {
    let mut input = Input(data);
    let is_whole = input.choice(&[false, true]);
    let value = input.json();
    let mut admitted = if is_whole && value.is_object() { value } else { definition(&value) };
    let size = admitted.to_string().len();
    let errors = within(ADMISSION, size, || admit_definition(&mut admitted));
    if !errors.is_empty() {
        return;
    }
    let served = compile_definition(&admitted).expect("an admitted definition can be served");
    let versions = admitted["spec"]["versions"].as_array().map_or(&[][..], Vec::as_slice);
    assert_eq!(served, versions.iter().filter(|version| version["served"] == Value::Bool(true)).count());
    let mut again = admitted.clone();
    assert_eq!(admit_definition(&mut again), Vec::<String>::new(), "admitted again");
    assert_eq!(again, admitted, "admitted again");
}
