//! Elections on a real API server, in virtual time.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use evenkeel_apiserver::{Action, ApiServer, Rule};
use evenkeel_client::{Client, ClientBuilder};
use evenkeel_runtime::election::{
    ElectionError, Ended, LeaderElector, Lease as Term, LeaseCandidate, LeaseLock, Lock, LockError, LockType,
    LostReason, Record, VersionedRecord,
};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::coordination::v1beta1::LeaseCandidate as Candidate;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use serde_json::json;
use tokio::time::{Instant, sleep, timeout};

async fn server() -> ApiServer {
    ApiServer::builder().in_process_only().start().await.unwrap()
}

/// Returns a client that fault rules can match by its name.
fn client_called(server: &ApiServer, name: &str) -> Client {
    let mut config = server.client().config().clone();
    config.user_agent = Some(name.to_owned());
    ClientBuilder::service(config, server.service()).build().unwrap()
}

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

async fn lease(client: &Client, name: &str) -> Lease {
    let found = client.api::<Lease>().namespace("default").get(name).await.unwrap();
    Lease::clone(&*found.typed().unwrap())
}

fn record(holder: &str) -> Record {
    let time = Some("2026-11-15T12:00:00.123456Z".parse::<Timestamp>().unwrap());
    Record {
        holder: holder.into(),
        lease_seconds: 15,
        acquire_time: time,
        renew_time: time,
        transitions: 4,
        ..Record::default()
    }
}

#[tokio::test(start_paused = true)]
async fn program_5_one_leader_among_many_replicas() {
    let server = server().await;
    let client = server.client();
    let elector = LeaderElector::new(&client, "my-controller").identity("web-0").labels([("app", "web")]);
    let ended = elector
        .run(|lease| async move {
            let mut lost = lease.lost();
            let waited = timeout(secs(60), &mut lost).await;
            Ok::<_, Infallible>((waited.is_err(), lease.is_valid()))
        })
        .await
        .unwrap();
    assert_eq!(ended, Ended { led: true, output: Some((true, true)) });
    let lease = lease(&client, "my-controller").await;
    let spec = lease.spec.unwrap();
    assert_eq!((spec.holder_identity.as_deref(), spec.lease_duration_seconds), (Some(""), Some(1)));
    assert_eq!(lease.metadata.labels.unwrap().get("app").map(String::as_str), Some("web"));
}

#[tokio::test(start_paused = true)]
async fn the_default_identity_is_the_host_name_and_a_uuid() {
    let server = server().await;
    let client = server.client();
    let names: Vec<_> = (0..2).map(|_| LeaderElector::new(&client, "x").handle().identity()).collect();
    assert_ne!(names[0], names[1]);
    let (host, uuid) = names[0].rsplit_once('_').unwrap();
    assert!(!host.is_empty());
    let lengths: Vec<_> = uuid.split('-').map(str::len).collect();
    assert_eq!(lengths, [8, 4, 4, 4, 12], "{uuid}");
    assert_eq!(uuid.as_bytes()[14], b'4');
}

#[tokio::test(start_paused = true)]
async fn le_001_invalid_configurations_are_rejected_before_any_request() {
    let server = server().await;
    let client = server.client();
    let before = server.requests().len();
    let refused = LeaderElector::new(&client, "x").identity("").run(|_| async {}).await.unwrap_err();
    assert_eq!(refused.to_string(), "Lock identity is empty");
    let bad = LeaderElector::new(&client, "x").lease_duration(secs(5));
    assert!(matches!(bad.run(|_| async {}).await, Err(ElectionError::Config(_))));
    assert!(LeaderElector::new(&client, "").validate().is_err());
    assert_eq!(server.requests().len(), before);
}

/// Name, fencing token, start and end of each term.
type Log = Arc<Mutex<Vec<(String, u64, Instant, Instant)>>>;

async fn campaign(client: Client, name: String, log: Log) {
    let elector = LeaderElector::new(&client, "shared").identity(name.clone());
    loop {
        let (log, name) = (Arc::clone(&log), name.clone());
        let _ = elector
            .run(|lease: Term| async move {
                let began = Instant::now();
                let number = lease.fencing_token();
                struct Note(Log, String, u64, Instant);
                impl Drop for Note {
                    fn drop(&mut self) {
                        self.0.lock().unwrap().push((self.1.clone(), self.2, self.3, Instant::now()));
                    }
                }
                let _note = Note(log, name, number, began);
                // Never ends by itself: acts until it is dropped.
                std::future::pending::<()>().await;
            })
            .await;
    }
}

#[tokio::test(start_paused = true)]
async fn inv_9_candidates_on_a_real_server_never_lead_together() {
    let server = server().await;
    let log = Log::default();
    for name in ["a", "b", "c"] {
        tokio::spawn(campaign(client_called(&server, name), name.to_owned(), Arc::clone(&log)));
    }
    let client = server.client();
    for round in 0..12 {
        sleep(secs(20)).await;
        let holder = lease(&client, "shared").await.spec.unwrap().holder_identity.unwrap();
        let action = match round % 4 {
            0 => Action::Drop,
            1 => Action::Hang,
            2 => Action::CommitThenDrop,
            _ => Action::DropBeforeCommit,
        };
        if holder.is_empty() {
            continue;
        }
        let rule = server.faults().add(Rule::new(action).resource("leases").user_agent(format!("{holder}/")));
        sleep(secs(35)).await;
        server.faults().remove(rule);
    }
    let mut terms = log.lock().unwrap().clone();
    terms.sort_by_key(|(_, _, began, _)| *began);
    assert!(terms.len() >= 8, "{terms:?}");
    for pair in terms.windows(2) {
        assert!(pair[0].3 <= pair[1].2, "they overlap: {pair:?}");
        assert!(pair[0].1 < pair[1].1, "the number did not grow: {pair:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn qhc_14_a_lease_changed_by_others_is_still_renewed() {
    let server = server().await;
    let client = server.client();
    let leases = client.api::<Lease>().namespace("default");
    LeaderElector::new(&client, "x")
        .identity("me")
        .run(|term| {
            let (leases, client) = (leases.clone(), client.clone());
            async move {
                let mut touched = lease(&client, "x").await;
                let before = touched.spec.clone().unwrap();
                touched.metadata.annotations = Some(BTreeMap::from([("by".into(), "hand".into())]));
                leases.update(&touched).await.unwrap();
                sleep(secs(30)).await;
                assert!(term.is_valid());
                let now = lease(&client, "x").await;
                let spec = now.spec.unwrap();
                assert_eq!(
                    (spec.acquire_time, spec.lease_transitions),
                    (before.acquire_time, before.lease_transitions)
                );
                assert_ne!(spec.renew_time, before.renew_time);
                assert_eq!(now.metadata.annotations.unwrap().get("by").map(String::as_str), Some("hand"));
            }
        })
        .await
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn le_017_a_lease_edited_to_another_holder_ends_the_term() {
    let server = server().await;
    let client = server.client();
    let leases = client.api::<Lease>().namespace("default");
    let ended = LeaderElector::new(&client, "x")
        .identity("me")
        .run(|term| {
            let (leases, client) = (leases.clone(), client.clone());
            async move {
                let mut taken = lease(&client, "x").await;
                taken.spec.as_mut().unwrap().holder_identity = Some("thief".into());
                leases.update(&taken).await.unwrap();
                term.lost().await;
            }
        })
        .await;
    let error = ended.unwrap_err();
    assert!(matches!(&error, ElectionError::Lost { why: LostReason::Taken { by }, .. } if by == "thief"));
    assert_eq!(error.to_string(), "leader election lost: the lease default/x of me was taken by \"thief\"");
    assert_eq!(lease(&client, "x").await.spec.unwrap().holder_identity.as_deref(), Some("thief"));
}

#[tokio::test(start_paused = true)]
async fn le_017_a_deleted_lease_is_recreated() {
    let server = server().await;
    let client = server.client();
    let leases = client.api::<Lease>().namespace("default");
    LeaderElector::new(&client, "x")
        .identity("me")
        .run(|term| {
            let (leases, client) = (leases.clone(), client.clone());
            async move {
                leases.delete("x").await.unwrap();
                sleep(secs(3)).await;
                assert!(term.is_valid());
                assert_eq!(lease(&client, "x").await.spec.unwrap().holder_identity.as_deref(), Some("me"));
            }
        })
        .await
        .unwrap();
}

#[test]
fn lk_001_only_leases_are_supported() {
    assert_eq!("leases".parse(), Ok(LockType::Leases));
    for removed in ["endpoints", "configmaps", "endpointsleases", "configmapsleases"] {
        let error = removed.parse::<LockType>().unwrap_err().to_string();
        assert_eq!(error, format!("{removed} lock is removed, migrate to leases"));
    }
    assert_eq!("x".parse::<LockType>().unwrap_err().to_string(), "Invalid lock-type x");
}

#[tokio::test(start_paused = true)]
async fn lk_002_an_update_requires_a_get_or_create_first() {
    let server = server().await;
    let lock = LeaseLock::new(&server.client(), "default", "x");
    let error = lock.update(record("me"), "1".into()).await.unwrap_err();
    assert_eq!(error.to_string(), "lease not initialized, call get or create first");
}

#[tokio::test(start_paused = true)]
async fn lk_003_an_update_replaces_the_spec_and_only_its_own_labels() {
    let server = server().await;
    let client = server.client();
    let leases = client.api::<Lease>().namespace("default");
    for (given, expected) in [
        (None, vec![("mine", "new")]),
        (Some(vec![("mine", "old"), ("theirs", "kept")]), vec![("mine", "new"), ("theirs", "kept")]),
    ] {
        let own = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        let labels = given.map(|labels| labels.iter().map(own).collect());
        let spec = LeaseSpec { strategy: Some("OldestEmulationVersion".into()), ..LeaseSpec::default() };
        let metadata = ObjectMeta { name: Some("x".into()), labels, ..ObjectMeta::default() };
        leases.create(&Lease { metadata, spec: Some(spec) }).await.unwrap();
        let lock = LeaseLock::new(&client, "default", "x").labels([("mine", "new")]);
        let held = lock.get().await.unwrap().unwrap();
        let written = lock.update(record("me"), held.version.clone()).await.unwrap();
        assert_eq!(written.record, record("me"));
        let now = lease(&client, "x").await;
        assert_eq!(now.metadata.labels, Some(expected.iter().map(own).collect()));
        assert_eq!(now.spec.unwrap().strategy, None, "fully replaced");
        let stale = lock.update(record("you"), held.version).await;
        assert!(matches!(stale, Err(LockError::Conflict { .. })), "the version guards it: {stale:?}");
        leases.delete("x").await.unwrap();
    }
    let plain = LeaseLock::new(&client, "default", "y");
    let held = plain.create(record("me")).await.unwrap();
    plain.update(record("you"), held.version).await.unwrap();
    assert_eq!(lease(&client, "y").await.metadata.labels, None);
}

#[tokio::test(start_paused = true)]
async fn lk_004_a_lease_is_created_once() {
    let server = server().await;
    let client = server.client();
    let lock = LeaseLock::new(&client, "default", "x").labels([("a", "b")]);
    assert_eq!(lock.get().await.unwrap(), None);
    lock.create(record("me")).await.unwrap();
    assert!(matches!(lock.create(record("me")).await, Err(LockError::Conflict { .. })));
    let lease = lease(&client, "x").await;
    assert_eq!(lease.metadata.namespace.as_deref(), Some("default"));
    assert_eq!(lease.metadata.labels.unwrap().len(), 1);
}

#[test]
fn lk_005_records_round_trip_through_specs() {
    let mut full = record("me");
    (full.strategy, full.preferred_holder) = ("OldestEmulationVersion".into(), "you".into());
    for record in [full, record("me"), Record::default()] {
        assert_eq!(Record::from_spec(&record.to_spec()), record);
    }
    assert_eq!(Record::from_spec(&LeaseSpec::default()), Record::default());
    let spec = record("").to_spec();
    assert_eq!((spec.strategy, spec.preferred_holder), (None, None));
    assert_eq!((spec.holder_identity.as_deref(), spec.lease_transitions), (Some(""), Some(4)));
}

#[tokio::test(start_paused = true)]
async fn lk_006_a_get_returns_the_record_and_its_version() {
    let server = server().await;
    let lock = LeaseLock::new(&server.client(), "default", "x");
    let created = lock.create(record("me")).await.unwrap();
    assert_eq!(lock.get().await.unwrap(), Some(created.clone()));
    let VersionedRecord { record: read, version } = created;
    assert_eq!(read, record("me"), "microseconds and all");
    assert!(!version.is_empty());
}

#[tokio::test(start_paused = true)]
async fn lk_007_events_are_about_the_lease_even_before_it_was_seen() {
    let server = server().await;
    let lock = LeaseLock::new(&server.client(), "default", "x");
    let unseen = lock.reference().unwrap();
    assert_eq!((unseen.kind.as_deref(), unseen.name.as_deref()), (Some("Lease"), Some("x")));
    assert_eq!(unseen.uid, None);
    lock.create(record("me")).await.unwrap();
    assert!(lock.reference().unwrap().uid.is_some());
}

#[tokio::test(start_paused = true)]
async fn lk_008_a_lock_is_described_by_namespace_and_name() {
    let server = server().await;
    assert_eq!(LeaseLock::new(&server.client(), "ns", "name").describe(), "ns/name");
}

#[tokio::test(start_paused = true)]
async fn lk_009_calls_are_those_of_leader_election_and_do_not_hang() {
    let server = server().await;
    let client = client_called(&server, "prog");
    server.faults().add(Rule::new(Action::Hang).resource("leases").user_agent("prog/leader-election").times(1));
    let started = Instant::now();
    LeaderElector::new(&client, "x").run(|_| async {}).await.unwrap();
    assert!(started.elapsed() >= secs(7), "the first call was given up after 5 s");
}

async fn candidates(server: &ApiServer) {
    let time = json!({"type": "string", "format": "date-time"});
    let text = json!({"type": "string"});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {
            "name": "leasecandidates.coordination.k8s.io",
            "annotations": {"api-approved.kubernetes.io": "unapproved, for tests"},
        },
        "spec": {
            "group": "coordination.k8s.io", "scope": "Namespaced",
            "names": {"kind": "LeaseCandidate", "listKind": "LeaseCandidateList", "plural": "leasecandidates"},
            "versions": [{"name": "v1beta1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "properties": {"spec": {"type": "object", "properties": {
                    "leaseName": text, "binaryVersion": text, "emulationVersion": text, "strategy": text,
                    "pingTime": time, "renewTime": time,
                }}},
            }}}],
        },
    });
    server.install_crds([definition]).await.unwrap();
}

async fn read(client: &Client) -> Candidate {
    let found = client.api::<Candidate>().namespace("default").get("web-0").await.unwrap();
    Candidate::clone(&*found.typed().unwrap())
}

fn writes(server: &ApiServer) -> Vec<String> {
    let requests = server.requests();
    let writes = requests.iter().filter(|request| request.path.contains("leasecandidates/web-0"));
    writes.filter(|request| request.method == "PUT").map(|request| request.path.clone()).collect()
}

fn standing(client: &Client) -> tokio::task::JoinHandle<()> {
    let candidate = LeaseCandidate::new(client, "my-controller")
        .identity("web-0")
        .binary_version("1.4.0")
        .emulation_version("1.3.0");
    tokio::spawn(async move { drop(candidate.run().await) })
}

#[tokio::test(start_paused = true)]
async fn lc_001_and_lc_002_a_candidate_is_created_and_only_it_is_watched() {
    let server = server().await;
    candidates(&server).await;
    let client = server.client();
    standing(&client);
    sleep(secs(1)).await;
    let candidate = read(&client).await;
    let spec = candidate.spec;
    assert_eq!((spec.lease_name.as_str(), spec.binary_version.as_str()), ("my-controller", "1.4.0"));
    assert_eq!((spec.emulation_version.as_deref(), spec.strategy.as_str()), (Some("1.3.0"), "OldestEmulationVersion"));
    assert!(spec.renew_time.is_some());
    let requests = server.requests();
    let mut lists = requests.iter().filter(|request| request.path.contains("leasecandidates?"));
    assert!(
        lists.all(|request| request.path.contains("metadata.name") && request.path.contains("web-0")
            || request.method == "POST")
    );
}

#[tokio::test(start_paused = true)]
async fn lc_003_a_ping_is_acknowledged_once_despite_clock_skew() {
    let server = server().await;
    candidates(&server).await;
    let client = server.client();
    standing(&client);
    sleep(secs(1)).await;
    let api = client.api::<Candidate>().namespace("default");
    let hour = jiff::SignedDuration::from_hours(1);
    let mut asked = 0;
    for ahead in [hour, -hour] {
        let mut candidate = read(&client).await;
        let before = candidate.spec.renew_time.clone().unwrap();
        candidate.spec.ping_time = Some(MicroTime(before.0 + ahead));
        api.update(&candidate).await.unwrap();
        sleep(secs(1)).await;
        asked += 2;
        assert_eq!(writes(&server).len(), asked, "the question, and one answer");
        let spec = read(&client).await.spec;
        assert_ne!(spec.renew_time, Some(before));
        assert!(spec.renew_time > spec.ping_time, "else the server would not take it for an answer");
    }
}

#[tokio::test(start_paused = true)]
async fn lc_002_a_restarted_candidate_publishes_its_new_version() {
    let server = server().await;
    candidates(&server).await;
    let client = server.client();
    let old = LeaseCandidate::new(&client, "my-controller").identity("web-0").binary_version("1.3.9");
    let old = tokio::spawn(async move { drop(old.run().await) });
    sleep(secs(1)).await;
    old.abort();
    standing(&client);
    sleep(secs(1)).await;
    let spec = read(&client).await.spec;
    assert_eq!((spec.binary_version.as_str(), spec.emulation_version.as_deref()), ("1.4.0", Some("1.3.0")));
    assert_eq!(spec.lease_name, "my-controller");
}

#[tokio::test(start_paused = true)]
async fn lc_003_a_ping_of_a_candidate_without_a_renewal_is_acknowledged() {
    let server = server().await;
    candidates(&server).await;
    let client = server.client();
    standing(&client);
    sleep(secs(1)).await;
    let mut candidate = read(&client).await;
    candidate.spec.ping_time = candidate.spec.renew_time.take();
    client.api::<Candidate>().namespace("default").update(&candidate).await.unwrap();
    sleep(secs(1)).await;
    assert!(read(&client).await.spec.renew_time.is_some());
}

#[tokio::test(start_paused = true)]
async fn lc_004_a_candidate_renews_every_five_minutes_and_survives_failures() {
    let server = server().await;
    candidates(&server).await;
    let client = server.client();
    server.faults().add(Rule::new(Action::DropBeforeCommit).resource("leasecandidates").verb("create").times(3));
    standing(&client);
    sleep(secs(10)).await;
    assert_eq!(writes(&server).len(), 0);
    read(&client).await;
    for renewals in 1..4 {
        sleep(secs(301)).await;
        assert_eq!(writes(&server).len(), renewals);
    }
}

#[tokio::test(start_paused = true)]
async fn le_032_a_coordinated_elector_leads_when_the_server_assigns_the_lease() {
    let server = server().await;
    let client = server.client();
    let elector = LeaderElector::new(&client, "x").identity("me").coordinated();
    let choose = async {
        sleep(secs(30)).await;
        let lock = LeaseLock::new(&client, "default", "x");
        assert_eq!(lock.get().await.unwrap(), None, "it was not created");
        lock.create(Record { strategy: "OldestEmulationVersion".into(), ..record("me") }).await.unwrap();
    };
    let run = elector.run(|lease| async move { Ok::<_, Infallible>(lease.fencing_token()) });
    let (ended, ()) = tokio::join!(run, choose);
    assert_eq!(ended.unwrap().output, Some(5));
}
