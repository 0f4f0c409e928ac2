//! A scripted server that records what it receives.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Mutex;
use tokio::task::JoinHandle;

/// Sends each connection the same response once it has received something, and closes it.
pub(crate) struct Puppet {
    pub(crate) address: SocketAddr,
    /// Held during a connection.
    heard: Arc<Mutex<Vec<u8>>>,
    task: JoinHandle<()>,
}

impl Puppet {
    pub(crate) async fn new(answer: impl Into<Vec<u8>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let heard = Arc::new(Mutex::new(Vec::new()));
        let (ears, answer) = (Arc::clone(&heard), answer.into());
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                // A client may close early.
                let _ = converse(stream, &answer, &mut *ears.lock().await).await;
            }
        });
        Puppet { address, heard, task }
    }

    /// Starts an HTTP server with one response to every request.
    pub(crate) async fn http(code: u16, headers: &str, body: &str) -> Self {
        let length = body.len();
        Puppet::new(format!("HTTP/1.1 {code} Said\r\ncontent-length: {length}\r\n{headers}\r\n{body}")).await
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Everything it has received, once all connections are closed.
    pub(crate) async fn heard(&self) -> String {
        String::from_utf8_lossy(&self.heard.lock().await).into_owned()
    }
}

async fn converse(mut stream: TcpStream, answer: &[u8], ears: &mut Vec<u8>) -> std::io::Result<()> {
    let mut bytes = [0; 16 << 10];
    let length = stream.read(&mut bytes).await?;
    ears.extend_from_slice(&bytes[..length]);
    stream.write_all(answer).await?;
    stream.shutdown().await?;
    // Reads further bytes, so that a reset does not lose the response.
    while let Ok(more @ 1..) = stream.read(&mut bytes).await {
        ears.extend_from_slice(&bytes[..more]);
    }
    Ok(())
}

impl Drop for Puppet {
    fn drop(&mut self) {
        self.task.abort();
    }
}
