//! [`MemberRecord`]: what the Lease of a member says.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use evenkeel_core::shard::{ShardRange, ShardRanges};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::table::TableError;

/// The annotation of the member's record.
pub(crate) const MEMBER: &str = "ring.evenkeel.dev/member";
/// The annotation of a fence.
pub(crate) const FENCED: &str = "ring.evenkeel.dev/fenced";
/// The annotation of a nudge.
pub(crate) const LOOK: &str = "ring.evenkeel.dev/look";

/// The content of a member Lease: the annotations and the time of the last renewal.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct MemberLease {
    pub(crate) record: Arc<MemberRecord>,
    /// `renewTime` in microseconds since the epoch. It identifies the member's write, and is never compared with a clock.
    pub(crate) renewed: i64,
    /// `None`: not fenced.
    pub(crate) fenced: Option<FenceCause>,
}

/// Why the assigner fenced a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum FenceCause {
    /// The Lease was not renewed for the lease duration.
    Expired,
    /// The member renews its Lease, and did not release a slice in time.
    Evicted,
}

impl FenceCause {
    /// Returns the word that annotations and metrics have.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            FenceCause::Expired => "expired",
            FenceCause::Evicted => "evicted",
        }
    }

    /// Returns the cause that an annotation tells. An unknown one counts as an eviction, which is waited for.
    pub(crate) fn of(annotation: &str) -> Self {
        match annotation.split(' ').next() {
            Some("expired") => FenceCause::Expired,
            _ => FenceCause::Evicted,
        }
    }
}

impl fmt::Display for FenceCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What a member publishes with each heartbeat.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct MemberRecord {
    /// The table formats that the member reads.
    #[serde(default)]
    pub(crate) speaks: Vec<u32>,
    /// The settings that all members share.
    #[serde(default)]
    pub(crate) by: String,
    /// The highest revision of a table that the member has applied.
    #[serde(default)]
    pub(crate) seen: u64,
    /// The ranges that the member works on, or has not released.
    #[serde(default, with = "ranges")]
    pub(crate) holds: Vec<ShardRange>,
    /// The places that the member's caches cover, of those that it holds or gains.
    #[serde(default, with = "ranges")]
    pub(crate) warm: Vec<ShardRange>,
    /// The member leaves as soon as it has released its slices.
    #[serde(default)]
    pub(crate) leaving: bool,
    /// The share of the slices that the member takes, relative to others. 0: none.
    #[serde(default)]
    pub(crate) capacity: u32,
    #[serde(default)]
    pub(crate) load: Vec<SliceLoad>,
    /// The version of the program. Leavers give their slices to the newest.
    #[serde(default)]
    pub(crate) build: String,
    /// What the member has written to the ranges that it released lately.
    #[serde(default)]
    pub(crate) written: Vec<WrittenVersions>,
}

/// The load of one slice, as its owner measures it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SliceLoad {
    /// The first place of the slice.
    pub start: u64,
    /// The number of objects.
    pub objects: u64,
    /// Seconds of reconciles per second.
    pub busy: f64,
    /// A place that divides the load of the slice in halves, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub median: Option<u64>,
}

/// The highest resource versions that a member wrote in a range before it released it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WrittenVersions {
    /// The released range.
    #[serde(with = "range")]
    pub(crate) range: ShardRange,
    /// By resource, such as `pods` or `deployments.apps`.
    pub(crate) versions: BTreeMap<String, u64>,
    /// Writes were sent whose outcome is unknown, or reconciles were dropped.
    #[serde(default)]
    pub(crate) loose: bool,
}

impl MemberRecord {
    /// Returns the text of the annotation.
    pub(crate) fn encode(&self) -> String {
        // Maps have texts as keys and numbers are finite, so that serialisation cannot fail.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Parses the annotation.
    pub(crate) fn decode(text: &str) -> Result<Self, TableError> {
        serde_json::from_str(text)
            .map_err(|error| TableError::Malformed { part: "member record", text: error.to_string() })
    }

    /// Returns whether no range that the member holds intersects this one.
    pub(crate) fn has_released(&self, range: ShardRange) -> bool {
        self.holds.iter().all(|held| held.intersection(range).is_none())
    }

    /// Returns whether the caches of the member cover a range.
    pub(crate) fn is_warm(&self, range: ShardRange) -> bool {
        self.warm.iter().copied().collect::<ShardRanges>().covers(&range.into())
    }
}

/// A range as `first-last` in hexadecimal digits.
struct RangeText(ShardRange);

impl fmt::Display for RangeText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}-{:x}", self.0.start(), self.0.end() - 1)
    }
}

impl Serialize for RangeText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for RangeText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let parsed = text.split_once('-').and_then(|(first, last)| {
            let last = u64::from_str_radix(last, 16).ok()?;
            ShardRange::new(u64::from_str_radix(first, 16).ok()?, u128::from(last) + 1).ok()
        });
        parsed.map(RangeText).ok_or_else(|| serde::de::Error::custom(format_args!("{text:?} is no range")))
    }
}

mod range {
    use super::*;

    pub(super) fn serialize<S: Serializer>(range: &ShardRange, serializer: S) -> Result<S::Ok, S::Error> {
        RangeText(*range).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ShardRange, D::Error> {
        RangeText::deserialize(deserializer).map(|text| text.0)
    }
}

mod ranges {
    use super::*;

    pub(super) fn serialize<S: Serializer>(ranges: &[ShardRange], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(ranges.iter().map(|range| RangeText(*range)))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<ShardRange>, D::Error> {
        let texts = Vec::<RangeText>::deserialize(deserializer)?;
        Ok(texts.into_iter().map(|text| text.0).collect())
    }
}

#[cfg(test)]
mod tests;
