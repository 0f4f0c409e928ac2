//! Objects of custom resources under any schema that is admitted (FUZ-22): the schema, then the object.

use evenkeel_apiserver::internals::MAX_REPORTS;

use super::crd_schema::admitted_schema;
use crate::budget::{TREE, within};
use crate::input::Input;

/// The faults that validation reports are limited for each type of fault.
const MAX_ERRORS: usize = 10 * MAX_REPORTS;

pub(super) fn run(data: &[u8]) {
    let mut input = Input(data);
    let (schema, mut object) = (input.json(), input.json());
    let Some(schema) = admitted_schema(&schema) else { return };
    let size = data.len();
    let errors = within(TREE, size, || schema.validate(&object));
    assert!(errors.len() <= MAX_ERRORS, "{} errors", errors.len());
    let mut pruned = object.clone();
    within(TREE, size, || schema.prune(&mut pruned));
    let once = pruned.clone();
    assert_eq!(schema.prune(&mut pruned), Vec::<String>::new(), "pruned twice");
    assert_eq!(pruned, once, "pruned twice");
    // Defaults may be larger than the object, as often as the object has items.
    if within(TREE, size * size, || schema.prepare(&mut object)).is_err() {
        return;
    }
    let once = object.clone();
    let errors = schema.validate(&once);
    assert_eq!(schema.prepare(&mut object), Ok(Vec::new()), "prepared twice");
    assert_eq!(object, once, "prepared twice");
    assert_eq!(schema.validate(&object), errors);
}
