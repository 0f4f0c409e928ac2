//! Certificates as clients see them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use evenkeel_client::Client;
use evenkeel_client::tls::{CryptoProvider, default_provider};
use jiff::Timestamp;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::secret::{RotationStep, SecretContent};
use super::*;
use crate::{Hook, RunningWebhookServer, WebhookServer};

const NAMES: [&str; 2] = ["hooks.system.svc", "hooks.system.svc.cluster.local"];

fn now() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

#[test]
fn rot_002_a_serving_certificate_is_valid_for_ninety_days() {
    let authority = Authority::generate(now()).unwrap();
    let issued = authority.issue(&NAMES, now()).unwrap();
    let pair = issued.serve().unwrap().get().unwrap();
    assert_eq!(pair.not_before(), now() - Duration::from_secs(60 * 60));
    assert_eq!(pair.not_after(), now() + Duration::from_secs(90 * 24 * 60 * 60));
    assert!(NAMES.into_iter().all(|name| pair.is_for(name)) && !pair.is_for("other"));
    let shown = format!("{authority:?} {issued:?}");
    assert!(shown.contains("CERTIFICATE") && !shown.contains("PRIVATE"), "{shown}");
}

#[test]
fn rot_004_serial_numbers_are_random() {
    let authority = Authority::generate(now()).unwrap();
    let serial = |pem: &str| {
        let der = CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
        let (_, certificate) = x509_parser::parse_x509_certificate(&der).unwrap();
        certificate.raw_serial().to_vec()
    };
    let issued = (0..8).map(|_| serial(authority.issue(&NAMES, now()).unwrap().certificate()));
    let serials: BTreeSet<_> = issued.chain([serial(authority.certificate())]).collect();
    assert_eq!(serials.len(), 9);
    assert!(serials.iter().all(|serial| serial.len() <= 16 && serial[0] < 0x80));
}

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

fn provider() -> Arc<CryptoProvider> {
    default_provider().unwrap()
}

/// Returns whether an API server with this bundle accepts the certificate.
fn verifies(bundle: &[u8], leaf: &CertificateDer<'_>, now: Timestamp) -> bool {
    let mut roots = RootCertStore::empty();
    for authority in CertificateDer::pem_slice_iter(bundle) {
        roots.add(authority.unwrap()).unwrap();
    }
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider()).build().unwrap();
    let now = UnixTime::since_unix_epoch(Duration::from_secs(now.as_second().try_into().unwrap()));
    verifier.verify_server_cert(leaf, &[], &ServerName::try_from(NAMES[0]).unwrap(), &[], now).is_ok()
}

/// Writes the content into a Secret and reads it back, as the next replica does.
fn reread(content: &SecretContent) -> SecretContent {
    let mut secret = Secret::default();
    content.write(&mut secret);
    SecretContent::parse(&secret, &provider()).unwrap()
}

#[test]
fn rot_002_a_serving_certificate_is_renewed_after_two_thirds() {
    let names = &NAMES[..1];
    let content = reread(&SecretContent::create(names, now(), &provider()).unwrap());
    // Two thirds of 90 days and an hour.
    let renewal = now() + 60 * DAY - Duration::from_secs(20 * 60);
    assert_eq!(content.next_step(names, true, now()), RotationStep::WaitUntil(renewal));
    assert_eq!(content.next_step(names, true, renewal), RotationStep::Issue);
    assert_eq!(content.next_step(&["other.svc"], true, now()), RotationStep::Issue);
    let renewed = content.after(RotationStep::Issue, names, renewal, &provider()).unwrap();
    assert!(matches!(reread(&renewed).next_step(names, true, renewal), RotationStep::WaitUntil(_)));
}

#[test]
fn rot_003_a_new_authority_is_published_before_it_issues_and_the_old_one_is_dropped_last() {
    let names = &NAMES[..1];
    let start = now() + 1200 * DAY;
    let pair = |content: &SecretContent| content.serving_pair(&provider()).unwrap().chain()[0].clone();
    let step = |content: SecretContent, step, now| reread(&content.after(step, names, now, &provider()).unwrap());
    // An authority of 1,200 days, with a certificate of today.
    let old = step(SecretContent::create(names, now(), &provider()).unwrap(), RotationStep::Issue, start);
    let renewal = now() + 1217 * DAY;
    assert_eq!(old.next_step(names, true, renewal), RotationStep::AddAuthority);
    let old_bundle = old.bundle().as_bytes().to_vec();
    let both = step(old, RotationStep::AddAuthority, renewal);
    let both_bundle = both.bundle().as_bytes().to_vec();
    let settled = renewal + Duration::from_secs(600);
    assert!(verifies(&both_bundle, &pair(&both), renewal) && verifies(&old_bundle, &pair(&both), renewal));
    // Not before every configuration has both, and not at once.
    assert_eq!(both.next_step(names, true, renewal), RotationStep::WaitUntil(settled));
    assert_eq!(both.next_step(names, false, settled), RotationStep::WaitUntil(settled));
    assert_eq!(both.next_step(names, true, settled), RotationStep::Issue);
    let old_pair = pair(&both);
    let issued = step(both, RotationStep::Issue, settled);
    assert!(verifies(&both_bundle, &pair(&issued), settled) && !verifies(&old_bundle, &pair(&issued), settled));
    assert!(verifies(&both_bundle, &old_pair, settled), "replicas that lag serve the old certificate");
    assert_eq!(issued.next_step(names, true, settled), RotationStep::WaitUntil(settled + DAY));
    assert_eq!(issued.next_step(names, true, settled + DAY), RotationStep::DropPrevious);
    let dropped = step(issued, RotationStep::DropPrevious, settled + DAY);
    assert!(verifies(dropped.bundle().as_bytes(), &pair(&dropped), settled + DAY));
    assert!(!verifies(dropped.bundle().as_bytes(), &old_pair, settled + DAY));
    assert!(matches!(dropped.next_step(names, true, settled + DAY), RotationStep::WaitUntil(_)));
}

#[test]
fn a_certificate_of_a_replica_whose_clock_is_behind_is_not_issued_again() {
    let names = &NAMES[..1];
    let content = SecretContent::create(names, now(), &provider()).unwrap();
    let behind = now() - Duration::from_secs(120);
    let issued = reread(&content.after(RotationStep::Issue, names, behind, &provider()).unwrap());
    assert!(matches!(issued.next_step(names, true, behind), RotationStep::WaitUntil(_)));
}

/// A replica: its server, and the task that keeps its certificates.
struct Replica {
    slot: evenkeel_runtime::tls::CurrentPair,
    _running: RunningWebhookServer,
}

async fn replica(
    client: &Client,
    tasks: &mut JoinSet<()>,
    clock: impl Fn() -> Timestamp + Send + Sync + 'static,
) -> Replica {
    let certificates = OwnCertificates::new(client, "shop", "system", "hooks").clock(clock);
    let slot = certificates.slot().clone();
    let server = WebhookServer::builder()
        .hook(Hook::validating::<ConfigMap>().on_create(|_, _| async { Ok(()) }))
        .certificate(&slot)
        .address("127.0.0.1:0")
        .build()
        .unwrap();
    let running = server.start().await.unwrap();
    tasks.spawn(async move { certificates.run(server, std::future::pending()).await.unwrap() });
    Replica { slot, _running: running }
}

/// Returns the time as a function of tokio's clock, and what is added to it, in days.
fn clock() -> (impl Fn() -> Timestamp + Clone + Send + Sync + 'static, Arc<AtomicU32>) {
    let (start, days) = (Instant::now(), Arc::new(AtomicU32::new(0)));
    let added = Arc::clone(&days);
    (move || now() + start.elapsed() + added.load(Ordering::Relaxed) * DAY, days)
}

async fn api_server() -> evenkeel_apiserver::ApiServer {
    let api = evenkeel_apiserver::ApiServer::builder().in_process_only().start().await.unwrap();
    let namespace = serde_json::from_value(serde_json::json!({"metadata": {"name": "system"}})).unwrap();
    api.client().api::<k8s_openapi::api::core::v1::Namespace>().create(&namespace).await.unwrap();
    api
}

async fn published(client: &Client) -> Vec<u8> {
    let found = client.api::<ValidatingWebhookConfiguration>().get("shop-validating").await.unwrap();
    let found = found.typed().unwrap();
    found.webhooks.as_ref().unwrap()[0].client_config.ca_bundle.as_ref().unwrap().0.clone()
}

#[tokio::test(start_paused = true)]
async fn ohc_012_rot_001_reg_010_and_reg_011_replicas_that_start_at_once_share_one_authority() {
    let api = api_server().await;
    let client = api.client();
    let (mut tasks, (clock, _)) = (JoinSet::new(), clock());
    let mut replicas = Vec::new();
    for _ in 0..5 {
        replicas.push(replica(&client, &mut tasks, clock.clone()).await);
    }
    sleep(Duration::from_secs(30)).await;
    let bundle = published(&client).await;
    let leaf = |replica: &Replica| replica.slot.get().unwrap().chain()[0].clone();
    let leaves: BTreeSet<Vec<u8>> = replicas.iter().map(|replica| leaf(replica).to_vec()).collect();
    assert_eq!(leaves.len(), 1, "all replicas serve the certificate of the one Secret");
    assert!(replicas.iter().all(|replica| verifies(&bundle, &leaf(replica), clock())));
    tasks.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn rot_005_and_rot_006_a_secret_that_is_damaged_deleted_or_due_is_renewed_without_a_restart() {
    let api = api_server().await;
    let client = api.client();
    let (mut tasks, (clock, days)) = (JoinSet::new(), clock());
    let replica = replica(&client, &mut tasks, clock.clone()).await;
    sleep(Duration::from_secs(10)).await;
    let leaf = || replica.slot.get().unwrap().chain()[0].clone();
    let secrets = client.api::<Secret>().namespace("system");
    let mut before = leaf();

    let mut damaged = Secret::clone(&secrets.get("hooks-certificates").await.unwrap().typed().unwrap());
    damaged.data.as_mut().unwrap().remove("tls.key");
    secrets.update(&damaged).await.unwrap();
    sleep(Duration::from_secs(1)).await;
    assert!(leaf() != before && verifies(&published(&client).await, &leaf(), clock()));

    before = leaf();
    secrets.delete("hooks-certificates").await.unwrap();
    sleep(Duration::from_secs(1)).await;
    assert!(leaf() != before && verifies(&published(&client).await, &leaf(), clock()));

    // Before the renewal it stays; after it, a new one of the same authority is served.
    before = leaf();
    let bundle = published(&client).await;
    // The time is looked at once an hour.
    days.store(59, Ordering::Relaxed);
    sleep(Duration::from_secs(60 * 60 + 1)).await;
    assert_eq!(leaf(), before);
    days.store(60, Ordering::Relaxed);
    sleep(Duration::from_secs(60 * 60 + 1)).await;
    assert!(leaf() != before && verifies(&bundle, &leaf(), clock()));
    assert_eq!(published(&client).await, bundle);
    tasks.shutdown().await;
}
