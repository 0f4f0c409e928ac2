//! Parts of the server as functions, for the fuzz targets. Semantic versioning does not cover them.

use std::sync::Arc;

use evenkeel_core::Status;
use jiff::Timestamp;
use serde_json::Value;

use crate::crd;
use crate::field::FieldError;
use crate::field_ownership::{self, Write};
use crate::negotiate::PatchType;
use crate::patch;
use crate::registry::{CustomFacts, KindStrategy, PrinterColumn, Resource};
use crate::schema::Schema;
use crate::table::Printer;

pub use crate::store::durable::internals::{LogEntry, RecoveredContent, StoredObject, log_file, log_frame, recover};

/// The limit of reported errors of one type for each object.
pub const MAX_REPORTS: usize = crate::schema::MAX_REPORTS;

/// A format of patches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchFormat {
    /// RFC 6902.
    Json,
    /// RFC 7386.
    Merge,
    /// Strategic merge patch.
    Strategic,
}

/// Applies a patch. `type_name` is the OpenAPI name of a built-in type, whose schema a strategic merge patch follows.
pub fn patch(format: PatchFormat, object: Value, body: &[u8], type_name: Option<&str>) -> Result<Value, Status> {
    let format = match format {
        PatchFormat::Json => PatchType::Json,
        PatchFormat::Merge => PatchType::Merge,
        PatchFormat::Strategic => PatchType::StrategicMerge,
    };
    let schema = type_name.and_then(Schema::builtin);
    patch::apply(format, object, body, schema).map(|patched| patched.object)
}

/// The compiled schema of a custom resource.
#[derive(Debug)]
pub struct CustomSchema(Schema);

impl CustomSchema {
    /// Compiles the `openAPIV3Schema` of a version of a definition.
    pub fn compile(open_api: &Value) -> Result<Self, String> {
        Schema::structural(open_api).map(CustomSchema).map_err(|fault| format!("{fault:?}"))
    }

    /// Removes unknown fields and returns their paths.
    pub fn prune(&self, value: &mut Value) -> Vec<String> {
        self.0.prune(value)
    }

    /// Adds defaults. Returns an error if the value would become too large.
    pub fn apply_defaults(&self, value: &mut Value) -> Result<(), String> {
        self.0.drop_nulls(value);
        self.0.apply_defaults(value).map_err(|fault| format!("{fault:?}"))
    }

    /// Converts an object of a request to the form that is validated and stored.
    pub fn prepare(&self, value: &mut Value) -> Result<Vec<String>, String> {
        crd::prepare(&self.0, value).map_err(|fault| fault.to_string())
    }

    /// Returns the paths of the invalid fields.
    pub fn validate(&self, value: &Value) -> Vec<String> {
        self.0.validate(value).into_iter().map(|error| error.field.to_string()).collect()
    }

    /// Checks the intent of a server-side apply.
    pub fn check_intent(&self, intent: &Value) -> Result<(), String> {
        field_ownership::check_intent(intent, &self.0)
    }

    /// Applies an intent that was checked. `live` is the stored object.
    pub fn apply(&self, live: Option<&Value>, intent: &Value, manager: &str, force: bool) -> Result<Value, Status> {
        let write = Write { manager, api_version: "v1", subresource: None, now: "2030-01-01T00:00:00Z", reset: &[] };
        field_ownership::apply(live, intent, Some(&self.0), &write, force)
    }

    /// Notes the owners of the fields that an update changes.
    pub fn update(&self, live: &Value, new: &mut Value, manager: &str) {
        let write = Write { manager, api_version: "v1", subresource: None, now: "2030-01-01T00:00:01Z", reset: &[] };
        field_ownership::update_managed_fields(live, new, Some(&self.0), &write);
    }
}

/// Admits a new definition of custom resources: adds defaults and returns the errors.
pub fn admit_definition(definition: &mut Value) -> Vec<String> {
    crd::admit::create(definition).into_iter().map(|error: FieldError| error.to_string()).collect()
}

/// Compiles the served versions of an admitted definition. Returns how many there are.
pub fn compile_definition(definition: &Value) -> Result<usize, String> {
    crd::compile::resources(definition).map(|resources| resources.len()).map_err(|fault| format!("{fault:?}"))
}

/// A column of the table of a custom resource.
#[derive(Clone, Debug, Default)]
pub struct TableColumn {
    /// The type of the cells.
    pub kind: String,
    /// The path of the value.
    pub json_path: String,
}

/// Prints an object as the row of a table. Returns the types of the columns and the cells. `columns` are those of a custom resource.
pub fn table_row(
    group: &str,
    kind: &str,
    columns: Option<&[TableColumn]>,
    object: &Value,
    now: Timestamp,
) -> (Vec<String>, Vec<Value>) {
    let custom = columns.map(|columns| {
        let column = |column: &TableColumn| PrinterColumn {
            kind: column.kind.clone(),
            json_path: column.json_path.clone(),
            ..PrinterColumn::default()
        };
        Arc::new(CustomFacts { columns: columns.iter().map(column).collect(), ..CustomFacts::default() })
    });
    let resource = Resource {
        group: group.into(),
        version: "v1".into(),
        kind: kind.into(),
        list_kind: String::new(),
        plural: String::new(),
        singular: String::new(),
        short_names: Vec::new(),
        categories: Vec::new(),
        namespaced: true,
        verbs: Vec::new(),
        subresources: Vec::new(),
        storage: "".into(),
        strategy: KindStrategy::default(),
        schema: None,
        custom,
    };
    let printer = Printer::new(&resource);
    let types = printer.columns().into_iter().map(|column| column.kind.into_owned()).collect();
    (types, printer.cells(object, now))
}
