//! Requests that upgrade their connection: each has a connection of its own, which never enters the pool.

use std::sync::Arc;

use evenkeel_base::channels::UpgradedIo;
use http::header::HOST;
use http::uri::PathAndQuery;
use http::{Request, Response, StatusCode, Uri, Version};
use hyper_util::rt::TokioIo;

use super::super::connect::Dialing;
use super::super::error::{TransportError, TransportFault};
use super::super::{Body, Lane};
use super::wire::Wire;
use super::{Pool, classify};

impl Pool {
    /// Sends a request on the connection that `dialing` opens, in HTTP/1.1. A response with status 101 has the connection in
    /// its extensions, as [`UpgradedIo`]. After any other response the connection is closed.
    pub(crate) async fn upgrade(
        &self,
        dialing: Dialing,
        mut request: Request<Body>,
    ) -> Result<Response<Body>, TransportError> {
        let inner = &self.inner;
        inner.check_host(request.uri())?;
        let path = request.uri().path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/"));
        *request.uri_mut() = Uri::from(path);
        *request.version_mut() = Version::HTTP_11;
        request.headers_mut().entry(HOST).or_insert_with(|| inner.host_header.clone());
        let host = &inner.tally.host;
        inner.tally.count_dial(Lane::Streams);
        let dialed = dialing.await?;
        let wire = Wire::new(dialed.io, Arc::clone(&inner.tally), Lane::Streams);
        let (mut sender, connection) =
            inner.speech.upgradable_http1(wire).await.map_err(|error| classify::http1_error(host, error))?;
        // It ends with the response, or when the connection is upgraded.
        tokio::spawn(async move {
            let _ = connection.with_upgrades().await;
        });
        let mut response = sender.send_request(request).await.map_err(|error| classify::http1_error(host, error))?;
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            return Ok(response.map(Body::new));
        }
        let upgraded = hyper::upgrade::on(&mut response).await;
        let upgraded = upgraded.map_err(|error| TransportError::new(TransportFault::Closed, host, error))?;
        response.extensions_mut().insert(UpgradedIo::new(TokioIo::new(upgraded)));
        Ok(response.map(|_| Body::empty()))
    }
}
