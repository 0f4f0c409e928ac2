//! PATCH: JSON patch, merge patch and strategic merge patch. An apply patch continues in [`apply`](super::apply).

use std::sync::Arc;

use evenkeel_core::Status;
use serde_json::Value;

use crate::engine::options::{FieldValidation, WriteOptions};
use crate::engine::request::ResourceRequest;
use crate::engine::request_error::RequestError;
use crate::engine::target::{WriteScope, Writer, check_name};
use crate::engine::{ApiEngine, decode, object};
use crate::field::FieldError;
use crate::http_types::HandlerOutcome;
use crate::negotiate::{Endpoint, PatchType};
use crate::patch::{self, Patched};
use crate::schema::json;

impl ApiEngine {
    /// Serves a PATCH of an object or of one of its subresources.
    pub(crate) fn patch(
        self: &Arc<Self>,
        request: &ResourceRequest<'_>,
        scope: WriteScope<'_>,
    ) -> Result<HandlerOutcome, RequestError> {
        let kind = PatchType::of(&request.http.headers, request.resource().custom.is_some())?;
        if kind == PatchType::Apply {
            return self.apply(request, scope);
        }
        let options = WriteOptions::of_patch(request.query, false)?;
        let view = self.view(request, Endpoint::Object)?;
        let manager = request.manager(&options);
        let writer = Writer::new(request.http, &options, &manager);
        let mut warnings = Vec::new();
        let mut written = self.update_object(request.target(scope), writer, |old| {
            let (new, complaints) = apply_patch(request, kind, old, options.field_validation)?;
            warnings = complaints;
            Ok(new)
        })?;
        written.warnings.splice(0..0, warnings);
        let work = self.after_write(request.resource(), request.namespace(), request.name(), &written, &options);
        Ok(work.then(self.write_response(&view, &written, options.dry_run)?))
    }
}

/// Applies the patch of a request to an object. Returns the decoded and defaulted result, and the warnings about it.
pub(crate) fn apply_patch(
    request: &ResourceRequest<'_>,
    kind: PatchType,
    old: &Value,
    validation: FieldValidation,
) -> Result<(Value, Vec<String>), Status> {
    let Patched { object: new, duplicates } =
        patch::apply(kind, old.clone(), &request.http.body, request.resource().schema())?;
    let accepted = accept_result(request, Some(old), new, &duplicates, validation);
    match kind {
        PatchType::StrategicMerge => accepted
            .map_err(|refusal| refusal.into_status(|_, why| patch::unreadable_strategic(&request.http.body, why))),
        _ => accepted.map_err(|refusal| refusal.into_status(patch::unreadable_result)),
    }
}

/// Why the result of a patch is not accepted.
pub(crate) enum ResultRefusal {
    /// The result, and why it cannot be decoded as its kind.
    Unreadable(Value, String),
    /// Another error.
    Other(Status),
}

impl ResultRefusal {
    pub(crate) fn into_status(self, unreadable: impl FnOnce(&Value, &str) -> Status) -> Status {
        match self {
            ResultRefusal::Unreadable(object, why) => unreadable(&object, &why),
            ResultRefusal::Other(status) => status,
        }
    }
}

/// Decodes and defaults the result of a patch (PAT-4, PAT-8). Returns it with the warnings about it. `old` is `None` if
/// the patch creates the object.
pub(crate) fn accept_result(
    request: &ResourceRequest<'_>,
    old: Option<&Value>,
    mut new: Value,
    duplicates: &[String],
    validation: FieldValidation,
) -> Result<(Value, Vec<String>), ResultRefusal> {
    let resource = request.resource();
    check_name(&new, request.name()).map_err(ResultRefusal::Other)?;
    let undecoded = new.clone();
    let refuse = |why: &str| ResultRefusal::Unreadable(undecoded.clone(), why.to_owned());
    decode::keep_kind(resource, &mut new).map_err(|why| refuse(&why))?;
    let uid = object::text(&new, "uid");
    if old.is_some_and(|old| !uid.is_empty() && uid != object::text(old, "uid")) {
        let error = FieldError::invalid("metadata.uid", &uid.into(), "field is immutable");
        return Err(ResultRefusal::Other(request.target(WriteScope::Main).invalid(&[error])));
    }
    let unknown = decode::normalise(resource, &mut new).map_err(|status| refuse(&status.message))?;
    let complaints = json::complaints(&unknown, duplicates);
    match validation {
        FieldValidation::Ignore => Ok((new, Vec::new())),
        FieldValidation::Strict if !complaints.is_empty() => {
            Err(refuse(&format!("strict decoding error: {}", complaints.join(", "))))
        }
        FieldValidation::Warn | FieldValidation::Strict => Ok((new, complaints)),
    }
}
