//! The bootstrap objects that are the same on every server, as the store has them.
//!
//! They are a text that is rendered ahead of time (`render`): rendering them in a new process would take longer than the
//! rest of a start.
//!
//! ```text
//! # SECTION
//! TABLE<tab>KEY<tab>TEMPLATE
//! ```

use std::sync::{Arc, LazyLock};

use super::BootstrapObject;
use crate::store::Template;

pub(super) const RENDERED: &str = include_str!("../../../data/bootstrap-objects.txt");

/// The sections of the text, in their order.
pub(super) const SECTIONS: [&str; 4] = ["namespaces", "service accounts", "shared", "aggregated policy"];

pub(super) static OBJECTS: LazyLock<[Vec<BootstrapObject>; 4]> = LazyLock::new(|| SECTIONS.map(read));

pub(super) fn namespaces() -> &'static [BootstrapObject] {
    &OBJECTS[0]
}

pub(super) fn service_accounts() -> &'static [BootstrapObject] {
    &OBJECTS[1]
}

/// Returns the objects of no other section.
pub(super) fn shared() -> &'static [BootstrapObject] {
    &OBJECTS[2]
}

/// Returns the roles and bindings of RBAC, with the rules of aggregated roles.
pub(super) fn aggregated_policy() -> &'static [BootstrapObject] {
    &OBJECTS[3]
}

fn read(section: &str) -> Vec<BootstrapObject> {
    let lines = RENDERED.lines().skip_while(|line| line.strip_prefix("# ") != Some(section)).skip(1);
    let mut storage: Arc<str> = "".into();
    let object = |line: &str| {
        let (table, rest) = line.split_once('\t')?;
        let (key, template) = rest.split_once('\t')?;
        if *storage != *table {
            storage = table.into();
        }
        Some(BootstrapObject {
            storage: Arc::clone(&storage),
            key: key.to_owned(),
            template: Template::from_line(template)?,
        })
    };
    // A test has read every line.
    lines.take_while(|line| !line.starts_with('#')).filter_map(object).collect()
}
