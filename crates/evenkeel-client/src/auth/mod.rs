//! Authentication: the headers that every request carries, and how they are kept out of logs.

mod credentials;
mod front_proxy;
mod headers;
mod mask;
mod token_file;

#[cfg(test)]
mod tests;

pub(crate) use credentials::Credentials;
pub use front_proxy::{AuthProxy, AuthProxyLayer};
pub(crate) use mask::is_secret;
pub(crate) use mask::mask_location;
pub use mask::{DebugHeaders, mask_authorization};
