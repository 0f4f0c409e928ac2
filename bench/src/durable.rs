//! The durable server: how long it takes to start, how long a write waits while the log is compacted, and its disk.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use evenkeel_apiserver::{ApiServer, Fsync, InProcess};
use http::Request;
use http_body_util::Full;
use serde_json::json;
use tokio::task::JoinSet;
use tower_service::Service;

use crate::Failure;
use crate::client::expect;
use crate::pods;
use crate::report::{Samples, line, megabytes};

const PODS: &str = "/api/v1/namespaces/default/pods";
const WRITERS: usize = 32;

/// DUR-009 and DUR-013.
pub(crate) async fn durable(count: usize) -> Result<(), Failure> {
    let folder = Folder(std::env::temp_dir().join(format!("evenkeel-bench-durable-{}", std::process::id())));
    let start = |fsync| pods::server().in_process_only().data_dir(&folder.0).fsync(fsync).start();
    let server = start(Fsync::Never).await?;
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        let mut service = server.service();
        writers.spawn(async move {
            for number in (writer..count).step_by(WRITERS) {
                expect(&mut service, http::Method::POST, PODS, Some(&pods::pod(number)), 201).await?;
            }
            Ok::<(), Failure>(())
        });
    }
    while let Some(ended) = writers.join_next().await {
        ended??;
    }
    server.shutdown().await;

    let mut samples = Vec::new();
    for _ in 0..5 {
        let begin = Instant::now();
        let server = start(Fsync::Never).await?;
        samples.push(begin.elapsed());
        server.shutdown().await;
    }
    let name = format!("start from disk, {count} pods");
    let figure = format!("{}, {:.0} MB", Samples::new(samples).summary(), megabytes(folder.bytes().0));
    line(&name, &figure, "DUR-013: 2 s for 100,000");

    for (name, fsync) in [("never", Fsync::Never), ("group", Fsync::default())] {
        let server = start(fsync).await?;
        let samples = (0..20).map(|_| {
            let begin = Instant::now();
            let snapshot = server.snapshot();
            let took = begin.elapsed();
            drop(snapshot);
            took
        });
        line("snapshot, which excludes writes", &Samples::new(samples.collect()).summary(), "");
        let content = server.stats();
        let compactions = updates(&server, &folder, count, name).await?;
        let (during, others) = (Samples::new(compactions.during), Samples::new(compactions.others));
        let figure = |samples: &Samples| format!("{}, longest {:.2?}", samples.summary(), samples.quantile(1.0));
        line(&format!("write, fsync {name}, log not compacted"), &figure(&others), "");
        line(&format!("write, fsync {name}, while it is"), &figure(&during), "DUR-009: 10 ms more than else");
        let content = megabytes((content.object_bytes + content.history_bytes) as u64);
        let figure = format!("{:.0} MB at most, {content:.0} MB of content", megabytes(compactions.peak));
        line(&format!("disk, fsync {name}"), &figure, "DUR-009: 3 times + 256 MiB");
        server.shutdown().await;
    }
    Ok(())
}

/// The times of writes, and the most bytes on disk.
struct Compactions {
    during: Vec<Duration>,
    others: Vec<Duration>,
    peak: u64,
}

/// Sets an annotation of every pod, which compacts the log at least once.
async fn updates(
    server: &ApiServer,
    folder: &Folder,
    count: usize,
    value: &'static str,
) -> Result<Compactions, Failure> {
    let next = Arc::new(AtomicUsize::new(0));
    let (compacting, ended) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let observer = std::thread::spawn({
        let (folder, compacting, ended) = (folder.0.clone(), Arc::clone(&compacting), Arc::clone(&ended));
        move || {
            let mut peak = 0;
            while !ended.load(Ordering::Relaxed) {
                let (bytes, is_compacting) = bytes(&folder);
                compacting.store(is_compacting, Ordering::Relaxed);
                peak = peak.max(bytes);
                std::thread::sleep(Duration::from_millis(1));
            }
            peak
        }
    });
    let mut writers = JoinSet::new();
    for _ in 0..WRITERS {
        let (mut service, next, compacting) = (server.service(), Arc::clone(&next), Arc::clone(&compacting));
        writers.spawn(async move {
            let (mut during, mut others) = (Vec::new(), Vec::new());
            loop {
                // Spread over all keys.
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= count {
                    return Ok::<_, Failure>((during, others));
                }
                let begin = Instant::now();
                let before = compacting.load(Ordering::Relaxed);
                update(&mut service, number.wrapping_mul(7919) % count, value).await?;
                let is_during = before || compacting.load(Ordering::Relaxed);
                if is_during { &mut during } else { &mut others }.push(begin.elapsed());
            }
        });
    }
    let mut all = Compactions { during: Vec::new(), others: Vec::new(), peak: 0 };
    while let Some(writer) = writers.join_next().await {
        let (during, others) = writer??;
        all.during.extend(during);
        all.others.extend(others);
    }
    ended.store(true, Ordering::Relaxed);
    all.peak = observer.join().map_err(|_| "the observer panicked")?;
    Ok(all)
}

async fn update(service: &mut InProcess, number: usize, value: &str) -> Result<(), Failure> {
    let patch = json!({"metadata": {"annotations": {"example.com/updated": value}}}).to_string();
    let request = Request::builder().method("PATCH").uri(format!("{PODS}/{}", pods::name(number)));
    let request = request.header("content-type", "application/merge-patch+json").body(Full::new(Bytes::from(patch)))?;
    let reply = service.call(request).await?;
    match reply.status().as_u16() {
        200 | 429 => Ok(()),
        other => Err(format!("an update returned {other}").into()),
    }
}

/// A data directory that is removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn bytes(&self) -> (u64, bool) {
        bytes(&self.0)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Returns the bytes of all files, and whether a snapshot is being written.
fn bytes(folder: &Path) -> (u64, bool) {
    let (mut bytes, mut is_compacting) = (0, false);
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        bytes += entry.metadata().map_or(0, |metadata| metadata.len());
        is_compacting |= entry.file_name().to_string_lossy().ends_with(".tmp");
    }
    (bytes, is_compacting)
}
