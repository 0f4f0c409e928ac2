//! The bill of this workspace.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use serde_json::Value;

use crate::packages::PackageGraph;
use crate::{DEFAULT_PACKAGE, cyclonedx, licences};

/// Reading takes a run of cargo, so the tests share one.
static GRAPH: LazyLock<PackageGraph> = LazyLock::new(read);

fn read() -> PackageGraph {
    PackageGraph::read(DEFAULT_PACKAGE, None).unwrap()
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_else(|| panic!("{field} of {value}"))
}

#[test]
fn the_bill_has_the_structure_of_cyclonedx() {
    let bill = cyclonedx::bill(&GRAPH, Some("1700000000")).unwrap();
    assert_eq!((text(&bill, "bomFormat"), text(&bill, "specVersion")), ("CycloneDX", "1.5"));
    assert_eq!(bill["version"], 1);
    assert_eq!(text(&bill["metadata"], "timestamp"), "2023-11-14T22:13:20Z");
    let root = &bill["metadata"]["component"];
    assert_eq!((text(root, "type"), text(root, "name")), ("application", DEFAULT_PACKAGE));
    let components = bill["components"].as_array().unwrap();
    let mut references = BTreeSet::from([text(root, "bom-ref")]);
    for component in components {
        assert!(references.insert(text(component, "bom-ref")), "{component} is listed twice");
        assert_eq!(text(component, "type"), "library");
        let purl = format!("pkg:cargo/{}@{}", text(component, "name"), text(component, "version"));
        assert_eq!(text(component, "purl").replace("%2B", "+"), purl);
        assert!(!text(&component["licenses"][0], "expression").is_empty(), "{component}");
        let hash = &component["hashes"][0];
        if text(component, "name").starts_with("evenkeel") {
            assert_eq!(*hash, Value::Null, "of this workspace");
            continue;
        }
        let content = text(hash, "content");
        assert_eq!(text(hash, "alg"), "SHA-256");
        assert!(content.len() == 64 && content.bytes().all(|byte| byte.is_ascii_hexdigit()), "{component}");
    }
    let dependencies = bill["dependencies"].as_array().unwrap();
    let described: BTreeSet<&str> = dependencies.iter().map(|it| text(it, "ref")).collect();
    assert_eq!(described, references, "every component has its dependencies");
    let needed = dependencies.iter().flat_map(|it| it["dependsOn"].as_array().unwrap());
    let needed: BTreeSet<&str> = needed.map(|it| it.as_str().unwrap()).collect();
    assert!(needed.is_subset(&references));
    assert_eq!(references.difference(&needed).copied().collect::<Vec<_>>(), [text(root, "bom-ref")]);
}

#[test]
fn the_bill_lists_what_is_built_and_nothing_else() {
    let names: BTreeSet<&str> = GRAPH.packages.values().map(|package| package.name.as_str()).collect();
    assert!(names.contains("tokio") && names.contains("evenkeel-apiserver"));
    assert!(!names.contains("proptest"), "a dependency of tests");
    assert!(!names.contains("evenkeel-bench"), "not a dependency");
}

#[test]
fn the_same_lock_file_gives_the_same_bill() {
    let bill = |graph| cyclonedx::bill(graph, None).unwrap().to_string();
    let first = bill(&GRAPH);
    assert_eq!(first, bill(&read()));
    assert!(!first.contains("\"timestamp\":"));
    assert!(!first.contains(env!("CARGO_MANIFEST_DIR")), "no paths of this machine");
}

#[test]
fn all_licences_are_allowed() {
    let policy = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../deny.toml")).unwrap();
    let checked = licences::check(&GRAPH, &policy).unwrap();
    assert!(checked > 50, "{checked}");
}

#[test]
fn a_licence_that_is_not_allowed_is_refused() {
    let allowed = ["MIT", "Apache-2.0"].map(str::to_owned);
    let check = |expression| licences::check_expression(expression, &allowed);
    assert_eq!(check("MIT OR GPL-3.0-only"), Ok(()));
    assert_eq!(check("(MIT AND Apache-2.0) OR Unlicense"), Ok(()));
    assert_eq!(check("MIT AND GPL-3.0-only"), Err("MIT AND GPL-3.0-only is not allowed".to_owned()));
    assert_eq!(check(""), Err("no licence".to_owned()));
    assert!(check("not a licence").is_err());
    assert!(licences::check(&GRAPH, "[licenses]\nallow = [\n    \"0BSD\",\n]\n").is_err());
}
