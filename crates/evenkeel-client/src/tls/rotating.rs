//! [`RotatingIdentity`]: a client certificate that changes while clients use it.

use std::fmt;
use std::sync::Arc;

use super::slot::IdentitySlot;

/// A client certificate that changes while clients use it: that of a `CertificateManager`, with the feature
/// `certificates`. Clones share it.
///
/// New connections use the current certificate. Connections with an older one get no new requests; requests in flight
/// finish.
#[derive(Clone)]
pub struct RotatingIdentity(Arc<IdentitySlot>);

impl RotatingIdentity {
    #[cfg(feature = "certificates")]
    pub(crate) fn new(slot: Arc<IdentitySlot>) -> Self {
        RotatingIdentity(slot)
    }

    pub(crate) fn slot(&self) -> &Arc<IdentitySlot> {
        &self.0
    }
}

impl fmt::Debug for RotatingIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RotatingIdentity")
    }
}
