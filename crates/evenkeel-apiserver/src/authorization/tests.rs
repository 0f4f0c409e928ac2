use http::{HeaderMap, Method, Uri};
use proptest::prelude::*;

use super::*;
use crate::registry::Registry;
use crate::route::{self, Route};

#[test]
fn rba_001_texts_are_quoted_as_go_does() {
    assert_eq!(GoQuoted("a\"b\\c\n\u{1}\u{7f}é").to_string(), r#""a\"b\\c\n\x01\x7fé""#);
    assert_eq!(GoQuotedList(&["a", "b c"]).to_string(), r#"["a" "b c"]"#);
    assert_eq!(GoQuotedList::<&str>(&[]).to_string(), "[]");
}

#[test]
fn rba_004_the_name_of_a_list_is_that_of_its_selector() {
    let name = |query: &str| selected_name(Some(query)).unwrap_or_default();
    assert_eq!(name("fieldSelector=metadata.name%3Dx"), "x");
    assert_eq!(name("limit=1&fieldSelector=status.phase=Running,metadata.name==x"), "x");
    assert_eq!(name("f%69eldSelector=metadata.name=x"), "x");
    assert_eq!(name("fieldSelector=metadata.name!=x"), "");
    assert_eq!(name("fieldSelector=&fieldSelector=metadata.name=x"), "", "the first one counts");
    assert_eq!(name("fieldSelector=metadata.name=a/b"), "", "no name of an object");
    assert_eq!(name("fieldSelector=a=b=c"), "");
}

fn segment() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "api",
        "apis",
        "v1",
        "apps",
        "namespaces",
        "default",
        "pods",
        "deployments",
        "status",
        "finalize",
        "log",
        "exec",
        "proxy",
        "scale",
        "watch",
        "x",
        "%78",
        "p%6Fds",
        "a%2Fb",
        "",
        "nodes",
        "binding",
    ])
}

fn path() -> impl Strategy<Value = String> {
    let free = prop::collection::vec(segment(), 0..7).prop_map(|segments| format!("/{}", segments.join("/")));
    let root = prop::sample::select(vec!["/api/v1", "/apis/apps/v1"]);
    let likely = (root, prop::collection::vec(segment(), 0..6))
        .prop_map(|(root, segments)| format!("{root}/{}", segments.join("/")));
    prop_oneof![1 => free, 3 => likely]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    /// Authorization reads the path, and so does the router. What they read must be the same.
    #[test]
    fn rba_001_the_router_serves_what_was_authorized(
        path in path(),
        method in prop::sample::select(vec![Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE]),
        query in prop::sample::select(vec!["", "?watch=true", "?watch=0", "?w%61tch=1", "?fieldSelector=metadata.name=x"]),
    ) {
        let Ok(uri) = format!("{path}{query}").parse::<Uri>() else { return Ok(()) };
        let query = Query::parse(uri.query());
        let Ok(route) = route::route(&Registry::builtin(), &method, uri.path(), &query) else { return Ok(()) };
        let headers = HeaderMap::new();
        let info = RequestInfo::of(&method, &uri, &headers);
        let attributes = RequestAttributes::new(&info, uri.query());
        let user = User::default();
        let access = attributes.access_of(&user);
        match (route, access.target) {
            (Route::Resource(route), AccessTarget::Resource(target)) => {
                let resource = &route.resource;
                prop_assert_eq!(access.verb, route.verb.as_str());
                prop_assert_eq!((target.group, target.resource), (&*resource.group, &*resource.plural));
                prop_assert_eq!(target.subresource, route.subresource.as_deref().unwrap_or_default());
                match route.name.as_deref() {
                    Some(name) => prop_assert_eq!(target.name, name),
                    None => prop_assert!(matches!(target.name, "" | "x")),
                }
                // A namespace is in itself.
                let own = if resource.plural == "namespaces" { route.name.as_deref() } else { None };
                prop_assert_eq!(target.namespace, route.namespace.as_deref().or(own).unwrap_or_default());
            }
            (Route::Resource(route), AccessTarget::Path(path)) => {
                prop_assert!(false, "{path} is authorized as a path and routed to {}", route.resource.plural);
            }
            (_, AccessTarget::Resource(target)) => {
                prop_assert!(false, "a document is authorized as {target:?}");
            }
            (_, AccessTarget::Path(_)) => {}
        }
    }
}
