use super::*;

#[test]
fn requests_are_read_one_after_the_other() {
    let text = "GET /api/v1/pods?watch=1&limit=5&fieldSelector=a%3Db HTTP/1.1\r\nHost: x\r\n\
        aCCept: application/vnd.kubernetes.protobuf,application/json\r\n\r\nPOST /storm HTTP/1.1\r\n\r\n";
    let mut stream = text.as_bytes();
    let first = Request::read(&mut stream).unwrap().unwrap();
    assert_eq!((first.method.as_str(), first.path.as_str()), ("GET", "/api/v1/pods"));
    assert!(first.is("watch") && !first.is("limit"));
    assert_eq!((first.number("limit"), first.get("fieldSelector")), (Some(5), Some("a=b")));
    assert_eq!(first.accept, "application/vnd.kubernetes.protobuf,application/json");
    assert_eq!(Request::read(&mut stream).unwrap().unwrap().path, "/storm");
    assert_eq!(Request::read(&mut stream).unwrap(), None);
}

/// Accepts a few bytes at a time, like a full socket.
struct Slow(Vec<u8>);

impl Write for Slow {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let some = &bytes[..bytes.len().min(7)];
        self.0.extend_from_slice(some);
        Ok(some.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns the body of these chunks, without the last one.
fn body(mut chunks: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    while !chunks.is_empty() {
        let end = chunks.windows(2).position(|bytes| bytes == b"\r\n").unwrap();
        let length = usize::from_str_radix(std::str::from_utf8(&chunks[..end]).unwrap(), 16).unwrap();
        assert!(length > 0, "this would be the last one");
        out.extend_from_slice(&chunks[end + 2..end + 2 + length]);
        assert_eq!(&chunks[end + 2 + length..end + 4 + length], b"\r\n");
        chunks = &chunks[end + 4 + length..];
    }
    out
}

#[test]
fn bodies_arrive_complete_whatever_the_chunks() {
    let long = vec![b'x'; 3 * CHUNK + 17];
    let pieces: Vec<&[u8]> = [&long[..], b"", b"end"].into_iter().chain(vec![&b"ab"[..]; 2_000]).collect();
    let mut slow = Slow(Vec::new());
    send_body(&mut slow, pieces.iter().copied()).unwrap();
    assert_eq!(body(&slow.0), pieces.concat());
    let mut slow = Slow(Vec::new());
    send_pieces(&mut slow, pieces.iter().copied()).unwrap();
    assert_eq!(slow.0, pieces.concat());
}
