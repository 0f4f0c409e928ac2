use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn matches(selector: &str, labels: &[(&str, &str)]) -> bool {
    let labels: BTreeMap<&str, &str> = labels.iter().copied().collect();
    LabelSelector::parse(selector).unwrap().matches(|key| labels.get(key).copied())
}

fn refusal(text: &str) -> String {
    LabelSelector::parse(text).unwrap_err().to_string()
}

#[test]
fn sel_1_every_form_of_the_grammar() {
    let labels = [("app", "a"), ("n", "5"), ("empty", "")];
    for text in [
        "",
        " ",
        "app",
        "!gone",
        "app=a",
        "app==a",
        "app = a",
        "app!=b",
        "app in (a,b)",
        "app notin (b,c)",
        "n>4",
        "n<6",
        "empty=",
        "empty in ()",
        "empty in (a,)",
        "app,n",
        "app=a,!gone,n>4",
        "app in(a)",
        "gone!=a",
        "gone notin (a)",
    ] {
        assert!(matches(text, &labels), "{text:?} should match");
    }
    for text in [
        "gone",
        "!app",
        "app=b",
        "app!=a",
        "app in (b)",
        "app notin (a,b)",
        "n>5",
        "n<5",
        "app>1",
        "gone>1",
        "gone=",
        "app,gone",
    ] {
        assert!(!matches(text, &labels), "{text:?} should not match");
    }
    assert!(LabelSelector::parse("n>-1").is_err(), "a minus sign is not legal in a label's value");
}

#[test]
fn sel_1_in_and_notin_are_also_keys_and_values() {
    assert!(matches("in", &[("in", "x")]));
    assert!(matches("in in (in,notin)", &[("in", "notin")]));
    assert!(matches("notin=in", &[("notin", "in")]));
}

#[test]
fn sel_1_the_text_form_is_canonical() {
    for (text, canonical) in [
        ("b , a", "a,b"),
        ("x in (c,a , b,a)", "x in (a,b,c)"),
        ("x==y", "x=y"),
        ("! x", "!x"),
        ("x notin ()", "x notin ()"),
        ("x in (,a)", "x in (,a)"),
        ("x in (,)", "x in ()"),
        ("x in (b,,a)", "x in (,a,b)"),
        ("x in (a,,,)", "x in (,a)"),
        ("x>007", "x>007"),
        ("x=", "x="),
    ] {
        let selector = LabelSelector::parse(text).unwrap();
        assert_eq!(selector.to_string(), canonical);
        assert_eq!(LabelSelector::parse(canonical).unwrap(), selector);
    }
}

#[test]
fn sel_1_errors_equal_those_of_the_server() {
    for (text, message) in [
        ("a===b", "unable to parse requirement: found '=', expected: identifier"),
        (",,", "found ',', expected: !, identifier, or 'end of string'"),
        ("a,", "found '', expected: identifier after ','"),
        ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        ("!a=b", "found '=', expected: ',' or 'end of string'"),
        ("a in b", "unable to parse requirement: found 'b' expected: '('"),
        ("a in (", "unable to parse requirement: found '', expected: ',', ')' or identifier"),
        ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'"),
        ("a in (b,", "unable to parse requirement: found '', expected: ',', or identifier"),
        ("a in (b,,)", "unable to parse requirement: found ')', expected: ',', or identifier"),
        ("a in (,,)", "unable to parse requirement: found ')', expected: ',', or identifier"),
        ("a in (b=)", "unable to parse requirement: found '=', expected: ',' or ')'"),
        ("!", "unable to parse requirement: found '', expected: identifier"),
        ("a=b c", "found 'c', expected: ',' or 'end of string'"),
        (
            "a>b",
            "unable to parse requirement: values[0]: Invalid value: \"b\": for 'Gt', 'Lt' operators, the value must be \
             an integer",
        ),
        ("/a", "unable to parse requirement: <nil>: Invalid value: \"/a\": prefix part must be non-empty"),
        (
            "-a",
            "unable to parse requirement: <nil>: Invalid value: \"-a\": name part must consist of alphanumeric \
             characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or \
             'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
        ),
        (
            "a=-b",
            "unable to parse requirement: values[0][a]: Invalid value: \"-b\": a valid label must be an empty string \
             or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric \
             character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is \
             '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')",
        ),
    ] {
        assert_eq!(refusal(text), message, "{text:?}");
    }
    let long = "a".repeat(64);
    assert_eq!(
        refusal(&long),
        format!(
            "unable to parse requirement: <nil>: Invalid value: \"{long}\": name part must be no more than 63 \
             characters"
        )
    );
    assert!(refusal("a\0b").contains(r#""a\x00b""#), "nothing after a NUL is overlooked");
}

#[test]
fn sel_1_an_error_has_its_source() {
    use std::error::Error as _;
    let error = LabelSelector::parse("a===b").unwrap_err();
    let source = error.source().unwrap().to_string();
    assert_eq!(source, "found '=', expected: identifier");
}

#[test]
fn sel_1_selectors_of_api_objects() {
    let selector = LabelSelector::from_json(&json!({
        "matchLabels": {"app": "a"},
        "matchExpressions": [
            {"key": "tier", "operator": "In", "values": ["web", "api"]},
            {"key": "canary", "operator": "DoesNotExist"},
        ],
    }))
    .unwrap();
    assert_eq!(selector.to_string(), "app=a,!canary,tier in (api,web)");
    let typed: meta::v1::LabelSelector = serde_json::from_value(json!({
        "matchLabels": {"app": "a"},
        "matchExpressions": [
            {"key": "canary", "operator": "DoesNotExist"},
            {"key": "tier", "operator": "In", "values": ["api", "web"]},
        ],
    }))
    .unwrap();
    assert_eq!(LabelSelector::try_from(&typed), Ok(selector));
    assert!(LabelSelector::from_json(&json!({})).unwrap().is_empty());
    for (value, message) in [
        (json!(null), "selector: expected an object"),
        (json!({"matchLabels": {"a": 1}}), "matchLabels[a]: expected a string"),
        (json!({"matchExpressions": [{"key": "a"}]}), "matchExpressions[0].operator: expected a string"),
        (
            json!({"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]}),
            "\"Gt\" is not a valid label selector operator",
        ),
        (
            json!({"matchExpressions": [{"key": "a", "operator": "In", "values": []}]}),
            "values: Invalid value: []string(nil): for 'in', 'notin' operators, values set can't be empty",
        ),
    ] {
        assert_eq!(LabelSelector::from_json(&value).unwrap_err().to_string(), message);
    }
}

#[test]
fn sec_36_a_value_cannot_add_a_requirement() {
    for value in ["a,b", "a=b", "a)", " "] {
        assert!(Requirement::new("k", LabelOperator::Equals, [value]).is_err(), "{value:?}");
    }
}

#[test]
fn several_errors_are_listed_in_brackets() {
    let error = Requirement::new("", LabelOperator::Exists, ["-"]).unwrap_err();
    let SelectorError::InvalidRequirement { errors } = &error else { panic!("{error:?}") };
    assert_eq!(errors.len(), 3);
    let text = error.to_string();
    assert!(text.starts_with("[key: Invalid value: \"\": ") && text.ends_with(']'), "{text}");
}

fn requirement() -> impl Strategy<Value = Requirement> {
    let key = prop::sample::select(vec!["a", "b", "in", "notin", "x.io/c"]);
    let value = prop::sample::select(vec!["", "1", "2", "10", "in", "v"]);
    let values = prop::collection::vec(value, 1..4);
    (key, 0..8, values, 0..20_i64).prop_map(|(key, operator, values, number)| {
        let one: Vec<String> = vec![values[0].into()];
        let number = vec![number.to_string()];
        let (operator, values) = match operator {
            0 => (LabelOperator::Equals, one),
            1 => (LabelOperator::NotEquals, one),
            2 => (LabelOperator::In, values.into_iter().map(Into::into).collect()),
            3 => (LabelOperator::NotIn, values.into_iter().map(Into::into).collect()),
            4 => (LabelOperator::Exists, vec![]),
            5 => (LabelOperator::DoesNotExist, vec![]),
            6 => (LabelOperator::GreaterThan, number),
            _ => (LabelOperator::LessThan, number),
        };
        Requirement::new(key, operator, values).unwrap()
    })
}

/// A literal implementation of the documentation of each operator.
fn naive(requirement: &Requirement, labels: &BTreeMap<String, String>) -> bool {
    let value = labels.get(requirement.key());
    let number = value.and_then(|value| value.parse::<i64>().ok());
    let first = requirement.values().first();
    match requirement.operator() {
        LabelOperator::Equals => value.is_some() && value == first,
        LabelOperator::NotEquals => value.is_none() || value != first,
        LabelOperator::In => value.is_some_and(|value| requirement.values().contains(value)),
        LabelOperator::NotIn => value.is_none_or(|value| !requirement.values().contains(value)),
        LabelOperator::Exists => value.is_some(),
        LabelOperator::DoesNotExist => value.is_none(),
        LabelOperator::GreaterThan => number.is_some_and(|n| n > first.unwrap().parse().unwrap()),
        LabelOperator::LessThan => number.is_some_and(|n| n < first.unwrap().parse().unwrap()),
    }
}

proptest! {
    #[test]
    fn sel_1_parse_of_display_is_the_same_selector(requirements in prop::collection::vec(requirement(), 0..5)) {
        let selector = LabelSelector::from_requirements(requirements.clone());
        prop_assert_eq!(LabelSelector::parse(&selector.to_string()).unwrap(), selector.clone());
        let grown = requirements.into_iter().fold(LabelSelector::everything(), LabelSelector::and);
        prop_assert_eq!(grown, selector);
    }

    #[test]
    fn sel_1_agrees_with_a_naive_evaluator(
        requirements in prop::collection::vec(requirement(), 0..4),
        labels in prop::collection::btree_map("a|b|in|notin|x.io/c", "|1|2|10|in|v|z", 0..4),
    ) {
        let selector = LabelSelector::from_requirements(requirements.clone());
        let expected = requirements.iter().all(|requirement| naive(requirement, &labels));
        prop_assert_eq!(selector.matches(|key| labels.get(key).map(String::as_str)), expected);
    }

    #[test]
    fn sel_1_arbitrary_text_never_panics(text in any::<String>()) {
        let _ = LabelSelector::parse(&text);
    }

    #[test]
    fn sel_1_parsed_selectors_round_trip(text in r"([ab1/]{0,2}( in | notin |=|==|!=|!|>|<|\(|\)|,)?){0,6}") {
        if let Ok(selector) = LabelSelector::parse(&text) {
            prop_assert_eq!(LabelSelector::parse(&selector.to_string()).unwrap(), selector);
        }
    }
}
