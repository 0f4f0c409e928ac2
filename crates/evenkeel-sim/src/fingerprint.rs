//! [`Fingerprint`]: shows whether a tape repeats the run that it was taken from.

use std::fmt;
use std::str::FromStr;

/// The form of tapes and fingerprints. It changes when the same tape means other choices.
const VERSION: &str = "v1";

/// What a run was when its last choice was made that is not plain.
///
/// Two runs with the same tape and fingerprint are the same up to there: the hash covers every line of the timeline before. What
/// follows is up to the code under test, so a mended controller still replays the tape.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fingerprint {
    /// How many times a task had run.
    pub(crate) step: u64,
    /// The hash of the timeline.
    pub(crate) hash: u64,
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{VERSION}.{}.{:016x}", self.step, self.hash)
    }
}

/// A text that is no fingerprint of this version.
#[derive(Debug)]
pub(crate) struct NotAFingerprint;

impl FromStr for Fingerprint {
    type Err = NotAFingerprint;

    fn from_str(text: &str) -> Result<Self, NotAFingerprint> {
        let parse = || {
            let (version, rest) = text.split_once('.')?;
            let (step, hash) = rest.split_once('.').filter(|_| version == VERSION)?;
            Some(Fingerprint { step: step.parse().ok()?, hash: u64::from_str_radix(hash, 16).ok()? })
        };
        parse().ok_or(NotAFingerprint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rpl_2_a_fingerprint_of_another_version_is_none() {
        let fingerprint = Fingerprint { step: 412, hash: 0x1b2c };
        assert_eq!(fingerprint.to_string(), "v1.412.0000000000001b2c");
        assert_eq!(fingerprint.to_string().parse::<Fingerprint>().unwrap(), fingerprint);
        assert!("v2.412.1b2c".parse::<Fingerprint>().is_err());
        assert!("412.1b2c".parse::<Fingerprint>().is_err());
    }
}
