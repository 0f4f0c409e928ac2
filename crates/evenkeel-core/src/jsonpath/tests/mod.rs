mod go;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn template(text: &str) -> JsonPathTemplate {
    JsonPathTemplate::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn kubectl(text: &str) -> JsonPathTemplate {
    JsonPathTemplate::parse_dialect(text, Dialect::Kubectl).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn render(text: &str, document: &Value) -> String {
    template(text).render(document).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn fails(text: &str, document: &Value) -> String {
    template(text).render(document).expect_err(text).to_string()
}

/// Returns the reason for which a template is malformed.
fn reason(text: &str) -> String {
    match JsonPathTemplate::parse(text) {
        Err(JsonPathSyntaxError::Malformed { reason, .. }) => reason,
        other => panic!("{text}: {other:?}"),
    }
}

fn document() -> Value {
    json!({
        "name": "web",
        "list": [1, 2, 3, 4],
        "empty": [],
        "nothing": null,
        "labels": {"kubernetes.io/hostname": "node-1", "a.b": "literal", "a": {"b": "nested"}, "x,y]": "odd"},
        "items": [{"a": 1, "b": "x", "f": 1.0}, {"a": 2, "b": "y"}, {"a": 3}],
    })
}

#[test]
fn jpa_001_actions_have_steps_and_everything_else_is_an_error() {
    let document = document();
    for (text, output) in [
        ("{.name}", "web"),
        ("{$['name']}", "web"),
        ("{@.list[1]}", "2"),
        ("{.list[0:3:2]}", "1 3"),
        ("{.list[0,-1]}", "1 4"),
        ("{.list[*]}", "1 2 3 4"),
        ("{.items[*].a}", "1 2 3"),
        ("{..b}", "x y nested"),
        ("{.items[?(@.a>1)].a}", "2 3"),
        (r#"{"quoted"} {'text'} {1} {-2.5} {true} {false}"#, "quoted text 1 -2.5 true false"),
        ("{range .list[*]}<{}>{end}", "<1><2><3><4>"),
    ] {
        assert_eq!(render(text, &document), output, "{text}");
    }
    assert_eq!(reason("{name}"), "unrecognized identifier name");
    assert_eq!(reason("{.name"), "unclosed action");
    let error = JsonPathTemplate::parse("ab{.x[?(@.y==z)]}").unwrap_err();
    assert_eq!(error.to_string(), "unrecognized identifier z (at byte 13 of the JSONPath template)");
}

#[test]
fn jpa_002_names_end_at_separators_and_backslashes_keep_them() {
    let document = document();
    assert_eq!(render(r"{.labels.kubernetes\.io/hostname}", &document), "node-1");
    for end in [' ', '\t', '.', ',', '[', ']', '$', '@', '{', '}', '\n', '\\'] {
        let name = format!("x{end}y");
        assert_eq!(render(&format!("{{.x\\{end}y}}"), &json!({name: 1})), "1", "{end:?}");
    }
}

#[test]
fn jpa_003_keys_in_brackets_are_literal_unless_the_dialect_is_kubectl() {
    let document = document();
    assert_eq!(render("{.labels['a.b']}", &document), "literal");
    assert_eq!(render(r#"{.labels["a.b"]}"#, &document), "literal");
    assert_eq!(render(r"{.labels['a\.b']}", &document), "literal");
    assert_eq!(render("{.labels['x,y]']}", &document), "odd");
    assert_eq!(render("{['it\\'s']}", &json!({"it's": 1})), "1");
    assert_eq!(kubectl("{.labels['a.b']}").render(&document).unwrap(), "nested");
    assert_eq!(kubectl(r"{.labels['a\.b']}").render(&document).unwrap(), "literal");
    assert!(JsonPathTemplate::parse_dialect(r#"{["a"]}"#, Dialect::Kubectl).is_err());
}

#[test]
fn jpa_004_missing_keys_are_errors_unless_allowed() {
    let document = document();
    assert_eq!(fails("{.none.x}", &document), "none is not found");
    assert_eq!(render("{.items[*].b}", &document), "x y");
    let allowed = template("<{.none.x}>").allow_missing_keys(true);
    assert_eq!(allowed.render(&document).unwrap(), "<>");
    assert_eq!(template("{.none}").allow_missing_keys(true).first(&document), Ok(None));
    assert_eq!(template("{.none}").first(&document), Err(JsonPathError::NotFound { key: "none".into() }));
}

#[test]
fn jpa_005_indices_count_from_both_ends_and_stay_inside() {
    let document = document();
    assert_eq!(render("{.list[-1]} {.list[-2:]} {.list[2:2]} {.list[4:]}", &document), "4 3 4  ");
    for (text, error) in [
        ("{.list[4]}", "array index out of bounds: index 4, length 4"),
        ("{.list[-5]}", "array index out of bounds: index -1, length 4"),
        ("{.empty[-1]}", "array index out of bounds: index -1, length 0"),
        ("{.list[0:5]}", "array index out of bounds: index 4, length 4"),
        ("{.list[3:1]}", "starting index 3 is greater than ending index 1"),
    ] {
        assert_eq!(fails(text, &document), error, "{text}");
        assert!(template(text).allow_missing_keys(true).render(&document).is_err(), "{text}");
    }
    assert_eq!(reason("{.list[::0]}"), "step must be > 0");
    assert_eq!(reason("{.list[::-1]}"), "step must be > 0");
    // An empty list does not end the step.
    assert_eq!(render("{[*][*]}", &json!([[1], [], [2]])), "1 2");
}

#[test]
fn jpa_006_indices_and_filters_need_lists() {
    let document = document();
    for (text, error) in [
        ("{.name[0]}", "string is not array or slice"),
        ("{.labels[0]}", "map[string]interface {} is not array or slice"),
        ("{.list[0][0]}", "int64 is not array or slice"),
        ("{.name[?(@.x)]}", "string is not array or slice and cannot be filtered"),
        ("{.nothing[?(@.x)]}", "<nil> is not array or slice and cannot be filtered"),
    ] {
        assert_eq!(fails(text, &document), error, "{text}");
    }
    assert_eq!(render("{.nothing[0]}", &document), "");
}

#[test]
fn jpa_007_filters_compare_one_value_with_one() {
    let document = document();
    for (filter, output) in [
        ("@.a==2", "2"),
        ("@.a!=2", "1 3"),
        ("@.a<2", "1"),
        ("@.a<=2", "1 2"),
        ("@.a>2", "3"),
        ("@.a>=2", "2 3"),
        ("@.b", "1 2"),
        ("@.b[9]", ""),
        ("@.f==@.a", "1"),
    ] {
        let text = template(&format!("{{.items[?({filter})].a}}")).allow_missing_keys(true);
        assert_eq!(text.render(&document).unwrap(), output, "{filter}");
    }
    assert_eq!(reason("{.items[?(@.a=2)]}"), "unrecognized filter operator =");
    assert_eq!(reason("{.items[?(@.a==1 && @.b)]}"), "unrecognized character in action: U+0026 '&'");
    assert_eq!(reason("{.items[?(@.a==)]}"), "filter without a right side");
    assert_eq!(fails("{[?(@[*]==1)]}", &json!([[1, 2]])), "can only compare one element at a time");
    assert_eq!(fails("{.items[?(@.b==1)]}", &document), "b is not found");
}

#[test]
fn jpa_008_numbers_compare_as_numbers_and_unlike_types_are_unequal() {
    let document = json!([1, 1.5, 2.0, "2", true, null, [], 9007199254740993u64]);
    assert_eq!(render("{[?(@>1.2)]}", &document), "1.5 2 9007199254740993");
    assert_eq!(render("{[?(@==2)]}", &document), "2");
    assert_eq!(render("{[?(@==9007199254740993)]}", &document), "9007199254740993");
    assert_eq!(render("{[?(@!=2)]}", &document), "1 1.5 2 true null [] 9007199254740993");
    assert_eq!(render(r#"{[?(@<"3")]}"#, &document), "2");
    assert_eq!(render("{[?(@<true)]}{[?(@<=true)]}", &document), "true");
}

#[test]
fn jpa_009_unions_list_selector_by_selector() {
    assert_eq!(render("{[*]['a','b']}", &json!([{"a": 1, "b": 2}, {"a": 3, "b": 4}])), "1 3 2 4");
}

#[test]
fn jpa_010_descent_finds_maps_lists_and_strings() {
    let document = json!({"a": ["x", "", 1, true, null, {}, [], {"b": "y"}]});
    let found: Vec<_> = template("{..}").results(&document).unwrap().concat().into_iter().cloned().collect();
    assert_eq!(found, [document.clone(), document["a"].clone(), json!("x"), json!({"b": "y"}), json!("y")]);
    assert_eq!(reason("{....a}"), "invalid multiple recursive descent");
}

#[test]
fn jpa_011_maps_are_in_the_order_of_their_keys_and_strings_have_no_members() {
    let document = json!({"c": 1, "a": {"z": "26", "y": "25"}, "b": "text"});
    assert_eq!(render("{.*}", &document), r#"{"y":"25","z":"26"} text 1"#);
    assert_eq!(render("{.a..}", &document), r#"{"y":"25","z":"26"} 25 26"#);
    assert_eq!(render("<{.b.*}>", &document), "<>");
}

#[test]
fn jpa_012_ranges_repeat_and_nest() {
    let document = json!({"items": [{"n": "a", "l": [1, 2]}, {"n": "b", "l": []}]});
    assert_eq!(render("{range .items[*]}{@.n}={range $.l[*]}{}+{end};{end}.", &document), "a=1+2+;b=;.");
    assert_eq!(render("{range .items[1].l[*]}{.missing}{end}", &document), "");
    assert_eq!(render("{range .items[*]}{.n}", &document), "ab", "a range that is not closed reaches to the end");
    assert_eq!(reason("{end}"), "not in range, nothing to end");
    assert_eq!(reason("{range .a}{end}{end}"), "not in range, nothing to end");
}

#[test]
fn jpa_013_output_is_text_or_indented_arrays() {
    let document = json!({"l": ["a", null, {"k": [1, 2.0]}], "f": [0.5, 1e6, 123456.5, 1e-5, 2.0]});
    assert_eq!(render("{.l[*]}|{.l}", &document), r#"a null {"k":[1,2.0]}|["a",null,{"k":[1,2.0]}]"#);
    assert_eq!(render("{.f[*]}", &document), "0.5 1e+06 123456.5 1e-05 2");
    let json = template("{.l[0,1]}").render_json(&document).unwrap();
    assert_eq!(json, "[\n    \"a\",\n    null\n]\n");
    assert_eq!(template("{.l[3:]}").render_json(&document).unwrap(), "[]\n");
}

#[test]
fn jpa_014_templates_are_immutable_and_sync() {
    fn is_sync<T: Send + Sync + Clone>(_: &T) {}
    let text = template("{range .items[*]}{range .l[*]}{}{end}{end}");
    is_sync(&text);
    let document = json!({"items": [{"l": [1, 2]}, {"l": [3]}]});
    assert_eq!([text.render(&document), text.render(&document)], [Ok("123".into()), Ok("123".into())]);
}

#[test]
fn jpa_015_relaxed_forms_and_limits() {
    let document = json!({"a": {"b": 1}, "l": [2]});
    for path in ["a.b", ".a.b", "{a.b}", "{.a.b}", "$.a.b", "['a'].b"] {
        let template = JsonPathTemplate::parse_relaxed(path, Dialect::Literal).unwrap();
        assert_eq!(template.first(&document), Ok(Some(&json!(1))), "{path}");
    }
    assert_eq!(
        JsonPathTemplate::parse(&"x".repeat(1025)).unwrap_err(),
        JsonPathSyntaxError::TooLong { length: 1025, limit: 1024 }
    );
    assert!(JsonPathTemplate::parse(&"é".repeat(1024)).is_ok());
    let deep = "{range .a}".repeat(65);
    assert_eq!(JsonPathTemplate::parse(&deep).unwrap_err(), JsonPathSyntaxError::TooDeep { limit: 64 });
    let rows: Vec<_> = (0..400).map(|_| json!(vec![1; 300])).collect();
    let error = template("{[*][*]}").render(&json!(rows)).unwrap_err();
    assert_eq!(error, JsonPathError::TooManyResults { limit: 100_000 });
    let error = template("{range [*]}{range [*]}x{end}{end}").render(&json!(rows)).unwrap_err();
    assert_eq!(error, JsonPathError::TooManyResults { limit: 100_000 });
    let nested = (0..65).fold(json!([1]), |inner, _| json!([inner]));
    assert_eq!(template("{..x}").render(&nested), Err(JsonPathError::TooDeep { limit: 64 }));
    let constants = format!("{{[*]{}}}", " 1".repeat(150));
    let error = template(&constants).render(&json!(vec![1; 100_000])).unwrap_err();
    assert_eq!(error, JsonPathError::TooManyVisits { limit: 10_000_000 });
    let long = json!(vec!["x".repeat(1 << 20); 65]);
    assert_eq!(template("{[*]}").render(&long), Err(JsonPathError::OutputTooLarge { limit: 64 << 20 }));
}

#[test]
fn ohc_024_threads_share_a_template() {
    const TEXT: &str =
        r#"{range .items[*]}{.n}:{range .l[?(@>1)]}{@},{end}{range .l[*]}<{}>{end}{"\n"}{end}{.items[*].n}"#;
    let shared = template(TEXT);
    let document = |thread: usize, run: usize| {
        let items: Vec<_> =
            (0..run % 5).map(|n| json!({"n": format!("{thread}-{n}"), "l": [n, run % 7, thread]})).collect();
        json!({"items": items})
    };
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let shared = &shared;
            scope.spawn(move || {
                for run in 0..1000 {
                    let document = document(thread, run);
                    let fresh = template(TEXT).allow_missing_keys(true).render(&document);
                    assert_eq!(shared.clone().allow_missing_keys(true).render(&document), fresh);
                    if run % 5 > 0 {
                        assert_eq!(shared.render(&document), fresh);
                    }
                }
            });
        }
    });
}

proptest! {
    #[test]
    fn jpa_015_no_template_panics(text in r#"[]\[{}().,:?@$*'"\\=<>! a-c0-9é\n-]{0,24}"#, dialect: bool) {
        let dialect = if dialect { Dialect::Kubectl } else { Dialect::Literal };
        let document = json!({"a": [1, {"b": "x"}, [], null], "b": {"c": 1.5}, "": "é"});
        for text in [text.clone(), format!("{{{text}}}"), format!("{{range .a[?({text})]}}{{end}}")] {
            if let Ok(template) = JsonPathTemplate::parse_dialect(&text, dialect) {
                let first = template.first(&document);
                let results = template.results(&document);
                // What is found first is the first that is found.
                if let (Ok(first), Ok(results)) = (first, &results) {
                    prop_assert_eq!(first, results.first().and_then(|found| found.first().copied()));
                }
                prop_assert_eq!(template.render(&document).is_ok(), results.is_ok());
            }
        }
    }
}
