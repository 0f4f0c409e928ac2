use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
use tokio::time::timeout;

use super::*;

#[tokio::test(start_paused = true)]
async fn sec_65_a_write_without_progress_ends_the_connection() {
    let (server, mut client) = duplex(10);
    let mut server = StallGuard::new(server, Arc::default());
    server.write_all(&[0; 10]).await.unwrap();
    let start = Instant::now();
    let reader = tokio::spawn(async move {
        tokio::time::sleep(STALL_LIMIT - Duration::from_secs(1)).await;
        client.read_exact(&mut [0; 10]).await.unwrap();
        client
    });
    server.write_all(&[0; 10]).await.unwrap();
    let _client = reader.await.unwrap();
    let error = server.write_all(&[0; 10]).await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    assert_eq!(start.elapsed(), STALL_LIMIT * 2 - Duration::from_secs(1), "each progress counts");
}

#[tokio::test(start_paused = true)]
async fn a_session_may_pause() {
    let (server, _client) = duplex(1);
    let activity = Arc::new(Activity::default());
    activity.upgrade();
    let mut server = StallGuard::new(server, activity);
    assert!(timeout(STALL_LIMIT * 10, server.write_all(&[0; 10])).await.is_err());
}
