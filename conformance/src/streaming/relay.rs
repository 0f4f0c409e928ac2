//! [`Relay`]: a TCP proxy that counts bytes, sees WebSocket pongs, and cuts connections.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::Failure;

/// A proxy before a server. Dropping it closes its connections.
pub(crate) struct Relay {
    address: SocketAddr,
    passed: watch::Receiver<Passed>,
    _tasks: JoinSet<()>,
}

/// What has passed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Passed {
    /// Bytes in the direction of the client.
    pub(crate) bytes: u64,
    /// WebSocket pongs of the server, if each is read alone.
    pub(crate) pongs: u64,
    /// Connections that have ended, at either end.
    pub(crate) ended: u64,
}

impl Relay {
    /// Starts a relay that closes a connection after so many bytes to the client.
    pub(crate) async fn start(target: &str, cut_after: u64) -> Result<Self, Failure> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let (count, passed) = watch::channel(Passed::default());
        let count = Arc::new(count);
        let target = target.to_owned();
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                let (target, count) = (target.clone(), Arc::clone(&count));
                connections.spawn(async move {
                    // The end of either side is the end of both, and a reset is one, too.
                    let _ = relay(client, &target, cut_after, &count).await;
                    count.send_modify(|passed| passed.ended += 1);
                });
            }
        });
        Ok(Relay { address, passed, _tasks: tasks })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn passed(&self) -> Passed {
        *self.passed.borrow()
    }

    /// Waits until a condition holds for what has passed.
    pub(crate) async fn wait_for(&mut self, mut reached: impl FnMut(&Passed) -> bool) -> Result<(), Failure> {
        self.passed.wait_for(|passed| reached(passed)).await?;
        Ok(())
    }
}

async fn relay(
    mut client: TcpStream,
    target: &str,
    cut_after: u64,
    count: &watch::Sender<Passed>,
) -> Result<(), Failure> {
    let mut server = TcpStream::connect(target).await?;
    let (mut from_client, mut to_client) = client.split();
    let (mut from_server, mut to_server) = server.split();
    let down = async {
        let mut buffer = vec![0; 16 * 1024];
        let mut total = 0;
        while total < cut_after {
            let read = from_server.read(&mut buffer).await?;
            let data = buffer.get(..read).unwrap_or_default();
            if data.is_empty() {
                break;
            }
            to_client.write_all(data).await?;
            total += read as u64;
            count.send_modify(|passed| {
                passed.bytes += read as u64;
                passed.pongs += u64::from(data.first() == Some(&0x8a) && read < 128);
            });
        }
        Ok::<(), Failure>(())
    };
    tokio::select! {
        ended = down => ended,
        ended = tokio::io::copy(&mut from_client, &mut to_server) => Ok(ended.map(drop)?),
    }
}
