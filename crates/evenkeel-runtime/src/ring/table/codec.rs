//! The text of a table, as the annotation of its Lease has it.
//!
//! ```text
//! 1 8131 8007 3 Namespace/fnv1a64/15s        format, revision, confirmed (0: not yet), term, shared settings
//! web-0-x7k2p web-1-b3m9q                    members, the oldest first
//! A=AAB4 IAAAAAAAAAA~AAB4,C>AB …             slices
//! ```
//!
//! A slice is its start and a mark: `?` unknown, `.` free, `=` held, `~` moving. A held slice has the index of its owner (two
//! digits) and how far its epoch is behind the revision; a moving one also how far `since` is. `>` names the target. Numbers of
//! slices are in base 64, so that a held slice takes at most 24 bytes with the space after it.

use std::fmt::Write as _;
use std::sync::Arc;

use super::{MAX_BYTES, MAX_MEMBERS, MAX_SLICES, MemberName, Slice, SliceState, SliceTable, TableError};

/// The format that this program reads and writes.
pub(crate) const FORMAT: u32 = 1;

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

impl SliceTable {
    /// Returns the text of the table.
    ///
    /// # Errors
    ///
    /// The table exceeds a limit.
    pub(crate) fn encode(&self) -> Result<String, TableError> {
        if self.members.len() > MAX_MEMBERS {
            return Err(TableError::TooManyMembers { members: self.members.len() });
        }
        if self.slices.len() > MAX_SLICES {
            return Err(TableError::TooManySlices { slices: self.slices.len() });
        }
        let mut text = format!(
            "{FORMAT} {} {} {} {}\n{}\n",
            self.revision,
            self.confirmed.unwrap_or(0),
            self.term,
            self.terms,
            self.members.join(" ")
        );
        for (number, slice) in self.slices.iter().enumerate() {
            if number > 0 {
                text.push(' ');
            }
            push_number(&mut text, slice.start, 1);
            self.push_state(&mut text, &slice.state)?;
        }
        if text.len() > MAX_BYTES {
            return Err(TableError::TooLong { bytes: text.len() });
        }
        Ok(text)
    }

    fn push_state(&self, text: &mut String, state: &SliceState) -> Result<(), TableError> {
        match state {
            SliceState::Unknown => text.push('?'),
            SliceState::Free => text.push('.'),
            SliceState::Held { owner, epoch, .. } => {
                text.push('=');
                self.push_member(text, owner)?;
                push_number(text, self.behind(*epoch), 1);
            }
            SliceState::Moving { from, epoch, since, .. } => {
                text.push('~');
                self.push_member(text, from)?;
                push_number(text, self.behind(*epoch), 1);
                text.push(',');
                push_number(text, self.behind(*since), 1);
            }
        }
        if let Some(target) = state.target() {
            text.push('>');
            self.push_member(text, target)?;
        }
        Ok(())
    }

    fn push_member(&self, text: &mut String, name: &MemberName) -> Result<(), TableError> {
        let members = self.members.len();
        let index = self.members.iter().position(|member| member == name);
        let index = index.ok_or(TableError::UnknownMember { index: members, members })?;
        push_number(text, index as u64, 2);
        Ok(())
    }

    /// Returns how far an epoch is behind the revision. No epoch is above it.
    fn behind(&self, epoch: u64) -> u64 {
        self.revision.saturating_sub(epoch)
    }

    /// Parses the text of a table.
    ///
    /// # Errors
    ///
    /// The text has another format, is malformed, or describes no partition.
    pub(crate) fn decode(text: &str) -> Result<Self, TableError> {
        let mut lines = text.lines();
        let mut header = lines.next().unwrap_or_default().split(' ');
        let format = header.next().unwrap_or_default();
        if format != FORMAT.to_string() {
            return Err(TableError::UnknownFormat { format: format.to_owned() });
        }
        let mut number = |part| {
            let text = header.next().unwrap_or_default();
            text.parse::<u64>().map_err(|_| TableError::Malformed { part, text: text.to_owned() })
        };
        let (revision, confirmed, term) = (number("revision")?, number("confirmed revision")?, number("term")?);
        let terms: Arc<str> = header.next().unwrap_or_default().into();
        let members: Vec<MemberName> = lines.next().unwrap_or_default().split_whitespace().map(Arc::from).collect();
        if members.len() > MAX_MEMBERS {
            return Err(TableError::TooManyMembers { members: members.len() });
        }
        let confirmed = (confirmed > 0).then_some(confirmed);
        let mut table = SliceTable { revision, confirmed, term, terms, members, slices: Vec::new() };
        let slices: Result<Vec<Slice>, TableError> =
            lines.next().unwrap_or_default().split(' ').map(|text| table.decode_slice(text)).collect();
        table = table.with_slices(slices?)?;
        Ok(table)
    }

    fn decode_slice(&self, text: &str) -> Result<Slice, TableError> {
        let malformed = || TableError::Malformed { part: "slice", text: text.to_owned() };
        let mark = text.find(['?', '.', '=', '~']).ok_or_else(malformed)?;
        let start = parse_number(&text[..mark]).ok_or_else(malformed)?;
        let (fields, target) = match text[mark + 1..].split_once('>') {
            Some((fields, target)) => (fields, Some(self.member(parse_number(target).ok_or_else(malformed)?)?)),
            None => (&text[mark + 1..], None),
        };
        let owned = || {
            let (owner, rest) = fields.split_at_checked(2).ok_or_else(malformed)?;
            Ok::<_, TableError>((self.member(parse_number(owner).ok_or_else(malformed)?)?, rest))
        };
        let epoch = |text: &str| {
            let behind = parse_number(text).ok_or_else(malformed)?;
            self.revision.checked_sub(behind).ok_or_else(malformed)
        };
        let state = match text.as_bytes()[mark] {
            b'?' if fields.is_empty() && target.is_none() => SliceState::Unknown,
            b'.' if fields.is_empty() && target.is_none() => SliceState::Free,
            b'=' => {
                let (owner, rest) = owned()?;
                SliceState::Held { owner, epoch: epoch(rest)?, next: target }
            }
            b'~' => {
                let (from, rest) = owned()?;
                let (held, since) = rest.split_once(',').ok_or_else(malformed)?;
                SliceState::Moving { from, epoch: epoch(held)?, since: epoch(since)?, to: target }
            }
            _ => return Err(malformed()),
        };
        Ok(Slice { start, state })
    }

    fn member(&self, index: u64) -> Result<MemberName, TableError> {
        let index = usize::try_from(index).unwrap_or(usize::MAX);
        let members = self.members.len();
        self.members.get(index).cloned().ok_or(TableError::UnknownMember { index, members })
    }
}

/// Writes a number in base 64, with at least this many digits.
fn push_number(text: &mut String, number: u64, least: u32) {
    let needed = (u64::BITS - number.leading_zeros()).div_ceil(6).max(least);
    for digit in (0..needed).rev() {
        let value = number.checked_shr(digit * 6).unwrap_or(0) & 63;
        // Writing to a string cannot fail.
        let _ = text.write_char(char::from(DIGITS[value as usize]));
    }
}

/// Parses a number in base 64. `None` if it has other characters, or does not fit.
fn parse_number(text: &str) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.bytes().try_fold(0_u64, |number, byte| {
        let digit = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'-' => 62,
            b'_' => 63,
            _ => return None,
        };
        number.checked_mul(64)?.checked_add(u64::from(digit))
    })
}
