//! Times: seconds and nanoseconds on the wire, RFC 3339 in JSON.

use jiff::Timestamp;

use super::error::BoxedError;
use super::wire::{Reader, put_int};
use crate::error::ProtobufError;

/// Go's zero time, the start of the year 1, which means that no time is set.
const ZERO: i64 = -62_135_596_800;
/// The start of the year 0 and the end of the year 9999, the range of RFC 3339.
const FIRST: i64 = -62_167_219_200;
const LAST: i64 = 253_402_300_799;

/// The text of an unset time for types that require one (PB-061).
pub(super) const ZERO_TEXT: &str = "0001-01-01T00:00:00Z";

/// Returns seconds and nanoseconds since 1970, or `None` if no time is set. The start of 1970 is a valid time (PB-024).
#[inline]
pub(super) fn read(message: &[u8]) -> Result<Option<(i64, i32)>, BoxedError> {
    if message.is_empty() {
        return Ok(None);
    }
    let (mut seconds, mut nanos) = (0, 0);
    let mut reader = Reader::new(message);
    while let Some((number, value)) = reader.next()? {
        match number {
            1 => seconds = value.varint()? as i64,
            2 => nanos = value.varint()? as i32,
            _ => {}
        }
    }
    Ok((seconds != ZERO || nanos != 0).then_some((seconds, nanos)))
}

/// A buffer for the longest text.
pub(super) type Buffer = [u8; 27];

/// Formats a time as RFC 3339 in UTC, with six fraction digits if `micro`, without a fraction otherwise.
pub(super) fn text(seconds: i64, nanos: i32, micro: bool, buffer: &mut Buffer) -> Result<&str, BoxedError> {
    let (seconds, nanos) = if micro {
        let carried = i64::from(nanos).div_euclid(1_000_000_000);
        (seconds.saturating_add(carried), i64::from(nanos).rem_euclid(1_000_000_000))
    } else {
        (seconds, 0)
    };
    if !(FIRST..=LAST).contains(&seconds) {
        return Err(BoxedError::new(ProtobufError::InvalidTime { path: "".into() }));
    }
    let (year, month, day) = civil(seconds.div_euclid(86_400));
    let second = seconds.rem_euclid(86_400);
    *buffer = *b"0000-00-00T00:00:00.000000Z";
    for (at, digits, value) in [
        (0, 4, year),
        (5, 2, month),
        (8, 2, day),
        (11, 2, second / 3600),
        (14, 2, second / 60 % 60),
        (17, 2, second % 60),
        (20, 6, nanos / 1000),
    ] {
        put_digits(buffer, at, digits, value);
    }
    let length = if micro {
        27
    } else {
        buffer[19] = b'Z';
        20
    };
    std::str::from_utf8(&buffer[..length]).map_err(|_| BoxedError::new(ProtobufError::InvalidTime { path: "".into() }))
}

#[inline]
fn put_digits(buffer: &mut Buffer, at: usize, digits: usize, mut value: i64) {
    for slot in buffer[at..at + digits].iter_mut().rev() {
        *slot = b'0' + (value % 10) as u8;
        value /= 10;
    }
}

/// Returns the Gregorian year, month and day of a day counted from 1970. The computation starts years in March, so that the leap day
/// is the last day.
fn civil(day: i64) -> (i64, i64, i64) {
    const DAYS_TO_1970: i64 = 719_468;
    const CENTURIES_4: i64 = 146_097;
    let day = day + DAYS_TO_1970;
    let era = day.div_euclid(CENTURIES_4);
    let day_of_era = day.rem_euclid(CENTURIES_4);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day_of_month = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    (era * 400 + year_of_era + i64::from(month <= 2), month, day_of_month)
}

/// Appends the message of a time in text: nothing for the zero time, both fields otherwise (PB-084).
pub(super) fn put(out: &mut Vec<u8>, text: &str, micro: bool) -> Result<(), BoxedError> {
    let time: Timestamp = text.parse().map_err(|_| BoxedError::new(ProtobufError::InvalidTime { path: "".into() }))?;
    let mut seconds = time.as_second();
    let mut nanos = i64::from(time.subsec_nanosecond());
    if nanos < 0 {
        seconds -= 1;
        nanos += 1_000_000_000;
    }
    let nanos = if micro { nanos / 1000 * 1000 } else { 0 };
    if (seconds, nanos) != (ZERO, 0) {
        put_int(out, 1, seconds);
        put_int(out, 2, nanos);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
