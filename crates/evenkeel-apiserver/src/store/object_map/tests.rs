use proptest::prelude::*;

use super::*;
use crate::store::chain::Version;

fn chain(revision: u64) -> Chain {
    Chain::new(Version::Tombstone(revision))
}

fn entries<'a>(entries: impl Iterator<Item = (&'a Box<str>, &'a Chain)>) -> Vec<String> {
    entries.map(|(key, chain)| format!("{key} {chain:?}")).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn a_map_and_its_clones_behave_like_ordered_maps(
        changes in prop::collection::vec((0..1500_u32, prop::bool::weighted(0.7)), 1..2000),
        copied in 0..2000_usize,
        from in 0..1500_u32,
    ) {
        let mut map = ObjectMap::default();
        let mut model: BTreeMap<Box<str>, Chain> = BTreeMap::new();
        let mut copy = None;
        for (step, (key, insert)) in changes.into_iter().enumerate() {
            let key: Box<str> = format!("ns/{key}").into();
            if step == copied {
                copy = Some((map.clone(), model.clone()));
            }
            match (insert, map.get_mut(&key)) {
                (true, Some(chain)) => chain.push(Version::Tombstone(step as u64)),
                (true, None) => map.insert(key.clone(), chain(step as u64)),
                (false, _) => map.remove(&key),
            }
            match (insert, model.get_mut(&key)) {
                (true, Some(chain)) => chain.push(Version::Tombstone(step as u64)),
                (true, None) => drop(model.insert(key, chain(step as u64))),
                (false, _) => drop(model.remove(&key)),
            }
        }
        let from = format!("ns/{from}");
        for (map, model) in [(map, model)].into_iter().chain(copy) {
            prop_assert_eq!(entries(map.iter()), entries(model.iter()));
            for from in [Bound::Included(&*from), Bound::Excluded(&*from), Bound::Unbounded] {
                let expected = model.range::<str, _>((from, Bound::Unbounded));
                prop_assert_eq!(entries(map.range(from)), entries(expected));
            }
            prop_assert_eq!(map.get(&from).is_some(), model.contains_key(&*from));
            prop_assert!(map.chunks.values().all(|chunk| !chunk.is_empty() && chunk.len() <= MAX_CHUNK));
        }
    }
}

#[test]
fn sto_27_a_clone_shares_all_chunks_but_the_changed_one() {
    let mut map = ObjectMap::default();
    for number in 0..10_000 {
        map.insert(format!("ns/{number:05}").into(), chain(number));
    }
    let copy = map.clone();
    map.remove("ns/05000");
    let shared = map.chunks.iter().filter(|(bound, chunk)| Arc::ptr_eq(chunk, &copy.chunks[*bound])).count();
    assert_eq!(shared, map.chunks.len() - 1);
    assert!(map.chunks.len() < 100, "{} chunks", map.chunks.len());
    assert!(copy.get("ns/05000").is_some() && map.get("ns/05000").is_none());
}
