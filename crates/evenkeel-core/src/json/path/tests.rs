use super::*;

#[test]
fn the_path_of_a_place_is_found_after_the_fact() {
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
fn paths_are_read_step_by_step() {
    let read = |path| segments(path).collect::<Option<Vec<_>>>();
    use Segment::{Bracketed, Member};
    assert_eq!(read("spec.nodeName"), Some(vec![Member("spec"), Member("nodeName")]));
    assert_eq!(
        read("a.b[0][x.y/z].c"),
        Some(vec![Member("a"), Member("b"), Bracketed("0"), Bracketed("x.y/z"), Member("c")])
    );
    assert_eq!(read("[0]"), Some(vec![Bracketed("0")]));
    assert_eq!(read(""), Some(vec![]));
    for bad in ["a..b", ".a", "a.", "a[", "a[0]b"] {
        assert_eq!(read(bad), None, "{bad}");
    }
}
