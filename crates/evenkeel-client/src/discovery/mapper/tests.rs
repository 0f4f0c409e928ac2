use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use super::*;
use crate::discovery::testing::{Fake, group, resource};

fn groups(kinds: &[(&str, &str)]) -> Value {
    let resources = kinds.iter().map(|(plural, kind)| resource(plural, kind)).collect();
    json!([group("g", &[("v1", resources)])])
}

fn server() -> Fake {
    let fake = Fake::default();
    fake.aggregated("/api", &json!([group("", &[("v1", vec![resource("pods", "Pod")])])]));
    fake.aggregated("/apis", &groups(&[("foos", "Foo")]));
    fake
}

#[tokio::test(start_paused = true)]
async fn map_006_an_unknown_name_runs_discovery_at_most_every_ten_seconds() {
    // Better than client-go, whose mapper over a cache in memory never finds new resources.
    let fake = server();
    let mapper = RestMapper::new(fake.client().discovery().cached());
    assert!(fake.requests().is_empty(), "nothing is requests before the first question");
    mapper.mapping("g", "Foo", &[]).await.unwrap();
    mapper.resource_for("foos").await.unwrap();
    assert_eq!(fake.requests().len(), 2);

    fake.aggregated("/apis", &groups(&[("foos", "Foo"), ("bars", "Bar")]));
    assert_eq!(mapper.mapping("g", "Bar", &[]).await.unwrap().plural(), "bars");
    assert_eq!(fake.requests().len(), 2);

    for _ in 0..20 {
        assert!(mapper.resource_for("widgets").await.unwrap_err().is_not_found());
    }
    assert!(fake.requests().is_empty(), "it has just been requests");
    tokio::time::advance(REFRESH_INTERVAL).await;
    for _ in 0..20 {
        assert!(mapper.resource_for("widgets").await.unwrap_err().is_not_found());
    }
    assert_eq!(fake.requests().len(), 2);
}

#[tokio::test]
async fn map_006_a_fresh_result_is_not_fetched_again() {
    let fake = server();
    let mapper = RestMapper::new(fake.client().discovery().cached());
    assert!(mapper.resource_for("widgets").await.is_err());
    assert_eq!(fake.requests().len(), 2);
}

#[tokio::test]
async fn map_006_concurrent_misses_share_one_refresh() {
    let fake = server();
    let mapper = RestMapper::new(fake.client().discovery().cached());
    mapper.resource_for("foos").await.unwrap();
    fake.aggregated("/apis", &groups(&[("bars", "Bar")]));
    fake.requests();
    let tasks: Vec<_> = (0..50)
        .map(|_| {
            let mapper = mapper.clone();
            tokio::spawn(async move { mapper.resolve("bars").await })
        })
        .collect();
    for task in tasks {
        assert_eq!(task.await.unwrap().unwrap().kind(), "Bar");
    }
    assert_eq!(fake.requests().len(), 2);
}

#[tokio::test]
async fn an_unavailable_server_is_no_proof_of_absence() {
    let fake = server();
    let mapper = RestMapper::new(fake.client().discovery().cached());
    mapper.resource_for("foos").await.unwrap();
    fake.fail("/apis", 503);
    assert!(mapper.resource_for("bars").await.unwrap_err().is_transient());
    assert_eq!(mapper.resource_for("foos").await.unwrap().kind(), "Foo", "what is known is still known");
    fake.aggregated("/apis", &groups(&[("bars", "Bar")]));
    assert_eq!(mapper.resource_for("bars").await.unwrap().kind(), "Bar");
}

#[tokio::test]
async fn map_007_a_partial_result_is_mapped() {
    let fake = server();
    let mut half = groups(&[("foos", "Foo")]);
    half[0]["versions"] = json!([{"version": "v2", "freshness": "Stale"}, half[0]["versions"][0]]);
    fake.aggregated("/apis", &half);
    let mapper = RestMapper::new(fake.client().discovery().cached());
    assert_eq!(mapper.mapping("g", "Foo", &[]).await.unwrap().version(), "v1");
}

#[tokio::test]
async fn map_008_an_ambiguous_short_name_is_warned_about_once() {
    let fake = server();
    let short = |plural, kind| {
        let mut resource = resource(plural, kind);
        resource["shortNames"] = json!(["f"]);
        resource
    };
    let (a, b) = (group("a", &[("v1", vec![short("foos", "Foo")])]), group("b", &[("v1", vec![short("fees", "Fee")])]));
    fake.aggregated("/apis", &json!([a, b]));
    let warnings = Arc::new(Mutex::new(Vec::new()));
    let mapper = RestMapper::with_warnings(fake.client().discovery().cached(), {
        let warnings = Arc::clone(&warnings);
        move |warning| warnings.lock().unwrap().push(warning.to_owned())
    });
    for _ in 0..3 {
        assert_eq!(mapper.resource_for("f").await.unwrap().plural(), "foos");
        assert_eq!(mapper.resolve("f").await.unwrap().plural(), "foos");
        mapper.kinds_for("f").await.unwrap();
    }
    assert_eq!(*warnings.lock().unwrap(), ["the short name f is resolved to foos.a; it could also match fees.b"]);
}

#[tokio::test]
async fn map_009_a_short_name_that_appears_later_is_found() {
    let fake = server();
    let mapper = RestMapper::new(fake.client().discovery().cached());
    mapper.resource_for("foos").await.unwrap();
    let mut bars = resource("bars", "Bar");
    bars["shortNames"] = json!(["b"]);
    fake.aggregated("/apis", &json!([group("g", &[("v1", vec![bars])])]));
    assert_eq!(mapper.kind_for("b").await.unwrap(), GroupVersionKind::gvk("g", "v1", "Bar"));
}

#[tokio::test]
async fn a_reset_runs_discovery_again_and_the_table_is_built_once() {
    let fake = server();
    let mapper = RestMapper::new(fake.client().discovery().cached());
    let first = mapper.resource_for("foos").await.unwrap();
    assert!(
        Arc::ptr_eq(&first, &mapper.mapping("g", "Foo", &["v1"]).await.unwrap()),
        "everybody shares one description"
    );
    fake.aggregated("/apis", &groups(&[]));
    mapper.reset();
    assert!(mapper.resource_for("foos").await.is_err());
    assert_eq!(fake.requests().len(), 4);
    assert_eq!(mapper.expand("all").await.unwrap(), None);
}

#[test]
fn warnings_have_a_bound() {
    let count = Arc::new(AtomicUsize::new(0));
    let mapper = RestMapper::with_warnings(server().client().discovery().cached(), {
        let count = Arc::clone(&count);
        move |_| {
            count.fetch_add(1, Ordering::Relaxed);
        }
    });
    for number in 0..2 * MAX_WARNED {
        mapper.warn_once(format!("{number}"));
    }
    assert_eq!(count.load(Ordering::Relaxed), MAX_WARNED);
}

#[tokio::test]
async fn map_005_the_mapper_returns_all_mappings_and_singulars() {
    let fake = server();
    let mapper = RestMapper::new(fake.client().discovery().cached());
    assert_eq!(mapper.mappings("g", "Foo", &[]).await.unwrap().len(), 1);
    assert_eq!(mapper.singular("foos").await.unwrap(), "foo");
    fake.requests();
    assert_eq!(mapper.singular("bars").await.unwrap(), "bars");
    assert!(fake.requests().is_empty(), "an unknown name does not run discovery again");
}
