//! Conflicts: fields of other managers that an apply would change (SSA-9).

use evenkeel_core::status::StatusCause;
use evenkeel_core::{Reason, Status, StatusDetails};

use super::entry::{ManagedFieldsEntry, ManagerOperation};
use super::set::FieldSet;

/// The fields of one manager that an apply would change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Conflict<'a> {
    manager: String,
    pub(super) fields: FieldSet<'a>,
}

impl<'a> Conflict<'a> {
    /// Returns the conflict with this entry, if it owns any of the changed fields.
    pub(super) fn with(entry: &ManagedFieldsEntry<'a>, written: &FieldSet<'a>) -> Option<Self> {
        let fields = entry.fields.intersection(written);
        (!fields.is_empty()).then(|| Conflict { manager: describe(entry), fields })
    }
}

/// Names the manager: an applier by its name, an updater also by the version that it wrote through.
fn describe(entry: &ManagedFieldsEntry<'_>) -> String {
    let mut text = format!("{:?}", entry.manager);
    if !entry.subresource.is_empty() {
        text.push_str(&format!(" with subresource {:?}", entry.subresource));
    }
    if entry.operation == ManagerOperation::Update {
        text.push_str(&format!(" using {}", entry.api_version));
    }
    text
}

/// Returns the 409 that lists the conflicts, sorted by manager.
pub(super) fn refusal(mut conflicts: Vec<Conflict<'_>>) -> Status {
    conflicts.sort_by(|a, b| a.manager.cmp(&b.manager));
    let conflicts: Vec<(String, Vec<String>)> =
        conflicts.into_iter().map(|conflict| (conflict.manager, conflict.fields.paths())).collect();
    let count: usize = conflicts.iter().map(|(_, paths)| paths.len()).sum();
    let message = match conflicts.as_slice() {
        [(manager, paths)] if count == 1 => {
            format!("Apply failed with 1 conflict: conflict with {manager}: {}", paths.concat())
        }
        conflicts => {
            let lines = conflicts.iter().flat_map(|(manager, paths)| {
                let head = format!("conflicts with {manager}:");
                std::iter::once(head).chain(paths.iter().map(|path| format!("- {path}")))
            });
            format!("Apply failed with {count} conflicts: {}", lines.collect::<Vec<_>>().join("\n"))
        }
    };
    let causes = conflicts.iter().flat_map(|(manager, paths)| {
        paths.iter().map(move |path| StatusCause {
            reason: "FieldManagerConflict".into(),
            message: format!("conflict with {manager}"),
            field: path.clone(),
        })
    });
    let details = StatusDetails { causes: causes.collect(), ..StatusDetails::default() };
    Status::failure(409, Reason::CONFLICT, message).with_details(details)
}
