//! CertificateSigningRequests: the server records the requester.

use serde_json::Value;

use super::KindHooks;
use super::reviews::user_info;
use crate::http_types::User;

#[derive(Debug)]
pub(crate) struct CertificateSigningRequestHooks;

impl KindHooks for CertificateSigningRequestHooks {
    /// Replaces whatever the client claims about the requester.
    fn set_requester(&self, new: &mut Value, user: &User) {
        if let Some(spec) = new.get_mut("spec").and_then(Value::as_object_mut)
            && let Value::Object(info) = user_info(user)
        {
            for claimed in ["username", "uid", "groups", "extra"] {
                spec.remove(claimed);
            }
            spec.extend(info);
        }
    }
}
