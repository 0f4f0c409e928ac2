//! The common part of all measured controllers: server, events, clock, figures.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body::Frame;
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tower_service::Service;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The object of the events. All others are in flight for as long as the measurement lasts.
const PROBE: &str = "probe";

/// Idle time before each event. The threads of a runtime park after a fraction of it.
const QUIET: Duration = Duration::from_millis(1);

/// Events before those that count.
const WARM_UP: usize = 200;

/// What is measured, and how often.
#[derive(Clone, Debug, clap::Args)]
#[group(id = "reconcile")]
pub(crate) struct Options {
    /// Timed events per line of the case reconcile.
    #[arg(long, default_value_t = 2_000)]
    samples: usize,
    /// Numbers of other reconciles in flight; each is measured separately.
    #[arg(long, value_delimiter = ',', default_value = "0,100,1000,10000")]
    running: Vec<usize>,
}

/// Measures a controller in all configurations and prints the figures. `begin` starts it in the current runtime, with
/// this concurrency; its reconcile calls [`Rig::reconcile`] and nothing before it.
pub(crate) fn measure(program: &str, options: &Options, begin: fn(&Arc<Rig>, usize)) -> Result<(), Failure> {
    let mut runs = Vec::new();
    for threads in [1, std::thread::available_parallelism()?.get()] {
        for &running in &options.running {
            for from in [From::Task, From::Thread] {
                let runtime = match threads {
                    1 => tokio::runtime::Builder::new_current_thread().enable_all().build()?,
                    _ => tokio::runtime::Builder::new_multi_thread().enable_all().build()?,
                };
                let figures = run(runtime, running, options.samples, from, begin)?;
                println!("{}", figures.line(program, threads, running, from));
                runs.push(figures.json(threads, running, from));
            }
        }
    }
    println!("{}", json!({"benchmark": "reconcile", "program": program, "samples": options.samples, "runs": runs}));
    Ok(())
}

/// The sender of the event.
#[derive(Clone, Copy, Debug)]
enum From {
    /// A task of the runtime, like a connection's: a thread of the runtime is awake.
    Task,
    /// Another thread, while all threads of the runtime are parked: the system has to wake one.
    Thread,
}

impl From {
    fn name(self) -> &'static str {
        match self {
            From::Task => "task",
            From::Thread => "thread",
        }
    }
}

fn run(
    runtime: Runtime,
    running: usize,
    samples: usize,
    from: From,
    begin: fn(&Arc<Rig>, usize),
) -> Result<Figures, Failure> {
    let (seen, mut sightings) = mpsc::unbounded_channel();
    let rig = Arc::new(Rig { running: AtomicUsize::new(0), seen, server: Server::new(running) });
    // All tasks are spawned, as in a program.
    let measured = runtime.spawn(async move {
        begin(&rig, running + 1);
        // The probe is in the initial list too.
        sightings.recv().await.ok_or("the controller has ended")?;
        while rig.running.load(Ordering::Acquire) < running {
            tokio::time::sleep(QUIET).await;
        }
        match from {
            From::Task => from_task(&rig, &mut sightings, samples).await,
            From::Thread => {
                let measured = std::thread::spawn(move || from_thread(&rig, &mut sightings, samples));
                // The thread waits for this runtime, so the runtime must not block a thread of its own on it.
                while !measured.is_finished() {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                measured.join().map_err(|_| "the measurement panicked")?
            }
        }
    });
    let figures = runtime.block_on(measured)?;
    // The remaining reconciles never end.
    runtime.shutdown_background();
    figures
}

async fn from_task(rig: &Rig, seen: &mut mpsc::UnboundedReceiver<Instant>, samples: usize) -> Result<Figures, Failure> {
    let mut clock = Clock::new(samples);
    for _ in 0..WARM_UP + samples {
        let frame = rig.server.next_event();
        tokio::time::sleep(QUIET).await;
        clock.sends();
        rig.server.send(frame)?;
        clock.seen(seen.recv().await.ok_or("the controller has ended")?);
    }
    Ok(clock.figures())
}

fn from_thread(rig: &Rig, seen: &mut mpsc::UnboundedReceiver<Instant>, samples: usize) -> Result<Figures, Failure> {
    let mut clock = Clock::new(samples);
    for _ in 0..WARM_UP + samples {
        let frame = rig.server.next_event();
        std::thread::sleep(QUIET);
        clock.sends();
        rig.server.send(frame)?;
        clock.seen(seen.blocking_recv().ok_or("the controller has ended")?);
    }
    Ok(clock.figures())
}

/// State shared by reconciles and the measurement.
pub(crate) struct Rig {
    running: AtomicUsize,
    seen: mpsc::UnboundedSender<Instant>,
    server: Server,
}

impl Rig {
    /// Returns the server, for the controller's client.
    pub(crate) fn server(&self) -> Server {
        self.server.clone()
    }

    /// A reconcile: reports its start if it is the probe's, else never ends.
    pub(crate) async fn reconcile(&self, name: &str) {
        let now = Instant::now();
        if name == PROBE {
            // Fails only after the measurement.
            let _ = self.seen.send(now);
        } else {
            self.running.fetch_add(1, Ordering::Release);
            tokio::time::sleep(Duration::from_secs(3600)).await;
        }
    }
}

/// Measures events, one at a time.
struct Clock {
    sent: Instant,
    samples: Vec<Duration>,
    warm_up: usize,
    processor: u64,
}

impl Clock {
    fn new(samples: usize) -> Self {
        Clock { sent: Instant::now(), samples: Vec::with_capacity(samples), warm_up: WARM_UP, processor: 0 }
    }

    fn sends(&mut self) {
        if self.warm_up == 0 && self.samples.is_empty() {
            self.processor = processor_time();
        }
        self.sent = Instant::now();
    }

    fn seen(&mut self, at: Instant) {
        match self.warm_up.checked_sub(1) {
            Some(left) => self.warm_up = left,
            None => self.samples.push(at - self.sent),
        }
    }

    fn figures(mut self) -> Figures {
        let processor = processor_time().saturating_sub(self.processor) as f64 / 1e3 / self.samples.len().max(1) as f64;
        self.samples.sort_unstable();
        let micros = |share: f64| {
            let last = self.samples.len().saturating_sub(1);
            let sample = self.samples.get((last as f64 * share).round() as usize);
            sample.map_or(0.0, |sample| sample.as_nanos() as f64 / 1e3)
        };
        Figures { p50: micros(0.5), p90: micros(0.9), p99: micros(0.99), max: micros(1.0), processor }
    }
}

/// Returns the processor time of all threads of this process, in nanoseconds.
fn processor_time() -> u64 {
    let of_task = |task: std::io::Result<std::fs::DirEntry>| {
        let statistics = std::fs::read_to_string(task.ok()?.path().join("schedstat")).ok()?;
        statistics.split(' ').next()?.parse::<u64>().ok()
    };
    std::fs::read_dir("/proc/self/task").map_or(0, |tasks| tasks.filter_map(of_task).sum())
}

/// In microseconds.
struct Figures {
    p50: f64,
    p90: f64,
    p99: f64,
    max: f64,
    /// Processor time of the whole process per event, including the wait for the next one.
    processor: f64,
}

impl Figures {
    fn line(&self, program: &str, threads: usize, running: usize, from: From) -> String {
        let Figures { p50, p90, p99, max, processor } = self;
        let from = from.name();
        format!(
            "{program:<10} threads {threads}  running {running:>6}  from {from:<6}  p50 {p50:7.1} µs  p90 {p90:7.1}  \
             p99 {p99:7.1}  max {max:8.1}  cpu {processor:7.1}"
        )
    }

    fn json(&self, threads: usize, running: usize, from: From) -> Value {
        let round = |micros: f64| (micros * 10.0).round() / 10.0;
        json!({
            "threads": threads, "running": running, "from": from.name(), "p50_us": round(self.p50),
            "p90_us": round(self.p90), "p99_us": round(self.p99), "max_us": round(self.max),
            "cpu_us_per_event": round(self.processor),
        })
    }
}

/// A server of config maps in this process, which serves lists and one watch at a time. Its objects are small, so
/// that decoding plays no part.
#[derive(Clone)]
pub(crate) struct Server {
    shared: Arc<Shared>,
}

struct Shared {
    /// Number of objects beside the probe.
    others: usize,
    version: AtomicU64,
    watch: Mutex<Option<mpsc::UnboundedSender<Bytes>>>,
}

impl Server {
    fn new(others: usize) -> Self {
        let shared = Shared { others, version: AtomicU64::new(1000), watch: Mutex::new(None) };
        Server { shared: Arc::new(shared) }
    }

    fn watch(&self) -> MutexGuard<'_, Option<mpsc::UnboundedSender<Bytes>>> {
        self.shared.watch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the probe, changed once more.
    fn next_event(&self) -> Bytes {
        let version = self.shared.version.fetch_add(1, Ordering::Relaxed) + 1;
        event("MODIFIED", &object(PROBE, version))
    }

    fn send(&self, frame: Bytes) -> Result<(), Failure> {
        let watch = self.watch();
        let watch = watch.as_ref().ok_or("there is no watch")?;
        watch.send(frame).map_err(|_| "the watch has ended".into())
    }

    fn objects(&self) -> impl Iterator<Item = Value> {
        let others = (0..self.shared.others).map(|number| object(&format!("other-{number}"), 1));
        others.chain([object(PROBE, 2)])
    }

    fn answer(&self, query: &str) -> Frames {
        let (frames, answer) = mpsc::unbounded_channel();
        let send = |value: Bytes| {
            // The receiver is in this process.
            let _ = frames.send(value);
        };
        let version = self.shared.version.load(Ordering::Relaxed).to_string();
        if !query.contains("watch=") {
            let items: Vec<Value> = self.objects().collect();
            let metadata = json!({"resourceVersion": version});
            let list = json!({"apiVersion": "v1", "kind": "ConfigMapList", "metadata": metadata, "items": items});
            send(list.to_string().into());
            return Frames(answer);
        }
        if query.contains("sendInitialEvents=true") {
            self.objects().for_each(|object| send(event("ADDED", &object)));
            let metadata = json!({"resourceVersion": version, "annotations": {"k8s.io/initial-events-end": "true"}});
            send(event("BOOKMARK", &json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})));
        }
        *self.watch() = Some(frames);
        Frames(answer)
    }
}

fn object(name: &str, version: u64) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {
            "namespace": "default", "name": name, "uid": format!("uid-{name}"), "resourceVersion": version.to_string(),
        },
        "data": {"version": version.to_string()},
    })
}

fn event(change: &str, object: &Value) -> Bytes {
    let mut line = json!({"type": change, "object": object}).to_string();
    line.push('\n');
    line.into()
}

impl<B> Service<http::Request<B>> for Server {
    type Response = http::Response<Frames>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<B>) -> Self::Future {
        let mut response = http::Response::new(self.answer(request.uri().query().unwrap_or_default()));
        let json = http::HeaderValue::from_static("application/json");
        response.headers_mut().insert(http::header::CONTENT_TYPE, json);
        ready(Ok(response))
    }
}

/// A body that is sent in pieces.
pub(crate) struct Frames(mpsc::UnboundedReceiver<Bytes>);

impl http_body::Body for Frames {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(cx).map(|piece| piece.map(|bytes| Ok(Frame::data(bytes))))
    }
}
