//! [`Reinvocation`]: which webhooks or policies run again in the second pass over a write (AWH-008, MUP-005).

use std::collections::BTreeSet;

use serde_json::Value;

/// What the first pass over the webhooks or the policies leaves for the second.
#[derive(Debug, Default)]
pub(super) struct Reinvocation {
    /// Those with `IfNeeded` that ran since the object last changed.
    invoked: BTreeSet<String>,
    /// Those after which the object has changed.
    due: BTreeSet<String>,
    /// The object after the last of them, if any may run again.
    output: Option<Value>,
}

impl Reinvocation {
    /// Notes that one with `IfNeeded` has run.
    pub(super) fn invoked(&mut self, id: String) {
        self.invoked.insert(id);
    }

    /// Notes that the object has changed after those that ran before.
    pub(super) fn changed(&mut self) {
        self.due.append(&mut self.invoked);
    }

    /// Returns whether one of them runs in the second pass. What did not run in the first pass does not.
    pub(super) fn is_due(&self, id: &str) -> bool {
        self.due.contains(id)
    }

    /// Ends the first pass with this object.
    pub(super) fn finish(&mut self, object: Option<&Value>) {
        if !self.invoked.is_empty() || !self.due.is_empty() {
            self.output = object.cloned();
        }
    }

    /// Starts the second pass with this object, which other plugins may have changed.
    pub(super) fn compare(&mut self, object: Option<&Value>) {
        if self.output.as_ref().is_some_and(|output| Some(output) != object) {
            self.changed();
        }
    }
}
