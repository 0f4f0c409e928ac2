//! Managers against the embedded server, in virtual time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_apiserver::{Action, ApiServer, Rule};
use evenkeel_core::{Obj, Status};
use k8s_openapi::ByteString;
use k8s_openapi::api::certificates::v1::{CertificateSigningRequest, CertificateSigningRequestCondition};
use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};
use tokio::time::{Instant, sleep};

use super::agent;
use crate::ListParams;
use crate::certificates::driver::ManagerClock;
use crate::certificates::store::MemoryStore;
use crate::certificates::template::{CertificateFacts, CertificateTemplate};
use crate::certificates::{
    CertificateError, CertificateManager, CertificatePair, CertificateStore, KUBE_APISERVER_CLIENT,
};
use crate::client::Client;
use crate::config::{Config, ServerUrl};
use crate::secret::Secret;
use crate::tls::tests::logs::Logs;
use crate::tls::tests::pki::{Authority, foreign_request, provider};
use crate::tls::{IdentitySlot, RotatingIdentity};
use crate::transport::BoxError;
use crate::wait::wait_for;

const HOUR: Duration = Duration::from_secs(3600);

/// A store that outlives its manager.
#[derive(Clone, Default)]
struct Shared(Arc<MemoryStore>);

impl CertificateStore for Shared {
    fn current(&self) -> Result<Option<CertificatePair>, BoxError> {
        self.0.current()
    }

    fn update(&self, pair: &CertificatePair) -> Result<(), BoxError> {
        self.0.update(pair)
    }

    fn pending_key(&self) -> Result<Option<Secret>, BoxError> {
        self.0.pending_key()
    }

    fn set_pending_key(&self, key: Option<&Secret>) -> Result<(), BoxError> {
        self.0.set_pending_key(key)
    }
}

/// A server, an authority, and a manager whose clock is tokio's.
struct Fixture {
    server: ApiServer,
    client: Client,
    authority: Authority,
    store: Shared,
    clock: ManagerClock,
    slot: Arc<IdentitySlot>,
}

impl Fixture {
    async fn new() -> Self {
        let server = ApiServer::start().await.unwrap();
        let client = Client::from_service(server.service());
        let clock = ManagerClock::Virtual { origin: "2026-01-01T00:00:00Z".parse().unwrap(), since: Instant::now() };
        let (authority, slot) = (Authority::new("ca"), IdentitySlot::new());
        Fixture { server, client, authority, store: Shared::default(), clock, slot }
    }

    async fn start(&self) -> CertificateManager {
        self.start_for(agent()).await.unwrap()
    }

    async fn start_for(&self, template: CertificateTemplate) -> Result<CertificateManager, CertificateError> {
        let config = Config::new(ServerUrl::parse("https://example.com").unwrap());
        CertificateManager::builder(config, KUBE_APISERVER_CLIENT, template)
            .store(self.store.clone())
            .lifetime(HOUR)
            .start_with(
                self.client.clone(),
                self.client.clone(),
                provider(),
                Arc::clone(&self.slot),
                RotatingIdentity::new(Arc::clone(&self.slot)),
                self.clock,
            )
            .await
    }

    async fn requests(&self) -> Vec<Obj<CertificateSigningRequest>> {
        let list = self.client.api::<CertificateSigningRequest>().list(&ListParams::default()).await.unwrap();
        list.items
    }

    /// Waits until there are this many requests, and returns the last one.
    async fn request(&self, count: usize) -> CertificateSigningRequest {
        loop {
            let mut found = self.requests().await;
            assert!(found.len() <= count, "{} requests", found.len());
            found.sort_by_key(|request| request.resource_version().parse::<u64>().unwrap());
            match found.pop() {
                Some(last) if found.len() + 1 == count => return (*last.typed().unwrap()).clone(),
                _ => sleep(Duration::from_secs(10)).await,
            }
        }
    }

    /// Sets a condition of a request.
    async fn judge(&self, request: &CertificateSigningRequest, verdict: &str) {
        let mut request = request.clone();
        request.status.get_or_insert_default().conditions = Some(vec![CertificateSigningRequestCondition {
            type_: verdict.into(),
            status: "True".into(),
            reason: Some("Test".into()),
            message: Some("by the test".into()),
            ..CertificateSigningRequestCondition::default()
        }]);
        self.client.api::<CertificateSigningRequest>().approval().update(&request).await.unwrap();
    }

    /// Approves a request, and issues a certificate that is valid for an hour from now on.
    async fn issue(&self, request: &CertificateSigningRequest) {
        self.judge(request, "Approved").await;
        let requests = self.client.api::<CertificateSigningRequest>();
        let name = request.metadata.name.as_deref().unwrap();
        let mut approved = (*requests.get(name).await.unwrap().typed().unwrap()).clone();
        let now = self.clock.now();
        let pem = std::str::from_utf8(&request.spec.request.0).unwrap().to_owned();
        let issued = self.authority.sign_request(&pem, now, now + HOUR);
        approved.status.get_or_insert_default().certificate = Some(ByteString(issued.into_bytes()));
        requests.status().update(&approved).await.unwrap();
    }

    fn current(&self) -> Option<CertificateFacts> {
        self.store.current().unwrap().and_then(|pair| CertificateFacts::parse(&pair.certificate))
    }
}

/// Waits until this holds, in virtual time.
async fn reached(condition: impl Fn() -> bool) {
    while !condition() {
        sleep(Duration::from_secs(1)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_certificate_is_obtained_and_rotated_before_it_expires() {
    let fixture = Fixture::new().await;
    let manager = fixture.start().await;
    let first = fixture.request(1).await;
    assert_eq!(first.spec.expiration_seconds, Some(3600));
    assert_eq!(first.spec.usages.as_deref().unwrap(), ["digital signature", "client auth"]);
    assert_eq!((manager.status().expires, fixture.slot.epoch()), (None, 0));
    assert!(fixture.store.pending_key().unwrap().is_some(), "the key is stored before the request is sent");
    fixture.issue(&first).await;
    manager.ready().await.unwrap();
    let status = manager.status();
    assert!(status.is_server_healthy && status.last_error.is_none(), "{status:?}");
    assert_eq!((fixture.slot.epoch(), fixture.store.pending_key().unwrap()), (1, None));

    let (issued, expires) = (fixture.clock.now(), status.expires.unwrap());
    let second = fixture.request(2).await;
    let waited = fixture.clock.now().duration_since(issued).as_mins();
    assert!((41..=54).contains(&waited), "70 to 90 percent of an hour: {waited}");
    fixture.issue(&second).await;
    reached(|| manager.status().expires > Some(expires)).await;
    assert_eq!(fixture.slot.epoch(), 2, "connections are replaced");
    assert_eq!(fixture.current().unwrap().not_after, manager.status().expires.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_restart_continues_with_the_certificate_or_the_pending_request() {
    let fixture = Fixture::new().await;
    let manager = fixture.start().await;
    let pending = fixture.request(1).await;
    drop(manager);
    let manager = fixture.start().await;
    sleep(Duration::from_secs(30)).await;
    assert_eq!(fixture.requests().await.len(), 1, "no other request is made");
    fixture.issue(&pending).await;
    manager.ready().await.unwrap();
    drop(manager);

    let manager = fixture.start().await;
    manager.ready().await.unwrap();
    sleep(HOUR / 2).await;
    assert_eq!(fixture.requests().await.len(), 1, "the stored certificate is used");
    drop(manager);
    // Stopped until it has expired.
    sleep(2 * HOUR).await;
    let manager = fixture.start().await;
    assert!(manager.status().expires.is_some_and(|expires| expires < fixture.clock.now()));
    fixture.issue(&fixture.request(2).await).await;
    manager.ready().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_key_that_has_its_certificate_already_is_not_used_again() {
    let fixture = Fixture::new().await;
    let manager = fixture.start().await;
    fixture.issue(&fixture.request(1).await).await;
    manager.ready().await.unwrap();
    drop(manager);
    // The process ended after the certificate was stored, and before the key was removed.
    let pair = fixture.store.current().unwrap().unwrap();
    fixture.store.set_pending_key(Some(&pair.key)).unwrap();
    let manager = fixture.start().await;
    fixture.issue(&fixture.request(2).await).await;
    reached(|| fixture.current() != CertificateFacts::parse(&pair.certificate)).await;
    assert_ne!(fixture.store.current().unwrap().unwrap().key, pair.key);
    drop(manager);
}

#[tokio::test(start_paused = true)]
async fn a_denied_or_failed_request_is_a_clear_error_and_is_replaced_after_a_pause() {
    for verdict in ["Denied", "Failed"] {
        let fixture = Fixture::new().await;
        let manager = fixture.start().await;
        let (ready, ()) = tokio::join!(manager.ready(), async {
            let first = fixture.request(1).await;
            if verdict == "Failed" {
                let mut failed = first.clone();
                failed.status.get_or_insert_default().conditions = Some(vec![CertificateSigningRequestCondition {
                    type_: "Failed".into(),
                    status: "True".into(),
                    reason: Some("Test".into()),
                    message: Some("by the test".into()),
                    ..CertificateSigningRequestCondition::default()
                }]);
                fixture.client.api::<CertificateSigningRequest>().status().update(&failed).await.unwrap();
            } else {
                fixture.judge(&first, verdict).await;
            }
        });
        let error = ready.unwrap_err();
        assert_eq!(error.is_denied(), verdict == "Denied");
        let text = error.to_string();
        assert!(text.contains("csr-") && text.contains("Test: by the test"), "{text}");
        assert!(manager.status().last_error.is_some());
        let refused = Instant::now();
        let second = fixture.request(2).await;
        assert!(refused.elapsed() >= Duration::from_secs(59), "{:?}", refused.elapsed());
        fixture.issue(&second).await;
        manager.ready().await.unwrap();
        assert!(manager.status().last_error.is_none());
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_not_signed_in_time_is_an_error_and_is_waited_for_again() {
    let fixture = Fixture::new().await;
    let started = Instant::now();
    let manager = fixture.start().await;
    let error = manager.ready().await.unwrap_err();
    assert!(error.is_timeout(), "{error}");
    let text = error.to_string();
    assert!(text.contains("kubectl certificate approve csr-") && text.contains(KUBE_APISERVER_CLIENT), "{text}");
    assert_eq!(started.elapsed().as_secs() / 60, 15);
    manager.ready().await.unwrap_err();
    let request = fixture.request(1).await;
    fixture.issue(&request).await;
    manager.ready().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_deleted_request_is_created_again() {
    let fixture = Fixture::new().await;
    let manager = fixture.start().await;
    let first = fixture.request(1).await;
    let name = first.metadata.name.as_deref().unwrap();
    let requests = fixture.client.api::<CertificateSigningRequest>();
    requests.delete(name).await.unwrap();
    let uid = first.metadata.uid.clone().unwrap();
    let again = wait_for(&requests, name, |found| found.is_some_and(|found| found.uid() != uid)).await.unwrap();
    fixture.issue(&again.unwrap().typed().unwrap()).await;
    manager.ready().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_changed_template_rotates_at_once_and_replaces_a_pending_request() {
    let fixture = Fixture::new().await;
    let manager = fixture.start().await;
    fixture.issue(&fixture.request(1).await).await;
    manager.ready().await.unwrap();
    let issued = Instant::now();
    manager.set_template(agent());
    manager.set_template(CertificateTemplate::new("agent").organization("pending"));
    fixture.request(2).await;
    manager.set_template(CertificateTemplate::new("agent").organization("final"));
    let third = fixture.request(3).await;
    assert!(issued.elapsed() < Duration::from_secs(60), "{:?}", issued.elapsed());
    fixture.issue(&third).await;
    reached(|| fixture.current().is_some_and(|facts| facts.organizations.contains("final"))).await;
}

#[tokio::test(start_paused = true)]
async fn an_unusable_certificate_is_not_installed() {
    let fixture = Fixture::new().await;
    let manager = fixture.start().await;
    let first = fixture.request(1).await;
    // A certificate for another key.
    let mut foreign = first.clone();
    foreign.spec.request = ByteString(foreign_request().into_bytes());
    let (ready, ()) = tokio::join!(manager.ready(), fixture.issue(&foreign));
    let error = ready.unwrap_err();
    assert!(matches!(&*error, CertificateError::Issued { .. }), "{error:?}");
    assert!(error.to_string().contains("do not belong together"), "{error}");
    assert_eq!((fixture.slot.epoch(), fixture.current()), (0, None));
}

#[tokio::test(start_paused = true)]
async fn failures_are_counted_and_the_server_is_not_hammered() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let _recording = metrics::set_default_local_recorder(&recorder);
    let fixture = Fixture::new().await;
    let failure: Status = serde_json::from_value(serde_json::json!({"status": "Failure", "code": 500})).unwrap();
    fixture.server.faults().add(Rule::new(Action::Status(Box::new(failure))).verb("create"));
    let manager = fixture.start().await;
    sleep(Duration::from_secs(600)).await;
    let status = manager.status();
    assert!(!status.is_server_healthy && status.expires.is_none(), "{status:?}");
    assert!(status.last_error.unwrap().is_passing());
    let counted = counters(&snapshotter);
    let errors = counted["certificate_manager_client_expiration_renew_errors"];
    assert!((15..=30).contains(&errors), "{counted:?}");
}

fn counters(snapshotter: &Snapshotter) -> BTreeMap<String, u64> {
    let all = snapshotter.snapshot().into_vec().into_iter();
    all.filter_map(|(key, _, _, value)| match value {
        DebugValue::Counter(count) => Some((key.key().name().to_owned(), count)),
        _ => None,
    })
    .collect()
}

#[tokio::test(start_paused = true)]
async fn sec_9_no_private_key_of_a_manager_is_shown() {
    let logs = Logs::default();
    let listening = crate::test_logs::listen(logs.clone());
    let fixture = Fixture::new().await;
    let manager = fixture.start().await;
    let first = fixture.request(1).await;
    let pending = fixture.store.pending_key().unwrap().unwrap();
    fixture.judge(&first, "Denied").await;
    let second = fixture.request(2).await;
    fixture.issue(&second).await;
    manager.ready().await.unwrap();
    drop(listening);
    let pair = fixture.store.current().unwrap().unwrap();
    let shown = format!("{} {manager:?} {:?} {pair:?} {:?}", logs.text(), manager.status(), manager.identity());
    for key in [&pending, &pair.key] {
        let body = key.expose().lines().nth(1).unwrap();
        assert!(!shown.contains(&body[..20]), "{shown}");
    }
    assert!(shown.contains("cannot renew the client certificate"), "{shown}");
}

#[tokio::test(start_paused = true)]
async fn an_unusable_stored_certificate_is_an_error() {
    let fixture = Fixture::new().await;
    fixture.store.update(&CertificatePair::new("garbage", "garbage")).unwrap();
    let error = fixture.start_for(agent()).await.unwrap_err();
    assert!(matches!(error, CertificateError::Stored { .. }) && error.to_string().contains("remove it"), "{error}");
    let error = Fixture::new().await.start_for(CertificateTemplate::default()).await.unwrap_err();
    assert!(matches!(error, CertificateError::Config(_)), "{error}");
}
