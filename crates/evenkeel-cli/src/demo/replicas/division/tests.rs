use super::*;

/// A division of equal slices: the owner, and after `>` the target.
fn division(slices: &[&str], members: &[&str]) -> Division {
    let width = PLACES / slices.len() as u128;
    let name = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let slice = |(index, text): (usize, &&str)| {
        let (owner, target) = text.split_once('>').unwrap_or((text, ""));
        let start = u64::try_from(index as u128 * width).unwrap();
        Slice { start, end: (index as u128 + 1) * width, owner: name(owner), target: name(target) }
    };
    let members = members.iter().map(|member| (*member).to_owned()).collect();
    Division { revision: 1, members, slices: slices.iter().enumerate().map(slice).collect() }
}

fn live(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn a_ring_is_settled_when_all_live_replicas_own_everything_and_nothing_moves() {
    let both = ["a", "b"];
    assert_eq!(division(&["a", "b", "a", "b"], &both).unsettled(&live(&both)), None);
    for (slices, members, expected) in [
        (["a", "b", "a", "b>a"], &both[..], "1 slices are moving"),
        (["a", "b", "", "b"], &both, "25.0 % of the hash space has no owner"),
        (["a", "c", "a", "b"], &both, "25.0 % of the hash space has no owner"),
        (["a", "a", "a", "a"], &both, "b owns nothing"),
        (["a", "a", "a", "a"], &both[..1], "the members are a"),
        (["a", "b", "a", "b"], &["a", "b", "c"], "the members are a, b, c"),
        (["a", "b", "a", "b"], &["a", "b", "b"], "the members are a, b, b"),
    ] {
        assert_eq!(division(&slices, members).unsettled(&live(&both)).as_deref(), Some(expected), "{slices:?}");
    }
}

#[test]
fn changes_are_joins_moves_lost_owners_and_leaves() {
    let before = division(&["a", "a", "b", "b"], &["a", "b"]);
    // The first slice was split meanwhile.
    let after = division(&["a", "c", "c", "c", "", "", "a", "a"], &["a", "c"]);
    let share = 1.0 / 8.0;
    let moved = |from: &str, to: &str, slices: usize| Change::Moved {
        from: Some(from.to_owned()),
        to: to.to_owned(),
        slices,
        share: share * slices as f64,
    };
    let expected = [
        Change::Joined("c".to_owned()),
        Change::Unowned { owner: "b".to_owned(), slices: 2 },
        moved("a", "c", 3),
        moved("b", "a", 2),
        Change::Left("b".to_owned()),
    ];
    assert_eq!(before.changes(&after), expected);
    assert_eq!(before.changes(&before), []);
    let texts: Vec<String> = expected.iter().map(|change| change.text(&live(&["b"]))).collect();
    assert_eq!(
        texts,
        [
            "c: member joined",
            "b: lease expired; 2 slices without an owner",
            "a: 3 slices moved to c (37.5 %)",
            "b: lease expired; 2 slices moved to a (25.0 %)",
            "b: lease expired; member removed",
        ]
    );
}

#[test]
fn shares_are_parts_of_the_hash_space() {
    let division = division(&["a", "b", "", "b>a"], &["a", "b"]);
    assert_eq!((division.share_of("b"), division.unowned_share(&live(&["a"])), division.moving()), ((0.5, 2), 0.75, 1));
}
