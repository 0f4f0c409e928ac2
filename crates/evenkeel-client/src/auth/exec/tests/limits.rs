//! The limits of a run, with a process of this test's own and in virtual time.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWriteExt as _, DuplexStream, ReadBuf, duplex};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep};

use super::*;
use crate::auth::exec::run::{MAX_STDOUT, PluginProcess, supervise};
use crate::auth::redact::Redactor;
use crate::secret::Secret;

const MINUTE: Duration = Duration::from_secs(60);

/// A process whose streams and end are in the hands of a test.
struct FakeProcess<R = DuplexStream> {
    streams: (Option<R>, Option<DuplexStream>),
    exit: oneshot::Receiver<Option<i32>>,
    killed: Arc<AtomicBool>,
}

/// The other ends of a process.
struct ProcessEnds {
    stdout: DuplexStream,
    stderr: DuplexStream,
    exit: oneshot::Sender<Option<i32>>,
    killed: Arc<AtomicBool>,
}

fn process() -> (FakeProcess, ProcessEnds) {
    let ((out, stdout), (err, stderr), (exit, code)) = (duplex(4096), duplex(4096), oneshot::channel());
    let killed = Arc::new(AtomicBool::new(false));
    let fake = FakeProcess { streams: (Some(out), Some(err)), exit: code, killed: Arc::clone(&killed) };
    (fake, ProcessEnds { stdout, stderr, exit, killed })
}

impl<R: AsyncRead + Send + Unpin> PluginProcess for FakeProcess<R> {
    type Stdout = R;
    type Stderr = DuplexStream;

    fn streams(&mut self) -> (Option<R>, Option<DuplexStream>) {
        std::mem::take(&mut self.streams)
    }

    async fn wait(&mut self) -> io::Result<Option<i32>> {
        (&mut self.exit).await.map_err(io::Error::other)
    }
}

impl<R> Drop for FakeProcess<R> {
    fn drop(&mut self) {
        self.killed.store(true, Ordering::SeqCst);
    }
}

fn redactor() -> Redactor {
    Redactor::new([Secret::new("canary")])
}

#[tokio::test(start_paused = true)]
async fn exe_013_sec_28_a_plugin_that_hangs_is_killed_after_its_timeout() {
    // It does nothing; it closes stdout and stays; it prints a byte every second.
    for (closes, prints) in [(false, false), (true, false), (false, true)] {
        let (fake, mut ends) = process();
        ends.stderr.write_all(b"waiting for canary\n").await.unwrap();
        let killed = Arc::clone(&ends.killed);
        let plugin = tokio::spawn(async move {
            let mut stdout = (!closes).then_some(ends.stdout);
            let mut prints = prints;
            while prints {
                sleep(Duration::from_secs(1)).await;
                prints = stdout.as_mut().unwrap().write_all(b"x").await.is_ok();
            }
            let _held = (stdout, ends.stderr, ends.exit);
            std::future::pending::<()>().await;
        });
        let started = Instant::now();
        let problem = supervise(fake, Some(MINUTE), &redactor()).await.unwrap_err();
        assert_eq!(problem.to_string(), "did not finish within 60s: waiting for [redacted]");
        assert_eq!(started.elapsed(), MINUTE);
        assert!(killed.load(Ordering::SeqCst));
        plugin.abort();
    }
}

#[tokio::test(start_paused = true)]
async fn exe_007_an_interactive_plugin_may_take_its_time() {
    let (fake, mut ends) = process();
    tokio::spawn(async move {
        sleep(60 * MINUTE).await;
        ends.stdout.write_all(b"credential").await.unwrap();
        ends.exit.send(Some(0)).unwrap();
    });
    let (stdout, _) = supervise(fake, None, &redactor()).await.unwrap();
    assert_eq!(&**stdout, b"credential");
}

#[tokio::test(start_paused = true)]
async fn sec_28_a_process_that_a_plugin_left_behind_does_not_delay_it() {
    for (code, expected) in [(0, None), (3, Some("failed with exit code 3: no network"))] {
        let (fake, mut ends) = process();
        ends.stdout.write_all(b"credential").await.unwrap();
        ends.stderr.write_all(b"no network").await.unwrap();
        drop(ends.stdout);
        ends.exit.send(Some(code)).unwrap();
        let started = Instant::now();
        let outcome = supervise(fake, Some(MINUTE), &redactor()).await;
        // Its stderr is still open.
        assert_eq!(started.elapsed(), Duration::from_millis(100));
        assert_eq!(outcome.err().map(|problem| problem.to_string()).as_deref(), expected);
        drop(ends.stderr);
    }
}

#[tokio::test(start_paused = true)]
async fn sec_28_an_endless_output_is_read_up_to_its_limit() {
    /// Counts what is read.
    struct Endless(Arc<AtomicUsize>);

    impl AsyncRead for Endless {
        fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
            let length = buffer.remaining().min(64 << 10);
            buffer.put_slice(&vec![b'x'; length]);
            self.0.fetch_add(length, Ordering::SeqCst);
            Poll::Ready(Ok(()))
        }
    }

    let (_, ends) = process();
    let (_exit, code) = oneshot::channel();
    let read = Arc::new(AtomicUsize::new(0));
    let streams = (Some(Endless(Arc::clone(&read))), None);
    let fake = FakeProcess { streams, exit: code, killed: Arc::clone(&ends.killed) };
    let problem = supervise(fake, Some(MINUTE), &redactor()).await.unwrap_err();
    assert!(matches!(problem, ExecProblem::TooLarge { limit: MAX_STDOUT }), "{problem}");
    assert_eq!(read.load(Ordering::SeqCst), MAX_STDOUT + 1);
    assert!(ends.killed.load(Ordering::SeqCst));
}
