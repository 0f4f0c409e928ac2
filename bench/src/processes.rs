//! Processes of benchmarks: the load server, and programs that are measured.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::thread::{sleep, spawn};
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::data::Data;
use crate::server::Watches;
use crate::server::wire::Wire;
use crate::{Failure, outside};

/// Polling interval.
const LOOK: Duration = Duration::from_millis(50);

/// A process that is killed on drop.
pub(crate) struct Process(pub(crate) Child);

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail if it has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The load server's process.
pub(crate) struct LoadServer {
    url: String,
    process: Process,
}

impl LoadServer {
    /// Starts it. It first generates all objects and so many updates in all formats.
    pub(crate) fn start(
        data: Data,
        objects: usize,
        wires: &[Wire],
        updates: usize,
        tick: &mut dyn FnMut(),
    ) -> Result<Self, Failure> {
        let wires: Vec<&str> = wires.iter().map(|wire| wire.name()).collect();
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["load-server", "--data", data.name(), "--objects", &objects.to_string()]);
        command.args(["--wires", &wires.join(",")]);
        let mut process = Process(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?);
        let lines = lines(process.0.stdout.take());
        let url = loop {
            match lines.try_recv() {
                Ok(url) => break url,
                Err(TryRecvError::Empty) => wait(tick),
                Err(TryRecvError::Disconnected) => return Err("the load server does not start".into()),
            }
        };
        let server = LoadServer { url, process };
        if updates > 0 {
            for wire in wires {
                server.ask::<Value>("POST", &format!("/prepare?updates={updates}&wire={wire}"))?;
            }
        }
        Ok(server)
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn ask<T: DeserializeOwned>(&self, method: &str, path: &str) -> Result<T, Failure> {
        let address = self.url.trim_start_matches("http://");
        let mut stream = TcpStream::connect(address)?;
        stream.write_all(format!("{method} {path} HTTP/1.1\r\nhost: {address}\r\n\r\n").as_bytes())?;
        let mut reader = BufReader::new(stream);
        let (mut first, mut length) = (String::new(), 0);
        reader.read_line(&mut first)?;
        loop {
            let mut line = String::new();
            reader.read_line(&mut line)?;
            match line.trim_end().split_once(": ") {
                Some(("content-length", value)) => length = value.parse()?,
                Some(_) => {}
                None => break,
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        if !first.contains(" 200 ") {
            return Err(format!("the load server returned: {}", String::from_utf8_lossy(&body)).into());
        }
        Ok(serde_json::from_slice(&body)?)
    }

    pub(crate) fn watches(&self) -> Result<Watches, Failure> {
        self.ask("GET", "/watches")
    }

    pub(crate) fn cpu(&self) -> Result<Duration, Failure> {
        outside::cpu(self.process.0.id())
    }
}

/// Sleeps until the next poll.
pub(crate) fn wait(tick: &mut dyn FnMut()) {
    tick();
    sleep(LOOK);
}

/// Returns the lines of a stream as they arrive.
pub(crate) fn lines(stream: Option<impl Read + Send + 'static>) -> Receiver<String> {
    let (sender, receiver) = channel();
    spawn(move || {
        let lines = stream.into_iter().flat_map(|stream| BufReader::new(stream).lines());
        // Ends when the receiver is dropped.
        lines.map_while(Result::ok).try_for_each(|line| sender.send(line))
    });
    receiver
}
