use k8s_openapi::api::core::v1::{ConfigMap, Secret};

use super::*;

/// Returns the kind, name, document and line of each object.
fn objects(text: &str) -> Vec<(String, String, usize, usize)> {
    let objects = parse(text).unwrap();
    let row = |it: &ManifestObject| (it.object.kind().unwrap().to_owned(), it.name().to_owned(), it.document, it.line);
    objects.iter().map(row).collect()
}

fn object(kind: &str, name: &str) -> String {
    format!("apiVersion: v1\nkind: {kind}\nmetadata:\n  name: {name}\n")
}

fn expect<const N: usize>(text: &str, rows: [(&str, &str, usize, usize); N]) {
    let rows = rows.map(|(kind, name, document, line)| (kind.to_owned(), name.to_owned(), document, line));
    assert_eq!(objects(text), rows, "{text}");
}

fn error(text: &str) -> String {
    parse(text).unwrap_err().to_string()
}

#[test]
fn documents_are_split_at_their_markers() {
    let text = format!(
        "# first\n---\n{}--- # second\n{}...\n---\n\n---\n{}",
        object("A", "a"),
        object("B", "b"),
        object("C", "c")
    );
    expect(&text, [("A", "a", 1, 2), ("B", "b", 2, 7), ("C", "c", 3, 15)]);
    let windows = text.replace('\n', "\r\n");
    assert_eq!(objects(&windows).len(), 3);
    expect("\u{feff}", []);
    expect("# nothing\n---\n%YAML 1.2\n---\n", []);
    let text = "apiVersion: v1\nkind: A\ndata: |\n  ---\n  text\n   --- more\n";
    assert_eq!(parse(text).unwrap()[0].object.get("data").unwrap(), "---\ntext\n --- more\n");
}

#[test]
fn json_is_read_one_after_the_other() {
    let json = "{\"apiVersion\":\"v1\",\"kind\":\"A\",\"metadata\":{\"name\":\"a\"}}";
    expect(
        &format!("{json}\n\n{json}{json}\n---\n{json}"),
        [("A", "a", 1, 1), ("A", "a", 2, 3), ("A", "a", 3, 3), ("A", "a", 4, 4)],
    );
    expect("{apiVersion: v1, kind: A, metadata: {name: a}}", [("A", "a", 1, 1)]);
}

#[test]
fn lists_are_replaced_by_their_items() {
    let list = "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: A, metadata: {name: a}}\n- apiVersion: v1\n  kind: PodList\n  items: [{apiVersion: v1, kind: Pod, metadata: {name: b}}]\n";
    expect(list, [("A", "a", 1, 1), ("Pod", "b", 1, 1)]);
    expect("apiVersion: v1\nkind: List\n", []);
    expect("apiVersion: v1\nkind: Basket\nmetadata: {name: a}\nitems: [1]\n", [("Basket", "a", 1, 1)]);
    let deep = (0..6).fold("{apiVersion: v1, kind: A}".to_owned(), |inner, _| {
        format!("{{apiVersion: v1, kind: List, items: [{inner}]}}")
    });
    assert_eq!(error(&deep), "document 1 of the manifest, line 1: lists are nested too deeply");
}

#[test]
fn errors_name_the_document_and_the_line() {
    let good = object("A", "a");
    assert_eq!(
        error(&format!("{good}---\napiVersion: v1\nkind: [A\n")).split(", line ").next(),
        Some("document 2 of the manifest")
    );
    let twice = format!("{good}---\nkind: A\ndata:\n  secret: x\n  secret: y\n");
    assert_eq!(error(&twice), "document 2 of the manifest, line 9: a mapping has a key twice");
    assert_eq!(
        error(&format!("{good}---\nkind: A\n")),
        "document 2 of the manifest, line 5: an object needs apiVersion and kind"
    );
    let text = "document 1 of the manifest, line 1: it is no object; an object is a mapping with apiVersion and kind";
    assert_eq!(error("hello\n"), text);
    assert_eq!(error("- a\n"), text);
    for text in ["a: *b\n", "{\"a\": hunter2", "a: \"hunter2"] {
        assert!(!error(text).contains("hunter2"), "{text}");
    }
}

#[test]
fn manifests_are_bounded() {
    assert!(matches!(parse(&" ".repeat(MAX_BYTES + 1)), Err(ManifestError::TooLarge { what: "bytes", .. })));
    let many = "---\n{\"apiVersion\":\"v1\",\"kind\":\"A\"}\n".repeat(MAX_OBJECTS + 1);
    assert!(matches!(parse(&many), Err(ManifestError::TooLarge { what: "documents", .. })));
    let items = vec![r#"{"apiVersion":"v1","kind":"A"}"#; MAX_OBJECTS + 1].join(",");
    let list = format!(r#"{{"apiVersion":"v1","kind":"List","items":[{items}]}}"#);
    assert!(matches!(parse(&list), Err(ManifestError::TooLarge { what: "objects", .. })));
    let deep = format!("a: {}{}", "[".repeat(100), "]".repeat(100));
    assert!(error(&deep).ends_with("it is nested too deeply, or its aliases expand too far"));
    let mut laughs = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..9 {
        let aliases = vec![format!("*a{}", level - 1); 10].join(", ");
        laughs.push_str(&format!("a{level}: &a{level} [{aliases}]\n"));
    }
    assert!(error(&laughs).ends_with("it is nested too deeply, or its aliases expand too far"));
}

#[test]
fn objects_are_decoded_by_their_kind() {
    let found = parse(&format!("{}data: {{a: b}}\n", object("ConfigMap", "a"))).unwrap().remove(0);
    let map = found.decode::<ConfigMap>().unwrap().unwrap();
    assert_eq!(map.data.unwrap()["a"], "b");
    assert!(found.decode::<Secret>().unwrap().is_none());
    let odd = parse(&format!("{}data: 3\n", object("ConfigMap", "a"))).unwrap().remove(0);
    let error = odd.decode::<ConfigMap>().unwrap_err().to_string();
    assert_eq!(error, "document 1 of the manifest, line 1: ConfigMap \"a\" cannot be decoded");
}
