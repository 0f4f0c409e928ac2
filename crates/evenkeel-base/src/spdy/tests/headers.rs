use super::super::dictionary::{ADLER32, dictionary};
use super::super::headers::{HeaderBlockError, HeaderDecoder, HeaderEncoder, MAX_BLOCK, MAX_HEADERS, StreamHeaders};

/// A block of zlib without compression, with its header.
fn stored(block: &[u8]) -> Vec<u8> {
    let length = block.len() as u16;
    [&[0x78, 0x01, 0][..], &length.to_le_bytes(), &(!length).to_le_bytes(), block].concat()
}

fn block(headers: &[(&str, &str)]) -> Vec<u8> {
    let mut block = (headers.len() as u32).to_be_bytes().to_vec();
    for text in headers.iter().flat_map(|(name, value)| [name, value]) {
        block.extend_from_slice(&(text.len() as u32).to_be_bytes());
        block.extend_from_slice(text.as_bytes());
    }
    block
}

fn decode(compressed: &[u8]) -> Result<StreamHeaders, HeaderBlockError> {
    HeaderDecoder::new().decode(compressed)
}

#[test]
fn the_dictionary_has_its_checksum() {
    let (mut low, mut high) = (1_u32, 0_u32);
    for byte in dictionary() {
        low = (low + u32::from(byte)) % 65521;
        high = (high + low) % 65521;
    }
    assert_eq!(high << 16 | low, ADLER32);
}

#[test]
fn blocks_of_one_direction_share_their_compression() {
    let (mut encoder, mut decoder) = (HeaderEncoder::default(), HeaderDecoder::new());
    for number in 0..3 {
        let headers = StreamHeaders::from([("streamType", "data"), ("port", &number.to_string())]);
        let mut encoded = Vec::new();
        encoder.encode(&headers, &mut encoded);
        let decoded = decoder.decode(&encoded).unwrap();
        assert_eq!(decoded, headers);
        assert_eq!(decoded.get("StreamType"), Some("data"));
        assert_eq!(decoded.get("other"), None);
    }
}

#[test]
fn pfw_009_a_block_ends_with_an_empty_block_for_the_inflater_of_go() {
    let mut encoder = HeaderEncoder::default();
    for _ in 0..2 {
        let mut encoded = Vec::new();
        encoder.encode(&StreamHeaders::default(), &mut encoded);
        assert!(encoded.ends_with(&[0, 0, 0, 0xff, 0xff]), "{encoded:x?}");
    }
}

#[test]
fn a_bomb_is_refused() {
    use flate2::{Compress, Compression, FlushCompress};
    let mut zlib = Compress::new(Compression::best(), true);
    let mut bomb = Vec::with_capacity(64 * 1024);
    zlib.compress_vec(&vec![0; 10 * 1024 * 1024], &mut bomb, FlushCompress::Sync).unwrap();
    assert!(bomb.len() < 16 * 1024, "{}", bomb.len());
    assert_eq!(decode(&bomb), Err(HeaderBlockError::TooLarge));
    assert_eq!(decode(&stored(&vec![0; MAX_BLOCK])), Err(HeaderBlockError::TooLarge));
}

#[test]
fn invalid_blocks_are_refused() {
    let cases: [(&str, Vec<u8>, HeaderBlockError); 11] = [
        ("empty", vec![], HeaderBlockError::ZlibHeader),
        ("no zlib", vec![0x12, 0x34, 0], HeaderBlockError::ZlibHeader),
        ("other dictionary", vec![0x78, 0xf9, 1, 2, 3, 4], HeaderBlockError::Dictionary),
        ("reserved block type", vec![0x78, 0x01, 0x07], HeaderBlockError::Compression),
        ("end of the stream", vec![0x78, 0x01, 1, 0, 0, 0xff, 0xff], HeaderBlockError::Compression),
        ("no count", stored(&[0, 0]), HeaderBlockError::Length),
        ("rest", stored(&[block(&[("a", "b")]), vec![0]].concat()), HeaderBlockError::Length),
        ("long name", stored(&[0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff, b'a']), HeaderBlockError::Length),
        ("upper case", stored(&block(&[("A", "b")])), HeaderBlockError::Name),
        ("twice", stored(&block(&[("a", "b"), ("a", "c")])), HeaderBlockError::Name),
        ("not UTF-8", stored(&[0, 0, 0, 1, 0, 0, 0, 1, 0xff, 0, 0, 0, 0]), HeaderBlockError::Encoding),
    ];
    for (name, compressed, expected) in cases {
        assert_eq!(decode(&compressed), Err(expected), "{name}");
    }
    let names: Vec<String> = (0..=MAX_HEADERS).map(|number| number.to_string()).collect();
    let headers: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "")).collect();
    assert_eq!(decode(&stored(&block(&headers))), Err(HeaderBlockError::TooMany));
}
