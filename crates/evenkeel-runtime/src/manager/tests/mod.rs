//! The order of start and stop, in virtual time.

mod added;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use evenkeel_apiserver::ApiServer;
use evenkeel_cache::source::BoxFuture;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use serde_json::json;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::*;

async fn server() -> ApiServer {
    ApiServer::builder().in_process_only().bootstrap(false).start().await.unwrap()
}

async fn pass(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

async fn settle() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    fn note(&self, what: impl ToString) {
        self.0.lock().unwrap().push(what.to_string());
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }

    /// A task that records its start and its stop, and takes `takes` seconds to stop.
    fn task(
        &self,
        name: &'static str,
        takes: u64,
    ) -> impl FnOnce(StopSignal) -> BoxFuture<'static, Result<(), BoxError>> + use<> {
        let log = self.clone();
        move |stop| {
            Box::pin(async move {
                log.note(format!("+{name}"));
                stop.requested().await;
                assert!(stop.is_requested());
                pass(takes).await;
                log.note(format!("-{name}"));
                Ok(())
            })
        }
    }
}

/// An election that the test decides.
#[derive(Clone)]
struct Ballot {
    leads: watch::Sender<bool>,
    log: Log,
}

impl Ballot {
    fn new(log: &Log) -> Self {
        Ballot { leads: watch::Sender::new(false), log: log.clone() }
    }
}

impl Election for Ballot {
    fn campaign(&self, term: Term) -> BoxFuture<'_, Result<(), BoxError>> {
        Box::pin(async move {
            self.log.note("+campaign");
            let mut leads = self.leads.subscribe();
            leads.wait_for(|leads| *leads).await?;
            let lost = async { leads.wait_for(|leads| !*leads).await.map(drop) };
            term.lead(lost).await;
            self.log.note("-lease");
            if *self.leads.borrow() { Ok(()) } else { Err("taken by another".into()) }
        })
    }
}

struct Running {
    shutdown: oneshot::Sender<()>,
    ended: JoinHandle<Result<(), ManagerError>>,
}

impl Running {
    async fn end(self) -> Result<(), ManagerError> {
        let _ = self.shutdown.send(());
        self.ended.await.unwrap()
    }
}

fn start(manager: Manager) -> Running {
    let (shutdown, requested) = oneshot::channel();
    Running { shutdown, ended: tokio::spawn(manager.run(requested)) }
}

/// One task of each kind, added in the wrong order.
fn full(server: &ApiServer, log: &Log) -> Manager {
    let client = server.client();
    let reconciled = log.clone();
    Manager::new(&client)
        .elected("elected", log.task("elected", 1))
        .always("always", log.task("always", 1))
        .controller(Controller::<ConfigMap>::new(&client).named("managed"), move |config, _| {
            reconciled.note(format!("reconcile {}", config.key().name()));
            async { Ok(Next::done()) }
        })
        .server("server", log.task("server", 1))
}

async fn create(server: &ApiServer, name: &str) {
    let config: ConfigMap = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
    server.client().api::<ConfigMap>().namespace("default").create(&config).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn co_024_co_025_everything_starts_and_stops_in_order() {
    let (server, log) = (server().await, Log::default());
    let ballot = Ballot::new(&log);
    let running = start(full(&server, &log).election(ballot.clone()));
    create(&server, "a").await;
    pass(60).await;
    assert_eq!(log.take(), ["+server", "+always", "+campaign"], "not elected yet");
    ballot.leads.send_replace(true);
    settle().await;
    assert_eq!(log.take(), ["+elected", "reconcile a"], "its queue was filled");
    let ended = Instant::now();
    running.end().await.unwrap();
    assert_eq!(log.take(), ["-always", "-elected", "-server", "-lease"]);
    assert_eq!(ended.elapsed(), Duration::from_secs(3));
}

#[tokio::test(start_paused = true)]
async fn whs_010_webhooks_stop_before_the_probes_that_were_added_before_them() {
    let (server, log) = (server().await, Log::default());
    let manager = || {
        let always = Manager::new(&server.client()).always("task", log.task("task", 1));
        always.server("probes", log.task("probes", 1)).server("webhooks", log.task("webhooks", 5))
    };
    let running = start(manager());
    settle().await;
    log.take();
    running.end().await.unwrap();
    assert_eq!(log.take(), ["-task", "-webhooks", "-probes"]);
    // Of servers that exceed the grace, the slow one is named.
    let running = start(manager().grace(Duration::from_secs(3)));
    settle().await;
    let ManagerError::GraceExceeded { tasks, .. } = running.end().await.unwrap_err() else { panic!() };
    assert_eq!(tasks, ["webhooks"]);
}

#[tokio::test(start_paused = true)]
async fn co_024_without_an_election_elected_tasks_start_at_once() {
    let (server, log) = (server().await, Log::default());
    let running = start(full(&server, &log));
    create(&server, "a").await;
    settle().await;
    let mut lines = log.take();
    assert_eq!(lines.pop().unwrap(), "reconcile a");
    assert_eq!(lines, ["+server", "+always", "+elected"]);
    running.end().await.unwrap();
    assert_eq!(log.take(), ["-always", "-elected", "-server"]);
}

#[tokio::test(start_paused = true)]
async fn co_024_late_tasks_start_at_once_if_their_stage_has_started() {
    let (server, log) = (server().await, Log::default());
    let ballot = Ballot::new(&log);
    let manager = Manager::new(&server.client()).election(ballot.clone());
    let handle = manager.handle();
    let running = start(manager);
    settle().await;
    handle.always("always", log.task("always", 0));
    handle.elected("elected", log.task("elected", 0));
    settle().await;
    assert_eq!(log.take(), ["+campaign", "+always"]);
    ballot.leads.send_replace(true);
    settle().await;
    handle.elected("late", log.task("late", 0));
    settle().await;
    assert_eq!(log.take(), ["+elected", "+late"]);
    running.end().await.unwrap();
    handle.always("too late", log.task("too late", 0));
    settle().await;
    assert!(!log.take().contains(&"+too late".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn co_024_informers_have_synced_before_any_task_but_servers_starts() {
    let (server, log) = (server().await, Log::default());
    let delay = evenkeel_apiserver::Action::Delay(Duration::from_secs(20));
    server.faults().add(evenkeel_apiserver::Rule::new(delay).resource("secrets").times(2));
    let manager = full(&server, &log);
    let secrets = manager.informers().lister::<Secret>();
    let running = start(manager);
    pass(10).await;
    assert_eq!(log.take(), ["+server"]);
    pass(60).await;
    assert_eq!(log.take(), ["+always", "+elected"]);
    assert!(secrets.list_all().is_empty());
    running.end().await.unwrap();

    server.faults().add(evenkeel_apiserver::Rule::new(evenkeel_apiserver::Action::Hang).resource("secrets"));
    let manager = full(&server, &log);
    let _secrets = manager.informers().lister::<Secret>();
    let error = start(manager).ended.await.unwrap().unwrap_err();
    assert!(matches!(&error, ManagerError::SyncTimeout { informers, .. } if informers.len() == 1), "{error}");
    assert!(error.to_string().starts_with("caches not synced within 120s: secrets: "), "{error}");
}

#[tokio::test(start_paused = true)]
async fn co_025_all_tasks_share_one_grace_and_the_error_names_late_tasks() {
    let (server, log) = (server().await, Log::default());
    let manager = Manager::new(&server.client())
        .always("quick", log.task("quick", 1))
        .always("slow", log.task("slow", 100))
        .elected("next", log.task("next", 1))
        .server("server", log.task("server", 0));
    let running = start(manager);
    settle().await;
    log.take();
    let ended = Instant::now();
    let error = running.end().await.unwrap_err();
    assert_eq!(ended.elapsed(), Duration::from_secs(30));
    let ManagerError::GraceExceeded { tasks, .. } = &error else { panic!("{error}") };
    assert!(tasks.contains(&"slow".to_owned()) && !tasks.contains(&"quick".to_owned()), "{tasks:?}");
    assert_eq!(log.take()[0], "-quick");

    let running = start(Manager::new(&server.client()).always("slow", log.task("slow", 100)).grace(None));
    settle().await;
    running.end().await.unwrap();
    let running = start(Manager::new(&server.client()).always("slow", log.task("slow", 100)).grace(Duration::ZERO));
    settle().await;
    let ended = Instant::now();
    assert!(running.end().await.is_err());
    assert_eq!(ended.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn co_026_elected_tasks_are_dropped_when_leadership_is_lost() {
    let (server, log) = (server().await, Log::default());
    let ballot = Ballot::new(&log);
    let running = start(full(&server, &log).election(ballot.clone()));
    ballot.leads.send_replace(true);
    pass(1).await;
    log.take();
    let lost = Instant::now();
    ballot.leads.send_replace(false);
    let error = running.ended.await.unwrap().unwrap_err();
    assert_eq!(lost.elapsed(), Duration::ZERO, "no grace");
    assert_eq!(error.to_string(), "leader election lost: taken by another");
    assert_eq!(log.take(), ["-lease"], "no task had time to stop");
}

#[tokio::test(start_paused = true)]
async fn co_026_elected_tasks_never_start_without_an_election_win() {
    let (server, log) = (server().await, Log::default());
    let running = start(full(&server, &log).election(Ballot::new(&log)));
    create(&server, "a").await;
    pass(60).await;
    running.end().await.unwrap();
    assert_eq!(log.take(), ["+server", "+always", "+campaign", "-always", "-server"]);
}

#[tokio::test(start_paused = true)]
async fn a_failed_task_stops_everything_and_an_ended_one_does_not() {
    let (server, log) = (server().await, Log::default());
    let running =
        start(full(&server, &log).always("short", |_| async { Ok::<_, BoxError>(()) }).always("bad", |_| async {
            pass(10).await;
            Err::<(), _>("out of order")
        }));
    pass(5).await;
    assert!(!running.ended.is_finished());
    let error = running.ended.await.unwrap().unwrap_err();
    assert!(
        matches!(&error, ManagerError::Task { task, source } if task == "bad" && source.to_string() == "out of order")
    );
    assert!(log.take().ends_with(&["-always".into(), "-elected".into(), "-server".into()]), "in order");

    let running = start(Manager::new(&server.client()).elected("panics", |_| async {
        assert!(server_is_fine(), "it is not");
        Ok::<_, BoxError>(())
    }));
    let error = running.ended.await.unwrap().unwrap_err();
    assert!(
        matches!(&error, ManagerError::Task { source, .. } if source.to_string() == "panic: it is not"),
        "{error:?}"
    );
}

fn server_is_fine() -> bool {
    false
}

#[tokio::test(start_paused = true)]
async fn co_035_the_error_shows_all_causes_and_the_chain_repeats_none() {
    let server = server().await;
    let failing = async |_| Err::<(), _>(anyhow::anyhow!("port 80 is in use").context("binding").context("serving"));
    let running = start(Manager::new(&server.client()).server("probes", failing));
    let error = running.ended.await.unwrap().unwrap_err();
    let text = "the task probes failed: serving: binding: port 80 is in use";
    assert_eq!(error.to_string(), text);
    let ManagerError::Task { source, .. } = &error else { panic!("{error}") };
    assert_eq!(source.to_string(), "serving");
    let wrapped = anyhow::Error::from(error).context("the operator stopped");
    assert_eq!(format!("{wrapped:#}"), format!("the operator stopped: {text}"));
}

#[tokio::test(start_paused = true)]
async fn an_error_during_the_shutdown_is_returned() {
    let (server, log) = (server().await, Log::default());
    let client = server.client();
    create(&server, "a").await;
    let slow = Controller::<ConfigMap>::new(&client).named("slow-managed").grace(Duration::from_secs(1));
    let manager = Manager::new(&client).server("server", log.task("server", 0)).controller(slow, |_, _| async {
        pass(3600).await;
        Ok(Next::done())
    });
    let running = start(manager);
    pass(1).await;
    let error = running.end().await.unwrap_err();
    assert!(matches!(&error, ManagerError::Controller(ControllerError::GraceExceeded { .. })), "{error}");
    assert!(error.to_string().starts_with("controller slow-managed: stopped; 1 reconciles"), "{error}");
    assert_eq!(log.take(), ["+server", "-server"], "the others stop in order");
}

#[tokio::test(start_paused = true)]
async fn a_dropped_manager_leaves_no_task() {
    let (server, log) = (server().await, Log::default());
    pass(1).await;
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let before = tasks();
    let running = start(full(&server, &log));
    pass(1).await;
    running.ended.abort();
    pass(1).await;
    assert_eq!(tasks(), before);
    let running = start(full(&server, &log));
    pass(1).await;
    running.end().await.unwrap();
    pass(1).await;
    assert_eq!(tasks(), before);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_manager_stops_informers_with_outside_handlers() {
    let (server, log) = (server().await, Log::default());
    let manager = full(&server, &log);
    let secrets = manager.informers().of::<Secret>();
    let running = start(manager);
    pass(1).await;
    assert!(secrets.has_synced() && !secrets.is_stopped());
    running.ended.abort();
    pass(1).await;
    assert!(secrets.is_stopped());
}

#[tokio::test(start_paused = true)]
async fn co_026_elected_tasks_are_dropped_when_leadership_is_lost_during_the_shutdown() {
    let (server, log) = (server().await, Log::default());
    let ballot = Ballot::new(&log);
    let manager = Manager::new(&server.client())
        .election(ballot.clone())
        .elected("slow", log.task("slow", 20))
        .server("server", log.task("server", 0));
    let running = start(manager);
    ballot.leads.send_replace(true);
    pass(1).await;
    log.take();
    let lose = async {
        pass(5).await;
        ballot.leads.send_replace(false);
        Instant::now()
    };
    let (ended, lost) = tokio::join!(running.end(), lose);
    let error = ended.unwrap_err();
    assert_eq!(lost.elapsed(), Duration::ZERO, "elected tasks have no grace any more");
    assert_eq!(error.to_string(), "leader election lost: taken by another");
    assert_eq!(log.take(), ["-server", "-lease"]);
}

/// An election that is won at the moment of the shutdown.
struct WonAtShutdown {
    shutdown: Mutex<Option<oneshot::Sender<()>>>,
    log: Log,
}

impl Election for WonAtShutdown {
    fn campaign(&self, term: Term) -> BoxFuture<'_, Result<(), BoxError>> {
        Box::pin(async move {
            let shutdown = self.shutdown.lock().unwrap().take().unwrap();
            shutdown.send(()).unwrap();
            term.lead(std::future::pending::<()>()).await;
            self.log.note("-lease");
            Ok(())
        })
    }
}

#[tokio::test(start_paused = true)]
async fn co_025_the_lease_is_released_though_no_elected_task_had_started() {
    let (server, log) = (server().await, Log::default());
    let (shutdown, requested) = oneshot::channel();
    let election = WonAtShutdown { shutdown: Mutex::new(Some(shutdown)), log: log.clone() };
    Manager::new(&server.client()).election(election).elected("e", log.task("e", 0)).run(requested).await.unwrap();
    assert_eq!(log.take(), ["-lease"]);
}

/// An election that hangs, because its server is unreachable.
struct Unreachable;

impl Election for Unreachable {
    fn campaign(&self, term: Term) -> BoxFuture<'_, Result<(), BoxError>> {
        Box::pin(async move {
            term.lead(pass(10)).await;
            std::future::pending().await
        })
    }
}

#[tokio::test(start_paused = true)]
async fn co_026_an_election_that_hangs_does_not_delay_a_manager_that_lost() {
    let (server, log) = (server().await, Log::default());
    let manager = Manager::new(&server.client()).election(Unreachable).elected("e", log.task("e", 0));
    let started = Instant::now();
    let running = start(manager.grace(Duration::from_secs(3)));
    let error = running.ended.await.unwrap().unwrap_err();
    assert!(matches!(error, ManagerError::LeadershipLost { source: None }), "{error}");
    assert_eq!(started.elapsed().as_secs(), 13);
}

/// Otherwise the failure would show only when the standby takes over.
#[tokio::test(start_paused = true)]
async fn co_010_a_standby_whose_caches_do_not_sync_fails_before_the_election() {
    use evenkeel_apiserver::{Action, Rule};

    let (server, log) = (server().await, Log::default());
    server.faults().add(Rule::new(Action::Delay(Duration::from_secs(3600))).resource("configmaps"));
    let started = Instant::now();
    let running = start(full(&server, &log).election(Ballot::new(&log)));
    let error = running.ended.await.unwrap().unwrap_err();
    assert!(matches!(&error, ManagerError::Controller(ControllerError::SyncTimeout { .. })), "{error}");
    assert!(error.to_string().starts_with("controller managed: caches not synced"), "{error}");
    assert!(started.elapsed() < Duration::from_secs(130));
    assert_eq!(log.take(), ["+server", "+always", "+campaign", "-always", "-server"]);
}
