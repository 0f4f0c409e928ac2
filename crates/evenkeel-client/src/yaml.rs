//! The limits of YAML that this crate reads: manifests and kubeconfigs.

use serde_saphyr::Options;
use serde_saphyr::options::DuplicateKeyPolicy;

const MAX_DEPTH: usize = 64;
/// The largest number of aliases, and of the nodes that they expand to.
const MAX_ALIASES: usize = 10_000;
const MAX_REPLAYED: usize = 100_000;

/// Returns the options for a text of at most `max_bytes`, which the caller has checked: nesting and the expansion of aliases are
/// limited, and a key that a mapping has twice is an error. Errors contain no part of the text, which may have secrets.
pub(crate) fn options(max_bytes: usize) -> Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_aliases: MAX_ALIASES,
            max_depth: MAX_DEPTH,
            max_documents: 2,
            max_recorded_anchor_events: MAX_REPLAYED,
            max_recorded_anchor_bytes: max_bytes,
            // The limits above count expanded nodes; the ratio of anchors to aliases adds nothing.
            enforce_alias_anchor_ratio: false,
        },
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: MAX_REPLAYED },
        duplicate_keys: DuplicateKeyPolicy::Error,
        with_snippet: false,
    }
}
