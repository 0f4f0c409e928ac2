//! A server that sends exactly the bytes of a test.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use socket2::SockRef;
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// The reaction to a request.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    /// Send these bytes.
    Say(Vec<u8>),
    /// Close the connection.
    Close,
    /// Resets the connection.
    Reset,
    /// Sends nothing more.
    Hang,
}

/// A received request.
#[derive(Clone, Debug)]
pub(crate) struct Received {
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

/// Responds to the first request with the first acts, to the second with the second, over any number of connections,
/// and to every further one with the last acts.
pub(crate) struct Raw {
    pub(crate) url: String,
    shared: Arc<ServerState>,
    _tasks: JoinSet<()>,
}

struct ServerState {
    script: Vec<Vec<Act>>,
    received: Mutex<Vec<Received>>,
    connections: AtomicUsize,
}

impl Raw {
    pub(crate) async fn start(script: impl IntoIterator<Item = Vec<Act>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let script = script.into_iter().collect();
        let shared = Arc::new(ServerState { script, received: Mutex::default(), connections: AtomicUsize::new(0) });
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener, Arc::clone(&shared)));
        Raw { url, shared, _tasks: tasks }
    }

    /// Starts a server that sends this text to every request.
    pub(crate) async fn saying(text: impl Into<Vec<u8>>) -> Self {
        Raw::start([say(text)]).await
    }

    pub(crate) fn received(&self) -> Vec<Received> {
        self.shared.received.lock().unwrap().clone()
    }

    pub(crate) fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::Relaxed)
    }
}

async fn accept(listener: TcpListener, shared: Arc<ServerState>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        shared.connections.fetch_add(1, Ordering::Relaxed);
        connections.spawn(serve(stream, Arc::clone(&shared)));
    }
}

async fn serve(stream: TcpStream, shared: Arc<ServerState>) {
    let mut stream = BufReader::new(stream);
    while let Some(received) = read(&mut stream).await {
        let nth = {
            let mut all = shared.received.lock().unwrap();
            all.push(received);
            all.len() - 1
        };
        let acts = shared.script.get(nth).or(shared.script.last());
        for act in acts.into_iter().flatten() {
            match act {
                Act::Say(bytes) => {
                    if stream.get_mut().write_all(bytes).await.is_err() {
                        return;
                    }
                }
                Act::Close => return,
                Act::Reset => return SockRef::from(stream.get_ref()).set_linger(Some(Duration::ZERO)).unwrap(),
                Act::Hang => std::future::pending().await,
            }
        }
    }
}

/// The next request of a connection.
async fn read(stream: &mut BufReader<TcpStream>) -> Option<Received> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    let head = String::from_utf8(head).unwrap();
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().unwrap())
    });
    let mut body = vec![0; length.unwrap_or(0)];
    stream.read_exact(&mut body).await.ok()?;
    Some(Received { head, body })
}

pub(crate) fn say(bytes: impl Into<Vec<u8>>) -> Vec<Act> {
    vec![Act::Say(bytes.into())]
}

/// Returns a response with these headers, each with its line end.
pub(crate) fn answer(code: u16, headers: &str, body: impl AsRef<[u8]>) -> Vec<u8> {
    let body = body.as_ref();
    let answer = format!("HTTP/1.1 {code} Some Reason\r\ncontent-length: {}\r\n{headers}\r\n", body.len());
    [answer.as_bytes(), body].concat()
}

pub(crate) fn json(code: u16, body: &serde_json::Value) -> Vec<u8> {
    answer(code, "content-type: application/json\r\n", body.to_string())
}

/// Returns the start of a chunked response with these first chunks.
pub(crate) fn chunked(media_type: &str, chunks: &[&str]) -> Vec<u8> {
    let mut answer = format!("HTTP/1.1 200 OK\r\ncontent-type: {media_type}\r\ntransfer-encoding: chunked\r\n\r\n");
    for chunk in chunks {
        answer.push_str(&format!("{:x}\r\n{chunk}\r\n", chunk.len()));
    }
    answer.into_bytes()
}
