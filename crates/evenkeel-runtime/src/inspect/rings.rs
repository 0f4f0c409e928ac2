//! Rings on the page: which member owns what.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use evenkeel_core::shard::{PLACES, ShardRange};
use serde_json::{Value, json};

use super::history;
use crate::ring::{RingHandle, RingSlice, RingTable};

/// Returns the handle of a ring, and `None` once its members of this process were dropped.
type RingSource = Arc<dyn Fn() -> Option<RingHandle> + Send + Sync>;

/// The rings that this process is a member of. Several of them may be one ring: then the newest table is shown.
#[derive(Default)]
pub(super) struct ObservedRings(Mutex<Vec<RingSource>>);

impl ObservedRings {
    pub(super) fn add(&self, ring: &RingHandle) {
        let mut rings = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        rings.retain(|source| source().is_some());
        rings.push(Arc::new(ring.weak()));
    }

    pub(super) fn report(&self) -> Value {
        let sources = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut rings: BTreeMap<String, (Vec<String>, Option<RingTable>)> = BTreeMap::new();
        // Without the lock: a handle may be the last one.
        for handle in sources.iter().filter_map(|source| source()) {
            let (own, newest) = rings.entry(handle.name().to_owned()).or_default();
            own.extend(handle.member());
            let table = handle.table();
            if table.as_ref().map(|table| table.revision) > newest.as_ref().map(|newest| newest.revision) {
                *newest = table;
            }
        }
        rings.into_iter().map(|(name, (own, table))| report(&name, &own, table.as_ref())).collect()
    }
}

fn report(name: &str, own: &[String], table: Option<&RingTable>) -> Value {
    let members = table.map(|table| table.members.as_slice()).unwrap_or_default();
    let index = |name: &Option<String>| name.as_ref().and_then(|name| members.iter().position(|m| m.name == *name));
    let slices = table.map(|table| table.slices.as_slice()).unwrap_or_default();
    let rows = members.iter().map(|member| {
        let owned = |slice: &&RingSlice| slice.owner.as_deref() == Some(&*member.name);
        json!({
            "name": history::name(&member.name), "share": member.share(), "here": own.contains(&member.name),
            "slices": slices.iter().filter(owned).count(),
            "leaving": slices.iter().filter(|slice| owned(slice) && slice.is_moving()).count(),
            "coming": slices.iter().filter(|slice| slice.target.as_deref() == Some(&*member.name)).count(),
        })
    });
    json!({
        "name": history::name(name),
        "revision": table.map(|table| table.revision),
        "unowned": table.map(RingTable::unowned_share),
        "moving": slices.iter().filter(|slice| slice.is_moving()).count(),
        "members": rows.collect::<Vec<_>>(),
        "parts": parts(slices).into_iter().map(|(range, slice)| json!({
            "from": fraction(range.start().into()), "to": fraction(range.end()),
            "stage": slice.stage.as_str(), "owner": index(&slice.owner), "target": index(&slice.target),
        })).collect::<Vec<_>>(),
    })
}

/// Merges slices beside each other that look the same.
fn parts(slices: &[RingSlice]) -> Vec<(ShardRange, &RingSlice)> {
    let mut parts: Vec<(ShardRange, &RingSlice)> = Vec::new();
    for slice in slices {
        if let Some((range, last)) = parts.last_mut()
            && (last.stage, &last.owner, &last.target) == (slice.stage, &slice.owner, &slice.target)
            && let Ok(both) = ShardRange::new(range.start(), slice.range.end())
        {
            *range = both;
        } else {
            parts.push((slice.range, slice));
        }
    }
    parts
}

/// Returns a place as a part of the hash space, with as many digits as a screen can show.
fn fraction(place: u128) -> f64 {
    (place as f64 / PLACES as f64 * 100_000.0).round() / 100_000.0
}
