//! Authentication (AUT-1 to AUT-4).
//!
//! Nothing here does I/O: the input is the headers and the outcome of the TLS handshake, the output a [`User`] or an
//! error.

use std::fmt;

use evenkeel_core::Status;
use http::{HeaderValue, Method};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::http_types::User;

/// The group of users with all permissions.
pub(crate) const MASTERS: &str = "system:masters";
/// The user of requests without credentials.
pub(crate) const ANONYMOUS: &str = "system:anonymous";
/// The group of requests without credentials.
pub(crate) const UNAUTHENTICATED: &str = "system:unauthenticated";

/// Returns the administrator, which has all permissions.
pub(crate) fn admin() -> User {
    User { name: "system:admin".into(), groups: vec![MASTERS.into()], ..User::default() }
}

/// Returns the user of requests without credentials.
pub(crate) fn anonymous() -> User {
    User { name: ANONYMOUS.into(), groups: vec![UNAUTHENTICATED.into()], ..User::default() }
}

/// Returns whether a request only asks for the health of the server, which needs no credentials (AUT-4): probes of load
/// balancers and kubelets have none.
pub(crate) fn is_health_probe(method: &Method, path: &str) -> bool {
    let root = path.trim_start_matches('/').split('/').next().unwrap_or_default();
    matches!(*method, Method::GET | Method::HEAD) && matches!(root, "healthz" | "livez" | "readyz")
}

/// How requests over the network are authenticated.
#[derive(Debug, Default)]
pub(crate) struct Authenticator {
    /// No credentials are required; every request is the administrator's.
    pub(crate) open: bool,
    /// Requests without credentials must name this machine by a host that no web page can have: see
    /// [`check_host`](super::cross_site::check_host).
    pub(crate) checks_host: bool,
    /// Requests without credentials are authenticated as `system:anonymous`.
    pub(crate) anonymous: bool,
    pub(crate) tokens: Tokens,
}

/// The client certificate of a TLS handshake.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum ClientCertificate {
    #[default]
    Absent,
    /// Not signed by the server's authority, expired, or unreadable.
    Invalid,
    Valid(User),
}

impl Authenticator {
    /// Returns the user, or a 401. Tokens that are not in the list may have been issued by the server since.
    pub(crate) fn authenticate(
        &self,
        authorization: Option<&HeaderValue>,
        certificate: &ClientCertificate,
        handed_out: impl FnOnce(&[u8]) -> Option<User>,
    ) -> Result<User, Box<Status>> {
        if self.open {
            return Ok(authenticated(admin()));
        }
        if let ClientCertificate::Valid(user) = certificate {
            return Ok(authenticated(user.clone()));
        }
        let token = authorization.and_then(bearer);
        match token.map(|token| self.tokens.find(token).cloned().or_else(|| handed_out(token))) {
            Some(Some(user)) => Ok(authenticated(user)),
            // Wrong credentials never count as absent.
            Some(None) => Err(Box::new(Status::unauthorized())),
            None if *certificate == ClientCertificate::Invalid => Err(Box::new(Status::unauthorized())),
            None if self.anonymous => Ok(anonymous()),
            None => Err(Box::new(Status::unauthorized())),
        }
    }
}

/// Adds the group of all authenticated users.
pub(crate) fn authenticated(mut user: User) -> User {
    const GROUP: &str = "system:authenticated";
    if !user.groups.iter().any(|group| group == GROUP) {
        user.groups.push(GROUP.into());
    }
    user
}

/// Returns the token of an `Authorization` header, if it has one.
pub(crate) fn bearer(value: &HeaderValue) -> Option<&[u8]> {
    let (scheme, token) = value.as_bytes().split_at_checked(7)?;
    let token = token.trim_ascii();
    (scheme.eq_ignore_ascii_case(b"bearer ") && !token.is_empty()).then_some(token)
}

/// Static tokens and their users. Only hashes are stored, and `Debug` omits even those.
#[derive(Clone, Default)]
pub(crate) struct Tokens(Vec<([u8; 32], User)>);

impl Tokens {
    pub(crate) fn add(&mut self, token: &str, user: User) {
        self.0.push((Sha256::digest(token).into(), user));
    }

    /// Returns the user of a token in constant time, found or not.
    pub(crate) fn find(&self, token: &[u8]) -> Option<&User> {
        let digest: [u8; 32] = Sha256::digest(token).into();
        let mut found = None;
        for (known, user) in &self.0 {
            if bool::from(known.ct_eq(&digest)) {
                found = Some(user);
            }
        }
        found
    }
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tokens({}, [redacted])", self.0.len())
    }
}
