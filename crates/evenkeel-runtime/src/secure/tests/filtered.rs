//! The filter with a scripted reviewer, in paused time.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use evenkeel_apiserver::{Action, ApiServer, Rule, User};
use http::request::Parts;
use http::{Method, Request, StatusCode};
use k8s_openapi::api::authentication::v1::{TokenReviewSpec, TokenReviewStatus, UserInfo};
use k8s_openapi::api::authorization::v1::{SubjectAccessReviewSpec, SubjectAccessReviewStatus};
use tokio::time::{Instant, advance, sleep};

use crate::secure::filter::{AccessFilter, Refusal};
use crate::secure::reviewer::{ReviewError, ReviewFuture, Reviewer, with_retries};
use crate::secure::verdicts::{CAPACITY, VerdictCache};

/// Knows the tokens `good` and `weak`; the latter has no rights. `odd` makes its authenticator fail.
#[derive(Clone, Default)]
struct Scripted(Arc<Script>);

#[derive(Default)]
struct Script {
    is_away: AtomicBool,
    delay: Mutex<Duration>,
    tokens: AtomicUsize,
    accesses: Mutex<Vec<SubjectAccessReviewSpec>>,
    /// The audiences that were requested last.
    requested: Mutex<Option<Vec<String>>>,
}

impl Scripted {
    fn filter(&self) -> AccessFilter {
        self.filter_for(&[])
    }

    fn filter_for(&self, audiences: &[&str]) -> AccessFilter {
        let audiences = audiences.iter().map(|&audience| audience.to_owned()).collect();
        AccessFilter::new(Box::new(self.clone()), audiences, &[7; 64])
    }

    fn reviews(&self) -> (usize, usize) {
        (self.0.tokens.load(Ordering::Relaxed), self.0.accesses.lock().unwrap().len())
    }

    async fn respond<T>(&self, status: T) -> Result<T, ReviewError> {
        let delay = *self.0.delay.lock().unwrap();
        sleep(delay).await;
        if self.0.is_away.load(Ordering::Relaxed) { Err(ReviewError::TooSlow) } else { Ok(status) }
    }
}

impl Reviewer for Scripted {
    fn review_token(&self, spec: TokenReviewSpec) -> ReviewFuture<'_, TokenReviewStatus> {
        self.0.tokens.fetch_add(1, Ordering::Relaxed);
        self.0.requested.lock().unwrap().clone_from(&spec.audiences);
        let is_known = matches!(&*spec.token, "good" | "weak");
        let user = UserInfo {
            username: Some(spec.token.clone()),
            uid: Some("u-1".to_owned()),
            groups: Some(vec!["ops".to_owned()]),
            extra: Some(BTreeMap::from([("scope".to_owned(), vec!["all".to_owned()])])),
        };
        let status = TokenReviewStatus {
            audiences: Some(vec!["api".to_owned()]),
            authenticated: Some(is_known),
            error: (spec.token == "odd").then(|| "the authenticator is broken".to_owned()),
            user: Some(if is_known { user } else { UserInfo::default() }),
        };
        Box::pin(self.respond(status))
    }

    fn review_access(&self, spec: SubjectAccessReviewSpec) -> ReviewFuture<'_, SubjectAccessReviewStatus> {
        let allowed = spec.user.as_deref() == Some("good");
        self.0.accesses.lock().unwrap().push(spec);
        Box::pin(self.respond(SubjectAccessReviewStatus { allowed, ..SubjectAccessReviewStatus::default() }))
    }
}

fn request(method: Method, path: &str, authorization: Option<&str>) -> Parts {
    let mut request = Request::builder().method(method).uri(path);
    if let Some(authorization) = authorization {
        request = request.header("authorization", authorization);
    }
    request.body(()).unwrap().into_parts().0
}

async fn scrape(filter: &AccessFilter, token: &str) -> u16 {
    let request = request(Method::GET, "/metrics", Some(&format!("Bearer {token}")));
    match filter.admit(&request).await {
        Ok(()) => 200,
        Err(refusal) => refusal.into_response().status().as_u16(),
    }
}

#[tokio::test(start_paused = true)]
async fn sme_005_without_a_bearer_token_a_request_is_unauthorized() {
    let reviewer = Scripted::default();
    let filter = reviewer.filter();
    for authorization in [None, Some(""), Some("good"), Some("Basic good"), Some("Bearer"), Some("Bearer   ")] {
        let refused = filter.admit(&request(Method::GET, "/metrics", authorization)).await;
        assert_eq!(refused, Err(Refusal::Unauthorized), "{authorization:?}");
    }
    assert_eq!(reviewer.reviews(), (0, 0));
    assert_eq!(filter.admit(&request(Method::GET, "/metrics", Some("bearer good"))).await, Ok(()));
}

#[tokio::test(start_paused = true)]
async fn sme_006_an_invalid_token_is_401_and_an_absent_server_503() {
    let reviewer = Scripted::default();
    let filter = reviewer.filter();
    let bad = filter.admit(&request(Method::GET, "/metrics", Some("Bearer bad"))).await.unwrap_err().into_response();
    assert_eq!(bad.status(), StatusCode::UNAUTHORIZED);
    assert_eq!(bad.headers()["www-authenticate"], "Bearer");
    reviewer.0.is_away.store(true, Ordering::Relaxed);
    assert_eq!(scrape(&filter, "good").await, 503);
}

#[tokio::test(start_paused = true)]
async fn sme_007_rights_are_those_of_the_user_for_path_and_verb() {
    let reviewer = Scripted::default();
    let filter = reviewer.filter();
    let post = request(Method::POST, "/debug/queues?key=a", Some("Bearer weak"));
    assert_eq!(filter.admit(&post).await, Err(Refusal::Denied { user: "weak".to_owned() }));
    let spec = reviewer.0.accesses.lock().unwrap()[0].clone();
    let attributes = spec.non_resource_attributes.unwrap();
    assert_eq!((attributes.path.as_deref(), attributes.verb.as_deref()), (Some("/debug/queues"), Some("post")));
    assert_eq!((spec.user.as_deref(), spec.uid.as_deref()), (Some("weak"), Some("u-1")));
    assert_eq!(spec.groups.unwrap(), ["ops"]);
    assert_eq!(spec.extra.unwrap()["scope"], ["all"]);
    assert!(spec.resource_attributes.is_none());
    // A right for one path is none for another.
    assert_eq!(filter.admit(&request(Method::GET, "/metrics", Some("Bearer good"))).await, Ok(()));
    assert_eq!(filter.admit(&request(Method::GET, "/debug", Some("Bearer good"))).await, Ok(()));
    assert_eq!(reviewer.reviews(), (2, 3));
    // The user is known, and the server is away.
    reviewer.0.is_away.store(true, Ordering::Relaxed);
    let refusal = filter.admit(&request(Method::GET, "/other", Some("Bearer good"))).await.unwrap_err();
    assert_eq!(refusal, Refusal::NotAuthorized { user: "good".to_owned() });
    assert_eq!(refusal.into_response().status(), StatusCode::SERVICE_UNAVAILABLE);
}

#[tokio::test(start_paused = true)]
async fn sme_008_verdicts_count_for_their_time() {
    let reviewer = Scripted::default();
    let filter = reviewer.filter();
    for _ in 0..3 {
        assert_eq!(scrape(&filter, "good").await, 200);
        assert_eq!(scrape(&filter, "bad").await, 401);
    }
    assert_eq!(reviewer.reviews(), (2, 1), "good and bad tokens are remembered");
    advance(Duration::from_secs(60)).await;
    assert_eq!(scrape(&filter, "good").await, 200);
    assert_eq!(reviewer.reviews(), (3, 1), "a token for a minute, a permission for longer");
    advance(Duration::from_secs(239)).await;
    scrape(&filter, "good").await;
    assert_eq!(reviewer.reviews().1, 1);
    advance(Duration::from_secs(1)).await;
    scrape(&filter, "good").await;
    assert_eq!(reviewer.reviews().1, 2, "a permission for five minutes");
    scrape(&filter, "weak").await;
    advance(Duration::from_millis(29_999)).await;
    assert_eq!(scrape(&filter, "weak").await, 403);
    assert_eq!(reviewer.reviews().1, 3);
    advance(Duration::from_millis(1)).await;
    assert_eq!(scrape(&filter, "weak").await, 403);
    assert_eq!(reviewer.reviews().1, 4, "a refusal for 30 seconds");
    let before = reviewer.reviews().0;
    assert_eq!(scrape(&filter, "odd").await, 401);
    assert_eq!(scrape(&filter, "odd").await, 401);
    assert_eq!(reviewer.reviews().0, before + 2, "an error is not remembered");
}

#[tokio::test(start_paused = true)]
async fn sme_008_requests_with_one_token_share_a_review_and_survive_its_caller() {
    let reviewer = Scripted::default();
    *reviewer.0.delay.lock().unwrap() = Duration::from_secs(1);
    let filter = Arc::new(reviewer.filter());
    let spawn = || {
        let filter = Arc::clone(&filter);
        tokio::spawn(async move { scrape(&filter, "good").await })
    };
    let first = spawn();
    tokio::task::yield_now().await;
    let others: Vec<_> = (0..99).map(|_| spawn()).collect();
    sleep(Duration::from_millis(500)).await;
    assert_eq!(reviewer.reviews(), (1, 0));
    // The client that caused the review disconnects: the next one that waits sends its own.
    first.abort();
    for other in others {
        assert_eq!(other.await.unwrap(), 200);
    }
    assert_eq!(reviewer.reviews(), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn sme_010_it_fails_closed_when_verdicts_are_over() {
    let reviewer = Scripted::default();
    let filter = reviewer.filter();
    assert_eq!(scrape(&filter, "good").await, 200);
    reviewer.0.is_away.store(true, Ordering::Relaxed);
    advance(Duration::from_secs(59)).await;
    assert_eq!(scrape(&filter, "good").await, 200);
    advance(Duration::from_secs(1)).await;
    assert_eq!(scrape(&filter, "good").await, 503);
    reviewer.0.is_away.store(false, Ordering::Relaxed);
    assert_eq!(scrape(&filter, "good").await, 200, "a failure is not remembered");
}

#[tokio::test(start_paused = true)]
async fn sme_010_a_cache_holds_1024_verdicts() {
    let mut cache = VerdictCache::new();
    let now = Instant::now();
    let key = |number: usize| {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&number.to_le_bytes());
        key
    };
    for number in 0..=CAPACITY.get() {
        cache.insert(key(number), number, now + Duration::from_secs(1));
    }
    let kept = (0..=CAPACITY.get()).filter(|&number| cache.get(&key(number), now).is_some()).count();
    assert_eq!(kept, 1024);
    assert_eq!(cache.get(&key(0), now), None, "the oldest was replaced");
    assert_eq!(cache.get(&key(1), now + Duration::from_secs(1)), None);
}

#[tokio::test(start_paused = true)]
async fn sme_014_a_token_for_another_audience_is_unauthorized() {
    let reviewer = Scripted::default();
    assert_eq!(scrape(&reviewer.filter_for(&["metrics"]), "good").await, 401);
    assert_eq!(*reviewer.0.requested.lock().unwrap(), Some(vec!["metrics".to_owned()]));
    assert_eq!(scrape(&reviewer.filter_for(&["metrics", "api"]), "good").await, 200);
    assert_eq!(scrape(&reviewer.filter(), "good").await, 200);
    assert_eq!(*reviewer.0.requested.lock().unwrap(), None);
}

/// Returns how many reviews a server has received.
fn received(server: &ApiServer, resource: &str) -> usize {
    server.requests().iter().filter(|request| request.path.contains(&format!("/{resource}"))).count()
}

#[tokio::test(start_paused = true)]
async fn sme_009_a_review_has_five_attempts_within_ten_seconds() {
    let server = ApiServer::builder().in_process_only().start().await.unwrap();
    let client = server.client();
    let review = || client.review_token(TokenReviewSpec { audiences: None, token: "x".to_owned() });
    for (code, attempts) in [(500, 5), (504, 5), (429, 5), (403, 1)] {
        let before = received(&server, "tokenreviews");
        server.faults().fail_next(9, code, None);
        let begun = Instant::now();
        let error = review().await.unwrap_err();
        assert!(matches!(error, ReviewError::Client(_)), "{error}");
        assert_eq!(received(&server, "tokenreviews") - before, attempts, "{code}");
        if code == 500 {
            // 0.5 + 0.75 + 1.125 + 1.6875 s, each with up to a fifth more.
            let waited = begun.elapsed();
            assert!(waited >= Duration::from_millis(4062) && waited <= Duration::from_millis(4900), "{waited:?}");
        }
        server.faults().clear();
    }
    server.faults().add(Rule::new(Action::Drop).times(4));
    assert_ne!(review().await.unwrap().authenticated, Some(true), "the fifth attempt succeeds");
    let begun = Instant::now();
    let stuck = with_retries::<(), _>(std::future::pending).await.unwrap_err();
    assert!(matches!(stuck, ReviewError::TooSlow), "{stuck}");
    assert_eq!(begun.elapsed().as_secs(), 10);
}

#[tokio::test(start_paused = true)]
async fn ohc_014_scrapes_with_and_without_rights_and_with_the_api_server_away() {
    let user = |name: &str| User { name: name.to_owned(), ..User::default() };
    // The embedded server denies only anonymous users.
    let tokens = [("good".to_owned(), user("scraper")), ("weak".to_owned(), user("system:anonymous"))];
    let server = ApiServer::builder().in_process_only().tokens(tokens).start().await.unwrap();
    let filter = Arc::new(AccessFilter::new(Box::new(server.client()), Vec::new(), &[7; 64]));
    let anonymous = filter.admit(&request(Method::GET, "/metrics", None)).await;
    assert_eq!(anonymous, Err(Refusal::Unauthorized));
    assert_eq!(scrape(&filter, "garbage").await, 401);
    assert_eq!(scrape(&filter, "weak").await, 403);
    let before = received(&server, "tokenreviews");
    let scrapes: Vec<_> = (0..100)
        .map(|_| {
            let filter = Arc::clone(&filter);
            tokio::spawn(async move { scrape(&filter, "good").await })
        })
        .collect();
    for scrape in scrapes {
        assert_eq!(scrape.await.unwrap(), 200);
    }
    assert_eq!(received(&server, "tokenreviews") - before, 1);
    server.faults().add(Rule::new(Action::Drop));
    assert_eq!(scrape(&filter, "good").await, 200, "from the cache");
    advance(Duration::from_secs(60)).await;
    assert_eq!(scrape(&filter, "good").await, 503);
}

#[tokio::test(start_paused = true)]
async fn sme_011_the_program_needs_to_create_two_reviews() {
    let server = ApiServer::builder()
        .in_process_only()
        .tokens([("good".to_owned(), User { name: "scraper".to_owned(), ..User::default() })])
        .start()
        .await
        .unwrap();
    let filter = AccessFilter::new(Box::new(server.client()), Vec::new(), &[7; 64]);
    assert_eq!(scrape(&filter, "good").await, 200);
    let requests = server.requests();
    let sent: Vec<_> = requests.iter().map(|request| (request.method.as_str(), request.path.as_str())).collect();
    let expected = [
        ("POST", "/apis/authentication.k8s.io/v1/tokenreviews"),
        ("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews"),
    ];
    assert_eq!(sent, expected);
}
