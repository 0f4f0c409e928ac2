//! client-go: a program that hosts its informers and reads commands from its standard input.

use std::collections::HashMap;
use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdout, Command as Process};
use tokio::sync::{mpsc, oneshot};

use crate::Failure;
use crate::command::{Command, Notification, Response};
use crate::journal::Journal;
use crate::player::{Client, Informer};

/// The running program, shared by clones. It ends when the last clone is dropped.
#[derive(Clone)]
pub(crate) struct Program {
    shared: Arc<Shared>,
    orders: mpsc::UnboundedSender<String>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    last: u64,
    /// Pending commands by number.
    waiting: HashMap<u64, oneshot::Sender<Result<Response, String>>>,
    journals: HashMap<String, Arc<Journal>>,
    ended: bool,
}

#[derive(Serialize)]
struct CommandLine<'a> {
    seq: u64,
    informer: &'a str,
    #[serde(flatten)]
    command: &'a Command,
}

/// A line of the program's output.
#[derive(Deserialize)]
#[serde(untagged)]
enum Line {
    Response {
        seq: u64,
        #[serde(default)]
        error: Option<String>,
        #[serde(default)]
        result: Option<Response>,
    },
    Notification {
        informer: String,
        #[serde(flatten)]
        notification: Box<Notification>,
    },
}

impl Program {
    pub(crate) fn start(path: &Path) -> Result<Self, Failure> {
        let mut child = Process::new(path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| format!("cannot start {}: {error}", path.display()))?;
        let (Some(mut stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("the Go program has no pipes".into());
        };
        let (orders, mut to_write) = mpsc::unbounded_channel::<String>();
        let shared = Arc::new(Shared::default());
        tokio::spawn(async move {
            // Ends with the last clone, which ends the program.
            while let Some(line) = to_write.recv().await {
                if stdin.write_all(line.as_bytes()).await.is_err() {
                    return;
                }
            }
        });
        tokio::spawn(listen(child, stdout, Arc::clone(&shared)));
        Ok(Program { shared, orders })
    }
}

async fn listen(mut child: Child, stdout: ChildStdout, shared: Arc<Shared>) {
    let mut lines = BufReader::new(stdout).lines();
    while let Ok(Some(text)) = lines.next_line().await {
        match serde_json::from_str(&text) {
            Ok(Line::Response { seq, error, result }) => {
                let waiting = shared.lock().waiting.remove(&seq);
                if let Some(waiting) = waiting {
                    let response = error.map_or(Ok(result.unwrap_or(Response::Nothing(()))), Err);
                    // Fails only if the caller was dropped.
                    let _ = waiting.send(response);
                }
            }
            Ok(Line::Notification { informer, notification }) => {
                let journal = shared.lock().journals.get(&informer).cloned();
                if let Some(journal) = journal {
                    journal.push(*notification);
                }
            }
            Err(_) => break,
        }
    }
    let mut state = shared.lock();
    state.ended = true;
    state.waiting.clear();
    drop(state);
    let _ = child.start_kill();
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One informer of the program.
pub(crate) struct GoInformer {
    program: Program,
    name: String,
    journal: Arc<Journal>,
}

impl Client for Program {
    type Informer = GoInformer;

    const NAME: &str = "client-go";

    fn informer(&self, scenario: &str) -> GoInformer {
        let journal = Arc::new(Journal::default());
        self.shared.lock().journals.insert(scenario.to_owned(), Arc::clone(&journal));
        GoInformer { program: self.clone(), name: scenario.to_owned(), journal }
    }
}

impl Informer for GoInformer {
    async fn execute(&mut self, command: Command) -> Result<Result<Response, String>, Failure> {
        let (sender, receiver) = oneshot::channel();
        let seq = {
            let mut state = self.program.shared.lock();
            if state.ended {
                return Err("the Go program has ended".into());
            }
            state.last += 1;
            let seq = state.last;
            state.waiting.insert(seq, sender);
            seq
        };
        let mut line = serde_json::to_string(&CommandLine { seq, informer: &self.name, command: &command })?;
        line.push('\n');
        self.program.orders.send(line)?;
        Ok(receiver.await.map_err(|_| "the Go program has ended")?)
    }

    fn journal(&self) -> &Journal {
        &self.journal
    }
}
