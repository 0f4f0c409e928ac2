//! `kill -9` of a durable server under load, with a torn last record, and with a full disk (DUR-003, DUR-004, DUR-011).
//!
//! Each round starts the server on the same folder and port, lets 50 writers create, update and delete, and kills it after
//! some hundred acknowledged writes. After the restart every acknowledged write must be there, no resource version may have
//! been issued twice, and the informers, which run through all rounds, must end with the content of the server.
//!
//! `EVENKEEL_KILL_ROUNDS=100` runs more than the few rounds of CI, `tests/attack/kill-rounds.sh` all of them.

use std::collections::{BTreeMap, HashSet};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use evenkeel_cache::informer::Backoff;
use evenkeel_cache::source::ApiSource;
use evenkeel_cache::{Event, InformerOptions, SharedInformer};
use evenkeel_client::config::ServerUrl;
use evenkeel_client::{Client, Config, ListParams, Patch};
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::process::{Process, evenkeel};

const WRITERS: u64 = 50;
const INFORMERS: usize = 3;

/// Number of a write, or none for a deleted or absent object.
type Written = Option<u64>;

/// What one writer knows of its object.
#[derive(Clone, Debug, Default)]
struct Known {
    acknowledged: Written,
    /// Set while a write is on its way, and if its outcome is not known.
    pending: Option<Written>,
}

/// What all clients know.
#[derive(Default)]
struct Truth {
    objects: Mutex<BTreeMap<String, Known>>,
    /// Resource versions of all acknowledged writes.
    versions: Mutex<HashSet<u64>>,
    acknowledged: AtomicU64,
    reached: Notify,
}

struct Rounds {
    folder: PathBuf,
    port: u16,
    truth: Arc<Truth>,
    client: Client,
    random: u64,
}

impl Rounds {
    fn random(&mut self, below: u64) -> u64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) % below
    }

    /// Starts the server. With a limit, no file grows beyond this many bytes, as on a full disk.
    fn start(&self, limit: Option<u64>, fsync: &str) -> Process {
        let mut command = evenkeel(&[]);
        if let Some(limit) = limit {
            let program = command.get_program().to_owned();
            command = Command::new("bash");
            // With the signal ignored, a write beyond the limit is an error, as on a full disk.
            let script = format!("trap '' XFSZ; ulimit -f {}; exec \"$@\"", limit / 1024);
            command.args(["-c", &script, "bash"]).arg(program).stdin(Stdio::null());
        }
        let listen = format!("127.0.0.1:{}", self.port);
        command.args(["apiserver", "--plain-http", "--listen", &listen, "--fsync", fsync, "--data-dir"]);
        let mut server = Process(command.arg(&self.folder).stdout(Stdio::piped()).spawn().unwrap());
        let mut line = String::new();
        let mut lines = BufReader::new(server.stdout.take().unwrap());
        while !line.starts_with("listening on ") {
            line.clear();
            assert_ne!(lines.read_line(&mut line).unwrap(), 0, "the server ended");
        }
        server
    }

    /// Starts the writers. They end when the server does.
    fn write(&self, round: u64) -> JoinSet<()> {
        let mut writers = JoinSet::new();
        for writer in 0..WRITERS {
            let (client, truth) = (self.client.clone(), Arc::clone(&self.truth));
            writers.spawn(async move {
                let mut number = round * 1_000_000;
                let name = format!("object-{writer}");
                while write_once(&client, &truth, &name, writer, &mut number).await {}
            });
        }
        writers
    }

    /// Waits for this many acknowledged writes.
    async fn acknowledged(&self, count: u64) {
        let enough = self.truth.acknowledged.load(Ordering::Relaxed) + count;
        while self.truth.acknowledged.load(Ordering::Relaxed) < enough {
            self.truth.reached.notified().await;
        }
    }

    /// Compares the server with what was acknowledged, and takes over what had an unknown outcome.
    async fn verify(&self, round: u64) -> (BTreeMap<String, u64>, u64) {
        let list = self.client.api::<ConfigMap>().namespace("default").list(&ListParams::default()).await.unwrap();
        let mut found = BTreeMap::new();
        let mut versions = BTreeMap::new();
        for map in &list.items {
            let value = map.typed().unwrap();
            let number = value.data.as_ref().and_then(|data| data.get("n")?.parse::<u64>().ok());
            found.insert(map.key().name().to_owned(), number);
            versions.insert(map.key().name().to_owned(), map.resource_version().to_string().parse::<u64>().unwrap());
        }
        let mut objects = self.truth.objects.lock().unwrap();
        for (name, known) in objects.iter_mut() {
            let present = found.get(name).copied().flatten();
            let legal = present == known.acknowledged || known.pending == Some(present);
            assert!(legal, "round {round}: {name} is {present:?}, known is {known:?}");
            *known = Known { acknowledged: present, pending: None };
        }
        assert!(found.keys().all(|name| objects.contains_key(name)), "an object that no client created");
        let now = list.resource_version().to_string().parse::<u64>().unwrap();
        let highest = self.truth.versions.lock().unwrap().iter().max().copied().unwrap_or(0);
        assert!(now >= highest, "round {round}: the server is at {now}, and a client has seen {highest}");
        (versions, now)
    }
}

/// Writes once: creates, updates or deletes. Returns whether the server answered with success.
async fn write_once(client: &Client, truth: &Truth, name: &str, writer: u64, number: &mut u64) -> bool {
    *number += 1;
    let maps = client.api::<ConfigMap>().namespace("default");
    let exists = truth.objects.lock().unwrap().entry(name.to_owned()).or_default().acknowledged.is_some();
    let next = match exists && (*number + writer).is_multiple_of(3) {
        true => None,
        false => Some(*number),
    };
    truth.objects.lock().unwrap().entry(name.to_owned()).or_default().pending = Some(next);
    let version = match (exists, next) {
        (false, _) => {
            let map = json!({"metadata": {"name": name, "namespace": "default"}, "data": {"n": number.to_string()}});
            let created = maps.create(&serde_json::from_value(map).unwrap()).await;
            created.map(|map| Some(map.resource_version().to_string()))
        }
        (true, Some(number)) => {
            let patch = Patch::merge(&json!({"data": {"n": number.to_string()}}));
            let changed = maps.patch(name, &patch).await;
            changed.map(|map| Some(map.resource_version().to_string()))
        }
        (true, None) => maps.delete(name).await.map(|_| None),
    };
    match version {
        Ok(version) => {
            if let Some(version) = version {
                let first = truth.versions.lock().unwrap().insert(version.parse().unwrap());
                assert!(first, "the resource version {version} was issued twice");
            }
            truth.objects.lock().unwrap().insert(name.to_owned(), Known { acknowledged: next, pending: None });
            truth.acknowledged.fetch_add(1, Ordering::Relaxed);
            truth.reached.notify_one();
            true
        }
        Err(error) => {
            let refused = error.status().is_none_or(|status| status.code == 503);
            assert!(refused, "{error:?}");
            false
        }
    }
}

/// An informer, and the objects that its handler was notified of.
struct Informer {
    _informer: SharedInformer<ConfigMap>,
    _running: evenkeel_cache::informer::RunningInformers,
    seen: Arc<Mutex<BTreeMap<String, u64>>>,
    notified: Arc<Notify>,
}

impl Informer {
    /// Waits until the handler has been notified of exactly this content.
    async fn reach(&self, content: &BTreeMap<String, u64>, round: u64) {
        let reached = async {
            while *self.seen.lock().unwrap() != *content {
                self.notified.notified().await;
            }
        };
        // Reached only by a defect, however busy the machine is.
        if tokio::time::timeout(Duration::from_secs(120), reached).await.is_err() {
            panic!("round {round}: the informer has {:?}, the server {content:?}", self.seen.lock().unwrap());
        }
    }

    fn start(client: &Client) -> Self {
        let source = ApiSource::new(client.api::<ConfigMap>().namespace("default"));
        let info = Arc::clone(source.resource());
        // The server is away for moments only.
        let backoff = Backoff { cap: Duration::from_millis(800), ..Backoff::default() };
        let informer: SharedInformer<ConfigMap> =
            SharedInformer::new(source, &info, InformerOptions::new().backoff(backoff).on_error(|_| {}));
        let seen = Arc::new(Mutex::new(BTreeMap::new()));
        let notified = Arc::new(Notify::new());
        let (record, notify) = (Arc::clone(&seen), Arc::clone(&notified));
        let handler = move |event: Event<ConfigMap>| {
            let mut seen = record.lock().unwrap();
            match &event {
                Event::Add { object, .. } | Event::Update { new: object, .. } => {
                    let version = object.resource_version().to_string().parse::<u64>().unwrap();
                    let before = seen.insert(object.key().name().to_owned(), version);
                    assert!(before.is_none_or(|before| before <= version), "{before:?} before {version}");
                }
                Event::Delete(deleted) => {
                    let known = seen.remove(deleted.key().name());
                    assert!(known.is_some(), "a delete of an unknown object");
                }
            }
            drop(seen);
            notify.notify_one();
        };
        informer.add_handler(handler).unwrap();
        let running = informer.start();
        Informer { _informer: informer, _running: running, seen, notified }
    }
}

/// Appends the start of a record, as a write that did not reach its end leaves it.
fn tear(folder: &Path, bytes: usize) {
    let logs = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let is_log = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("log-"));
    let last = logs.filter(is_log).max().unwrap();
    let whole = std::fs::read(&last).unwrap();
    let mut file = std::fs::OpenOptions::new().append(true).open(&last).unwrap();
    // The first frame follows the preamble of 12 bytes; its marker and length fit, the rest does not.
    let mut torn = whole[12..24.min(whole.len())].to_vec();
    torn.extend((0..bytes).map(|index| (index % 251) as u8));
    file.write_all(&torn[..bytes.min(torn.len())]).unwrap();
}

fn log_size(folder: &Path) -> u64 {
    let sizes = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len());
    sizes.max().unwrap_or(0)
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dur_003_dur_011_acknowledged_writes_survive_kill_torn_records_and_a_full_disk() {
    let rounds: u64 = std::env::var("EVENKEEL_KILL_ROUNDS").map_or(3, |text| text.parse().unwrap());
    let folder = std::env::temp_dir().join(format!("evenkeel-kill-rounds-{}", std::process::id()));
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut config = Config::new(ServerUrl::parse(&format!("http://127.0.0.1:{port}")).unwrap());
    config.throttle = None;
    config.retry.max_retries = 0;
    let client = Client::new(config).unwrap();
    let seed = std::env::var("EVENKEEL_KILL_SEED").map_or(1, |text| text.parse().unwrap());
    let mut run = Rounds { folder: folder.clone(), port, truth: Arc::default(), client: client.clone(), random: seed };
    let informers: Vec<Informer> = (0..INFORMERS).map(|_| Informer::start(&client)).collect();
    let (mut torn_tails, mut full_disks) = (0, 0);
    for round in 0..rounds {
        let fsync = ["never", "group", "always"][run.random(3) as usize];
        let full_disk = round % 3 == 1;
        let limit = full_disk.then(|| log_size(&folder) + 16 * 1024 + run.random(64) * 1024);
        let mut server = run.start(limit, fsync);
        let mut writers = run.write(round + 1);
        if full_disk {
            full_disks += 1;
            // The writers end with 503 when the disk is full.
            while let Some(ended) = writers.join_next().await {
                ended.unwrap();
            }
            run.client.api::<ConfigMap>().namespace("default").list(&ListParams::default()).await.unwrap();
        } else {
            let enough = 100 + run.random(400);
            run.acknowledged(enough).await;
        }
        server.kill().unwrap();
        server.wait().unwrap();
        while let Some(ended) = writers.join_next().await {
            ended.unwrap();
        }
        if round % 3 == 2 {
            let bytes = 1 + run.random(3000) as usize;
            tear(&folder, bytes);
            torn_tails += 1;
        }
        let server = run.start(None, fsync);
        let (content, now) = run.verify(round).await;
        for informer in &informers {
            informer.reach(&content, round).await;
        }
        drop(server);
        let acknowledged = run.truth.acknowledged.load(Ordering::Relaxed);
        println!("round {round}: fsync {fsync}, full disk {full_disk}, revision {now}, {acknowledged} writes so far");
    }
    std::fs::remove_dir_all(&folder).unwrap();
    let acknowledged = run.truth.acknowledged.load(Ordering::Relaxed);
    println!(
        "{rounds} rounds: {acknowledged} writes acknowledged, 0 lost; {torn_tails} torn tails, {full_disks} full disks; \
         {INFORMERS} informers converged after every round"
    );
}
