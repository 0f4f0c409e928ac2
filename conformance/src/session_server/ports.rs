//! The ports of pods.

use evenkeel_apiserver::PortConnection;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::Failure;

/// The bytes that port 5001 sends.
const SOURCE: u64 = 100_000_000;

/// Serves a connection.
pub(crate) async fn serve(connection: PortConnection) -> Result<(), Failure> {
    let PortConnection { port, mut stream, .. } = connection;
    match port {
        5000 => {
            let mut buffer = vec![0; 64 * 1024];
            while let length @ 1.. = stream.read(&mut buffer).await? {
                stream.write_all(buffer.get(..length).unwrap_or_default()).await?;
            }
        }
        5001 => {
            // A pattern whose period is no multiple of any buffer.
            let pattern: Vec<u8> = (0..=250).cycle().take(251 * 256).collect();
            let mut remaining = SOURCE;
            while remaining > 0 {
                let length = remaining.min(pattern.len() as u64) as usize;
                stream.write_all(pattern.get(..length).unwrap_or_default()).await?;
                remaining -= length as u64;
            }
        }
        _ => return Err("connection refused".into()),
    }
    stream.shutdown().await?;
    Ok(())
}
