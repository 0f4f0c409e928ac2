//! Files that change while a client runs, in virtual time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, advance};

use super::handshakes::{material, shake};
use super::logs::Logs;
use super::pki::{Authority, Pair, VALID, provider, server};
use crate::config::{HttpVersions, Identity, Pem, PrivateKey, Tls};
use crate::small_file::tests::Folder;
use crate::tls::material::Material;
use crate::tls::schedule::Occasion;
use crate::tls::slot::{ClientIdentity, IdentitySlot};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

fn write_pair(folder: &Folder, pair: &Pair) -> Identity {
    Identity {
        certificate: Pem::File(folder.write("tls.crt", &pair.certificate)),
        key: PrivateKey::File(folder.write("tls.key", &pair.key)),
    }
}

/// Checks the files that are due, synchronously.
fn look(material: &Arc<Material>, occasion: Occasion) -> bool {
    material.claim(occasion, Instant::now()).map(|look| look.run()).is_some()
}

/// Makes a request, and waits until the check that it started has finished.
async fn request(material: &Arc<Material>) -> u64 {
    material.touch(Instant::now());
    // The check runs on another thread and holds a clone until it ends.
    while Arc::strong_count(material) > 1 {
        tokio::task::yield_now().await;
    }
    material.epoch()
}

#[tokio::test(start_paused = true)]
async fn chc_16_sec_16_a_ca_rotates_to_garbage_and_then_to_a_valid_one() {
    let (one, two) = (Authority::new("one"), Authority::new("two"));
    let first = server(&one.server(&["kube.test"], VALID), &[], None);
    let second = server(&two.server(&["kube.test"], VALID), &[], None);
    let folder = Folder::new();
    let path = folder.write("ca", one.pem());
    let material = material(&Tls { ca: Some(Pem::File(path.clone())), ..Tls::default() }).unwrap();
    let (mut watch, mut watched) = shake(material.current(), &first, "kube.test").await.unwrap();

    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let rotate = |what: &str| {
        metrics::with_local_recorder(&recorder, || assert!(look(&material, Occasion::Request), "{what} is looked at"));
        assert!(!look(&material, Occasion::Handshake), "and not again before five minutes are over");
    };
    advance(5 * MINUTE).await;
    rotate("the same");
    for bad in ["", "garbage"] {
        folder.write("ca", bad);
        advance(5 * MINUTE).await;
        rotate(bad);
    }
    std::fs::remove_file(&path).unwrap();
    advance(5 * MINUTE).await;
    rotate("a missing file");
    assert_eq!(material.epoch(), 0, "what was good stays");
    shake(material.current(), &first, "kube.test").await.unwrap();
    folder.write("ca", two.pem());
    advance(5 * MINUTE).await;
    rotate("the second");
    assert_eq!(material.epoch(), 1);
    shake(material.current(), &second, "kube.test").await.unwrap();
    shake(material.current(), &first, "kube.test").await.err().unwrap();

    let counted: BTreeMap<_, _> = snapshotter
        .snapshot()
        .into_vec()
        .into_iter()
        .map(|(key, _, _, value)| {
            let (_, key) = key.into_parts();
            assert_eq!(key.name(), "rest_client_transport_ca_reload_total");
            let labels: Vec<_> = key.labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
            (labels.join(" "), value)
        })
        .collect();
    let once = [
        "result=success reason=unchanged",
        "result=failure reason=empty",
        "result=failure reason=ca_parse_error",
        "result=failure reason=read_error",
        "result=success reason=updated",
    ];
    assert_eq!(counted, once.map(|labels| (labels.to_owned(), DebugValue::Counter(1))).into_iter().collect());

    watched.write_all(b"event").await.unwrap();
    watched.flush().await.unwrap();
    let mut event = [0; 5];
    watch.read_exact(&mut event).await.unwrap();
    assert_eq!(&event, b"event", "what was under way goes on");
}

#[tokio::test(start_paused = true)]
async fn exe_012_the_certificate_of_a_plugin_is_used_by_new_connections() {
    let (authority, clients) = (Authority::new("servers"), Authority::new("clients"));
    let server = server(&authority.server(&["kube.test"], VALID), &[], Some(&clients));
    let slot = IdentitySlot::new();
    let material = Material::new(&authority.trusted(), HttpVersions::Any, Instant::now()).unwrap();
    let material = Arc::new(material.following(Some(&slot)));
    let set = |name: &str| {
        let pair = clients.client(name);
        slot.set(Some(ClientIdentity::parse(&pair.certificate, &pair.key.as_str().into(), &provider()).unwrap()));
    };
    let shown = async || {
        let config = material.for_handshake(Instant::now()).await;
        let (_, theirs) = shake(config, &server, "kube.test").await.ok()?;
        Some(theirs.get_ref().1.peer_certificates()?.first()?.clone())
    };
    assert_eq!((shown().await, material.epoch()), (None, 0), "the server requires a certificate");
    set("one");
    assert_eq!(material.touch(Instant::now()), 1);
    let first = shown().await.unwrap();
    assert_eq!((shown().await, material.touch(Instant::now())), (Some(first.clone()), 1));
    set("two");
    assert_eq!(material.touch(Instant::now()), 2, "connections with the old one are retired");
    assert_ne!(shown().await.unwrap(), first);
    assert_eq!(material.touch(Instant::now()), 2, "once");
    slot.set(None);
    assert_eq!((shown().await, material.epoch()), (None, 3));
}

#[tokio::test(start_paused = true)]
async fn chc_17_trn_012_a_client_certificate_rotates_without_closing_connections() {
    // client-go closes every connection at once when the pair has changed, including those with requests in flight.
    let (authority, clients) = (Authority::new("servers"), Authority::new("clients"));
    let server = server(&authority.server(&["kube.test"], VALID), &[], Some(&clients));
    let folder = Folder::new();
    let (one, two) = (clients.client("one"), clients.client("two"));
    let tls = Tls { identity: Some(write_pair(&folder, &one)), ..authority.trusted() };
    let material = material(&tls).unwrap();
    let shown = async |material: &Arc<Material>| {
        let config = material.for_handshake(Instant::now()).await;
        let (_, theirs) = shake(config, &server, "kube.test").await.unwrap();
        theirs.get_ref().1.peer_certificates().unwrap()[0].clone()
    };
    let first = shown(&material).await;
    advance(SECOND).await;
    assert_eq!((shown(&material).await, material.epoch()), (first.clone(), 0), "the first load is no rotation");

    write_pair(&folder, &two);
    assert_eq!(shown(&material).await, first, "a handshake within the same second may use the old one");
    let config = material.current();
    let (mut watch, mut watched) = shake(config, &server, "kube.test").await.unwrap();
    advance(SECOND).await;
    let second = shown(&material).await;
    assert_ne!(second, first, "the next handshake shows what is on disk");
    assert_eq!(material.epoch(), 1, "connections from before are to be retired");
    watched.write_all(b"event").await.unwrap();
    watched.flush().await.unwrap();
    watch.read_exact(&mut [0; 5]).await.unwrap();

    write_pair(&folder, &one);
    advance(59 * SECOND).await;
    assert_eq!(request(&material).await, 1);
    advance(SECOND).await;
    assert_eq!(request(&material).await, 2, "where no handshakes are made, requests notice within a minute");
}

#[tokio::test(start_paused = true)]
async fn trn_012_a_half_written_pair_is_ignored_until_complete() {
    let clients = Authority::new("clients");
    let (one, two) = (clients.client("one"), clients.client("two"));
    let folder = Folder::new();
    let tls = Tls { identity: Some(write_pair(&folder, &one)), ..clients.trusted() };
    let material = material(&tls).unwrap();
    folder.write("tls.crt", &two.certificate);
    advance(MINUTE).await;
    let logs = Logs::default();
    let listening = crate::test_logs::listen(logs.clone());
    assert!(look(&material, Occasion::Request));
    drop(listening);
    assert_eq!((material.epoch(), logs.warnings()), (0, 1));
    folder.write("tls.key", "-----BEGIN PRIVATE KEY----- canary");
    advance(SECOND).await;
    let listening = crate::test_logs::listen(logs.clone());
    assert!(look(&material, Occasion::Handshake));
    drop(listening);
    assert!(!logs.text().contains("canary"), "{}", logs.text());
    assert_eq!(material.epoch(), 0);
    folder.write("tls.key", &two.key);
    advance(SECOND).await;
    assert!(look(&material, Occasion::Handshake));
    assert_eq!(material.epoch(), 1);
}

#[tokio::test(start_paused = true)]
async fn trn_013_trn_014_requests_check_files_every_five_minutes_and_do_not_wait() {
    // client-go reads the file under a lock while the request waits.
    let (one, two) = (Authority::new("one"), Authority::new("two"));
    let folder = Folder::new();
    let material = material(&Tls { ca: Some(Pem::File(folder.write("ca", one.pem()))), ..Tls::default() }).unwrap();
    folder.write("ca", two.pem());
    advance(5 * MINUTE - Duration::from_millis(1)).await;
    assert_eq!(request(&material).await, 0);
    advance(Duration::from_millis(1)).await;
    assert_eq!(material.touch(Instant::now()), 0, "this one goes on with what there is");
    assert_eq!(request(&material).await, 1);
}

#[tokio::test(start_paused = true)]
async fn trn_010_a_ca_file_is_trusted_once_it_is_filled() {
    let authority = Authority::new("ours");
    let server = server(&authority.server(&["kube.test"], VALID), &[], None);
    let folder = Folder::new();
    let material = material(&Tls { ca: Some(Pem::File(folder.write("ca", ""))), ..Tls::default() }).unwrap();
    shake(material.current(), &server, "kube.test").await.err().unwrap();
    folder.write("ca", authority.pem());
    advance(5 * MINUTE).await;
    shake(material.for_handshake(Instant::now()).await, &server, "kube.test").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn trn_013_inline_data_is_never_reloaded() {
    let authority = Authority::new("ours");
    let tls = Tls { identity: Some(authority.client("jane").identity()), ..authority.trusted() };
    let material = material(&tls).unwrap();
    advance(1000 * MINUTE).await;
    assert!(!look(&material, Occasion::Handshake));
    assert_eq!(material.touch(Instant::now()), 0);
}

#[test]
fn trn_013_without_a_runtime_nothing_is_reloaded_and_nothing_fails() {
    let folder = Folder::new();
    let authority = Authority::new("ours");
    let ca = Some(Pem::File(folder.write("ca", authority.pem())));
    let material = material(&Tls { ca, ..Tls::default() }).unwrap();
    assert_eq!(material.touch(Instant::now() + 10 * MINUTE), 0);
    assert!(look_later(&material), "it is still due");
}

fn look_later(material: &Arc<Material>) -> bool {
    material.claim(Occasion::Request, Instant::now() + 10 * MINUTE).is_some()
}
