//! What is answered to a request.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderValue, Method, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::{Body, Frame, SizeHint};
use tokio::time::Instant;

use super::ledger::NAME_LENGTH;
use super::stream::{Place, Stream};
use super::viewer::Viewer;
use super::{Inner, STREAMS};
use crate::serve::{self, Line, asks_for_this_machine, only_readable, text, with_body, with_type};

/// Nothing but what this server serves, and nothing that is written into the page itself.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The files of the page: path, media type, contents.
const FILES: [(&str, &str, &str); 7] = [
    ("/", "text/html; charset=utf-8", include_str!("page/index.html")),
    ("/page.css", "text/css; charset=utf-8", include_str!("page/page.css")),
    ("/page.js", "text/javascript; charset=utf-8", include_str!("page/page.js")),
    ("/picture.js", "text/javascript; charset=utf-8", include_str!("page/picture.js")),
    ("/lists.js", "text/javascript; charset=utf-8", include_str!("page/lists.js")),
    ("/words.js", "text/javascript; charset=utf-8", include_str!("page/words.js")),
    ("/icon.svg", "image/svg+xml", include_str!("page/icon.svg")),
];

/// What the server has to tell.
pub(super) struct Site {
    pub(super) inspector: Arc<Inner>,
    /// Whether only programs on this machine can ask.
    pub(super) is_local: bool,
}

/// An answer that is there at once, or one that goes on.
pub(super) enum Told {
    All(Full<Bytes>),
    Stream(Box<Stream>),
}

impl Site {
    fn answer(&self, request: &http::request::Parts, line: Line) -> Response<Told> {
        let path = request.uri.path();
        let file = FILES.iter().find(|(name, ..)| *name == path);
        if file.is_none() && !matches!(path, "/state" | "/events") {
            return text(StatusCode::NOT_FOUND, "there is /, /state and /events\n").map(Told::All);
        }
        if self.is_local && !asks_for_this_machine(&request.headers) {
            let refusal = "this is for localhost: the Host header names another machine\n";
            return text(StatusCode::FORBIDDEN, refusal).map(Told::All);
        }
        if request.method != Method::GET && request.method != Method::HEAD {
            return only_readable().map(Told::All);
        }
        if let Some((_, media_type, contents)) = file {
            return with_type(StatusCode::OK, media_type, *contents).map(Told::All);
        }
        let asked = form_urlencoded::parse(request.uri.query().unwrap_or_default().as_bytes());
        let follow =
            asked.filter(|(name, key)| name == "follow" && !key.is_empty()).map(|(_, key)| key.into_owned()).last();
        if follow.as_ref().is_some_and(|key| key.len() > NAME_LENGTH) {
            return text(StatusCode::BAD_REQUEST, "that is too long for a key\n").map(Told::All);
        }
        let mut viewer = Viewer::new(follow);
        if path == "/state" {
            let state = viewer.look(&self.inspector, Instant::now()).unwrap_or_default();
            return with_type(StatusCode::OK, "application/json", format!("{state}\n")).map(Told::All);
        }
        if request.method == Method::HEAD {
            return with_type(StatusCode::OK, EVENTS, Bytes::new()).map(Told::All);
        }
        match Place::take(&self.inspector) {
            Some(place) => {
                let stream = Stream::new(&self.inspector, viewer, line, place);
                with_body(StatusCode::OK, EVENTS, Told::Stream(Box::new(stream)))
            }
            None => {
                let refusal = format!("{STREAMS} pages are open already: close one of them\n");
                text(StatusCode::SERVICE_UNAVAILABLE, refusal).map(Told::All)
            }
        }
    }
}

const EVENTS: &str = "text/event-stream";

impl serve::Site for Site {
    type Body = Told;

    async fn respond(&self, request: http::request::Parts, line: Line) -> Response<Told> {
        let mut answer = self.answer(&request, line);
        let headers = answer.headers_mut();
        headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
        headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
        headers.insert("cross-origin-resource-policy", HeaderValue::from_static("same-origin"));
        answer
    }
}

impl Body for Told {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            Told::All(all) => Pin::new(all).poll_frame(context),
            Told::Stream(stream) => Pin::new(&mut **stream).poll_frame(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Told::All(all) => all.is_end_stream(),
            Told::Stream(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Told::All(all) => all.size_hint(),
            Told::Stream(_) => SizeHint::default(),
        }
    }
}
