use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::json;

use super::*;
use crate::discovery::CachedDiscovery;
use crate::discovery::testing::{Fake, group, legacy_groups, legacy_list, legacy_resource, resource};

const TTL: Duration = Duration::from_secs(600);

/// A directory that is removed after the test.
struct Temporary(PathBuf);

impl Temporary {
    fn new() -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("evenkeel-disk-{}-{number}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).unwrap();
        Temporary(path)
    }

    fn cache_directory(&self) -> PathBuf {
        self.0.join("cache")
    }

    fn files(&self) -> Vec<PathBuf> {
        let mut files: Vec<_> =
            fs::read_dir(self.cache_directory()).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        files
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A manual clock.
#[derive(Clone, Default)]
struct Hand(Arc<AtomicU64>);

impl Hand {
    fn advance(&self, by: Duration) {
        self.0.fetch_add(by.as_secs(), Ordering::SeqCst);
    }

    /// A cache as another process would open it.
    fn cache(&self, directory: &Temporary) -> DiskCache {
        let seconds = Arc::clone(&self.0);
        let start = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
        DiskCache::with_clock(directory.cache_directory(), TTL, move || {
            start + Duration::from_secs(seconds.load(Ordering::SeqCst))
        })
    }
}

fn server() -> Fake {
    let fake = Fake::default();
    fake.aggregated("/api", &json!([group("", &[("v1", vec![resource("pods", "Pod")])])])).tag("/api", "\"core\"");
    fake.aggregated("/apis", &json!([group("apps", &[("v1", vec![resource("deployments", "Deployment")])])]))
        .tag("/apis", "\"groups\"");
    fake
}

fn cached(fake: &Fake, cache: DiskCache) -> CachedDiscovery {
    fake.client().discovery().cached_on_disk(cache)
}

fn document(body: &str) -> Document {
    Document { media_type: "application/json".into(), etag: Some("\"1\"".into()), body: body.to_owned().into() }
}

#[tokio::test]
async fn dsc_022_the_next_process_sends_no_request_within_the_time_to_live() {
    let (directory, clock, fake) = (Temporary::new(), Hand::default(), server());
    let first = cached(&fake, clock.cache(&directory)).groups_and_resources().await.unwrap();
    assert_eq!(fake.asked_paths(), ["/api", "/apis"]);

    clock.advance(TTL);
    let next = cached(&fake, clock.cache(&directory));
    assert_eq!(next.groups_and_resources().await.unwrap(), first);
    assert!(fake.requests().is_empty());

    clock.advance(Duration::from_secs(1));
    let later = cached(&fake, clock.cache(&directory));
    assert_eq!(later.groups_and_resources().await.unwrap(), first);
    let codes: Vec<_> = fake.requests().iter().map(|requests| requests.code).collect();
    assert_eq!(codes, [304, 304], "and beyond it only whether something has changed (dsc_023)");

    clock.advance(TTL);
    let again = cached(&fake, clock.cache(&directory));
    again.groups_and_resources().await.unwrap();
    assert!(fake.requests().is_empty(), "a 304 resets its age");
}

#[tokio::test]
async fn dsc_022_after_an_invalidation_only_own_files_are_trusted() {
    let (directory, clock, fake) = (Temporary::new(), Hand::default(), server());
    let own = cached(&fake, clock.cache(&directory));
    own.groups_and_resources().await.unwrap();
    assert!(own.is_fresh());

    let foreign = cached(&fake, clock.cache(&directory));
    foreign.groups_and_resources().await.unwrap();
    assert!(!foreign.is_fresh(), "it believes what another process wrote");
    fake.requests();
    foreign.invalidate();
    foreign.groups_and_resources().await.unwrap();
    assert_eq!(fake.asked_paths(), ["/api", "/apis"]);
    assert!(foreign.is_fresh());
}

#[tokio::test]
async fn dsc_022_failed_and_empty_responses_are_not_written() {
    let (directory, clock, fake) = (Temporary::new(), Hand::default(), server());
    let mut stale = group("g", &[("v1", vec![resource("foos", "Foo")])]);
    stale["versions"][0]["freshness"] = json!("Stale");
    fake.aggregated("/api", &json!([])).aggregated("/apis", &json!([stale]));
    cached(&fake, clock.cache(&directory)).groups_and_resources().await.unwrap();
    assert!(!directory.cache_directory().exists());

    let fake = Fake::default();
    fake.json("/api", &json!({"versions": ["v1"]})).json("/apis", &legacy_groups(&[("a", &["v1"]), ("b", &["v1"])]));
    fake.json("/api/v1", &legacy_list("v1", &[legacy_resource("pods", "Pod")]));
    fake.json("/apis/a/v1", &legacy_list("a/v1", &[])).fail("/apis/b/v1", 503);
    cached(&fake, clock.cache(&directory)).groups_and_resources().await.unwrap();
    assert_eq!(directory.files().len(), 3, "the two roots and the one list with something in it");
    fake.requests();
    cached(&fake, clock.cache(&directory)).groups_and_resources().await.unwrap();
    // Once more, because a group version is still missing.
    assert_eq!(fake.asked_paths(), ["/apis/a/v1", "/apis/a/v1", "/apis/b/v1", "/apis/b/v1"]);
}

#[tokio::test]
async fn dsc_024_the_older_form_is_served_from_disk_one_version_at_a_time() {
    // client-go's disk cache reads the groups and then each version, even if the server supports aggregation; here the
    // documents are stored as the server sent them.
    let (directory, clock) = (Temporary::new(), Hand::default());
    let fake = Fake::default();
    fake.json("/api", &json!({"versions": ["v1"]})).json("/apis", &legacy_groups(&[("a", &["v1"])]));
    fake.json("/api/v1", &legacy_list("v1", &[legacy_resource("pods", "Pod")]));
    fake.json("/apis/a/v1", &legacy_list("a/v1", &[legacy_resource("foos", "Foo")]));
    let first = cached(&fake, clock.cache(&directory)).groups_and_resources().await.unwrap();
    assert_eq!(fake.asked_paths(), ["/api", "/api/v1", "/apis", "/apis/a/v1"]);
    assert_eq!(cached(&fake, clock.cache(&directory)).groups_and_resources().await.unwrap(), first);
    assert!(fake.requests().is_empty());
}

#[tokio::test]
async fn servers_do_not_see_each_others_documents() {
    let (directory, clock) = (Temporary::new(), Hand::default());
    for url in ["https://one.example", "https://two.example", "https://one.example/base"] {
        let fake = server();
        let base = url.strip_prefix("https://one.example").unwrap_or_default();
        fake.aggregated(&format!("{base}/api"), &json!([group("", &[("v1", vec![])])]))
            .aggregated(&format!("{base}/apis"), &json!([group("g", &[])]));
        let discovery = fake.client_at(url).discovery().cached_on_disk(clock.cache(&directory));
        discovery.groups().await.unwrap();
        assert_eq!(fake.requests().len(), 2, "{url}");
    }
    assert_eq!(directory.files().len(), 6);
}

#[test]
fn sec_49_names_are_hashes_and_files_are_their_owners_alone() {
    let (directory, clock) = (Temporary::new(), Hand::default());
    let cache = clock.cache(&directory);
    cache.inner.store("https://host /apis/../../etc/passwd json", &document("{}")).unwrap();
    let [file] = directory.files().try_into().unwrap();
    let name = file.file_name().unwrap().to_str().unwrap();
    assert!(name.len() == 64 && name.bytes().all(|byte| byte.is_ascii_hexdigit()), "{name}");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&file), 0o600);
        assert_eq!(mode(&directory.cache_directory()), 0o700);
        // The permissions of a directory are fixed when it is next used.
        fs::set_permissions(directory.cache_directory(), PermissionsExt::from_mode(0o755)).unwrap();
        cache.inner.load("anything");
        assert_eq!(mode(&directory.cache_directory()), 0o700);
        // A file that others could have written is ignored.
        fs::set_permissions(&file, PermissionsExt::from_mode(0o666)).unwrap();
        assert!(matches!(cache.inner.load("https://host /apis/../../etc/passwd json"), CacheLookup::Nothing));
    }
}

#[test]
fn sec_49_damaged_files_count_as_absent() {
    let (directory, clock) = (Temporary::new(), Hand::default());
    let cache = clock.cache(&directory);
    let key = "https://host /apis json";
    cache.inner.store(key, &document("{\"a\":1}")).unwrap();
    let CacheLookup::Valid(found) = cache.inner.load(key) else { panic!("it was stored") };
    assert_eq!(found, document("{\"a\":1}"));

    let [file] = directory.files().try_into().unwrap();
    let whole = fs::read(&file).unwrap();
    for place in 0..whole.len() {
        let mut damaged = whole.clone();
        damaged[place] ^= 1;
        fs::write(&file, &damaged).unwrap();
        assert!(matches!(cache.inner.load(key), CacheLookup::Nothing), "byte {place}");
        fs::write(&file, &whole[..place]).unwrap();
        assert!(matches!(cache.inner.load(key), CacheLookup::Nothing), "cut at {place}");
    }
    // A valid file under the name of another.
    fs::write(&file, &whole).unwrap();
    fs::copy(&file, directory.cache_directory().join(file_name("another"))).unwrap();
    assert!(matches!(cache.inner.load("another"), CacheLookup::Nothing));
}

#[cfg(unix)]
#[test]
fn sec_49_links_are_not_followed() {
    use std::os::unix::fs::symlink;
    let (directory, clock) = (Temporary::new(), Hand::default());
    let cache = clock.cache(&directory);
    let key = "https://host /apis json";
    cache.inner.store(key, &document("{}")).unwrap();
    let [file] = directory.files().try_into().unwrap();
    let elsewhere = directory.0.join("elsewhere");
    fs::rename(&file, &elsewhere).unwrap();
    symlink(&elsewhere, &file).unwrap();
    assert!(matches!(cache.inner.load(key), CacheLookup::Nothing), "a link to a file that would do");

    cache.inner.store(key, &document("{\"new\":true}")).unwrap();
    assert!(fs::symlink_metadata(&file).unwrap().is_file(), "the link is replaced, not written through");
    assert!(!String::from_utf8_lossy(&fs::read(&elsewhere).unwrap()).contains("new"));

    let link = Temporary::new();
    symlink(directory.cache_directory(), link.cache_directory()).unwrap();
    let linked = clock.cache(&link);
    assert!(matches!(linked.inner.load(key), CacheLookup::Nothing), "a link to a directory that would do");
    assert!(linked.inner.store(key, &document("{}")).is_err());
}

#[test]
fn a_file_from_the_future_is_revalidated() {
    let (directory, clock) = (Temporary::new(), Hand::default());
    clock.advance(Duration::from_secs(3600));
    clock.cache(&directory).inner.store("key", &document("{}")).unwrap();
    let earlier = Hand::default().cache(&directory);
    assert!(matches!(earlier.inner.load("key"), CacheLookup::Old(_)));
}

#[test]
fn the_oldest_files_are_removed_beyond_the_limit() {
    let (directory, clock) = (Temporary::new(), Hand::default());
    let cache = clock.cache(&directory);
    cache.inner.store("first", &document("{}")).unwrap();
    for number in 0..MAX_FILES {
        fs::write(directory.cache_directory().join(format!("filler-{number}")), b"").unwrap();
    }
    for file in directory.files() {
        let oldest = file.ends_with(file_name("first"));
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(if oldest { 1 } else { 2 });
        File::options().write(true).open(&file).unwrap().set_modified(time).unwrap();
    }
    cache.inner.store("second", &document("{}")).unwrap();
    assert_eq!(directory.files().len(), MAX_FILES);
    assert!(!directory.cache_directory().join(file_name("first")).exists());
    assert!(directory.cache_directory().join(file_name("second")).exists());
}

#[tokio::test]
async fn schemas_on_disk_are_valid_at_any_age_if_the_index_has_their_hash() {
    let (directory, clock, fake) = (Temporary::new(), Hand::default(), server());
    let index =
        |hash: &str| json!({"paths": {"api/v1": {"serverRelativeURL": format!("/openapi/v3/api/v1?hash={hash}")}}});
    let core = kube_core::GroupVersion::gv("", "v1");
    fake.json("/openapi/v3", &index("A")).tag("/openapi/v3", "\"index-1\"");
    fake.json("/openapi/v3/api/v1", &json!({"state": "A"})).tag("/openapi/v3/api/v1", "\"A\"");
    cached(&fake, clock.cache(&directory)).openapi().schema(&core).await.unwrap();
    assert_eq!(fake.requests().len(), 2);

    clock.advance(2 * TTL);
    cached(&fake, clock.cache(&directory)).openapi().schema(&core).await.unwrap();
    let requests = fake.requests();
    assert_eq!(requests.len(), 1, "only the index is requests for: {requests:?}");
    assert_eq!((requests[0].target.as_str(), requests[0].code), ("/openapi/v3", 304));

    // Within the time to live the index on disk may be outdated; the server redirects then.
    let next = cached(&fake, clock.cache(&directory));
    next.openapi().index().await.unwrap();
    assert!(fake.requests().is_empty());
    fs::remove_file(
        directory.cache_directory().join(file_name("http://in-process /openapi/v3/api/v1 application/json")),
    )
    .unwrap();
    fake.fail("/openapi/v3/api/v1", 301);
    fake.json("/openapi/v3", &json!({"paths": {"api/v1": {"serverRelativeURL": "/openapi/v3/new?hash=B"}}}));
    fake.json("/openapi/v3/new", &json!({"state": "B"}));
    assert_eq!(next.openapi().schema_value(&core).await.unwrap(), json!({"state": "B"}));
}

#[tokio::test]
async fn debug_shows_no_bodies() {
    let (directory, clock, fake) = (Temporary::new(), Hand::default(), server());
    for known in [fake.client().discovery().cached(), cached(&fake, clock.cache(&directory))] {
        known.groups_and_resources().await.unwrap();
        let text = format!("{known:?} {:?}", known.openapi());
        assert!(text.contains("filled: true") && !text.contains("APIGroupDiscoveryList\""), "{text}");
        assert!(text.len() < 2000, "{text}");
    }
}

#[tokio::test]
async fn an_unusable_cache_causes_no_error() {
    let (directory, clock, fake) = (Temporary::new(), Hand::default(), server());
    fs::write(directory.cache_directory(), b"a file").unwrap();
    for _ in 0..2 {
        cached(&fake, clock.cache(&directory)).groups_and_resources().await.unwrap();
        assert_eq!(fake.asked_paths(), ["/api", "/apis"]);
    }
}
