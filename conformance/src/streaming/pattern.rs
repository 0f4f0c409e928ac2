//! The bytes of large transfers: those of `streaming/pattern.go`.

use std::sync::LazyLock;

use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncWrite, AsyncWriteExt};

use crate::Failure;

/// A prime, so that lost and repeated blocks of any usual size are noticed.
const PERIOD: usize = 65_521;
const BLOCK: usize = 64 * 1024;

/// One period, and a block of the next.
static PATTERN: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut random: u32 = 2_463_534_242;
    let mut period = Vec::with_capacity(PERIOD + BLOCK);
    for _ in 0..PERIOD {
        random ^= random << 13;
        random ^= random >> 17;
        random ^= random << 5;
        period.push((random >> 24) as u8);
    }
    for at in 0..BLOCK {
        period.push(period.get(at).copied().unwrap_or_default());
    }
    period
});

/// Returns the bytes at a position, at most one block.
fn at(position: u64, length: u64) -> &'static [u8] {
    let start = usize::try_from(position % PERIOD as u64).unwrap_or_default();
    let length = usize::try_from(length).unwrap_or(BLOCK).min(BLOCK);
    PATTERN.get(start..start + length).unwrap_or_default()
}

/// Writes bytes of the pattern.
pub(crate) async fn write(writer: &mut (impl AsyncWrite + Unpin), length: u64) -> Result<(), Failure> {
    let mut position = 0;
    while position < length {
        let block = at(position, length - position);
        writer.write_all(block).await?;
        position += block.len() as u64;
    }
    writer.flush().await?;
    Ok(())
}

/// Reads bytes of the pattern, and fails if they differ, or if there are too few.
pub(crate) async fn read(reader: &mut (impl AsyncBufRead + Unpin), length: u64) -> Result<(), Failure> {
    let mut position = 0;
    while position < length {
        let chunk = reader.fill_buf().await?;
        let expected = at(position, (chunk.len() as u64).min(length - position));
        if expected.is_empty() {
            return Err(format!("the data ended after {position} bytes").into());
        }
        if chunk.get(..expected.len()) != Some(expected) {
            return Err(format!("the data is wrong after {position} bytes").into());
        }
        position += expected.len() as u64;
        let read = expected.len();
        reader.consume(read);
    }
    Ok(())
}

/// Reads bytes of the pattern up to the end, and fails if there are more or less.
pub(crate) async fn read_all(reader: &mut (impl AsyncBufRead + Unpin), length: u64) -> Result<(), Failure> {
    read(reader, length).await?;
    match reader.fill_buf().await?.len() {
        0 => Ok(()),
        more => Err(format!("{more} bytes after the end").into()),
    }
}
