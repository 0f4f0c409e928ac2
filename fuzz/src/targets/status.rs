//! Errors of API servers, and what else a server or a proxy may send in their place (FUZ-13).
//!
//! The first byte selects the media type, the second one the status code; the rest is the body.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::task::{Context, Poll};

use bytes::Bytes;
use evenkeel_client::{Client, Error};
use evenkeel_core::codec::Codec;
use http::{Request, Response};
use http_body_util::Full;
use k8s_openapi::api::core::v1::Pod;

use crate::budget::{TREE, within};
use crate::input::Input;

const MEDIA_TYPES: [&str; 5] =
    ["application/json", "text/plain", "application/vnd.kubernetes.protobuf", "", "application/json; charset=\"x"];
const CODES: [u16; 10] = [400, 401, 403, 404, 409, 410, 422, 429, 500, 504];

/// The most that an error shows of a body that is no status, with a sentence around it.
const MAX_SHOWN: usize = 2048 + 256;

pub(super) fn run(data: &[u8]) {
    let mut input = Input(data);
    let (media_type, code) = (input.choice(&MEDIA_TYPES), input.choice(&CODES));
    let body = input.0;
    check_decoder(body);
    let failure = error_of(media_type, code, body);
    let Error::Api { status, .. } = &failure else { return };
    assert_ne!(status.code, 0, "an error without a code");
    if Codec::Json.decode_status(body).is_none() && Codec::Protobuf.decode_status(body).is_none() {
        assert!(status.message.len() <= MAX_SHOWN, "{} bytes of a body are shown", status.message.len());
        let is_escape = |character: char| character.is_control() && character != '\n';
        assert!(!failure.to_string().contains(is_escape), "control characters in {failure}");
    }
}

/// What was decoded can be encoded, and is the same when it is decoded again.
fn check_decoder(body: &[u8]) {
    let Some(status) = within(TREE, body.len(), || Codec::Json.decode_status(body)) else { return };
    let text = serde_json::to_vec(&status).expect("a status has JSON");
    assert_eq!(Codec::Json.decode_status(&text), Some(status), "decoded, encoded and decoded again");
}

/// Sends a request that gets this response.
fn error_of(media_type: &'static str, code: u16, body: &[u8]) -> Error {
    let client = Client::from_service(Fixed { media_type, code, body: Bytes::copy_from_slice(body) });
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime");
    let response = runtime.block_on(async { client.api::<Pod>().namespace("default").get("web-0").await });
    response.expect_err("the response is a failure")
}

/// A server that always sends the same response.
#[derive(Clone)]
struct Fixed {
    media_type: &'static str,
    code: u16,
    body: Bytes,
}

impl<B> tower_service::Service<Request<B>> for Fixed {
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<B>) -> Self::Future {
        let mut response = Response::builder().status(self.code);
        if !self.media_type.is_empty() {
            response = response.header("content-type", self.media_type);
        }
        ready(Ok(response.body(Full::new(self.body.clone())).expect("a response")))
    }
}
