use proptest::prelude::*;

use super::*;

fn text_of(error: Result<FieldSelector, SelectorError>) -> String {
    error.unwrap_err().to_string()
}

#[test]
fn sel_2_operators_and_conjunction() {
    let selector = FieldSelector::parse("a=1,b==2,c!=3").unwrap();
    let operators: Vec<FieldOperator> = selector.terms().iter().map(|term| term.operator).collect();
    assert_eq!(operators, [FieldOperator::Equals, FieldOperator::Equals, FieldOperator::NotEquals]);
    let get = |field: &str| match field {
        "a" => Some("1"),
        "b" => Some("2"),
        _ => None,
    };
    assert!(selector.matches(get));
    assert!(!FieldSelector::parse("a=1,b!=2").unwrap().matches(get));
    assert!(FieldSelector::parse("nothing=").unwrap().matches(get), "an absent field is empty");
}

#[test]
fn sel_2_empty_selects_everything() {
    for text in ["", ",", ",,"] {
        let selector = FieldSelector::parse(text).unwrap();
        assert!(selector.is_empty() && selector.matches(|_| None));
        assert_eq!(selector, FieldSelector::everything());
    }
}

#[test]
fn sel_2_backslash_escapes() {
    let selector = FieldSelector::parse(r"a=x\,y\=z\\w").unwrap();
    assert_eq!(selector.exact("a"), Some(r"x,y=z\w"));
    assert_eq!(selector.to_string(), r"a=x\,y\=z\\w");
    assert_eq!(text_of(FieldSelector::parse(r"a=\n")), r"invalid field selector: invalid escape sequence: \n");
    assert_eq!(text_of(FieldSelector::parse(r"a=b\")), r"invalid field selector: invalid escape sequence: \");
    assert_eq!(text_of(FieldSelector::parse("a=b=c")), "invalid field selector: unescaped character in value: 61");
}

#[test]
fn sel_2_a_term_without_operator_has_the_servers_error() {
    assert_eq!(
        text_of(FieldSelector::parse("metadata.name")),
        "invalid selector: 'metadata.name'; can't understand 'metadata.name'"
    );
    assert_eq!(text_of(FieldSelector::parse("a=b,c")), "invalid selector: 'a=b,c'; can't understand 'c'");
}

#[test]
fn sel_2_exact_sees_equality_only() {
    let selector = FieldSelector::parse("a!=1,b=2").unwrap();
    assert_eq!((selector.exact("a"), selector.exact("b"), selector.exact("c")), (None, Some("2"), None));
}

#[test]
fn sec_36_a_value_cannot_add_a_term() {
    let selector =
        FieldSelector::everything().and("metadata.name", FieldOperator::Equals, "a,metadata.namespace=b").unwrap();
    assert_eq!(selector.to_string(), r"metadata.name=a\,metadata.namespace\=b");
    assert_eq!(FieldSelector::parse(&selector.to_string()).unwrap(), selector);
    for field in ["", "a=b", "a!", "a,b", r"a\"] {
        assert!(FieldSelector::everything().and(field, FieldOperator::Equals, "x").is_err(), "{field}");
    }
}

proptest! {
    #[test]
    fn sel_2_parsing_never_panics_and_printing_is_its_inverse(text in r"([ab.]{0,3}(=|==|!=|\\|,|é)?){0,5}") {
        if let Ok(selector) = FieldSelector::parse(&text) {
            prop_assert_eq!(FieldSelector::parse(&selector.to_string()).unwrap(), selector);
        }
    }

    #[test]
    fn sel_2_arbitrary_text_never_panics(text in any::<String>()) {
        let _ = FieldSelector::parse(&text);
    }

    #[test]
    fn sel_2_any_value_round_trips_through_the_text_form(terms in prop::collection::vec((r"[a-z.]{1,4}", any::<bool>(), any::<String>()), 0..4)) {
        let mut selector = FieldSelector::everything();
        for (field, equal, value) in &terms {
            let operator = if *equal { FieldOperator::Equals } else { FieldOperator::NotEquals };
            selector = selector.and(field, operator, value).unwrap();
        }
        prop_assert_eq!(FieldSelector::parse(&selector.to_string()).unwrap(), selector.clone());
        let naive = |field: &str| terms.iter().all(|(f, equal, value)| (f == field && value == "v" || f != field && value.is_empty()) == *equal);
        for (field, _, _) in &terms {
            prop_assert_eq!(selector.matches(|asked| (asked == field).then_some("v")), naive(field));
        }
    }
}
