//! GET of one object and of a collection.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use evenkeel_core::Status;
use serde_json::{Value, json};

use super::ApiEngine;
use super::filter::Filter;
use super::options::{ListOptions, Match, parse_revision};
use super::protobuf_list::BinaryList;
use super::reply;
use super::token::Continue;
use super::view::{self, View};
use crate::http_types::{Body, ConnectionCut, FrameStream, HandlerOutcome};
use crate::negotiate::{Media, Transform};
use crate::store::{At, Page, Record, Span, Unavailable};

/// Lists longer than this are sent in pieces of about this size.
pub(super) const PIECE: usize = 256 * 1024;

/// What a request for a collection selects.
pub(super) enum Selected {
    Page {
        page: Page,
        consistent: bool,
    },
    /// The state that was asked for is not there yet.
    Later(HandlerOutcome),
}

impl ApiEngine {
    pub(super) fn get(
        &self,
        view: &View,
        key: &str,
        name: &str,
        resource_version: Option<&str>,
        waited: bool,
    ) -> Result<HandlerOutcome, Status> {
        let resource = &view.resource;
        let at = match resource_version.unwrap_or_default() {
            "" => At::Latest,
            text => match parse_revision(text).map_err(invalid_version)? {
                0 => At::Any,
                revision => At::NotOlderThan(revision),
            },
        };
        match self.store.get_at(&resource.storage, key, at) {
            Ok(Some(record)) => {
                view.keep(&record);
                let body = view.single(&record, None)?;
                Ok(HandlerOutcome::Response(reply::ok(view.representation, body)))
            }
            Ok(None) => Err(Status::not_found(&resource.group, &resource.plural, name)),
            Err(unavailable) => self.wait_or_refuse(at, unavailable, waited),
        }
    }

    pub(super) fn list(
        &self,
        view: View,
        filter: &Filter,
        options: &ListOptions,
        waited: bool,
    ) -> Result<HandlerOutcome, Status> {
        Ok(match self.page(&view.resource.storage, filter, options, waited)? {
            Selected::Page { page, consistent } if view.representation.media == Media::Protobuf => {
                let metadata = list_metadata(&view, filter, &page, consistent);
                BinaryList::new(view, metadata, page.records).go_on()
            }
            Selected::Page { page, consistent } => {
                HandlerOutcome::Response(list_reply(view, filter, page, consistent)?)
            }
            Selected::Later(outcome) => outcome,
        })
    }

    /// The objects that a request for a collection is about.
    pub(super) fn page(
        &self,
        table: &str,
        filter: &Filter,
        options: &ListOptions,
        waited: bool,
    ) -> Result<Selected, Status> {
        let (at, token, limit) = self.page_of(options, filter)?;
        let after = token.as_ref().map(|token| format!("{}{}", filter.prefix, token.after));
        let span = Span { prefix: &filter.prefix, after: after.as_deref(), limit };
        match self.select(table, filter, span, at) {
            Ok(page) => {
                let consistent = token.as_ref().is_none_or(|token| token.revision.is_some());
                Ok(Selected::Page { page, consistent })
            }
            Err(Unavailable::Compacted { .. }) => Err(too_old(token.as_ref())),
            Err(unavailable) => self.wait_or_refuse(at, unavailable, waited).map(Selected::Later),
        }
    }

    /// The objects that a filter selects. A filter that can match one key only looks at that one.
    pub(super) fn select(&self, table: &str, filter: &Filter, span: Span<'_>, at: At) -> Result<Page, Unavailable> {
        let matches = |key: &str, record: &Record| filter.matches(key, record);
        match &filter.key {
            None => self.store.list(table, span, at, matches),
            Some(key) => {
                let after = span.after.filter(|after| *after >= key.as_str());
                let mut page = self.store.list(table, Span { prefix: key, after, limit: 1 }, at, matches)?;
                page.next_after = None;
                Ok(page)
            }
        }
    }

    /// Which state and which part of it a list asks for (LST-1 to LST-7).
    fn page_of(&self, options: &ListOptions, filter: &Filter) -> Result<(At, Option<Continue>, usize), Status> {
        let requested = options.revision().map_err(invalid_version)?;
        if !options.continue_token.is_empty() {
            let token = Continue::decode(&options.continue_token)?;
            if !matches!(requested, None | Some(0)) {
                return Err(Status::bad_request("specifying resource version is not allowed when using continue"));
            }
            // A token names a key below the root of its list; a namespaced list has names there, no namespaces.
            if !filter.prefix.is_empty() && token.after.contains('/') {
                return Err(Status::bad_request("invalid continue token: the key is outside of this list"));
            }
            let at = token.revision.map_or(At::Latest, At::Exactly);
            return Ok((at, Some(token), options.limit));
        }
        Ok(match (requested, options.version_match) {
            (None, _) => (At::Latest, None, options.limit),
            (Some(0), _) => (At::Any, None, 0),
            (Some(revision), Some(Match::Exact)) => (At::Exactly(revision), None, options.limit),
            (Some(revision), Some(Match::NotOlderThan)) => (At::NotOlderThan(revision), None, options.limit),
            (Some(revision), None) if options.limit > 0 => (At::Exactly(revision), None, options.limit),
            (Some(revision), None) => (At::NotOlderThan(revision), None, 0),
        })
    }

    /// A state that is not reached yet is waited for, once; one that is gone is gone.
    fn wait_or_refuse(&self, at: At, unavailable: Unavailable, waited: bool) -> Result<HandlerOutcome, Status> {
        let wanted = match at {
            At::NotOlderThan(revision) | At::Exactly(revision) => revision,
            At::Latest | At::Any => self.store.revision(),
        };
        match unavailable {
            Unavailable::Compacted { .. } => Err(too_old(None)),
            Unavailable::Future { .. } if !waited => {
                Ok(HandlerOutcome::AwaitRevision { revision: wanted, allotted: None })
            }
            Unavailable::Future { current } => Err(Status::too_large_resource_version(wanted, current)),
        }
    }
}

fn invalid_version(error: crate::field::FieldError) -> Status {
    Status::bad_request(format!("invalid resource version: {error}"))
}

/// LST-8 and LST-9.
fn too_old(token: Option<&Continue>) -> Status {
    let Some(token) = token else {
        return Status::expired("The resourceVersion for the provided list is too old.");
    };
    let mut status = Status::expired(
        "The provided continue parameter is too old to display a consistent list result. You can start a new list \
         without the continue parameter, or use the continue token in this response to retrieve the remainder of the \
         results. Continuing with the provided token results in an inconsistent list - objects that were created, \
         modified, or deleted between the time the first chunk was returned and now may show up in the list.",
    );
    status.metadata.continue_token = Continue { revision: None, after: token.after.clone() }.encode();
    status
}

/// The metadata of a list, as it stands in the JSON.
fn list_metadata(view: &View, filter: &Filter, page: &Page, consistent: bool) -> Value {
    let mut metadata = json!({"resourceVersion": page.revision.to_string()});
    if let Some(last) = &page.next_after {
        let after = last.strip_prefix(filter.prefix.as_str()).unwrap_or(last).to_owned();
        let token = Continue { revision: consistent.then_some(page.revision), after };
        metadata["continue"] = token.encode().into();
        if !filter.has_selectors() {
            metadata["remainingItemCount"] = page.remaining.into();
        }
    } else if view.resource.custom.is_some() && view.representation.transform == Transform::None {
        metadata["continue"] = "".into();
    }
    metadata
}

pub(super) fn list_reply(
    view: View,
    filter: &Filter,
    page: Page,
    consistent: bool,
) -> Result<http::Response<Body>, Status> {
    let metadata = list_metadata(&view, filter, &page, consistent);
    let representation = view.representation;
    if representation.media == Media::Protobuf {
        return BinaryList::new(view, metadata, page.records).at_once();
    }
    if let Transform::Table(_) = representation.transform {
        let rows = page.records.iter().map(|record| view.row(record, None)).collect();
        let table = view.table(rows, metadata, true);
        return Ok(reply::ok(representation, view::encode(table.to_string().into(), representation)?));
    }
    let (api_version, kind) = view.list_shown_as();
    let head = format!(
        "{{\"kind\":{},\"apiVersion\":{},\"metadata\":{metadata},\"items\":[",
        Value::from(kind),
        Value::from(api_version)
    );
    let mut stream =
        ListStream { view, head: head.into(), records: page.records.into_iter(), first: true, done: false };
    if representation.media != Media::Json || representation.pretty {
        let mut whole = Vec::new();
        while let Some(piece) = stream.next_piece() {
            whole.extend_from_slice(&piece);
        }
        return Ok(reply::ok(representation, view::encode(whole.into(), representation)?));
    }
    let short = stream.records.as_slice().iter().map(|record| record.json().len()).sum::<usize>() < PIECE / 2;
    let body = match short {
        true => Body::whole(stream.next_piece().unwrap_or_default()),
        false => Body::stream(stream),
    };
    Ok(reply::with_body(representation, body))
}

/// A list that is written as it is read, in pieces: the records are shared with the store, so a list of any length costs
/// a pointer an object and one piece.
struct ListStream {
    view: View,
    head: Bytes,
    records: std::vec::IntoIter<Arc<Record>>,
    first: bool,
    done: bool,
}

impl ListStream {
    fn next_piece(&mut self) -> Option<Bytes> {
        if self.done {
            return None;
        }
        let size = PIECE.min(self.records.as_slice().iter().take(256).map(|record| record.json().len() + 8).sum());
        let mut piece = Vec::with_capacity(size + self.head.len() + 64);
        piece.extend_from_slice(&std::mem::take(&mut self.head));
        for record in self.records.by_ref() {
            if !std::mem::take(&mut self.first) {
                piece.push(b',');
            }
            match self.view.representation.transform {
                Transform::None => self.view.item(&record, &mut piece),
                _ => piece.extend_from_slice(&self.view.metadata(&record, None)),
            }
            if piece.len() >= PIECE {
                return Some(piece.into());
            }
        }
        self.done = true;
        piece.extend_from_slice(b"]}");
        Some(piece.into())
    }
}

impl FrameStream for ListStream {
    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Bytes, ConnectionCut>>> {
        Poll::Ready(self.next_piece().map(Ok))
    }
}
