//! Every behaviour that the repository cites by number is listed once in `docs/contract/`.
//!
//! Citations are the start of a function's name in Rust (`ref_019_…`, `ctn_009_and_ctn_010_…`) and numbers in text (`REF-019`,
//! `GAT-001..004`) of Rust, YAML, Markdown, Go and shell files.

#![expect(clippy::unwrap_used, reason = "a test that walks the repository")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Words that, followed by a number, start names of functions and cite nothing.
const NOT_PREFIXES: &[&str] = &["dns", "go", "h", "http", "rfc", "sha", "tls", "utf"];

/// Directories without sources of the repository.
const SKIPPED: &[&str] = &["target", "node_modules"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Returns the files below `directory` whose citations count.
fn files(directory: &Path, found: &mut Vec<PathBuf>) {
    let entries = fs::read_dir(directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    for entry in entries {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            if !name.starts_with('.') && !SKIPPED.contains(&name.as_str()) {
                files(&path, found);
            }
        } else if let Some("rs" | "yaml" | "yml" | "md" | "go" | "sh") = path.extension().and_then(|it| it.to_str()) {
            found.push(path);
        }
    }
}

/// A number of the contract: `REF` and `019`. The digits are kept as written.
type Number = (String, String);

/// Returns the numbers listed in `docs/contract/`, and what is wrong with the lists.
fn listed() -> (BTreeSet<Number>, Vec<String>) {
    let mut numbers = BTreeMap::<Number, String>::new();
    let mut problems = Vec::new();
    let mut parts = Vec::new();
    files(&root().join("docs/contract"), &mut parts);
    let (readme, parts): (Vec<_>, Vec<_>) = parts.into_iter().partition(|it| it.ends_with("README.md"));
    for part in parts {
        let file = part.file_name().unwrap().to_string_lossy().into_owned();
        for line in fs::read_to_string(&part).unwrap().lines().filter_map(|line| line.strip_prefix("- **")) {
            let Some((number, text)) = line.split_once("** ") else {
                problems.push(format!("{file}: not a line of the contract: {line}"));
                continue;
            };
            let Some(number) = number.split_once('-').map(|(prefix, digits)| (prefix.to_owned(), digits.to_owned()))
            else {
                problems.push(format!("{file}: not a number: {number}"));
                continue;
            };
            if text.trim().is_empty() {
                problems.push(format!("{file}: {}-{} has no text", number.0, number.1));
            }
            if let Some(before) = numbers.insert(number.clone(), file.clone()) {
                problems.push(format!("{}-{} is listed twice: {before}, {file}", number.0, number.1));
            }
        }
    }
    let readme = fs::read_to_string(&readme[0]).unwrap();
    let explained: BTreeSet<_> =
        readme.lines().filter_map(|line| Some(line.strip_prefix("| ")?.split_once(" |")?.0)).collect();
    for prefix in numbers.keys().map(|(prefix, _)| prefix.as_str()).collect::<BTreeSet<_>>() {
        if !explained.contains(prefix) {
            problems.push(format!("README.md: prefix {prefix} has no row"));
        }
    }
    (numbers.into_keys().collect(), problems)
}

/// Splits `text` into words of letters, digits and underscores, each with its position.
fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let is_word = |it: char| it.is_ascii_alphanumeric() || it == '_';
    let mut rest = 0;
    std::iter::from_fn(move || {
        let start = rest + text[rest..].find(is_word)?;
        let end = text[start..].find(|it| !is_word(it)).map_or(text.len(), |length| start + length);
        rest = end;
        Some((start, &text[start..end]))
    })
}

fn is_prefix(word: &str) -> bool {
    (2..=4).contains(&word.len()) && word.bytes().all(|it| it.is_ascii_uppercase())
}

fn is_digits(word: &str) -> bool {
    (1..=4).contains(&word.len()) && word.bytes().all(|it| it.is_ascii_digit())
}

/// Returns the numbers written as `REF-019` in `text`, ranges (`GAT-001..004`, `GAT-001..GAT-004`) expanded.
fn numbers_in_text(text: &str) -> Vec<Number> {
    let words: Vec<_> = words(text).collect();
    let between = |a: usize, b: usize| {
        let ((a_start, a), (b_start, _)) = (words[a], words[b]);
        &text[a_start + a.len()..b_start]
    };
    let number_at = |at: usize| {
        let (&(start, prefix), &(_, digits)) = (words.get(at)?, words.get(at + 1)?);
        let cited =
            is_prefix(prefix) && is_digits(digits) && between(at, at + 1) == "-" && !text[..start].ends_with('-');
        cited.then_some((prefix, digits))
    };
    let mut found = Vec::new();
    let mut last = None;
    for at in 0..words.len() {
        let Some((prefix, digits)) = number_at(at) else { continue };
        let first: u32 = digits.parse().unwrap();
        // The end of a range before this number.
        if let Some((from_prefix, from, end)) = last
            && from_prefix == prefix
            && between(end, at) == ".."
        {
            found.extend((from..first).map(|it| (prefix.to_owned(), format!("{it:0width$}", width = digits.len()))));
        }
        found.push((prefix.to_owned(), digits.to_owned()));
        let to = words.get(at + 2).filter(|(_, to)| is_digits(to) && between(at + 1, at + 2) == "..");
        if let Some((_, to)) = to {
            found.extend(
                (first + 1..=to.parse().unwrap())
                    .map(|it| (prefix.to_owned(), format!("{it:0width$}", width = digits.len()))),
            );
        }
        last = Some((prefix, first, at + 1));
    }
    found
}

/// Returns the pairs of a word and digits that the name of a function starts with: `ctn_009_and_ctn_010_…` has two.
fn numbers_in_name(name: &str) -> Vec<Number> {
    let mut found = Vec::new();
    let mut parts = name.split('_').peekable();
    while let Some(prefix) = parts.next() {
        if prefix == "and" && !found.is_empty() {
            continue;
        }
        match parts.next_if(|digits| is_digits(digits)) {
            Some(digits) if is_prefix(&prefix.to_ascii_uppercase()) && !NOT_PREFIXES.contains(&prefix) => {
                found.push((prefix.to_ascii_uppercase(), digits.to_owned()));
            }
            _ => break,
        }
    }
    found
}

fn function_names(source: &str) -> impl Iterator<Item = &str> {
    let mut words = words(source).map(|(_, word)| word);
    std::iter::from_fn(move || {
        words.find(|word| *word == "fn")?;
        words.next()
    })
}

/// Returns what is wrong with the citations of `text`, which is Rust if `rust`.
fn unlisted(text: &str, rust: bool, listed: &BTreeSet<Number>) -> Vec<String> {
    let prefixes: BTreeSet<_> = listed.iter().map(|(prefix, _)| prefix.as_str()).collect();
    let mut problems = Vec::new();
    for number in numbers_in_text(text) {
        // `SHA-256` is no citation; `XYZ-001` is one.
        let cites = prefixes.contains(number.0.as_str()) || number.1.starts_with('0');
        if cites && !listed.contains(&number) {
            problems.push(format!("{}-{} is not listed in docs/contract", number.0, number.1));
        }
    }
    for name in function_names(text).filter(|_| rust) {
        for (position, number) in numbers_in_name(name).into_iter().enumerate() {
            let known = prefixes.contains(number.0.as_str());
            // Words may follow the first number: `prc_002_of_64_handlers_…`.
            if !known && position > 0 {
                break;
            }
            if !listed.contains(&number) {
                let why = if known { "the number is not listed" } else { "the prefix is unknown" };
                problems.push(format!("{name}: {why} in docs/contract"));
            }
        }
    }
    problems
}

#[test]
fn every_cited_number_is_listed_once() {
    let (listed, mut problems) = listed();
    assert!(listed.len() > 1_000, "only {} numbers are listed", listed.len());
    let mut sources = Vec::new();
    files(&root(), &mut sources);
    // This file cites numbers that do not exist.
    for source in sources.iter().filter(|it| !it.ends_with("examples/tests/contract.rs")) {
        let text = fs::read_to_string(source).unwrap_or_else(|error| panic!("{}: {error}", source.display()));
        let rust = source.extension().is_some_and(|it| it == "rs");
        let path = source.strip_prefix(root()).unwrap().display();
        problems.extend(unlisted(&text, rust, &listed).into_iter().map(|problem| format!("{path}: {problem}")));
    }
    assert!(problems.is_empty(), "{} problems:\n{}", problems.len(), problems.join("\n"));
}

#[test]
fn citations_are_recognised() {
    let listed: BTreeSet<_> = [("REF", "019"), ("CTN", "009"), ("CTN", "010"), ("STO", "1")]
        .map(|(a, b)| (a.to_owned(), b.to_owned()))
        .into();
    let problems = |text: &str| unlisted(text, true, &listed).len();
    // Listed.
    assert_eq!(problems("// REF-019, CTN-009..010 and CTN-009..CTN-010"), 0);
    assert_eq!(problems("fn ref_019_a() {} fn ctn_009_and_ctn_010_b() {} fn sto_1_c() {}"), 0);
    // Not listed: another number, another width, an unknown prefix, the end and the middle of a range.
    assert_eq!(problems("// REF-020"), 1);
    assert_eq!(problems("// STO-001"), 1);
    assert_eq!(problems("// XYZ-001"), 1);
    assert_eq!(problems("// CTN-009..012"), 2);
    assert_eq!(problems("// CTN-009..CTN-012"), 2);
    assert_eq!(problems("fn ref_020_a() {} async fn xyz_001_b() {} fn ref_019_ctn_011_c() {}"), 3);
    // Not citations.
    assert_eq!(problems("// UTF-8 SHA-256 HTTP-1 X-REF-020 REF-020x RFC-7386"), 0);
    assert_eq!(
        problems(
            "fn http_2_is_chosen() {} fn sha_256_of() {} fn utf_8_only() {} fn dns_1035_label() {} fn ref_019_of_64_handlers() {}"
        ),
        0
    );
}
