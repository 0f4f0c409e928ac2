use super::*;

fn key(name: &str) -> EventKey {
    EventKey::of([name])
}

#[test]
fn ec_012_the_most_recently_used_entries_stay() {
    let mut lru = Lru::new(2);
    assert!(lru.put(key("a"), 1).is_none());
    assert!(lru.put(key("b"), 2).is_none());
    assert_eq!(lru.get(&key("a")), Some(&mut 1), "a look is a use");
    assert_eq!(lru.put(key("c"), 3), Some((key("b"), 2)));
    assert_eq!(lru.put(key("a"), 4), None, "the same key needs no room");
    assert_eq!((lru.keys(), lru.len()), (vec![key("c"), key("a")], 2));
    assert_eq!(lru.peek(&key("c")), Some(&mut 3));
    assert_eq!(lru.put(key("d"), 5), Some((key("c"), 3)), "a peek is none");
    assert_eq!((lru.remove(&key("d")), lru.remove(&key("d")), lru.len()), (Some(5), None, 1));
    let mut least = Lru::new(0);
    least.put(key("a"), 1);
    assert_eq!(least.len(), 1, "no room at all would be no cache");
}
