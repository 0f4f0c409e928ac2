//! GET of a collection.

mod protobuf;
mod stream;

use std::sync::Arc;

use evenkeel_base::planted::{Defect, is_planted};
use evenkeel_core::Status;
use serde_json::{Value, json};

use self::protobuf::ProtobufList;
use self::stream::ListStream;
use crate::engine::ApiEngine;
use crate::engine::continue_token::ContinueToken;
use crate::engine::convert::webhook::Batch;
use crate::engine::filter::ObjectFilter;
use crate::engine::options::{ListOptions, VersionMatch, invalid_version};
use crate::engine::request::ResourceRequest;
use crate::engine::request_error::RequestError;
use crate::engine::view::View;
use crate::http_types::{Body, HandlerOutcome};
use crate::negotiate::{Endpoint, Media, Transform};
use crate::registry::Resource;
use crate::store::{At, Event, Page, Record, Span, Unavailable, Unread};

/// Lists longer than this are sent in chunks of about this size.
const CHUNK: usize = 128 * 1024;

/// The objects that a request for a collection selects.
pub(super) enum PageOutcome {
    Page {
        page: Page,
        consistent: bool,
    },
    /// The store has not reached the requested revision.
    Later(HandlerOutcome),
}

impl ApiEngine {
    /// Serves a GET of a collection.
    pub(crate) fn list(&self, request: &ResourceRequest<'_>) -> Result<HandlerOutcome, RequestError> {
        let view = self.view(request, Endpoint::List)?;
        let options = ListOptions::from_query(request.query, false)?;
        let filter = self.filter(request)?;
        let mut outcome = self.page(&view.resource.storage, &filter, &options, request.waited)?;
        if let PageOutcome::Page { page, .. } = &mut outcome {
            let omitted = request.http.state.omitted_item().and_then(|item| usize::try_from(item).ok());
            if let Some(item) = omitted.filter(|item| *item < page.records.len()) {
                page.records.remove(item);
            }
            self.convert_page(&view.resource, page, request)?;
        }
        Ok(match outcome {
            PageOutcome::Page { page, consistent } if view.representation.media == Media::Protobuf => {
                let metadata = list_metadata(&view, &filter, &page, consistent);
                ProtobufList::new(view, metadata, page.records).run()
            }
            PageOutcome::Page { page, consistent } => {
                HandlerOutcome::Response(list_response(view, &filter, page, consistent)?)
            }
            PageOutcome::Later(outcome) => outcome,
        })
    }

    /// Converts the objects of a page to the version of the request.
    pub(super) fn convert_page(
        &self,
        resource: &Resource,
        page: &mut Page,
        request: &ResourceRequest<'_>,
    ) -> Result<(), RequestError> {
        let records = std::mem::take(&mut page.records);
        page.records = self.records_in_version(resource, records, Batch::List, &request.http.state)?;
        Ok(())
    }

    /// Returns the objects that a request for a collection selects.
    pub(super) fn page(
        &self,
        table: &str,
        filter: &ObjectFilter,
        options: &ListOptions,
        waited: bool,
    ) -> Result<PageOutcome, Status> {
        let (at, token, limit) = self.page_of(options, filter)?;
        let after = token.as_ref().map(|token| format!("{}{}", filter.prefix, token.after));
        let span = Span { prefix: &filter.prefix, after: after.as_deref(), limit };
        match self.select(table, filter, span, at) {
            Ok(page) => {
                let consistent = token.as_ref().is_none_or(|token| token.revision.is_some());
                Ok(PageOutcome::Page { page, consistent })
            }
            Err(Unavailable::Compacted { .. }) => Err(too_old(token.as_ref())),
            Err(unavailable) => self.wait_or_refuse(at, unavailable, waited).map(PageOutcome::Later),
        }
    }

    /// Returns the objects that a filter selects. A filter that can match one key only reads that key.
    fn select(&self, table: &str, filter: &ObjectFilter, span: Span<'_>, at: At) -> Result<Page, Unavailable> {
        let matches = |key: &str, record: &Record| filter.matches(key, record);
        match &filter.key {
            None if is_planted(Defect::EventBeforeList) => self.list_behind_events(table, span, at, matches),
            None => self.store.list(table, span, at, matches),
            Some(key) => {
                let after = span.after.filter(|after| *after >= key.as_str());
                let mut page = self.store.list(table, Span { prefix: key, after, limit: 1 }, at, matches)?;
                page.next_after = None;
                Ok(page)
            }
        }
    }

    /// Lists at a revision whose event is published, and whose object is not: it follows a moment later (BUG-35).
    fn list_behind_events(
        &self,
        table: &str,
        span: Span<'_>,
        at: At,
        select: impl Fn(&str, &Record) -> bool,
    ) -> Result<Page, Unavailable> {
        let page = self.store.list(table, span, at, &select)?;
        let before = page.revision.saturating_sub(1);
        let is_moment = |event: &Arc<Event>| event.revision == page.revision && event.at == self.env.monotonic();
        match self.store.unread(table, Some(before)).1 {
            Unread::Changes(events) if events.iter().any(is_moment) => {
                let page_before = self.store.list(table, span, At::Exactly(before), select)?;
                Ok(Page { revision: page.revision, ..page_before })
            }
            _ => Ok(page),
        }
    }

    /// Returns the revision and the page that a list requests (LST-1 to LST-7).
    fn page_of(
        &self,
        options: &ListOptions,
        filter: &ObjectFilter,
    ) -> Result<(At, Option<ContinueToken>, usize), Status> {
        let requested = options.revision().map_err(invalid_version)?;
        if !options.continue_token.is_empty() {
            let token = ContinueToken::decode(&options.continue_token)?;
            if !matches!(requested, None | Some(0)) {
                return Err(Status::bad_request("specifying resource version is not allowed when using continue"));
            }
            // A token names a key relative to its list. In a namespaced list that is a name without a namespace.
            if !filter.prefix.is_empty() && token.after.contains('/') {
                return Err(Status::bad_request("invalid continue token: the key is outside of this list"));
            }
            let at = token.revision.map_or(At::Latest, At::Exactly);
            return Ok((at, Some(token), options.limit));
        }
        Ok(match (requested, options.version_match) {
            (None, _) => (At::Latest, None, options.limit),
            (Some(0), _) => (At::Any, None, 0),
            (Some(revision), Some(VersionMatch::Exact)) => (At::Exactly(revision), None, options.limit),
            (Some(revision), Some(VersionMatch::NotOlderThan)) => (At::NotOlderThan(revision), None, options.limit),
            (Some(revision), None) if options.limit > 0 => (At::Exactly(revision), None, options.limit),
            (Some(revision), None) => (At::NotOlderThan(revision), None, 0),
        })
    }
}

/// LST-8 and LST-9.
pub(super) fn too_old(token: Option<&ContinueToken>) -> Status {
    let Some(token) = token else {
        return Status::expired("The resourceVersion for the provided list is too old.");
    };
    let mut status = Status::expired(
        "The provided continue parameter is too old to display a consistent list result. You can start a new list \
         without the continue parameter, or use the continue token in this response to retrieve the remainder of the \
         results. Continuing with the provided token results in an inconsistent list - objects that were created, \
         modified, or deleted between the time the first chunk was returned and now may show up in the list.",
    );
    status.metadata.continue_token = ContinueToken { revision: None, after: token.after.clone() }.encode();
    status
}

/// Returns the metadata of a list as JSON.
fn list_metadata(view: &View, filter: &ObjectFilter, page: &Page, consistent: bool) -> Value {
    let mut metadata = json!({"resourceVersion": page.revision.to_string()});
    if let Some(last) = &page.next_after {
        let after = last.strip_prefix(filter.prefix.as_str()).unwrap_or(last).to_owned();
        let token = ContinueToken { revision: consistent.then_some(page.revision), after };
        metadata["continue"] = token.encode().into();
        if !filter.has_selectors() {
            metadata["remainingItemCount"] = page.remaining.into();
        }
    } else if view.resource.custom.is_some() && view.representation.transform == Transform::None {
        metadata["continue"] = "".into();
    }
    // Lists of other Go types have no field for it (SHD-014).
    if let Some(selector) = filter.shard_selector()
        && view.resource.custom.is_none()
        && view.representation.transform == Transform::None
    {
        metadata["shardInfo"] = json!({"selector": selector});
    }
    metadata
}

/// Returns the response of a list.
pub(super) fn list_response(
    view: View,
    filter: &ObjectFilter,
    page: Page,
    consistent: bool,
) -> Result<http::Response<Body>, Status> {
    let metadata = list_metadata(&view, filter, &page, consistent);
    if view.representation.media == Media::Protobuf {
        return ProtobufList::new(view, metadata, page.records).run_at_once();
    }
    Ok(ListStream::new(view, metadata, page.records)?.into_response())
}
