//! Acting as someone else (AUT-6). This server allows everything to everyone who is let in, and so this too.

use evenkeel_core::Status;
use http::{HeaderMap, HeaderName};

use super::auth::authenticated;
use crate::exchange::User;
use crate::query::percent_decode;

const USER: HeaderName = HeaderName::from_static("impersonate-user");
const GROUP: HeaderName = HeaderName::from_static("impersonate-group");
const UID: HeaderName = HeaderName::from_static("impersonate-uid");
const EXTRA: &str = "impersonate-extra-";
const ANONYMOUS: &str = "system:anonymous";
const UNAUTHENTICATED: &str = "system:unauthenticated";

/// Whom a request is to be taken for: the one who sends it, or the one whom its headers name. The headers are taken
/// away.
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
    Ok(with_groups(other))
}

/// Adds the groups that go without saying.
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
mod tests {
    use super::*;
    use crate::front::auth::admin;

    fn acting(pairs: &[(&'static str, &'static str)]) -> Result<(User, usize), Box<Status>> {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, value.parse().unwrap());
        }
        headers.insert("accept", "*/*".parse().unwrap());
        impersonate(admin(), &mut headers).map(|user| (user, headers.len()))
    }

    fn user(name: &str, groups: &[&str]) -> User {
        User { name: name.into(), groups: groups.iter().map(|group| (*group).into()).collect(), ..User::default() }
    }

    #[test]
    fn aut_6_the_headers_name_another_user_and_are_taken_away() {
        assert_eq!(acting(&[]).unwrap(), (admin(), 1));
        assert_eq!(acting(&[("impersonate-user", "joe")]).unwrap(), (user("joe", &["system:authenticated"]), 1));
        let (full, left) = acting(&[
            ("impersonate-user", "joe"),
            ("impersonate-group", "a"),
            ("impersonate-group", "b"),
            ("impersonate-uid", "7"),
            ("impersonate-extra-example.com%2fteam", "blue"),
            ("impersonate-extra-example.com%2fteam", "red"),
        ])
        .unwrap();
        let mut expected = user("joe", &["a", "b", "system:authenticated"]);
        expected.uid = "7".into();
        expected.extra.insert("example.com/team".into(), vec!["blue".into(), "red".into()]);
        assert_eq!((full, left), (expected, 1));
    }

    #[test]
    fn aut_6_groups_that_go_without_saying() {
        let account = "system:serviceaccount:ns:robot";
        let groups = ["system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated"];
        assert_eq!(acting(&[("impersonate-user", account)]).unwrap().0, user(account, &groups));
        let named = acting(&[("impersonate-user", account), ("impersonate-group", "a")]).unwrap().0;
        assert_eq!(named, user(account, &["a", "system:authenticated"]));
        let anonymous = acting(&[("impersonate-user", "system:anonymous")]).unwrap().0;
        assert_eq!(anonymous, user("system:anonymous", &["system:unauthenticated"]));
        let nobody = acting(&[("impersonate-user", "joe"), ("impersonate-group", UNAUTHENTICATED)]).unwrap().0;
        assert_eq!(nobody, user("joe", &[UNAUTHENTICATED]));
    }

    #[test]
    fn aut_6_nobody_is_nobody() {
        let status = acting(&[("impersonate-group", "a"), ("impersonate-uid", "7")]).unwrap_err();
        assert_eq!(status.code, 400);
        assert!(status.message.starts_with("requested ["), "{}", status.message);
        assert!(status.message.ends_with(" without impersonating a user"), "{}", status.message);
    }
}
