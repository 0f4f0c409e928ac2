//! JSONPath templates, paths into objects, and selectors (FUZ-16).
//!
//! The first byte selects the grammar, the line after it is the text; a JSON document follows.

use evenkeel_core::json::JsonValue;
use evenkeel_core::jsonpath::{Dialect, JsonPathTemplate};
use evenkeel_core::{FieldSelector, LabelSelector};
use serde_json::Value;

use crate::budget::{DECODER, TREE, within};
use crate::input::Input;

pub(super) fn run(data: &[u8]) {
    let mut input = Input(data);
    let grammar = input.choice(&[0, 1, 2, 3, 4]);
    let text = input.text_line();
    let document = input.json();
    match grammar {
        0 => check_template(&text, Dialect::Literal, &document),
        1 => check_template(&text, Dialect::Kubectl, &document),
        2 => check_path(&text, &document),
        3 => check_labels(&text, &document),
        _ => check_fields(&text, &document),
    }
}

/// A template has the same results however it is evaluated, and what it holds is bounded by what it visits.
fn check_template(text: &str, dialect: Dialect, document: &Value) {
    let Ok(template) = within(TREE, text.len(), || JsonPathTemplate::parse_dialect(text, dialect)) else { return };
    let first = template.first(document).map(|first| first.cloned());
    if let (Ok(results), Ok(first)) = (template.results(document), first) {
        assert_eq!(results.first().and_then(|results| results.first().copied()), first.as_ref(), "the first result");
        assert!(template.render(document).is_ok() || template.render_json(document).is_ok(), "results without a text");
    }
    let lenient = template.clone().allow_missing_keys(true);
    if let Ok(results) = template.results(document) {
        assert_eq!(lenient.results(document).ok(), Some(results), "missing keys were allowed, and none is missing");
    }
}

/// A path into JSON text leads to the same value as into the tree of the text.
fn check_path(path: &str, document: &Value) {
    let text = document.to_string();
    let Ok(found) = within(DECODER, path.len(), || JsonValue::at_path(&text, path).map(|found| found.map(|_| ())))
    else {
        return;
    };
    let value = JsonValue::at_path(&text, path).expect("it was found before");
    assert_eq!(found.is_some(), value.is_some());
    let names: Vec<&str> = path.split('.').collect();
    let is_plain = |name: &&str| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase());
    if names.iter().all(is_plain) {
        let expected = names.iter().try_fold(document, |value, name| value.as_object()?.get(*name));
        let expected = expected.filter(|value| !value.is_null());
        let value = value.map(|value| serde_json::from_str::<Value>(value.json()).expect("a value is JSON"));
        assert_eq!(value.as_ref(), expected, "at {path}");
    }
}

/// A selector is the same after it was printed, and selects the same.
fn check_labels(text: &str, document: &Value) {
    let Ok(selector) = within(TREE, text.len(), || LabelSelector::parse(text)) else { return };
    let again = LabelSelector::parse(&selector.to_string()).expect("what was printed can be parsed");
    assert_eq!(again, selector, "printed and parsed again");
    let get = |key: &str| document.get(key).and_then(Value::as_str);
    assert_eq!(again.matches(get), selector.matches(get));
    let each = selector
        .requirements()
        .iter()
        .all(|requirement| LabelSelector::everything().and(requirement.clone()).matches(get));
    assert_eq!(selector.matches(get), each, "all requirements, or each of them");
}

/// The same for fields.
fn check_fields(text: &str, document: &Value) {
    let Ok(selector) = within(TREE, text.len(), || FieldSelector::parse(text)) else { return };
    let again = FieldSelector::parse(&selector.to_string()).expect("what was printed can be parsed");
    assert_eq!(again, selector, "printed and parsed again");
    let get = |key: &str| document.get(key).and_then(Value::as_str);
    assert_eq!(again.matches(get), selector.matches(get));
}
