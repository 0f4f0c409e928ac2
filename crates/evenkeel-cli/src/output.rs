//! Lines on the standard output, written by a thread of their own: a reader who is slow, or who has stopped reading, must not
//! keep a program from being interrupted.

use std::io::{self, Write};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

/// How many lines wait for the reader before the program does.
const WAITING: usize = 1024;
/// How long the last lines may take when the program ends.
const PATIENCE: Duration = Duration::from_secs(1);

/// Where lines are put. When it is dropped, the thread writes what waits and ends.
#[derive(Debug)]
pub(crate) struct Output(mpsc::Sender<String>);

/// How the writing goes.
#[derive(Debug)]
pub(crate) struct Writing(oneshot::Receiver<io::Result<()>>);

/// Opens the standard output for lines. Each is flushed by itself.
pub(crate) fn open() -> (Output, Writing) {
    let (sender, mut lines) = mpsc::channel::<String>(WAITING);
    let (done, outcome) = oneshot::channel();
    std::thread::spawn(move || {
        let mut out = io::stdout().lock();
        let mut write = || -> io::Result<()> {
            while let Some(line) = lines.blocking_recv() {
                writeln!(out, "{line}")?;
                out.flush()?;
            }
            Ok(())
        };
        // Nobody asks any more if the program has ended.
        let _ = done.send(write());
    });
    (Output(sender), Writing(outcome))
}

impl Output {
    /// Puts a line. If nobody writes any more this does nothing: [`Writing`] says why.
    pub(crate) async fn line(&self, line: String) {
        let _ = self.0.send(line).await;
    }
}

impl Writing {
    /// Waits until something fails, which may be never.
    pub(crate) async fn failed(&mut self) -> io::Error {
        match (&mut self.0).await {
            Ok(Err(error)) => error,
            _ => std::future::pending().await,
        }
    }

    /// Waits for the last lines, if they do not take too long.
    pub(crate) async fn finish(self) -> io::Result<()> {
        match timeout(PATIENCE, self.0).await {
            Ok(Ok(outcome)) => outcome,
            _ => Ok(()),
        }
    }
}
