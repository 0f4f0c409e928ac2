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
    user.map(|effective| (effective.user, headers.len()))
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

/// Impersonates a user on a get of a pod. Returns what was asked of the authorizer, which allows what `allows` does.
fn asked(
    requester: &User,
    wanted: &'static str,
    allows: impl Fn(&AccessAttributes<'_>) -> bool,
) -> (Result<EffectiveUser, Box<Status>>, Vec<String>) {
    let mut headers = HeaderMap::new();
    headers.insert("impersonate-user", http::HeaderValue::from_static(wanted));
    let uri = http::Uri::from_static("/api/v1/namespaces/default/pods/x");
    let info = RequestInfo::of(&http::Method::GET, &uri, &headers);
    let request = ImpersonatingRequest { info: &info, query: None, version: ServerVersion::default() };
    let questions = std::cell::RefCell::new(Vec::new());
    let effective = request.effective_user(requester.clone(), &mut headers, &|access| {
        if let AccessTarget::Resource(target) = access.target {
            let question = format!("{} {}.{} {:?}", access.verb, target.resource, target.group, target.name);
            questions.borrow_mut().push(question);
        }
        if allows(access) { AccessDecision::UNLIMITED } else { AccessDecision::UNKNOWN }
    });
    (effective, questions.into_inner())
}

#[test]
fn rba_014_an_account_may_act_as_the_node_of_its_pod() {
    let mut account = user("system:serviceaccount:kube-system:agent", &[]);
    account.extra.insert(NODE_NAME.into(), vec!["n1".into()]);
    let own = |access: &AccessAttributes<'_>| access.verb.contains("associated-node");
    let (effective, questions) = asked(&account, "system:node:n1", own);
    let effective = effective.unwrap();
    assert_eq!(effective.user, user("system:node:n1", &["system:nodes", "system:authenticated"]));
    assert_eq!(effective.constraint.as_deref(), Some("impersonate:associated-node"));
    let expected = [
        r#"impersonate-on:associated-node:get pods. "x""#,
        r#"impersonate:associated-node nodes.authentication.k8s.io "*""#,
    ];
    assert_eq!(questions, expected);
    let (effective, questions) = asked(&account, "system:node:n2", own);
    assert!(effective.is_err());
    assert!(!questions.iter().any(|question| question.contains("associated-node")), "{questions:?}");
}

#[test]
fn rba_014_the_classic_mode_is_tried_last_and_leaves_no_constraint() {
    let (effective, questions) = asked(&user("joe", &[]), "ann", |access| access.verb == "impersonate");
    assert_eq!(effective.unwrap().constraint, None);
    assert_eq!(questions, [r#"impersonate-on:user-info:get pods. "x""#, r#"impersonate users. "ann""#]);
}
