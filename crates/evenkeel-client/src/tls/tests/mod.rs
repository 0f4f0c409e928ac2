//! Handshakes with certificates made on the spot.

pub(crate) mod logs;
pub(crate) mod pki;

mod handshakes;
mod identities;
mod rotation;
mod sockets;
