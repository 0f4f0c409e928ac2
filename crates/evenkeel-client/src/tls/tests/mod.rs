//! Handshakes with generated certificates.

pub(crate) mod logs;
pub(crate) mod pki;

mod handshakes;
mod identities;
mod providers;
mod rotation;
mod sockets;
