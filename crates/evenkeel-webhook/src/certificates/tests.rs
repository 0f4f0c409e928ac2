//! Certificates as clients see them.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use evenkeel_apiserver::{RequestTarget, Rule, WatchAction};
use evenkeel_client::tls::{CryptoProvider, default_provider};
use evenkeel_client::{Client, ListParams};
use jiff::Timestamp;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::api::rbac::v1::PolicyRule;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::secret::{RotationStep, SecretContent};
use super::*;
use crate::{Conversion, Hook, RunningWebhookServer, WebhookServer};

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
    let RotationStep::WaitUntil(renewal) = content.next_step(names, true, now()) else { panic!() };
    // Two thirds of 90 days and an hour, and up to a twentieth of them.
    let earliest = now() + 60 * DAY - Duration::from_secs(20 * 60);
    assert!((earliest..earliest + Duration::from_secs(108 * 60 * 60 + 3 * 60)).contains(&renewal), "{renewal}");
    assert_eq!(content.next_step(names, true, renewal), RotationStep::Issue);
    assert_eq!(content.next_step(&["other.svc"], true, now()), RotationStep::Issue);
    let renewed = content.after(RotationStep::Issue, names, renewal, &provider()).unwrap();
    assert!(matches!(reread(&renewed).next_step(names, true, renewal), RotationStep::WaitUntil(_)));
}

#[test]
fn rot_002_programs_that_start_together_renew_at_different_times_and_replicas_at_the_same() {
    let (from, to) = (now(), now() + 90 * DAY);
    let at = |signature: [u8; 2]| super::authority::renewal(from, to, &[&[7; 60][..], &signature].concat());
    assert_eq!(at([0, 0]), from + 60 * DAY);
    assert_eq!(at([1, 2]), at([1, 2]));
    assert_ne!(at([1, 2]), at([2, 1]));
    let latest = at([0xff, 0xff]);
    assert!(from + 64 * DAY < latest && latest < from + 65 * DAY, "{latest}");
}

/// Returns an authority that is due at a time, with a certificate that was issued ten days before.
fn due_authority(names: &[&str]) -> (SecretContent, Timestamp) {
    let content = SecretContent::create(names, now(), &provider()).unwrap();
    let renewal = content.authority_renewal().unwrap();
    // Two thirds of five years and an hour.
    assert!((now() + 1216 * DAY..now() + 1309 * DAY).contains(&renewal), "{renewal}");
    (reread(&content.after(RotationStep::Issue, names, renewal - 10 * DAY, &provider()).unwrap()), renewal)
}

#[test]
fn rot_003_a_new_authority_is_published_before_it_issues_and_the_old_one_is_dropped_last() {
    let names = &NAMES[..1];
    let pair = |content: &SecretContent| content.serving_pair(&provider()).unwrap().chain()[0].clone();
    let step = |content: SecretContent, step, now| reread(&content.after(step, names, now, &provider()).unwrap());
    let (old, renewal) = due_authority(names);
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
    rules: Vec<PolicyRule>,
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
        .conversion(Conversion::hub::<Foo>(&["v1"]))
        .certificate(&slot)
        .address("127.0.0.1:0")
        .build()
        .unwrap();
    let running = server.start().await.unwrap();
    let rules = [certificates.role_rules(), certificates.cluster_role_rules(&server)].concat();
    tasks.spawn(async move { certificates.run(server, std::future::pending()).await.unwrap() });
    Replica { slot, rules, _running: running }
}

/// Returns the time as a function of tokio's clock, from this time on, and what is added to it, in days.
fn clock(from: Timestamp) -> (impl Fn() -> Timestamp + Clone + Send + Sync + 'static, Arc<AtomicU32>) {
    let (start, days) = (Instant::now(), Arc::new(AtomicU32::new(0)));
    let added = Arc::clone(&days);
    (move || from + start.elapsed() + added.load(Ordering::Relaxed) * DAY, days)
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

/// A kind whose conversions are served. No object of it is read.
#[derive(Serialize, Deserialize)]
struct Foo(ObjectMeta);

impl kube_core::Resource for Foo {
    type DynamicType = ();
    type Scope = k8s_openapi::NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        "Foo".into()
    }

    fn group((): &()) -> Cow<'_, str> {
        "example.com".into()
    }

    fn version((): &()) -> Cow<'_, str> {
        "v1".into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        "foos".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.0
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.0
    }
}

fn definition() -> CustomResourceDefinition {
    let schema = serde_json::json!({"openAPIV3Schema": {"type": "object"}});
    let definition = serde_json::json!({
        "metadata": {"name": "foos.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"kind": "Foo", "plural": "foos"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}],
        },
    });
    serde_json::from_value(definition).unwrap()
}

#[tokio::test(start_paused = true)]
async fn reg_008_a_definition_has_the_conversion_and_the_bundle_as_soon_as_it_exists() {
    let api = api_server().await;
    let client = api.client();
    let (mut tasks, (clock, _)) = (JoinSet::new(), clock(now()));
    let _replica = replica(&client, &mut tasks, clock).await;
    sleep(Duration::from_secs(10)).await;
    let (definitions, definition) = (client.api::<CustomResourceDefinition>(), definition());
    definitions.apply("foos.example.com", "program", &definition).await.unwrap();
    sleep(Duration::from_secs(10)).await;
    let conversion =
        async || definitions.get("foos.example.com").await.unwrap().typed().unwrap().spec.conversion.clone();
    let written = conversion().await.unwrap();
    let target = written.webhook.as_ref().unwrap().client_config.as_ref().unwrap();
    assert_eq!(written.strategy, "Webhook");
    assert_eq!(target.service.as_ref().unwrap().path.as_deref(), Some("/convert"));
    assert_eq!(target.ca_bundle.as_ref().unwrap().0, published(&client).await);

    // The program applies its definition again, which has no conversion.
    definitions.apply("foos.example.com", "program", &definition).force().await.unwrap();
    assert_eq!(conversion().await, Some(written));
    tasks.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn ohc_012_rot_001_reg_010_and_reg_011_replicas_that_start_at_once_share_one_authority() {
    let api = api_server().await;
    let client = api.client();
    let (mut tasks, (clock, _)) = (JoinSet::new(), clock(now()));
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
    // Of all applies, one has changed the configuration.
    let written = client.api::<ValidatingWebhookConfiguration>().get("shop-validating").await.unwrap();
    assert_eq!(written.generation(), Some(1));
    tasks.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn ohc_013_every_replica_is_trusted_at_every_instant_of_a_rotation() {
    let api = api_server().await;
    let client = api.client();
    // Without the definition, replicas would look at everything again soon.
    client.api::<CustomResourceDefinition>().create(&definition()).await.unwrap();
    let (content, renewal) = due_authority(&NAMES[..1]);
    let mut secret = Secret::default();
    content.write(&mut secret);
    secret.metadata.name = Some("hooks-certificates".to_owned());
    client.api::<Secret>().namespace("system").create(&secret).await.unwrap();
    let (mut tasks, (clock, days)) = (JoinSet::new(), clock(renewal - Duration::from_secs(60)));
    let mut replicas = vec![replica(&client, &mut tasks, clock.clone()).await];
    sleep(Duration::from_secs(1)).await;
    // The other replica gets events 30 s late, and its clock is 30 s behind: it would otherwise look at the Secret when
    // something is due.
    let lag = WatchAction::CoalesceFrames { events: 1000, wait: Duration::from_secs(30) };
    api.faults().add(Rule::watch(lag).resource("secrets"));
    let late = clock.clone();
    replicas.push(replica(&client, &mut tasks, move || late() - Duration::from_secs(30)).await);
    sleep(Duration::from_secs(31)).await;

    let leaves = || replicas.iter().map(|replica| replica.slot.get().unwrap().chain()[0].clone()).collect::<Vec<_>>();
    let old = leaves();
    let old_bundle = published(&client).await;
    let (mut had_both, mut differed) = (false, false);
    for second in 0..760_u32 {
        if second == 700 {
            days.store(1, Ordering::Relaxed);
        }
        sleep(Duration::from_secs(1)).await;
        let bundle = published(&client).await;
        had_both |= bundle.len() > old_bundle.len() * 3 / 2;
        differed |= leaves()[0] != leaves()[1];
        assert!(leaves().iter().all(|leaf| verifies(&bundle, leaf, clock())), "after {second} s");
    }
    // The day has passed, and the time is looked at once an hour.
    sleep(Duration::from_secs(60 * 60 + 31)).await;
    let bundle = published(&client).await;
    assert!(had_both && differed, "{had_both} {differed}");
    assert!(leaves().iter().all(|leaf| verifies(&bundle, leaf, clock()) && !old.contains(leaf)));
    assert!(!old.iter().any(|leaf| verifies(&bundle, leaf, clock())), "the old authority is dropped");
    tasks.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn rot_005_and_rot_006_a_secret_that_is_damaged_deleted_or_due_is_renewed_without_a_restart() {
    let api = api_server().await;
    let client = api.client();
    let (mut tasks, (clock, days)) = (JoinSet::new(), clock(now()));
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
    let events = client.api::<Event>().namespace("system").list(&ListParams::default()).await.unwrap();
    let event = events.items[0].typed().unwrap();
    assert_eq!((events.items.len(), event.reason.as_deref()), (1, Some("CertificatesReplaced")));
    assert_eq!(event.regarding.as_ref().unwrap().name.as_deref(), Some("hooks-certificates"));

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
    days.store(65, Ordering::Relaxed);
    sleep(Duration::from_secs(60 * 60 + 1)).await;
    assert!(leaf() != before && verifies(&bundle, &leaf(), clock()));
    assert_eq!(published(&client).await, bundle);
    tasks.shutdown().await;
}

/// Returns whether a rule allows a verb on what a request addresses.
fn allows(rule: &PolicyRule, target: &RequestTarget<'_>, verb: &str) -> bool {
    let contains = |texts: &Option<Vec<String>>, text: &str| texts.iter().flatten().any(|own| own == text);
    contains(&rule.api_groups, target.group)
        && contains(&rule.resources, target.resource)
        && rule.verbs.iter().any(|own| own == verb)
        && (rule.resource_names.is_none() || contains(&rule.resource_names, target.name))
}

#[tokio::test(start_paused = true)]
async fn rot_007_the_task_needs_exactly_the_rules_that_it_states() {
    let api = api_server().await;
    let client = api.client();
    let (mut tasks, (clock, days)) = (JoinSet::new(), clock(now()));
    client.api::<CustomResourceDefinition>().create(&definition()).await.unwrap();
    let before = api.requests().len();
    let replica = replica(&client, &mut tasks, clock.clone()).await;
    sleep(Duration::from_secs(10)).await;
    let secrets = client.api::<Secret>().namespace("system");
    for _ in 0..3 {
        let mut damaged = Secret::clone(&secrets.get("hooks-certificates").await.unwrap().typed().unwrap());
        damaged.data.as_mut().unwrap().remove("ca.key");
        secrets.update(&damaged).await.unwrap();
        sleep(Duration::from_secs(5)).await;
    }
    days.store(65, Ordering::Relaxed);
    // Renewals, and the counts of repeated events.
    sleep(Duration::from_secs(2 * 60 * 60)).await;
    tasks.shutdown().await;

    let rules = replica.rules;
    let mut used = BTreeSet::new();
    for request in &api.requests()[before..] {
        let mut target = request.target();
        if target.resource.is_empty() {
            // Discovery, which everybody may read.
            continue;
        }
        assert!(target.namespace.is_empty() || target.namespace == "system", "{request:?}");
        // An apply that creates an object needs both.
        let is_created = target.verb == "patch" && request.status.is_some_and(|status| status == 201);
        // A list or a watch with such a selector is authorized by the name.
        if request.query("fieldSelector").as_deref() == Some("metadata.name=hooks-certificates") {
            target.name = "hooks-certificates";
        }
        for verb in [target.verb, if is_created { "create" } else { target.verb }] {
            let rule = rules.iter().position(|rule| allows(rule, &target, verb));
            let rule = rule.unwrap_or_else(|| panic!("no rule allows {request:?}"));
            used.insert((rule, verb.to_owned()));
        }
    }
    // There are no mutating hooks here, so that their configuration is only looked up. Servers without streamed lists need `list`.
    let is_needed = |rule: &PolicyRule, verb: &str| {
        verb == "get" || verb != "list" && rule.resources != Some(vec!["mutatingwebhookconfigurations".to_owned()])
    };
    used.retain(|(_, verb)| verb != "list");
    let stated = rules.iter().enumerate().flat_map(|(index, rule)| {
        rule.verbs.iter().filter(|verb| is_needed(rule, verb)).map(move |verb| (index, verb.clone()))
    });
    assert_eq!(used, stated.collect());
}
