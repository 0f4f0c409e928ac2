//! [`WriteDefaults`]: query parameters that a client adds to all its writes.

use std::borrow::Cow;
use std::sync::Arc;

use http::Method;

use super::error::RequestError;
use super::query::Query;
use crate::api::FieldValidation;

/// The defaults of a client's writes. The value of a request takes precedence, except that no request can disable the dry run.
#[derive(Clone, Debug, Default)]
pub(crate) struct WriteDefaults {
    pub(crate) field_manager: Option<Arc<str>>,
    pub(crate) field_validation: Option<FieldValidation>,
    pub(crate) dry_run: bool,
}

/// The properties of a request that decide about its defaults.
#[derive(Clone, Copy, Debug)]
pub(super) struct WriteRequest<'a> {
    pub(super) method: &'a Method,
    /// Whether the body is a server-side apply.
    pub(super) is_apply: bool,
    /// Whether it has a body, and one that does not state the dry run.
    pub(super) has_other_body: bool,
}

impl WriteDefaults {
    /// Returns the query with the defaults that it lacks.
    ///
    /// # Errors
    /// The request is a delete with a body and the client is a dry run: servers ignore the query of such a delete.
    pub(super) fn complete<'q>(
        &self,
        request: WriteRequest<'_>,
        query: &'q Query,
    ) -> Result<Cow<'q, Query>, RequestError> {
        let writes = matches!(*request.method, Method::POST | Method::PUT | Method::PATCH);
        let deletes = request.method == Method::DELETE;
        if !writes && !deletes {
            return Ok(Cow::Borrowed(query));
        }
        if deletes && self.dry_run && request.has_other_body {
            let problem = "a delete with a body of its own cannot be sent by a dry-run client: servers read `dryRun` \
                           from the body only; use `Api::delete`";
            return Err(RequestError::Invalid { problem: problem.to_owned() });
        }
        let mut query = Cow::Borrowed(query);
        if self.dry_run {
            query.to_mut().replace("dryRun", "All");
        }
        if let Some(manager) = self.field_manager.as_deref().filter(|_| writes && query.get("fieldManager").is_none()) {
            query.to_mut().add("fieldManager", manager);
        }
        // An apply is always strict.
        let validation = self.field_validation.filter(|_| writes && !request.is_apply);
        if let Some(validation) = validation.filter(|_| query.get("fieldValidation").is_none()) {
            query.to_mut().add("fieldValidation", validation.as_str());
        }
        Ok(query)
    }
}
