//! Sharing of networks, and their lifetime.

use evenkeel_apiserver::ApiServer;
use metrics_util::debugging::{DebugValue, DebuggingRecorder};

use super::super::{Body, SendRequest};
use super::*;
use crate::config::{Auth, HttpVersions, Impersonate, Proxy, ServerUrl, Throttle};
use crate::secret::Secret;
use crate::small_file::tests::Folder;
use crate::tls::tests::pki::Authority;

const CERTIFICATE: &str = "certificate";

fn config(url: &str) -> Config {
    Config::new(ServerUrl::parse(url).unwrap())
}

fn key(config: &Config) -> Key {
    Key::new(config, &ProxyEnvironment::default(), None).unwrap().unwrap()
}

fn with(change: impl FnOnce(&mut Config)) -> Config {
    let mut config = config("https://kube.test:6443");
    change(&mut config);
    config
}

fn identity(certificate: Pem, key: PrivateKey) -> Option<Identity> {
    Some(Identity { certificate, key })
}

#[test]
fn trn_022_header_settings_do_not_affect_the_key() {
    let plain = key(&with(|_| {}));
    let same: [fn(&mut Config); 8] = [
        |config| config.auth = Auth::Token("token".into()),
        |config| config.auth = Auth::Basic { username: "me".into(), password: Secret::new("secret") },
        |config| config.impersonate = Some(Impersonate { user: "jane".into(), ..Impersonate::default() }),
        |config| config.user_agent = Some("agent".into()),
        |config| config.throttle = Some(Throttle::default()),
        // Compression is negotiated and decoded above connections.
        |config| config.compression = false,
        |config| config.limits.list = 1,
        |config| config.server = ServerUrl::parse("https://kube.test:6443/base").unwrap(),
    ];
    for (at, change) in same.into_iter().enumerate() {
        assert_eq!(key(&with(change)), plain, "{at}");
    }
}

#[test]
fn trn_022_connection_settings_affect_the_key() {
    let different: [fn(&mut Config); 20] = [
        |_| {},
        |config| config.server = ServerUrl::parse("https://kube.test:6444").unwrap(),
        |config| config.server = ServerUrl::parse("https://other.test:6443").unwrap(),
        |config| config.server = ServerUrl::parse("http://kube.test:6443").unwrap(),
        |config| config.tls.insecure_skip_verify = true,
        |config| config.tls.server_name = Some("name".into()),
        |config| config.tls.ca = Some(Pem::Data("one".into())),
        |config| config.tls.ca = Some(Pem::Data("two".into())),
        |config| config.tls.ca = Some(Pem::File("one".into())),
        |config| config.tls.ca = Some(Pem::File("two".into())),
        |config| config.tls.identity = identity(Pem::Data(CERTIFICATE.into()), PrivateKey::Data(Secret::new("one"))),
        |config| config.tls.identity = identity(Pem::Data(CERTIFICATE.into()), PrivateKey::Data(Secret::new("two"))),
        |config| config.tls.identity = identity(Pem::File("c".into()), PrivateKey::File("one".into())),
        |config| config.tls.identity = identity(Pem::File("c".into()), PrivateKey::File("two".into())),
        |config| config.proxy = Proxy::Url(ProxyUrl::parse("http://proxy").unwrap()),
        |config| config.proxy = Proxy::Url(ProxyUrl::parse("http://me:one@proxy").unwrap()),
        |config| config.proxy = Proxy::Url(ProxyUrl::parse("http://me:two@proxy").unwrap()),
        |config| config.connections.http = HttpVersions::Http1Only,
        |config| config.connections.max_streams = 7,
        |config| config.limits.headers = 7,
    ];
    let keys: Vec<_> = different.into_iter().map(|change| key(&with(change))).collect();
    for (at, one) in keys.iter().enumerate() {
        for (beside, other) in keys.iter().enumerate() {
            assert_eq!(one == other, at == beside, "{at} and {beside}");
        }
    }
    let without_tls = |name: &str| {
        let mut config = config("http://kube.test");
        config.tls.server_name = Some(name.into());
        key(&config)
    };
    assert_eq!(without_tls("one"), without_tls("two"), "nothing of TLS counts where there is none");
}

#[test]
fn trn_022_networks_are_keyed_by_the_effective_proxy() {
    // client-go does not share connections at all with a custom proxy.
    let environment =
        |proxy: &'static str| ProxyEnvironment::new(move |name| (name == "HTTPS_PROXY").then(|| proxy.to_owned()));
    let by_environment = |proxy| Key::new(&with(|_| {}), &environment(proxy), None).unwrap().unwrap();
    let explicit = key(&with(|config| config.proxy = Proxy::Url(ProxyUrl::parse("http://proxy:3128").unwrap())));
    assert_eq!(by_environment("proxy:3128"), explicit);
    assert_ne!(by_environment("other:3128"), explicit);
    let direct = with(|config| config.proxy = Proxy::Direct);
    assert_eq!(key(&direct), key(&with(|_| {})), "an environment that names none");
    assert_eq!(Key::new(&direct, &environment("proxy:3128"), None).unwrap().unwrap(), key(&direct));
}

#[test]
fn trn_022_keys_hold_no_secret() {
    let key = key(&with(|config| {
        config.tls.identity = identity(Pem::Data("canary".into()), PrivateKey::Data(Secret::new("canary")));
        config.tls.ca = Some(Pem::Data("canary".into()));
        config.proxy = Proxy::Url(ProxyUrl::parse("http://canary:canary@proxy").unwrap());
        config.auth = Auth::Token("canary".into());
    }));
    assert!(!format!("{key:?}").contains("canary"));
}

#[test]
fn trn_022_an_identity_partly_in_a_file_is_not_shared() {
    let config = with(|config| {
        config.tls.identity = identity(Pem::File("c".into()), PrivateKey::Data(Secret::new("key")));
    });
    assert!(Key::new(&config, &ProxyEnvironment::default(), None).unwrap().is_none());
}

#[test]
fn exe_012_clients_with_another_plugin_have_other_connections() {
    let (networks, one, two) = (Arc::new(Networks::default()), IdentitySlot::new(), IdentitySlot::new());
    let of = |slot: Option<&Arc<IdentitySlot>>| {
        networks.network(&config("https://one"), &ProxyEnvironment::default(), slot).unwrap()
    };
    let first = of(Some(&one));
    assert!(Arc::ptr_eq(&first, &of(Some(&one))));
    assert!(!Arc::ptr_eq(&first, &of(Some(&two))) && !Arc::ptr_eq(&first, &of(None)));
}

fn network(networks: &Arc<Networks>, config: &Config) -> Arc<Network> {
    networks.network(config, &ProxyEnvironment::default(), None).unwrap()
}

#[test]
fn trn_023_mt_006_networks_are_shared_while_in_use() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let read = || {
        let mut read = Vec::new();
        for (key, _, _, value) in snapshotter.snapshot().into_vec() {
            let value = match value {
                DebugValue::Counter(count) => count as f64,
                DebugValue::Gauge(value) => value.into_inner(),
                DebugValue::Histogram(_) => continue,
            };
            let label = key.key().labels().next().map_or(String::new(), |label| label.value().to_owned());
            read.push((key.key().name().trim_start_matches("rest_client_transport_").to_owned(), label, value));
        }
        read.sort_by(|one, other| one.partial_cmp(other).unwrap());
        read
    };
    let owned = |rows: &[(&str, &str, f64)]| -> Vec<_> {
        rows.iter().map(|(name, label, value)| ((*name).to_owned(), (*label).to_owned(), *value)).collect()
    };
    ::metrics::with_local_recorder(&recorder, || {
        let networks = Arc::new(Networks::default());
        let first = network(&networks, &config("http://one"));
        let again = network(&networks, &config("http://one"));
        let other = network(&networks, &config("http://two"));
        assert!(Arc::ptr_eq(&first, &again) && !Arc::ptr_eq(&first, &other));
        let calls = "create_calls_total";
        assert_eq!(read(), owned(&[("cache_entries", "", 2.0), (calls, "hit", 1.0), (calls, "miss", 2.0)]));
        drop(first);
        assert_eq!(networks.lock().len(), 2, "it is in use");
        drop(again);
        assert_eq!(networks.lock().len(), 1);
        let revived = network(&networks, &config("http://one"));
        assert_eq!(networks.lock().len(), 2, "a later one is made anew");
        drop((revived, other));
        assert!(networks.lock().is_empty());
        let last = read();
        assert!(last.contains(&("cache_entries".into(), String::new(), 0.0)), "{last:?}");
        assert!(last.contains(&("cache_gc_calls_total".into(), "deleted".into(), 3.0)), "{last:?}");
    });
}

#[test]
fn trn_023_a_late_cleanup_does_not_take_out_a_successor() {
    let networks = Arc::new(Networks::default());
    let first = network(&networks, &config("http://one"));
    let key = Arc::new(key(&config("http://one")));
    // The entry of a network whose cleanup has not run yet.
    let late = RegistryEntry { networks: Arc::clone(&networks), key: Arc::clone(&key) };
    networks.lock().insert(Arc::clone(&key), Weak::new());
    let successor = network(&networks, &config("http://one"));
    assert!(!Arc::ptr_eq(&first, &successor));
    drop(late);
    drop(first);
    assert!(Arc::ptr_eq(&successor, &network(&networks, &config("http://one"))));
    drop(successor);
    assert!(networks.lock().is_empty());
}

#[test]
fn trn_023_concurrent_requests_get_the_same_network() {
    let networks = Arc::new(Networks::default());
    let barrier = std::sync::Barrier::new(8);
    let ask = || {
        barrier.wait();
        let network = network(&networks, &config("http://one"));
        barrier.wait();
        network
    };
    let all: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(ask)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(all.iter().all(|network| Arc::ptr_eq(network, &all[0])));
    assert_eq!(networks.lock().len(), 1);
    drop(all);
    assert!(networks.lock().is_empty());
}

#[test]
fn trn_023_a_failed_build_is_not_cached() {
    let networks = Arc::new(Networks::default());
    let missing = with(|config| config.tls.ca = Some(Pem::File("/no/such/file".into())));
    assert!(networks.network(&missing, &ProxyEnvironment::default(), None).is_err());
    assert!(networks.lock().is_empty());
}

async fn status(network: &Network, path: &str) -> http::StatusCode {
    let request = http::Request::get(path).body(Body::empty()).unwrap();
    let response = network.send(request).await.unwrap();
    let status = response.status();
    http_body_util::BodyExt::collect(response.into_body()).await.unwrap();
    status
}

#[test]
fn trn_023_sharing_is_by_server_and_connections_stay_with_their_runtimes() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let home = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let server = home.block_on(ApiServer::start()).unwrap();
    let networks = Arc::new(Networks::default());
    let config = config(server.url());
    let (one, other) = (network(&networks, &config), network(&networks, &config));
    let first = runtime();
    first.block_on(async {
        assert_eq!(status(&one, "/version").await, 200);
        assert_eq!(status(&other, "/version").await, 200);
        assert_eq!(one.pool.stats().dials, 1, "two clients, one connection");
    });
    let second = runtime();
    second.block_on(async { assert_eq!(status(&other, "/version").await, 200) });
    assert_eq!(one.pool.stats().dials, 2, "a runtime has its own");
    // One client and its runtime end; the other keeps its connection.
    drop(one);
    drop(first);
    second.block_on(async { assert_eq!(status(&other, "/version").await, 200) });
    assert_eq!((other.pool.stats().dials, other.pool.stats().connections), (2, 1));
}

#[test]
fn trn_022_files_are_keyed_by_path_not_content() {
    let folder = Folder::new();
    let path = folder.write("ca", Authority::new("one").pem());
    let networks = Arc::new(Networks::default());
    let config = with(|config| config.tls.ca = Some(Pem::File(path)));
    let one = network(&networks, &config);
    folder.write("ca", Authority::new("two").pem());
    assert!(Arc::ptr_eq(&one, &network(&networks, &config)), "its time to look at the file will come");
}
