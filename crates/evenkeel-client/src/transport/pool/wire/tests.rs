use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;

#[tokio::test]
async fn the_first_frame_is_reported_at_the_next_poll_for_any_chunks() {
    let tally = Tally {
        host: "server".into(),
        connections: AtomicUsize::new(0),
        in_flight: AtomicUsize::new(0),
        dials: AtomicUsize::new(0),
    };
    let tally = Arc::new(tally);
    for piece in [1, 2, 4, 9, 15, 20] {
        let (mut server, io) = tokio::io::duplex(100);
        let mut wire = Wire::new(Box::new(io), Arc::clone(&tally), Lane::Calls);
        let mut heard = wire.watch_settings();
        assert_eq!(tally.connections.load(Ordering::Relaxed), 1);
        // A frame with six bytes, then the start of another.
        server.write_all(b"\x00\x00\x06\x04\x00\x00\x00\x00\x00abcdef\x00\x00\x00\x00\x00").await.unwrap();
        let mut read = 0;
        while read < 20 {
            assert!(heard.try_recv().is_err(), "{read} of 15 in pieces of {piece}");
            let count = wire.read(&mut vec![0; piece]).await.unwrap();
            if read >= 15 {
                heard.try_recv().unwrap();
                break;
            }
            read += count;
        }
    }
    assert_eq!(tally.connections.load(Ordering::Relaxed), 0);
}
