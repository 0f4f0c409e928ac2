//! [`UpgradedIo`]: the connection of a response with status 101.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncRead, AsyncWrite};

/// A byte stream in both directions.
pub trait Io: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// A boxed byte stream.
pub type BoxIo = Box<dyn Io>;

/// The connection of a response with status 101, in its extensions. Clones share it; the first to take it has it.
#[derive(Clone)]
pub struct UpgradedIo(Arc<Mutex<Option<BoxIo>>>);

impl UpgradedIo {
    /// Wraps a connection.
    pub fn new(io: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) -> Self {
        UpgradedIo(Arc::new(Mutex::new(Some(Box::new(io)))))
    }

    /// Takes the connection.
    pub fn take(&self) -> Option<BoxIo> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl fmt::Debug for UpgradedIo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UpgradedIo")
    }
}
