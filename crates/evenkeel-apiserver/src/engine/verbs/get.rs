//! GET of one object.

use evenkeel_core::Status;

use crate::engine::options::{invalid_version, parse_revision};
use crate::engine::request::ResourceRequest;
use crate::engine::request_error::RequestError;
use crate::engine::target::key;
use crate::engine::{ApiEngine, response};
use crate::http_types::HandlerOutcome;
use crate::negotiate::Endpoint;
use crate::store::{At, Unavailable};

impl ApiEngine {
    /// Serves a GET of one object.
    pub(crate) fn get(&self, request: &ResourceRequest<'_>) -> Result<HandlerOutcome, RequestError> {
        let view = self.view(request, Endpoint::Object)?;
        let resource = &view.resource;
        let at = match request.query.get("resourceVersion").unwrap_or_default() {
            "" => At::Latest,
            text => match parse_revision(text).map_err(invalid_version)? {
                0 => At::Any,
                revision => At::NotOlderThan(revision),
            },
        };
        match self.store.get_at(&resource.storage, &key(request.namespace(), request.name()), at) {
            Ok(Some(record)) => {
                let record = self.record_in_version(resource, record, &request.http.state)?;
                view.cache(&record);
                let body = view.single(&record, None)?;
                Ok(HandlerOutcome::Response(response::ok(view.representation, body)))
            }
            Ok(None) => Err(Status::not_found(&resource.group, &resource.plural, request.name()).into()),
            Err(unavailable) => Ok(self.wait_or_refuse(at, unavailable, request.waited)?),
        }
    }

    /// Waits once for a revision that the store has not reached. Refuses one that is compacted.
    pub(super) fn wait_or_refuse(
        &self,
        at: At,
        unavailable: Unavailable,
        waited: bool,
    ) -> Result<HandlerOutcome, Status> {
        let wanted = match at {
            At::NotOlderThan(revision) | At::Exactly(revision) => revision,
            At::Latest | At::Any => self.store.revision(),
        };
        match unavailable {
            Unavailable::Compacted { .. } => Err(super::list::too_old(None)),
            Unavailable::Future { .. } if !waited => Ok(HandlerOutcome::AwaitRevision { revision: wanted }),
            Unavailable::Future { current } => Err(Status::too_large_resource_version(wanted, current)),
        }
    }
}
