use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use evenkeel_core::codec::{Codec, ListDecoder};
use evenkeel_core::{ResourceInfo, Status};
use futures_core::FusedStream;
use k8s_openapi::api::core::v1::Pod;

use super::*;
use crate::api::VersionMatch;
use crate::watch::testing::api_error;

/// A page as a server sends it.
fn page(names: std::ops::Range<u32>, version: &str, next: &str) -> List<Pod> {
    let items: Vec<_> = names.map(|name| format!(r#"{{"metadata":{{"name":"pod-{name}"}}}}"#)).collect();
    let json = format!(
        r#"{{"kind":"PodList","apiVersion":"v1","metadata":{{"resourceVersion":"{version}","continue":"{next}"}},"items":[{}]}}"#,
        items.join(",")
    );
    let mut decoder = ListDecoder::new(Codec::Json, Arc::new(ResourceInfo::of::<Pod>()));
    decoder.push(Bytes::from(json));
    let mut items = Vec::new();
    while let Some(item) = decoder.next_item().unwrap() {
        items.push(item);
    }
    List { items, meta: decoder.finish().unwrap() }
}

/// A server with this many pods. It rejects a version together with a token.
#[derive(Clone)]
struct Server {
    pods: u32,
    /// The page, counted from 1, whose token has expired.
    expired: Option<usize>,
    requests: Rc<RefCell<Vec<ListParams>>>,
}

impl Server {
    fn of(pods: u32) -> Self {
        Server { pods, expired: None, requests: Rc::default() }
    }

    fn expiring(pods: u32, page: usize) -> Self {
        Server { expired: Some(page), ..Server::of(pods) }
    }

    fn respond(&self, params: ListParams) -> Result<List<Pod>, Error> {
        self.requests.borrow_mut().push(params.clone());
        if self.expired == Some(self.requests.borrow().len()) {
            return Err(api_error(Status::expired("the continue token is too old")));
        }
        if !params.continue_token.is_empty() && !params.resource_version.is_empty() {
            return Err(api_error(Status::bad_request(
                "specifying resource version is not allowed when using continue",
            )));
        }
        let start: u32 = params.continue_token.parse().unwrap_or(0);
        let end = if params.limit == 0 { self.pods } else { self.pods.min(start + params.limit) };
        let next = if end < self.pods { end.to_string() } else { String::new() };
        // Each page has another version, to show which one was kept.
        Ok(page(start..end, &format!("rv:{}", 20 + start), &next))
    }

    fn pager(&self, params: ListParams) -> Pager<Pod, Self> {
        Pager::new(self.clone(), params).page_size(10)
    }

    /// Limit, token, version and match of each request.
    fn requests(&self) -> Vec<(u32, String, String, Option<VersionMatch>)> {
        let requests = self.requests.borrow();
        requests
            .iter()
            .map(|p| (p.limit, p.continue_token.clone(), p.resource_version.clone(), p.version_match))
            .collect()
    }
}

impl PageSource<Pod> for Server {
    type Reading = std::future::Ready<Result<List<Pod>, Error>>;

    fn page(&self, params: ListParams) -> Self::Reading {
        std::future::ready(self.respond(params))
    }
}

fn request(
    limit: u32,
    token: &str,
    version: &str,
    meant: Option<VersionMatch>,
) -> (u32, String, String, Option<VersionMatch>) {
    (limit, token.into(), version.into(), meant)
}

fn names<'a>(objects: impl IntoIterator<Item = &'a evenkeel_core::Obj<Pod>>) -> Vec<String> {
    objects.into_iter().map(|object| object.key().name().to_owned()).collect()
}

fn expected(range: std::ops::Range<u32>) -> Vec<String> {
    range.map(|name| format!("pod-{name}")).collect()
}

/// The names, and the error if there was one.
async fn drain<P: PageSource<Pod>>(mut items: Items<Pod, P>) -> (Vec<String>, Option<Error>) {
    let mut names = Vec::new();
    while let Some(item) = items.next().await {
        match item {
            Ok(object) => names.push(object.key().name().to_owned()),
            Err(error) => {
                assert!(items.next().await.is_none() && items.is_terminated(), "nothing follows an error");
                return (names, Some(error));
            }
        }
    }
    (names, None)
}

#[tokio::test(start_paused = true)]
async fn pg_001_pages_have_500_objects_unless_the_params_have_a_limit() {
    let requests = Rc::new(RefCell::new(Vec::new()));
    let note = Rc::clone(&requests);
    let source = move |params: ListParams| {
        note.borrow_mut().push(params.limit);
        std::future::ready(Ok(page(0..1, "7", "")))
    };
    let pager = Pager::<Pod, _>::new(source.clone(), ListParams::default());
    assert_eq!((pager.page_size, pager.prefetch, pager.full_list_if_expired), (500, 10, true));
    pager.list().await.unwrap();
    Pager::<Pod, _>::new(source, ListParams::default().limit(3)).list().await.unwrap();
    assert_eq!(*requests.borrow(), [500, 3]);
}

#[tokio::test(start_paused = true)]
async fn pg_002_one_page_or_many_make_one_list() {
    // Better: the type is the same with and without pages.
    let one = Server::of(10).pager(ListParams::default()).list().await.unwrap();
    assert_eq!((one.paginated, one.list.items.len(), one.list.meta.resource_version.as_str()), (false, 10, "rv:20"));
    let many = Server::of(21).pager(ListParams::default()).list().await.unwrap();
    assert!(many.paginated);
    assert_eq!(names(&many.list), expected(0..21));
    let meta = &many.list.meta;
    assert_eq!((meta.resource_version.as_str(), meta.kind.as_str()), ("rv:20", "PodList"), "of the first page");
    assert_eq!((meta.continue_token.as_str(), meta.remaining_item_count), ("", None));
    assert!(Server::of(0).pager(ListParams::default()).list().await.unwrap().list.items.is_empty());
}

#[tokio::test(start_paused = true)]
async fn pg_003_the_version_is_for_the_first_page_alone() {
    let server = Server::of(21);
    let params = ListParams::default().not_older_than("rv:10").labels("app=web");
    server.pager(params).list().await.unwrap();
    let first = request(10, "", "rv:10", Some(VersionMatch::NotOlderThan));
    assert_eq!(server.requests(), [first, request(10, "10", "", None), request(10, "20", "", None)]);
    assert!(server.requests.borrow().iter().all(|params| params.label_selector == "app=web"));
}

#[tokio::test(start_paused = true)]
async fn qhc_23_pg_004_an_expired_page_falls_back_to_a_full_list() {
    let server = Server::expiring(21, 2);
    let params = ListParams::default().exactly_at("rv:10");
    let listing = server.pager(params).list().await.unwrap();
    assert!(listing.paginated);
    assert_eq!(names(&listing.list), expected(0..21));
    let exact = Some(VersionMatch::Exact);
    let requests = [request(10, "", "rv:10", exact), request(10, "10", "", None), request(0, "", "rv:10", exact)];
    assert_eq!(server.requests(), requests);
}

#[tokio::test(start_paused = true)]
async fn pg_004_without_the_fallback_or_on_the_first_page_expiry_is_an_error() {
    let server = Server::expiring(21, 2);
    let error = server.pager(ListParams::default()).full_list_if_expired(false).list().await.unwrap_err();
    assert!(error.status().unwrap().is_expired());
    assert_eq!(server.requests().len(), 2);
    let server = Server::expiring(21, 1);
    server.pager(ListParams::default()).list().await.unwrap_err();
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn pg_005_dropping_stops_between_pages() {
    let requests = Rc::new(Cell::new(0));
    let count = Rc::clone(&requests);
    let source = move |_: ListParams| {
        count.update(|requests| requests + 1);
        let token = count.get().to_string();
        async move {
            tokio::time::sleep(Duration::from_secs(1)).await;
            Ok(page(0..1, "7", &token))
        }
    };
    let pager = Pager::<Pod, _>::new(source, ListParams::default());
    let stopped = tokio::time::timeout(Duration::from_millis(2500), pager.list()).await.unwrap_err();
    assert!(crate::is_interrupted(&stopped));
    assert_eq!(requests.get(), 3);
}

#[tokio::test(start_paused = true)]
async fn pg_006_the_prefetch_is_bounded() {
    // Better: the type excludes a negative buffer.
    for prefetch in [0, 1, 3] {
        let server = Server::of(200);
        let mut items = server.pager(ListParams::default()).prefetch(prefetch).stream();
        items.next().await.unwrap().unwrap();
        assert_eq!(server.requests().len(), prefetch + 2, "pages are ready at once, so the room is full");
        for _ in 0..9 {
            items.next().await.unwrap().unwrap();
        }
        assert_eq!(server.requests().len(), prefetch + 2);
        items.next().await.unwrap().unwrap();
        items.next().await.unwrap().unwrap();
        assert_eq!(server.requests().len(), prefetch + 3, "one page was used up");
    }
}

#[tokio::test(start_paused = true)]
async fn pg_006_the_next_page_is_prefetched_while_one_is_read() {
    let server = Server::of(30);
    let own = server.clone();
    let source = move |params: ListParams| {
        let page = own.respond(params);
        async move {
            tokio::time::sleep(Duration::from_secs(1)).await;
            page
        }
    };
    let begin = tokio::time::Instant::now();
    let mut items = Pager::<Pod, _>::new(source, ListParams::default()).page_size(10).stream();
    let mut objects = 0;
    while let Some(object) = items.next().await {
        object.unwrap();
        objects += 1;
        // Ten objects take a second: as long as the next page.
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(objects, 30);
    assert!(
        begin.elapsed() < Duration::from_millis(4300),
        "{:?}; one after the other it would be 6 s",
        begin.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn pg_007_dropping_the_stream_requests_no_more_pages() {
    let server = Server::of(200);
    let mut items = server.pager(ListParams::default()).prefetch(0).stream();
    for _ in 0..5 {
        items.next().await.unwrap().unwrap();
    }
    drop(items);
    assert_eq!(server.requests().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn qhc_23_pg_008_a_stream_yields_the_received_objects_and_then_the_error() {
    let server = Server::expiring(21, 2);
    let (names, error) = drain(server.pager(ListParams::default()).stream()).await;
    assert_eq!(names, expected(0..10));
    assert!(error.unwrap().status().unwrap().is_expired());
    assert_eq!(server.requests().len(), 2, "no fallback");
}

#[tokio::test(start_paused = true)]
async fn pg_008_a_stream_falls_back_on_no_page() {
    for page in 1..=3 {
        let server = Server::expiring(21, page);
        let (names, error) = drain(server.pager(ListParams::default()).stream()).await;
        assert_eq!(names.len(), (page - 1) * 10);
        assert!(error.unwrap().status().unwrap().is_expired());
        assert_eq!(server.requests().len(), page);
    }
}

#[tokio::test(start_paused = true)]
async fn pg_009_a_stream_clears_the_version_too() {
    // Better: client-go repeats the version, and the server rejects the second page.
    let server = Server::of(21);
    let (names, error) = drain(server.pager(ListParams::default().exactly_at("rv:10")).stream()).await;
    assert_eq!(names, expected(0..21));
    assert!(error.is_none());
    assert_eq!(server.requests()[1], request(10, "10", "", None));
}

#[tokio::test(start_paused = true)]
async fn pg_010_a_detached_object_does_not_keep_its_page() {
    let shared = page(0..10, "7", "");
    let bytes = shared.items[0].raw().unwrap();
    let pages = move |_: ListParams| std::future::ready(Ok(shared.clone()));
    let whole = Pager::<Pod, _>::new(pages.clone(), ListParams::default()).list().await.unwrap();
    assert_eq!(whole.list.items[0].raw().unwrap().as_ptr(), bytes.as_ptr(), "a slice of the page");
    let own = Pager::<Pod, _>::new(pages.clone(), ListParams::default()).detached().list().await.unwrap();
    assert_ne!(own.list.items[0].raw().unwrap().as_ptr(), bytes.as_ptr());
    let mut items = Pager::<Pod, _>::new(pages, ListParams::default()).detached().stream();
    let first = items.next().await.unwrap().unwrap();
    assert_ne!(first.raw().unwrap().as_ptr(), bytes.as_ptr());
    assert_eq!(first.raw().unwrap(), &bytes);
}

#[tokio::test(start_paused = true)]
async fn sec_47_cyclic_continue_tokens_are_an_error() {
    let circle = |params: ListParams| {
        let next = if params.continue_token == "a" { "b" } else { "a" };
        std::future::ready(Ok(page(0..1, "7", next)))
    };
    let error = Pager::<Pod, _>::new(circle, ListParams::default()).list().await.unwrap_err();
    assert!(matches!(error, Error::Paging(PagingError::Loop { page: 3 })), "{error}");
    let (names, error) = drain(Pager::<Pod, _>::new(circle, ListParams::default()).stream()).await;
    assert_eq!(names.len(), 3);
    assert!(matches!(error, Some(Error::Paging(PagingError::Loop { page: 3 }))));
}

#[tokio::test(start_paused = true)]
async fn empty_pages_are_skipped() {
    let source = |params: ListParams| {
        let nth: u32 = params.continue_token.parse().unwrap_or(0);
        let next = if nth < 30 { (nth + 1).to_string() } else { String::new() };
        std::future::ready(Ok(if nth == 30 { page(0..1, "7", &next) } else { page(0..0, "7", &next) }))
    };
    let (names, error) = drain(Pager::<Pod, _>::new(source, ListParams::default()).prefetch(1).stream()).await;
    assert_eq!((names, error.is_none()), (expected(0..1), true));
}

#[tokio::test]
async fn sec_82_the_pages_of_a_list_are_limited_in_all() {
    let endless = |params: ListParams| {
        let start: u32 = params.continue_token.parse().unwrap_or(0);
        let page = page(start..start + 10, "7", &(start + 10).to_string());
        async move { Ok::<_, Error>(page) }
    };
    let error = Pager::<Pod, _>::new(endless, ListParams::default()).max_bytes(10_000).list().await.unwrap_err();
    assert!(matches!(&error, Error::Paging(PagingError::TooLarge { limit: 10_000 })), "{error}");
    assert!(error.to_string().contains("max_bytes"), "{error}");
    let empty = |params: ListParams| {
        let number: u32 = params.continue_token.parse().unwrap_or(0);
        let page = page(0..0, "7", &(number + 1).to_string());
        async move { Ok::<_, Error>(page) }
    };
    let error = Pager::<Pod, _>::new(empty, ListParams::default()).list().await.unwrap_err();
    assert!(matches!(error, Error::Paging(PagingError::NoProgress { .. })), "{error}");
    let mut stream = Pager::<Pod, _>::new(empty, ListParams::default()).stream();
    assert!(matches!(stream.next().await, Some(Err(Error::Paging(PagingError::NoProgress { .. })))));
}
