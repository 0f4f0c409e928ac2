use proptest::prelude::*;

use super::*;

const ALL: &str = "'0x0000000000000000', '0x10000000000000000'";

fn uids(bounds: &str) -> String {
    format!("shardRange(object.metadata.uid, {bounds})")
}

fn error(text: &str) -> String {
    let status = ShardFilter::parse(text).unwrap_err();
    assert_eq!((status.code, status.reason.as_str()), (500, ""));
    status.message.strip_prefix("invalid shard selector: ").unwrap().to_owned()
}

#[test]
fn shd_003_the_grammar_is_that_of_cel() {
    let all = uids(ALL);
    for text in [
        all.clone(),
        format!(" ( {all} ) "),
        format!("(({all}) || ({all}))"),
        format!("{all}||{all}||{all}"),
        "shardRange(object . metadata . uid,\n\"0x0000000000000000\" , r'0x10000000000000000') // all".to_owned(),
        "shardRange(object.metadata.namespace, '\\x30x0000000000000000', '0x10000000000000000')".to_owned(),
    ] {
        assert!(ShardFilter::parse(&text).unwrap().ranges.is_full(), "{text}");
    }
}

#[test]
fn shd_013_the_text_has_the_ranges_of_the_request_in_their_order() {
    let text = "shardRange(object.metadata.uid,\"0x8000000000000000\",'0x10000000000000000')||(shardRange( \
                object.metadata.uid , '0x0000000000000000' , '0x8000000000000000'))";
    let filter = ShardFilter::parse(text).unwrap();
    assert_eq!(
        filter.text(),
        "shardRange(object.metadata.uid, '0x8000000000000000', '0x10000000000000000') || \
         shardRange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000')"
    );
    assert_eq!(filter.text().parse(), Ok(ShardSelector::new(ShardField::Uid, filter.ranges.clone())));
}

#[test]
fn shd_003_and_shd_023_what_is_no_range_is_refused_in_the_words_of_kube_apiserver() {
    let all = uids(ALL);
    for (text, message) in [
        ("\t ".to_owned(), "empty shard selector is not allowed; omit the parameter for unfiltered lists"),
        (format!("{all} && {all}"), "unsupported function \"_&&_\"; only shardRange() and || are allowed"),
        (format!("{all} || !{all}"), "unsupported function \"!_\"; only shardRange() and || are allowed"),
        (format!("has({all})"), "unsupported function \"has\"; only shardRange() and || are allowed"),
        (format!("{all} || object"), "unexpected expression kind 3; expected shardRange() call or || operator"),
        ("true".to_owned(), "unexpected expression kind 5; expected shardRange() call or || operator"),
        ("object.metadata.uid".to_owned(), "unexpected expression kind 7; expected shardRange() call or || operator"),
        ("[]".to_owned(), "unexpected expression kind 4; expected shardRange() call or || operator"),
        ("{}".to_owned(), "unexpected expression kind 6; expected shardRange() call or || operator"),
        ("T{}".to_owned(), "unexpected expression kind 8; expected shardRange() call or || operator"),
        ("shardRange(object.metadata.uid)".to_owned(), "shardRange() requires exactly 3 arguments, got 1"),
        (
            format!("shardRange(f(), {ALL})"),
            "shardRange() first argument: expected field path (e.g. object.metadata.uid), got expression kind 1",
        ),
        (
            format!("shardRange(object.metadata.name, {ALL})"),
            "unsupported field path \"object.metadata.name\"; supported: object.metadata.uid, \
             object.metadata.namespace",
        ),
        (uids("0, 8"), "hexStart must be a string literal, got int64"),
        (uids("'0x0000000000000000', 8u"), "hexEnd must be a string literal, got uint64"),
        (uids("b'0x', 8u"), "hexStart must be a string literal, got []uint8"),
        (uids("null, 8u"), "hexStart must be a string literal, got structpb.NullValue"),
        (uids("start, 8"), "hexStart must be a string literal (e.g. '0xff'), got expression kind 3"),
        (
            uids("'0x0', 8"),
            "hexStart must be a 0x-prefixed 16-digit hex value, got \"0x0\" (did you mean \"0x0000000000000000\"?)",
        ),
        (
            uids("'0x8000000000000000', '0x8000000000000000'"),
            "shard range start 0x8000000000000000 must be less than end 0x8000000000000000",
        ),
        (
            format!("{all} || shardRange(object.metadata.namespace, {ALL})"),
            "all shard ranges must use the same field, got \"object.metadata.uid\" and \"object.metadata.namespace\"",
        ),
    ] {
        assert_eq!(error(&text), message, "{text}");
    }
    let unparsable = error("shardRange(object.metadata.uid");
    assert!(unparsable.starts_with("CEL parse error: Syntax error: "), "{unparsable}");
}

#[test]
fn shd_012_a_thousand_ranges_pass_and_100_001_characters_do_not() {
    let many = vec![uids(ALL); 1024].join("||");
    assert!(ShardFilter::parse(&many).is_ok());
    let long = uids(ALL) + &" ".repeat(100_000) + "|| x";
    assert_eq!(
        error(&long),
        format!("CEL parse error: expression code point size exceeds limit: size: {}, limit 100000", long.len())
    );
}

fn bound_text() -> impl Strategy<Value = String> {
    prop_oneof![
        6 => any::<u64>().prop_map(|bound| format!("0x{bound:016x}")),
        2 => Just("0x10000000000000000".to_owned()),
        1 => "0x[0-9a-f]{0,18}",
        1 => "[0-9a-fxX]{0,4}",
    ]
}

fn range_text() -> impl Strategy<Value = String> {
    let field = prop_oneof![
        8 => Just("object.metadata.uid"),
        2 => Just("object.metadata.namespace"),
        1 => Just("object.metadata.name"),
    ];
    let space = prop_oneof![Just(""), Just(" "), Just("\n\t")];
    let quote = prop_oneof![Just('\''), Just('"')];
    (field, bound_text(), bound_text(), space, quote).prop_map(|(field, start, end, space, quote)| {
        format!(
            "{space}shardRange{space}({space}{field},{quote}{start}{quote}{space},{space}{quote}{end}{quote}){space}"
        )
    })
}

proptest! {
    /// The parser of clients, which reads what servers print, agrees with CEL on everything that it reads.
    #[test]
    fn the_parser_of_clients_agrees(ranges in proptest::collection::vec(range_text(), 1..4)) {
        let text = ranges.join("||");
        match (text.parse::<ShardSelector>(), parse(&text)) {
            (Ok(selector), Ok(filter)) => {
                prop_assert_eq!((selector.field(), selector.ranges()), (filter.field, &filter.ranges));
                prop_assert_eq!(filter.text().parse(), Ok(selector));
            }
            (Err(own), Err(server)) => prop_assert_eq!(own.to_string(), server.to_string()),
            (own, server) => prop_assert!(false, "{text}: {own:?} {server:?}"),
        }
    }
}
