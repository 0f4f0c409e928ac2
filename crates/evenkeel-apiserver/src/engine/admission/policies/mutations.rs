//! The mutations of a policy: what their expressions make, and what becomes of the object (MUP-002, MUP-003).

use evenkeel_cel::{CompileError, Environment, MisnamedObject, Program, Value as CelValue};
use evenkeel_core::Status;
use serde_json::{Map, Value};

use super::compiled::{OwnExpressions, list, text};
use super::conditions::fault_text;
use super::environment::PolicyVariables;
use crate::engine::admission::AdmissionWrite;
use crate::engine::admission::reviewed::{ReviewedWrite, normalise, reviewed_schema};
use crate::field_ownership;
use crate::limits::MAX_OBJECT_BYTES;
use crate::patch::{self, OperationError, PatchError};
use crate::schema::json;

/// What a MutatingAdmissionPolicy evaluates.
#[derive(Debug)]
pub(crate) struct Mutations {
    pub(super) mutations: Vec<Mutation>,
    /// The policy runs again if the object changes after it.
    pub(super) reinvokes: bool,
}

/// One element of `mutations`.
#[derive(Debug)]
pub(super) struct Mutation {
    kind: MutationKind,
    expression: String,
    program: Program,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MutationKind {
    ApplyConfiguration,
    JsonPatch,
}

/// Why a mutation has no result.
#[derive(Debug)]
pub(super) enum MutationFault {
    /// The failure policy decides.
    Policy(String),
    /// The request fails whatever the failure policy.
    Request(Box<Status>),
}

impl From<String> for MutationFault {
    fn from(message: String) -> Self {
        MutationFault::Policy(message)
    }
}

impl OwnExpressions for Mutations {
    fn compile(spec: &Value, environment: &Environment) -> Result<Self, CompileError> {
        let environment = environment.clone().with_patch_types();
        let mut mutations = Vec::new();
        for mutation in list(spec, "mutations") {
            let (kind, field) = match text(mutation, "patchType").as_str() {
                "JSONPatch" => (MutationKind::JsonPatch, "jsonPatch"),
                _ => (MutationKind::ApplyConfiguration, "applyConfiguration"),
            };
            let expression = text(mutation.get(field).unwrap_or(&Value::Null), "expression");
            let program = environment.compile(&expression)?.into_program();
            mutations.push(Mutation { kind, expression, program });
        }
        Ok(Mutations { mutations, reinvokes: text(spec, "reinvocationPolicy") == "IfNeeded" })
    }
}

impl Mutation {
    /// Returns the object after the mutation; `None` if it changes nothing.
    pub(super) fn result(
        &self,
        write: &AdmissionWrite<'_>,
        reviewed: &ReviewedWrite,
        variables: &PolicyVariables<'_>,
    ) -> Result<Option<Value>, MutationFault> {
        let made = variables.evaluate(&self.program).map_err(|fault| fault_text(&self.expression, &fault))?;
        // Nothing larger could be stored.
        if !made.fits_within(MAX_OBJECT_BYTES) {
            let message = format!("the result of expression '{}' exceeds {MAX_OBJECT_BYTES} bytes", self.expression);
            return Err(message.into());
        }
        match self.kind {
            MutationKind::ApplyConfiguration => apply_configuration(write, reviewed, &made).map(Some),
            MutationKind::JsonPatch => apply_json_patch(write, reviewed, &made),
        }
    }
}

/// Refuses objects whose types are not named after their fields. No schema checks the fields of an `Object` when it is made.
fn check_names(made: &CelValue<'_>) -> Result<(), String> {
    let misnamed: Vec<String> = made.misnamed_objects().iter().map(MisnamedObject::to_string).collect();
    match misnamed.is_empty() {
        true => Ok(()),
        false => Err(format!("type mismatch: {}", misnamed.join("\n"))),
    }
}

fn apply_configuration(
    write: &AdmissionWrite<'_>,
    reviewed: &ReviewedWrite,
    made: &CelValue<'_>,
) -> Result<Value, MutationFault> {
    check_names(made)?;
    let Some(Value::Object(mut intent)) = made.to_json() else {
        return Err("invalid return type: the object has values that JSON cannot have".to_owned().into());
    };
    for key in ["apiVersion", "kind"] {
        if let Some(value) = reviewed.object.get(key) {
            intent.insert(key.to_owned(), value.clone());
        }
    }
    let intent = Value::Object(intent);
    let failed = |why: String| MutationFault::Policy(format!("error applying patch: {why}"));
    let untyped = |why: String| failed(format!("failed to convert patch object to typed object: {why}"));
    let Some(schema) = reviewed_schema(write, &reviewed.resource) else {
        let text = |key: &str| intent.get(key).and_then(Value::as_str).unwrap_or_default();
        let (group, version) = text("apiVersion").split_once('/').unwrap_or(("", text("apiVersion")));
        return Err(untyped(format!("no corresponding type for {group}/{version}, Kind={}", text("kind"))));
    };
    field_ownership::check_intent(&intent, schema).map_err(untyped)?;
    let atomics = field_ownership::atomic_parts(&intent, schema);
    if !atomics.is_empty() {
        let paths = atomics.join(", ");
        let why = format!("invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: {paths}");
        return Err(failed(why));
    }
    let mut merged = field_ownership::merge_intent(&reviewed.object, &intent, schema);
    normalise(write, &reviewed.resource, &mut merged)?;
    Ok(merged)
}

fn apply_json_patch(
    write: &AdmissionWrite<'_>,
    reviewed: &ReviewedWrite,
    made: &CelValue<'_>,
) -> Result<Option<Value>, MutationFault> {
    let Some(items) = made.items() else {
        return Err("type mismatch: JSONPatchType.expression should evaluate to array".to_owned().into());
    };
    let operations: Vec<Value> = items.iter().map(operation).collect::<Result<_, _>>()?;
    if operations.is_empty() {
        return Ok(None);
    }
    let mut new = reviewed.object.clone();
    match patch::apply_json_patch(&mut new, Value::Array(operations).to_string().as_bytes()) {
        Ok(()) => {}
        // A failed test leaves the object as it was.
        Err(PatchError::Operation { why: OperationError::TestFailed, .. }) => return Ok(None),
        Err(error) => return Err(format!("JSON Patch: {error}").into()),
    }
    let refused = |why: String| MutationFault::Request(Box::new(Status::internal(why)));
    let unknown = normalise(write, &reviewed.resource, &mut new).map_err(refused)?;
    // Unknown fields of custom resources are removed without an error.
    if !unknown.is_empty() && reviewed.resource.custom.is_none() {
        let complaints = json::complaints(&unknown, &[]).join(", ");
        return Err(refused(format!("strict decoding error: {complaints}")));
    }
    Ok(Some(new))
}

/// Returns the JSON of an operation.
fn operation(made: &CelValue<'_>) -> Result<Value, String> {
    let mut operation = Map::new();
    for name in ["op", "path", "from"] {
        match made.made_field(name) {
            None => {}
            Some(CelValue::String(text)) if name == "from" && text.is_empty() => {}
            Some(CelValue::String(text)) => {
                operation.insert(name.to_owned(), Value::from(&*text));
            }
            Some(_) => return Err(format!("unexpected type for JSONPatchType '{name}' field")),
        }
    }
    if let Some(value) = made.made_field("value") {
        check_names(&value)?;
        let Some(value) = value.to_json() else {
            return Err("JSONPath valueExpression evaluated to a type that could not marshal to JSON".to_owned());
        };
        operation.insert("value".to_owned(), value);
    }
    Ok(Value::Object(operation))
}
