use super::*;
use crate::listener::auth::admin;

fn acting(pairs: &[(&'static str, &'static str)]) -> Result<(User, usize), Box<Status>> {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        headers.append(*name, value.parse().unwrap());
    }
    headers.insert("accept", "*/*".parse().unwrap());
    let uri = http::Uri::from_static("/api/v1/namespaces/default/pods/x");
    let info = RequestInfo::of(&http::Method::GET, &uri, &headers);
    let request = ImpersonatingRequest { info: &info, query: None, version: ServerVersion::default() };
    let user = request.effective_user(admin(), &mut headers, &|_| AccessDecision::UNLIMITED);
    user.map(|user| (user, headers.len()))
}

fn user(name: &str, groups: &[&str]) -> User {
    User { name: name.into(), groups: groups.iter().map(|group| (*group).into()).collect(), ..User::default() }
}

#[test]
fn aut_6_the_headers_name_another_user_and_are_removed() {
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
fn aut_6_implicit_groups() {
    let account = "system:serviceaccount:ns:robot";
    let groups = ["system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated"];
    assert_eq!(acting(&[("impersonate-user", account)]).unwrap().0, user(account, &groups));
    let named = acting(&[("impersonate-user", account), ("impersonate-group", "a")]).unwrap().0;
    assert_eq!(named, user(account, &["a", "system:authenticated"]));
    let anonymous = acting(&[("impersonate-user", "system:anonymous")]).unwrap().0;
    assert_eq!(anonymous, user("system:anonymous", &["system:unauthenticated"]));
    let anonymous = acting(&[("impersonate-user", "joe"), ("impersonate-group", UNAUTHENTICATED)]).unwrap().0;
    assert_eq!(anonymous, user("joe", &[UNAUTHENTICATED]));
}

#[test]
fn aut_6_unauthenticated_is_explicit() {
    let status = acting(&[("impersonate-group", "a"), ("impersonate-uid", "7")]).unwrap_err();
    assert_eq!(status.code, 400);
    let expected = "requested &user.DefaultInfo{Name:\"\", UID:\"7\", Groups:[]string{\"a\"}, \
                    Extra:map[string][]string(nil)} without impersonating a user name";
    assert_eq!(status.message, expected);
}
