use super::*;

#[test]
fn all_watches_of_a_connection_together_cannot_fill_its_window() {
    for max_streams in [1, 2, 100, 5_000, 131_071, 1_000_000, usize::MAX] {
        let connections = Connections { max_streams, ..Connections::default() };
        let max_streams = HttpSettings::new(&connections, &Limits::default()).max_streams;
        let windows = Windows::of_streams(max_streams);
        assert!(windows.stream as usize * max_streams <= windows.connection as usize, "{windows:?}");
        assert!(windows.stream as usize >= SMALLEST_STREAM_WINDOW, "{windows:?}");
        assert!(windows.connection as usize <= LARGEST_WINDOW);
    }
    assert_eq!(Windows::of_streams(100).stream, 512 << 10);
}
