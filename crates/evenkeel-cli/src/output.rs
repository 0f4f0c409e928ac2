//! Lines on the standard output, and perhaps a block of lines below them, written by a thread of their own: a reader who is
//! slow, or who has stopped reading, must not keep a program from being interrupted.

use std::io::{self, Write};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout_at};

use crate::terminal::{self, Block};

/// How many lines wait for the reader before the program does.
const WAITING: usize = 1024;
/// How long the last lines may take when the program ends.
const PATIENCE: Duration = Duration::from_secs(1);

/// Where lines are put. When it is dropped, the thread writes what waits and ends.
#[derive(Debug)]
pub(crate) struct Output(mpsc::Sender<Item>);

/// How the writing goes.
#[derive(Debug)]
pub(crate) struct Writing(oneshot::Receiver<io::Result<()>>);

#[derive(Debug)]
enum Item {
    Line(String),
    /// A line for the standard error, in its turn.
    Aside(String),
    Footer(Vec<terminal::Line>),
}

/// Opens the standard output for lines. With a block they scroll above it, and [`Output::footer`] says what is in it.
pub(crate) fn open(block: Option<Block>) -> (Output, Writing) {
    let (sender, items) = mpsc::channel(WAITING);
    let (done, outcome) = oneshot::channel();
    std::thread::spawn(move || {
        let screen = Screen { out: io::stdout().lock(), frame: Vec::new(), block, footer: Vec::new() };
        // Nobody asks any more if the program has ended.
        let _ = done.send(screen.show(items));
    });
    (Output(sender), Writing(outcome))
}

impl Output {
    /// Puts a line. If nobody writes any more this does nothing: [`Writing`] says why.
    pub(crate) async fn line(&self, line: String) {
        let _ = self.0.send(Item::Line(line)).await;
    }

    /// Puts a line on the standard error, after all lines that were put before.
    pub(crate) async fn aside(&self, line: String) {
        let _ = self.0.send(Item::Aside(line)).await;
    }

    /// Says what the block shows from now on; false if so much waits to be written that this would have to wait too.
    pub(crate) fn footer(&self, lines: Vec<terminal::Line>) -> bool {
        self.0.try_send(Item::Footer(lines)).is_ok()
    }

    /// Ends with these lines and no block, if that does not take too long.
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
    /// Waits until something fails, which may be never. That nobody reads any more is noticed without writing.
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

/// Waits until the standard output is a pipe that nobody reads. Whoever writes seldom would otherwise stay for long.
#[cfg(unix)]
async fn abandoned() {
    use std::os::fd::AsFd;

    use tokio::io::Interest;
    use tokio::net::unix::pipe::Sender;

    let watched = io::stdout().as_fd().try_clone_to_owned();
    // A file, for one, cannot be watched, and has no reader who could go.
    // Unchecked, because the checked way makes the pipe non-blocking for all who share it. It is only looked at.
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

/// What the thread knows.
struct Screen<W> {
    out: W,
    /// What will be written next, in one go, so that nobody sees half of it.
    frame: Vec<u8>,
    block: Option<Block>,
    footer: Vec<terminal::Line>,
}

impl<W: Write> Screen<W> {
    fn show(mut self, mut items: mpsc::Receiver<Item>) -> io::Result<()> {
        while let Some(item) = items.blocking_recv() {
            self.put(item)?;
            // Whatever waits is written together, and the block drawn once.
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
                // Who cannot be told need not be.
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
