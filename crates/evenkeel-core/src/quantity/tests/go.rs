//! OHC-023: the same texts in Go.

use std::collections::BTreeSet;

use super::*;

/// A row of the table: the columns after the text.
struct GoAnswer<'a> {
    canonical: &'a str,
    format: &'a str,
    rank: usize,
    value: i64,
    milli: i64,
}

/// Returns the lines of the contract by which evenkeel's answer differs from Go's.
fn differences(text: &str, ours: &ExactQuantity, go: &GoAnswer<'_>) -> BTreeSet<&'static str> {
    let mut lines = BTreeSet::new();
    if ours.to_string() != go.canonical {
        if *ours >= of("1e21") {
            lines.insert("QTY-010");
        } else {
            assert_eq!(go.canonical, text, "Go writes another text, and not because it has kept the original");
            lines.insert("QTY-011");
        }
    }
    for (our, go) in [(ours.value(), go.value), (ours.milli_value(), go.milli)] {
        match our {
            None => _ = lines.insert("QTY-014"),
            Some(our) if our == go => {}
            Some(our) => {
                assert!(our < 0, "{text}: {our} is {go} in Go");
                lines.insert("QTY-015");
            }
        }
    }
    let format = match ours.format() {
        QuantityFormat::DecimalSi => "decimal",
        QuantityFormat::BinarySi => "binary",
        QuantityFormat::DecimalExponent => "exponent",
    };
    assert_eq!(format, go.format, "{text}");
    lines
}

#[test]
fn ohc_023_texts_mean_what_they_mean_in_go() {
    let rows = include_str!("go.tsv").lines().filter(|line| !line.starts_with('#'));
    let rows: Vec<Vec<&str>> = rows.map(|line| line.split('\t').collect()).collect();
    assert!(rows.len() >= 200);
    let (mut ranked, mut lines) = (Vec::new(), BTreeSet::new());
    for row in &rows {
        let text: String = serde_json::from_str(row[0]).unwrap();
        let ours = text.parse::<ExactQuantity>();
        let kind = match ours {
            Err(QuantityError::Format) => "format",
            Err(QuantityError::Suffix) => "suffix",
            Err(QuantityError::Number) => "number",
            Ok(_) => "",
        };
        match (ours, &row[1..]) {
            (Ok(ours), [canonical, format, rank, value, milli]) => {
                let [value, milli] = [value, milli].map(|number| number.parse().unwrap());
                let go = GoAnswer { canonical, format, rank: rank.parse().unwrap(), value, milli };
                lines.append(&mut differences(&text, &ours, &go));
                ranked.push((go.rank, ours, text));
            }
            (Err(_), ["error", error]) if *error == kind => {}
            (Err(QuantityError::Format), _) if !text.contains(|c: char| c.is_ascii_digit()) => {
                lines.insert("QTY-003");
            }
            // `--1`: no digits between the sign and what Go takes for a suffix.
            (Err(QuantityError::Format), ["error", "suffix"]) if text.starts_with(['+', '-']) => {}
            (Err(QuantityError::Format), ["0", ..]) if text.starts_with('e') => {}
            (Err(QuantityError::Suffix), [_, "exponent", ..]) => {
                let (_, exponent) = text.split_once('e').unwrap();
                assert!(exponent.parse::<i64>().unwrap().abs() > 1000, "{text}");
                lines.insert("QTY-004");
            }
            (ours, go) => panic!("{text:?} is {ours:?}, in Go {go:?}"),
        }
    }
    assert_eq!(Vec::from_iter(lines), ["QTY-003", "QTY-004", "QTY-010", "QTY-011", "QTY-014", "QTY-015"]);
    // Equal ranks are equal values in Go, and larger ones larger.
    for (left_rank, left, left_text) in &ranked {
        for (right_rank, right, right_text) in &ranked {
            assert_eq!(left.cmp(right), left_rank.cmp(right_rank), "{left_text} {right_text}");
        }
    }
}
