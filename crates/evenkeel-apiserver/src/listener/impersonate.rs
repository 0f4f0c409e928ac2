//! Impersonation (AUT-6). Every authenticated user has all permissions on this server, so also this one. Requests without
//! credentials do not have it.

use evenkeel_core::Status;
use http::{HeaderMap, HeaderName};

use super::auth::{ANONYMOUS, UNAUTHENTICATED, authenticated};
use crate::engine::is_authorized;
use crate::http_types::User;
use crate::query::percent_decode;

const USER: HeaderName = HeaderName::from_static("impersonate-user");
const GROUP: HeaderName = HeaderName::from_static("impersonate-group");
const UID: HeaderName = HeaderName::from_static("impersonate-uid");
const EXTRA: &str = "impersonate-extra-";

/// Returns the effective user: the user that its headers name, else the authenticated one. Removes the headers.
pub(crate) fn impersonate(user: User, headers: &mut HeaderMap) -> Result<User, Box<Status>> {
    if !headers.keys().any(|name| name.as_str().starts_with("impersonate-")) {
        return Ok(user);
    }
    let mut other = User::default();
    let mut wanted = Vec::new();
    for (name, value) in &*headers {
        let Ok(text) = value.to_str().map(str::to_owned) else { continue };
        if name == USER {
            other.name = text;
        } else if name == GROUP {
            wanted.push(format!("group {text:?}"));
            other.groups.push(text);
        } else if name == UID {
            wanted.push(format!("uid {text:?}"));
            other.uid = text;
        } else if let Some(key) = name.as_str().strip_prefix(EXTRA) {
            let key = percent_decode(key, false).unwrap_or_else(|| key.to_owned());
            wanted.push(format!("extra {key:?}"));
            other.extra.entry(key).or_default().push(text);
        }
    }
    let names: Vec<HeaderName> =
        headers.keys().filter(|name| name.as_str().starts_with("impersonate-")).cloned().collect();
    for name in names {
        headers.remove(name);
    }
    if other.name.is_empty() {
        let why = format!("requested [{}] without impersonating a user", wanted.join(", "));
        return Err(Box::new(Status::bad_request(why)));
    }
    if !is_authorized(&user) {
        let why = format!(
            "User {:?} cannot impersonate resource \"users\" in API group \"\" at the cluster scope",
            user.name
        );
        return Err(Box::new(Status::forbidden("", "users", &other.name, why)));
    }
    Ok(with_groups(other))
}

/// Adds the implicit groups.
fn with_groups(mut user: User) -> User {
    if user.groups.is_empty()
        && let Some((namespace, _)) =
            user.name.strip_prefix("system:serviceaccount:").and_then(|account| account.split_once(':'))
    {
        user.groups = vec!["system:serviceaccounts".into(), format!("system:serviceaccounts:{namespace}")];
    }
    if user.groups.iter().any(|group| group == UNAUTHENTICATED) {
        return user;
    }
    if user.name == ANONYMOUS {
        user.groups.push(UNAUTHENTICATED.into());
        return user;
    }
    authenticated(user)
}

#[cfg(test)]
mod tests;
