use std::convert::Infallible;
use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use http::Response;
use http_body_util::BodyExt;

use super::*;

const MIB: usize = 1 << 20;

/// A body in pieces of this size, of unknown length.
struct Pieces(Bytes, usize);

impl HttpBody for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let size = self.1.min(self.0.len());
        Poll::Ready((size > 0).then(|| Ok(Frame::data(self.0.split_to(size)))))
    }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn answer(encoding: &str, body: Body) -> Response<Body> {
    Response::builder().header("content-encoding", encoding).header("content-length", "7").body(body).unwrap()
}

async fn inflate(compressed: Vec<u8>, piece: usize, limit: usize) -> Result<Bytes, BoxError> {
    let response = decode(answer("gzip", Body::new(Pieces(compressed.into(), piece))), limit, 200)?;
    assert!(response.headers().is_empty());
    Ok(response.into_body().collect().await?.to_bytes())
}

/// Bytes that do not compress well.
fn noise(size: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(7);
    (0..size).map(|_| random.alphanumeric() as u8).collect()
}

#[tokio::test]
async fn trn_021_gzip_is_decoded_from_any_chunks() {
    let plain = noise(100_000);
    for piece in [1, 7, 10, 1_000, usize::MAX] {
        assert_eq!(inflate(gzip(&plain), piece, MIB).await.unwrap(), plain, "in pieces of {piece}");
    }
    assert_eq!(inflate(gzip(b""), 1, MIB).await.unwrap(), "");
    // Some servers flush by starting a new gzip member.
    let twice = [gzip(b"one"), gzip(b"two")].concat();
    assert_eq!(inflate(twice, 1, MIB).await.unwrap(), "onetwo");
}

#[tokio::test]
async fn trn_021_an_uncompressed_response_is_unchanged() {
    for encoding in ["identity", ""] {
        let response = decode(answer(encoding, Body::full("plain")), MIB, 200).unwrap();
        assert_eq!(response.headers()["content-length"], "7");
        assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "plain");
    }
    let head = decode(answer("gzip", Body::empty()), MIB, 200).unwrap();
    assert_eq!(head.into_body().collect().await.unwrap().to_bytes(), "");
}

#[tokio::test]
async fn sec_42_a_decompression_bomb_is_rejected_early() {
    let bomb = gzip(&vec![0; 64 * MIB]);
    let response = decode(answer("gzip", Body::full(bomb)), 512 * MIB, 200).unwrap();
    let mut body = response.into_body();
    let mut read = 0;
    let error = loop {
        match body.frame().await.unwrap() {
            Ok(frame) => {
                let piece = frame.into_data().unwrap().len();
                assert!(piece <= PIECE, "{piece}");
                read += piece;
            }
            Err(error) => break error,
        }
    };
    assert!(matches!(error.downcast_ref(), Some(BodyError::Inflated { limit: 200 })), "{error}");
    assert!((MIB - PIECE..3 * MIB).contains(&read), "{read}");
    assert!(body.frame().await.is_none());
}

#[tokio::test]
async fn sec_42_the_first_mib_has_no_inflation_limit() {
    assert_eq!(inflate(gzip(&vec![0; MIB]), usize::MAX, 2 * MIB).await.unwrap().len(), MIB);
}

#[tokio::test]
async fn sec_40_sec_42_the_limit_applies_to_decompressed_bytes() {
    let plain = noise(100_000);
    assert_eq!(inflate(gzip(&plain), 1_000, 100_000).await.unwrap().len(), 100_000);
    let error = inflate(gzip(&plain), 1_000, 99_999).await.unwrap_err();
    assert!(matches!(error.downcast_ref(), Some(BodyError::TooLarge { limit: 99_999 })), "{error}");
}

#[tokio::test]
async fn sec_42_other_and_nested_encodings_are_refused() {
    for encoding in ["br", "zstd", "deflate", "gzip, gzip", "gzip,identity", "gzip, br"] {
        let error = decode(answer(encoding, Body::full("x")), MIB, 200).unwrap_err();
        assert!(matches!(&error, BodyError::Encoding { encoding: reported } if reported == encoding), "{error}");
    }
    let mut twice = answer("gzip", Body::full("x"));
    twice.headers_mut().append("content-encoding", http::HeaderValue::from_static("gzip"));
    assert!(matches!(decode(twice, MIB, 200), Err(BodyError::Encoding { .. })));
}

#[tokio::test]
async fn truncated_or_invalid_gzip_is_an_error() {
    let whole = gzip(&noise(1_000));
    let mut broken = whole.clone();
    broken[500] ^= 0xff;
    let garbage = [gzip(b"one"), b"garbage".to_vec()].concat();
    for bytes in
        [b"not gzip at all, really".to_vec(), whole[..whole.len() - 3].to_vec(), whole[..500].to_vec(), broken, garbage]
    {
        let error = inflate(bytes, 100, MIB).await.unwrap_err();
        assert!(matches!(error.downcast_ref(), Some(BodyError::Corrupt { .. })), "{error}");
    }
}

#[tokio::test]
async fn sec_44_content_length_allocates_no_buffer() {
    let response = decode(answer("gzip", Body::full(gzip(b"x"))), 1_000, 200).unwrap();
    assert_eq!(response.body().size_hint().lower(), 0);
    assert_eq!(response.body().size_hint().upper(), Some(1_000));
}
