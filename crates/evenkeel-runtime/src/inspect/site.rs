//! Routes of the inspector's server.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use evenkeel_base::page;
use http::{HeaderValue, Method, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::{Body, Frame, SizeHint};
use tokio::time::Instant;

use super::history::NAME_LENGTH;
use super::session::PageSession;
use super::stream::{EventStream, StreamSlot};
use super::{InspectorInner, STREAMS};
use crate::serve::{self, Connection, has_loopback_host, method_not_allowed, text, with_body, with_type};

/// Allows only files of this server, and no inline scripts or styles.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The files of the page: path, media type, content.
const FILES: [(&str, &str, &str); 10] = [
    ("/", "text/html; charset=utf-8", include_str!("page/index.html")),
    ("/look.css", "text/css; charset=utf-8", page::LOOK),
    ("/page.css", "text/css; charset=utf-8", include_str!("page/page.css")),
    ("/page.js", "text/javascript; charset=utf-8", include_str!("page/page.js")),
    ("/attention.js", "text/javascript; charset=utf-8", include_str!("page/attention.js")),
    ("/picture.js", "text/javascript; charset=utf-8", include_str!("page/picture.js")),
    ("/rings.js", "text/javascript; charset=utf-8", include_str!("page/rings.js")),
    ("/lists.js", "text/javascript; charset=utf-8", include_str!("page/lists.js")),
    ("/format.js", "text/javascript; charset=utf-8", page::FORMAT),
    ("/icon.svg", "image/svg+xml", page::ICON),
];

/// Handles the requests of one server.
pub(super) struct InspectSite {
    pub(super) inspector: Arc<InspectorInner>,
    /// Whether the server listens on a loopback address.
    pub(super) is_local: bool,
}

/// A complete response body, or an event stream.
pub(super) enum InspectBody {
    Full(Full<Bytes>),
    EventStream(Box<EventStream>),
}

impl InspectSite {
    fn response(&self, request: &http::request::Parts, connection: Connection) -> Response<InspectBody> {
        let path = request.uri.path();
        let file = FILES.iter().find(|(name, ..)| *name == path);
        if file.is_none() && !matches!(path, "/state" | "/events") {
            return text(StatusCode::NOT_FOUND, "not found; try /, /state or /events\n").map(InspectBody::Full);
        }
        if self.is_local && !has_loopback_host(&request.headers) {
            let refusal = "refused: the Host header does not name this machine\n";
            return text(StatusCode::FORBIDDEN, refusal).map(InspectBody::Full);
        }
        if request.method != Method::GET && request.method != Method::HEAD {
            return method_not_allowed().map(InspectBody::Full);
        }
        if let Some((_, media_type, contents)) = file {
            return with_type(StatusCode::OK, media_type, *contents).map(InspectBody::Full);
        }
        let query = form_urlencoded::parse(request.uri.query().unwrap_or_default().as_bytes());
        let follow =
            query.filter(|(name, key)| name == "follow" && !key.is_empty()).map(|(_, key)| key.into_owned()).last();
        if follow.as_ref().is_some_and(|key| key.len() > NAME_LENGTH) {
            return text(StatusCode::BAD_REQUEST, "the key is too long\n").map(InspectBody::Full);
        }
        let mut session = PageSession::new(follow);
        if path == "/state" {
            let state = session.update(&self.inspector, Instant::now()).unwrap_or_default();
            return with_type(StatusCode::OK, "application/json", format!("{state}\n")).map(InspectBody::Full);
        }
        if request.method == Method::HEAD {
            return with_type(StatusCode::OK, EVENTS, Bytes::new()).map(InspectBody::Full);
        }
        match StreamSlot::acquire(&self.inspector) {
            Some(slot) => {
                let stream = EventStream::new(&self.inspector, session, connection, slot);
                with_body(StatusCode::OK, EVENTS, InspectBody::EventStream(Box::new(stream)))
            }
            None => {
                let refusal = format!("{STREAMS} pages are already open; close one of them\n");
                text(StatusCode::SERVICE_UNAVAILABLE, refusal).map(InspectBody::Full)
            }
        }
    }
}

const EVENTS: &str = "text/event-stream";

impl serve::Site for InspectSite {
    type Body = InspectBody;

    async fn respond(&self, request: http::request::Parts, connection: Connection) -> Response<InspectBody> {
        let mut response = self.response(&request, connection);
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
        headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
        headers.insert("cross-origin-resource-policy", HeaderValue::from_static("same-origin"));
        response
    }
}

impl From<Full<Bytes>> for InspectBody {
    fn from(full: Full<Bytes>) -> Self {
        InspectBody::Full(full)
    }
}

impl Body for InspectBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            InspectBody::Full(full) => Pin::new(full).poll_frame(context),
            InspectBody::EventStream(stream) => Pin::new(&mut **stream).poll_frame(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            InspectBody::Full(full) => full.is_end_stream(),
            InspectBody::EventStream(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            InspectBody::Full(full) => full.size_hint(),
            InspectBody::EventStream(_) => SizeHint::default(),
        }
    }
}
