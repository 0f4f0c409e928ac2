//! Writes lines to the standard output from a thread of its own, optionally above a block of lines. A slow or stopped
//! reader cannot keep the program from being interrupted.

use std::io::{self, Write};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout_at};

use crate::terminal::{self, Block};

/// Number of lines that are queued before writers wait.
const WAITING: usize = 1024;
/// Time limit of the last lines at shutdown.
const PATIENCE: Duration = Duration::from_secs(1);

/// Queues lines for the writer thread. On drop, the thread writes the queued lines and ends.
#[derive(Debug)]
pub(crate) struct Output(mpsc::Sender<Item>);

/// Handle of the writer thread.
#[derive(Debug)]
pub(crate) struct Writing(oneshot::Receiver<io::Result<()>>);

#[derive(Debug)]
enum Item {
    Line(String),
    /// A line for the standard error, in order with the others.
    Aside(String),
    Footer(Vec<terminal::Line>),
}

/// Opens the standard output. With a block, lines scroll above it; [`Output::footer`] sets its content.
pub(crate) fn open(block: Option<Block>) -> (Output, Writing) {
    let (sender, items) = mpsc::channel(WAITING);
    let (done, outcome) = oneshot::channel();
    std::thread::spawn(move || {
        let screen = Screen { out: io::stdout().lock(), frame: Vec::new(), block, footer: Vec::new() };
        // Fails only if the program has ended.
        let _ = done.send(screen.show(items));
    });
    (Output(sender), Writing(outcome))
}

impl Output {
    /// Writes a line. Does nothing after a write error, which [`Writing`] reports.
    pub(crate) async fn line(&self, line: String) {
        let _ = self.0.send(Item::Line(line)).await;
    }

    /// Writes a line to the standard error, after all lines written before.
    pub(crate) async fn aside(&self, line: String) {
        let _ = self.0.send(Item::Aside(line)).await;
    }

    /// Sets the content of the block. Returns false if the queue is full.
    pub(crate) fn footer(&self, lines: Vec<terminal::Line>) -> bool {
        self.0.try_send(Item::Footer(lines)).is_ok()
    }

    /// Writes the last lines, removes the block and waits for the thread, up to a limit.
    pub(crate) async fn end(self, lines: Vec<String>, writing: Writing) -> io::Result<()> {
        let deadline = Instant::now() + PATIENCE;
        let last = async {
            let _ = self.0.send(Item::Footer(Vec::new())).await;
            for line in lines {
                self.line(line).await;
            }
            drop(self);
            writing.0.await
        };
        match timeout_at(deadline, last).await {
            Ok(Ok(outcome)) => outcome,
            _ => Ok(()),
        }
    }
}

impl Writing {
    /// Waits for a write error, possibly forever. Detects a closed pipe without writing.
    pub(crate) async fn failed(&mut self) -> io::Error {
        tokio::select! {
            outcome = &mut self.0 => match outcome {
                Ok(Err(error)) => error,
                _ => std::future::pending().await,
            },
            () = abandoned() => io::ErrorKind::BrokenPipe.into(),
        }
    }
}

/// Waits until the standard output is a pipe without a reader. A program that writes seldom would not notice
/// otherwise.
#[cfg(unix)]
async fn abandoned() {
    use std::os::fd::AsFd;

    use tokio::io::Interest;
    use tokio::net::unix::pipe::Sender;

    let watched = io::stdout().as_fd().try_clone_to_owned();
    // A file cannot be polled and has no reader. Unchecked, because the checked conversion makes the pipe
    // non-blocking for all its users; it is only polled here.
    let watched = watched.and_then(Sender::from_owned_fd_unchecked);
    let is_abandoned = match watched {
        Ok(watched) => watched.ready(Interest::ERROR).await.is_ok_and(|ready| ready.is_error()),
        Err(_) => false,
    };
    if !is_abandoned {
        std::future::pending().await
    }
}

#[cfg(not(unix))]
async fn abandoned() {
    std::future::pending().await
}

/// State of the writer thread.
struct Screen<W> {
    out: W,
    /// The next output, written at once so that no partial frame is visible.
    frame: Vec<u8>,
    block: Option<Block>,
    footer: Vec<terminal::Line>,
}

impl<W: Write> Screen<W> {
    fn show(mut self, mut items: mpsc::Receiver<Item>) -> io::Result<()> {
        while let Some(item) = items.blocking_recv() {
            self.put(item)?;
            // Writes all queued lines together and draws the block once.
            for _ in 0..WAITING {
                match items.try_recv() {
                    Ok(item) => self.put(item)?,
                    Err(_) => break,
                }
            }
            if let Some(block) = self.block.as_mut().filter(|_| !self.footer.is_empty()) {
                block.draw(&mut self.frame, &self.footer, terminal::width())?;
            }
            self.flush()?;
        }
        self.clear()?;
        self.flush()
    }

    fn put(&mut self, item: Item) -> io::Result<()> {
        match item {
            Item::Footer(lines) => {
                if lines.is_empty() {
                    self.clear()?;
                }
                self.footer = lines;
            }
            Item::Line(line) => {
                self.clear()?;
                writeln!(self.frame, "{line}")?;
            }
            Item::Aside(line) => {
                self.clear()?;
                self.flush()?;
                // An error of the standard error cannot be reported.
                let _ = writeln!(io::stderr().lock(), "{line}");
            }
        }
        Ok(())
    }

    fn clear(&mut self) -> io::Result<()> {
        match &mut self.block {
            Some(block) => block.clear(&mut self.frame),
            None => Ok(()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.frame.is_empty() {
            return Ok(());
        }
        self.out.write_all(&self.frame)?;
        self.frame.clear();
        self.out.flush()
    }
}

#[cfg(test)]
mod tests;
