use super::*;

#[test]
fn the_path_of_an_offset_is_computed_from_the_text() {
    let text = br#"{"a":1,"b":{"c.d":[10,{"e":"x\"]"}]},"f":2}"#;
    let at = |needle: &str| {
        let start = std::str::from_utf8(text).unwrap().find(needle).unwrap();
        path_at(text, start + needle.len())
    };
    assert_eq!(at(r#""a":"#), "a");
    assert_eq!(at("10"), "b[c.d][0]");
    assert_eq!(at(r#""x\"]""#), "b[c.d][1].e");
    assert_eq!(at(r#"]"}"#), "b[c.d][1]");
    assert_eq!(at("}]}"), "b");
    assert_eq!(at(r#""f":2"#), "f");
    assert_eq!(path_at(text, text.len()), "");
    assert_eq!(path_at(text, 0), "");
}

#[test]
fn paths_are_parsed_into_segments() {
    let parse = |path| JsonPath::parse(path).map(|path| path.segments().collect::<Vec<_>>());
    let member = |name: &'static str| PathSegment::Member(name.into());
    let bracketed = |key: &'static str| PathSegment::Bracketed(key.into(), key.parse().ok());
    let node = vec![member("spec"), member("nodeName")];
    for path in ["spec.nodeName", ".spec.nodeName", "$.spec.nodeName", "$['spec'].nodeName"] {
        assert_eq!(parse(path), Ok(node.clone()), "{path}");
    }
    let nested = vec![member("a"), member("b"), bracketed("0"), bracketed("x.y/z"), member("c")];
    assert_eq!(parse("a.b[0][x.y/z].c"), Ok(nested));
    assert_eq!(parse("[0]"), Ok(vec![bracketed("0")]));
    assert_eq!(parse("[f:metadata]"), Ok(vec![bracketed("f:metadata")]));
    assert_eq!(parse("$ref"), Ok(vec![member("$ref")]));
    assert_eq!((parse(""), parse("$")), (Ok(vec![]), Ok(vec![])));
}

#[test]
fn quoted_keys_may_contain_anything() {
    let parse = |path| JsonPath::parse(path).map(|path| path.segments().collect::<Vec<_>>());
    let member = |name: &'static str| PathSegment::Member(name.into());
    for path in ["annotations['a/b']", "annotations[\"a/b\"]", ".annotations['a/b']"] {
        assert_eq!(parse(path), Ok(vec![member("annotations"), member("a/b")]), "{path}");
    }
    assert_eq!(parse(r#"['it\'s']["a\\b"]['0']"#), Ok(vec![member("it's"), member(r"a\b"), member("0")]));
    assert_eq!(parse("a['x]y z']"), Ok(vec![member("a"), member("x]y z")]));
}

#[test]
fn a_malformed_path_is_an_error_with_position_and_expectation() {
    for (path, position, expected) in [
        ("a..b", 2, "the name of a member"),
        (".", 1, "the name of a member"),
        ("a.", 2, "the name of a member"),
        ("a[", 2, "an index, a key or '*'"),
        ("a[]", 2, "an index, a key or '*'"),
        ("a[-1]", 2, "an index, a key or '*'"),
        ("a[0", 3, "']'"),
        ("a[0]b", 4, "'.' or '['"),
        ("a['b", 4, "a closing quote"),
        ("a['b'x]", 5, "']'"),
        ("a['b\\n']", 5, "a quote or a backslash"),
        ("a[0:2]", 2, "an index, a key or '*'"),
        ("a[b c]", 3, "']'"),
        ("a[?(@.b)]", 2, "an index, a key or '*'"),
        ("{.spec.nodeName}", 0, "the name of a member"),
        ("spec.node name", 9, "'.' or '['"),
        ("a[*].b", 2, "an index or a key"),
    ] {
        match JsonPath::parse(path) {
            Err(PathError::Malformed { path: named, position: at, expected: hint }) => {
                assert_eq!((named.as_str(), at), (path, position), "{hint}");
                assert!(hint.starts_with(expected), "{path}: {hint}");
            }
            other => panic!("{path}: {other:?}"),
        }
    }
    let text = JsonPath::parse("a[0").unwrap_err().to_string();
    assert_eq!(text, "malformed path \"a[0\" at byte 3: expected ']'; quote keys with other characters: ['key']");
}

#[test]
fn the_path_of_an_error_can_be_parsed() {
    let text = br#"{"a":{"b.c/d":{"it's":{"x y":[0,"#;
    let path = path_at(text, text.len());
    assert_eq!(path, r"a[b.c/d]['it\'s']['x y'][1]");
    assert!(JsonPath::parse(&path).is_ok());
}
