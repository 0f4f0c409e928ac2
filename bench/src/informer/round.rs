//! One program, from its start to the line it prints.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Method;
use http_body_util::BodyExt;
use serde_json::{Map, Value, json};

use super::outside;
use super::programs::Program;
use super::server::Watches;
use crate::Failure;
use crate::client::Connection;

/// A program has settled when it has used next to no processor time for so long: longer than the two quiet seconds after
/// which programs look at their memory.
const QUIET: Duration = Duration::from_millis(3_500);
const NEXT_TO_NONE: Duration = Duration::from_millis(100);
/// After this a program is taken to hang.
const PATIENCE: Duration = Duration::from_secs(600);

/// What was measured, by name.
pub(crate) type Figures = Map<String, Value>;

/// A process that does not outlive the benchmark.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail if it has ended by itself, which is as well.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The load server's process.
pub(crate) struct Server {
    url: String,
    _process: Process,
}

impl Server {
    pub(crate) async fn start(objects: usize) -> Result<Self, Failure> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["informer-server", "--objects", &objects.to_string()]);
        let mut process = Process(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?);
        let mut url = String::new();
        BufReader::new(process.0.stdout.take().ok_or("the server has no output")?).read_line(&mut url)?;
        Ok(Server { url: url.trim().to_owned(), _process: process })
    }

    async fn ask(&self, method: Method, path: &str) -> Result<Value, Failure> {
        let mut connection = Connection::http1(self.url.trim_start_matches("http://")).await?;
        let reply = connection.send(method, &format!("{}{path}", self.url), Bytes::new()).await?;
        Ok(serde_json::from_slice(&reply.into_body().collect().await?.to_bytes())?)
    }

    async fn watches(&self) -> Result<Watches, Failure> {
        Ok(serde_json::from_value(self.ask(Method::GET, "/watches").await?)?)
    }

    /// Waits until a watch was opened after the first so many, has got all it was to get, and the program that opened it
    /// has done with that. Tells how many watches were opened.
    async fn settled(&self, program: &mut Child, opened: usize) -> Result<usize, Failure> {
        let begin = Instant::now();
        let (mut since, mut used) = (begin, Duration::ZERO);
        while begin.elapsed() < PATIENCE {
            tokio::time::sleep(Duration::from_millis(100)).await;
            if let Some(status) = program.try_wait()? {
                return Err(format!("it ended early: {status}").into());
            }
            let (watches, cpu) = (self.watches().await?, outside::cpu(program.id())?);
            if cpu > used + NEXT_TO_NONE || watches.opened == opened || watches.waiting == 0 {
                (since, used) = (Instant::now(), cpu);
            } else if since.elapsed() > QUIET {
                return Ok(watches.opened);
            }
        }
        Err("it does not settle".into())
    }
}

/// Runs a program: it syncs, lists anew, is stormed with updates and tells what that took.
pub(crate) async fn run(
    program: &Program,
    server: &Server,
    objects: usize,
    updates: usize,
) -> Result<Figures, Failure> {
    let mut command = program.command(&server.url, objects, updates);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let opened = server.watches().await?.opened;
    let mut process = Process(command.spawn()?);
    let (output, errors) = (process.0.stdout.take(), process.0.stderr.take());
    // Read while it runs: a program that cannot get rid of its messages would wait for ever.
    let output = std::thread::spawn(move || read_all(output));
    let errors = std::thread::spawn(move || read_all(errors));
    let story = story(&mut process.0, server, opened, updates).await;
    drop(process);
    let output = output.join().map_err(|_| "its output could not be read")?;
    let errors = errors.join().map_err(|_| "its messages could not be read")?;
    let told = output.lines().last().and_then(|line| serde_json::from_str::<Figures>(line).ok());
    match (story, told) {
        (Ok(mut figures), Some(told)) => {
            figures.extend(told);
            Ok(figures)
        }
        (Err(error), _) => Err(format!("{}: {error}\n{errors}", program.name).into()),
        (Ok(_), None) => Err(format!("{} has told no figures\n{output}{errors}", program.name).into()),
    }
}

/// What is done to a program, and what is seen of it from outside.
async fn story(program: &mut Child, server: &Server, opened: usize, updates: usize) -> Result<Figures, Failure> {
    let opened = server.settled(program, opened).await?;
    let process = program.id();
    let (before, cpu) = (outside::memory(process, "VmRSS")?, outside::cpu(process)?);
    outside::forget_peak(process)?;
    server.ask(Method::POST, "/relist").await?;
    server.settled(program, opened).await?;
    let peak = outside::memory(process, "VmHWM")?;
    let cpu = outside::cpu(process)?.saturating_sub(cpu).as_secs_f64();

    server.ask(Method::POST, &format!("/storm?updates={updates}")).await?;
    let begin = Instant::now();
    while program.try_wait()?.is_none() {
        if begin.elapsed() > PATIENCE {
            return Err("it does not get all updates".into());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let mut figures = Figures::new();
    figures.insert("relist_steady_kb".to_owned(), json!(before));
    figures.insert("relist_peak_kb".to_owned(), json!(peak));
    figures.insert("relist_peak_over_steady".to_owned(), json!(peak as f64 / before as f64));
    figures.insert("relist_cpu_s".to_owned(), json!(cpu));
    Ok(figures)
}

fn read_all(stream: Option<impl Read>) -> String {
    let mut bytes = Vec::new();
    if let Some(mut stream) = stream {
        // What could be read is all there is to say.
        let _ = stream.read_to_end(&mut bytes);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
