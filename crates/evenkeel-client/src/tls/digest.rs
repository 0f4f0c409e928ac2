//! [`Digest`]: identifies the content of files, so that a change is noticed without keeping secrets.

use sha2::{Digest as _, Sha256};

/// Identifies the content of files or other texts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Digest([u8; 32]);

/// Returns the digest of these texts, in this order.
pub(crate) fn digest<'a>(texts: impl IntoIterator<Item = &'a [u8]>) -> Digest {
    let mut hash = Sha256::new();
    for text in texts {
        hash.update((text.len() as u64).to_be_bytes());
        hash.update(text);
    }
    Digest(hash.finalize().into())
}
