//! [`InspectServer`]: serves the page.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use evenkeel_base::http::ServerHandle;

use super::InspectorInner;
use super::site::InspectSite;
use crate::serve::{self, StartError, listen};

/// A server of the page: see [`Inspector::serve`](super::Inspector::serve). Dropping it stops it at once;
/// [`shutdown`](Self::shutdown) waits for requests.
#[derive(Debug)]
#[must_use = "dropping the server stops it"]
pub struct InspectServer {
    server: ServerHandle,
}

impl InspectServer {
    pub(super) async fn start(inspector: &Arc<InspectorInner>, address: &str) -> Result<Self, StartError> {
        let (listener, address) = listen(address).await?;
        let is_local = address.ip().is_loopback();
        if !is_local {
            tracing::warn!(%address, "serving the inspector without authentication on a non-loopback address");
        }
        let site = InspectSite { inspector: Arc::clone(inspector), is_local };
        Ok(InspectServer { server: serve::start(listener, address, site, None) })
    }

    /// Returns the address that the server listens on.
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// Returns the URL of the page for a browser on this machine.
    pub fn url(&self) -> String {
        let mut address = self.address();
        match address {
            SocketAddr::V4(v4) if v4.ip().is_unspecified() => address.set_ip(Ipv4Addr::LOCALHOST.into()),
            SocketAddr::V6(v6) if v6.ip().is_unspecified() => address.set_ip(Ipv6Addr::LOCALHOST.into()),
            _ => {}
        }
        format!("http://{address}/")
    }

    /// Stops accepting connections, ends event streams, waits up to five seconds for other requests, and returns when
    /// every socket is closed.
    pub async fn shutdown(self) {
        self.server.shutdown().await;
    }
}
