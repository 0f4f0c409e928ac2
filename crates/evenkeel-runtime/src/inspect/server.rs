//! [`InspectServer`]: the page, served.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use super::Inner;
use super::site::Site;
use crate::serve::{Running, StartError, listen};

/// A server of the page: see [`Inspector::serve`](super::Inspector::serve). Dropping it ends it at once;
/// [`shutdown`](Self::shutdown) lets requests finish.
#[derive(Debug)]
#[must_use = "the server ends when this is dropped"]
pub struct InspectServer {
    running: Running,
}

impl InspectServer {
    pub(super) async fn start(inspector: &Arc<Inner>, address: &str) -> Result<Self, StartError> {
        let (listener, address) = listen(address).await?;
        let is_local = address.ip().is_loopback();
        if !is_local {
            tracing::warn!(%address, "the inspector is served without authentication on a non-loopback address");
        }
        let site = Site { inspector: Arc::clone(inspector), is_local };
        Ok(InspectServer { running: Running::start(listener, address, Arc::new(site)) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.running.address()
    }

    /// What to open in a browser on this machine.
    pub fn url(&self) -> String {
        let mut address = self.address();
        match address {
            SocketAddr::V4(v4) if v4.ip().is_unspecified() => address.set_ip(Ipv4Addr::LOCALHOST.into()),
            SocketAddr::V6(v6) if v6.ip().is_unspecified() => address.set_ip(Ipv6Addr::LOCALHOST.into()),
            _ => {}
        }
        format!("http://{address}/")
    }

    /// Accepts nothing more, ends what pages are being told, lets other requests finish, for five seconds at most, and returns when
    /// every socket is closed.
    pub async fn shutdown(self) {
        self.running.shutdown().await;
    }
}
