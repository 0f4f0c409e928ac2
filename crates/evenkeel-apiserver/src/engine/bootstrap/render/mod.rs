//! Renders `data/bootstrap-objects.txt`. A server only reads the file, so this is part of the tests, which compare the two.

mod aggregated_policy;
mod api_services;
mod flow_control;
mod system;

use std::fmt::Write;
use std::path::Path;

use serde_json::Value;

use super::BootstrapObject;
use super::rendered::{OBJECTS, RENDERED, SECTIONS};

/// Returns the objects of the file that follow no other rules than those of a create.
pub(super) fn created_objects() -> impl Iterator<Item = Value> {
    system::namespaces().chain(system::service_accounts()).chain(shared_objects())
}

fn shared_objects() -> impl Iterator<Item = Value> {
    system::priority_classes()
        .chain(flow_control::priority_levels())
        .chain(flow_control::flow_schemas())
        .chain(system::addresses())
        .chain(api_services::builtin())
        .chain(system::component_statuses())
}

fn rendered() -> [Vec<BootstrapObject>; 4] {
    [
        system::namespaces().filter_map(BootstrapObject::new).collect(),
        system::service_accounts().filter_map(BootstrapObject::new).collect(),
        shared_objects().filter_map(BootstrapObject::new).collect(),
        aggregated_policy::aggregated_policy(),
    ]
}

fn text(objects: &[Vec<BootstrapObject>; 4]) -> String {
    let mut text = String::new();
    for (section, objects) in SECTIONS.iter().zip(objects) {
        writeln!(text, "# {section}").unwrap();
        for BootstrapObject { storage, key, template } in objects {
            writeln!(text, "{storage}\t{key}\t{}", template.to_line()).unwrap();
        }
    }
    text
}

/// With `EVENKEEL_RENDER=1` this writes the file.
#[test]
fn bst_008_the_file_has_what_is_rendered() {
    let rendered = rendered();
    if std::env::var_os("EVENKEEL_RENDER").is_some() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/bootstrap-objects.txt");
        std::fs::write(path, text(&rendered)).unwrap();
        return;
    }
    assert!(
        text(&rendered) == RENDERED,
        "data/bootstrap-objects.txt is outdated: run this test with EVENKEEL_RENDER=1"
    );
    assert_eq!(*OBJECTS, rendered);
}
