//! [`BootstrapTypes`]: what field ownership must know of the kinds of bootstrap objects. Loading their schemas would cost
//! more than the rest of a start.

use std::sync::LazyLock;

use serde_json::Value;

use crate::field_ownership::FieldTypes;
use crate::schema::ListType;

/// A type of which maps are owned key by key and lists as a whole, except for the ports of a Service.
#[derive(Debug)]
pub(super) enum BootstrapTypes {
    Plain,
    Service,
    ServicePorts,
}

static PORT_KEYS: LazyLock<Vec<String>> = LazyLock::new(|| vec!["port".to_owned(), "protocol".to_owned()]);

impl BootstrapTypes {
    pub(super) fn of(kind: &str) -> &'static Self {
        if kind == "Service" { &BootstrapTypes::Service } else { &BootstrapTypes::Plain }
    }
}

impl FieldTypes for BootstrapTypes {
    fn field(&self, name: &str) -> Option<&Self> {
        Some(match (self, name) {
            (BootstrapTypes::Service, "ports") => &BootstrapTypes::ServicePorts,
            (BootstrapTypes::Service, _) => self,
            _ => &BootstrapTypes::Plain,
        })
    }

    fn declares(&self, _: &str) -> bool {
        true
    }

    fn items(&self) -> Option<&Self> {
        Some(&BootstrapTypes::Plain)
    }

    fn list_type(&self) -> ListType<'_> {
        match self {
            BootstrapTypes::ServicePorts => ListType::Map(&PORT_KEYS),
            BootstrapTypes::Plain | BootstrapTypes::Service => ListType::Atomic,
        }
    }

    fn is_atomic_map(&self) -> bool {
        false
    }

    fn default_value(&self) -> Option<&Value> {
        None
    }

    fn always_has(&self, name: &str, _: Option<&Self>) -> bool {
        matches!(name, "metadata" | "spec" | "limitResponse" | "priorityLevelConfiguration")
    }
}
