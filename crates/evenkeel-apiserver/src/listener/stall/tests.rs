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

#[tokio::test]
async fn sec_65_reading_a_flood_lets_other_tasks_run() {
    let (server, mut client) = duplex(READ_TURN * 4);
    client.write_all(&vec![7; READ_TURN * 3]).await.unwrap();
    drop(client);
    let mut server = StallGuard::new(server, Arc::default());
    let (mut buffer, mut total, mut turns) = ([0; READ_TURN / 4], 0, 0);
    loop {
        let mut buffer = ReadBuf::new(&mut buffer);
        let polled = std::future::poll_fn(|cx| Poll::Ready(Pin::new(&mut server).poll_read(cx, &mut buffer))).await;
        match polled {
            Poll::Pending => turns += 1,
            Poll::Ready(outcome) => {
                outcome.unwrap();
                if buffer.filled().is_empty() {
                    break;
                }
                total += buffer.filled().len();
            }
        }
    }
    assert_eq!((total, turns), (READ_TURN * 3, 3));
}
