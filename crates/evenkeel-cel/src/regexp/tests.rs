use super::*;

fn matches(pattern: &str, text: &str) -> bool {
    compiled(pattern).unwrap_or_else(|fault| panic!("{pattern}: {fault}")).is_match(text)
}

fn fault(pattern: &str) -> String {
    match Pattern::new(pattern.into()).compiled() {
        Ok(_) => panic!("{pattern} is accepted"),
        Err(fault) => fault.to_string().trim_start_matches("error parsing regexp: ").to_owned(),
    }
}

#[test]
fn crd_8_perl_classes_and_word_boundaries_are_ascii() {
    let (arabic, umlaut, wide_space) = ("٣", "ä", "\u{2003}");
    assert!(matches(r"^\d$", "3") && !matches(r"^\d$", arabic));
    assert!(matches(r"^\w$", "a") && !matches(r"^\w$", umlaut));
    assert!(matches(r"^\s$", "\t") && !matches(r"^\s$", wide_space) && !matches(r"^\s$", "\u{b}"));
    assert!(matches(r"^\D$", arabic) && matches(r"^\W$", umlaut) && matches(r"^\S$", wide_space));
    assert!(matches(r"^[\d_]$", "_") && !matches(r"^[\d_]$", arabic));
    assert!(matches(r"^[^\d]$", arabic) && matches(r"^[\W]$", umlaut) && !matches(r"^[^\W]$", umlaut));
    // An umlaut is not a part of a word.
    assert!(matches(r"a\bä", "aä") && !matches(r"a\Bä", "aä") && matches(r"ä\Bö", "äö"));
    assert!(matches(r"^.{3}$", "äöü") && matches(r"^[^a]$", "ü"));
    assert!(matches(r"(?i)^K$", "\u{212a}") && matches(r"(?i)^\w$", "\u{17f}"));
}

#[test]
fn crd_8_literals_of_go_that_are_operators_elsewhere() {
    assert!(matches(r"^a{,5}$", "a{,5}") && matches("^a{$", "a{") && matches("^a{01}$", "a{01}"));
    assert!(matches(r"^[a&&b]$", "&") && matches(r"^[a&&b]$", "a") && matches("^[a~~b]$", "~"));
    assert!(matches(r"^[[a]$", "[") && matches(r"^[]a]$", "]") && matches(r"^[a-]$", "-"));
    assert!(matches(r"^\<\>$", "<>") && matches(r"^a\b{start}$", "a{start}"));
    assert!(matches(r"^\Qa.b*\E*$", "a.b**") && !matches(r"^\Qa.b\E$", "axb") && matches(r"^\Q[", "["));
    assert!(matches(r"^\101\x41\x{1F600}\0$", "AA\u{1F600}\0") && matches(r"^\_\-\/\.$", "_-/."));
    assert!(matches(r"^[[:alpha:]]+[[:^digit:]]$", "ab") && matches(r"^\pL\p{Greek}\P{Lu}\p{^Lu}$", "aαaa"));
    assert!(matches(r"^a(?i)b*$", "aBb") && !matches(r"^a(?i)b$", "AB") && matches(r"^a(?i)*$", "aaa"));
    assert!(matches(r"^(?i-s:A)(?P<x>b)(?<y>c)$", "abc") && matches("(?)a", "a") && matches("(?s)^.$", "\n"));
    assert!(matches("^[\u{d7ff}-\u{e000}]$", "\u{e000}") && matches("^ #x$", " #x") && matches("a|", ""));
}

#[test]
fn crd_5_what_go_refuses_is_refused_with_its_message() {
    for (pattern, message) in [
        ("(", "missing closing ): `(`"),
        ("a)", "unexpected ): `a)`"),
        ("[a", "missing closing ]: `[a`"),
        ("[]", "missing closing ]: `[]`"),
        ("*a", "missing argument to repetition operator: `*`"),
        ("(|+)", "missing argument to repetition operator: `+`"),
        ("(?i)*", "missing argument to repetition operator: `*`"),
        (r"\Q\E*", "missing argument to repetition operator: `*`"),
        ("a**", "invalid nested repetition operator: `**`"),
        ("a*+", "invalid nested repetition operator: `*+`"),
        ("a{2}{3}", "invalid nested repetition operator: `{2}{3}`"),
        ("a{1001}", "invalid repeat count: `{1001}`"),
        ("a{3,2}", "invalid repeat count: `{3,2}`"),
        ("(a{100}){100}", "invalid repeat count: `{100}`"),
        ("(?=a)", "invalid or unsupported Perl syntax: `(?=`"),
        ("(?!a)", "invalid or unsupported Perl syntax: `(?!`"),
        ("(?x)a", "invalid or unsupported Perl syntax: `(?x`"),
        ("(?u:a)", "invalid or unsupported Perl syntax: `(?u`"),
        ("(?i-:a)", "invalid or unsupported Perl syntax: `(?i-:`"),
        ("(?<=a)b", "invalid named capture: `(?<=a)b`"),
        ("(?P<x y>a)", "invalid named capture: `(?P<x y>`"),
        (r"(a)\1", r"invalid escape sequence: `\1`"),
        (r"\u0041", r"invalid escape sequence: `\u`"),
        (r"\Z", r"invalid escape sequence: `\Z`"),
        (r"\C", r"invalid escape sequence: `\C`"),
        (r"\x{110000}", r"invalid escape sequence: `\x{110000`"),
        (r"\ä", r"invalid escape sequence: `\ä`"),
        ("\\", "trailing backslash at end of expression: ``"),
        ("[z-a]", "invalid character class range: `z-a`"),
        ("[[:foo:]]", "invalid character class range: `[:foo:]`"),
        (r"\p{Foo}", r"invalid character class range: `\p{Foo}`"),
        (r"\p{Script=Greek}", r"invalid character class range: `\p{Script=Greek}`"),
        (r"\p{Greek", r"invalid character class range: `\p{Greek`"),
        // A dash is a literal anywhere, but a class is no end of a range.
        (r"[\d-a-\w]", r"invalid escape sequence: `\w`"),
    ] {
        assert_eq!(fault(pattern), message, "{pattern}");
    }
    assert!(fault(&format!("{}a{}", "(".repeat(5_000), ")".repeat(5_000))).starts_with("expression nests too deeply"));
    assert!(fault(r"(\p{L}{1000}|\p{Lo}{1000}){1,}").starts_with("expression too large"));
}

#[test]
fn bud_3_compiled_patterns_share_a_cache_with_a_limit() {
    let mut patterns = PatternCache::default();
    let large = |index: usize| format!("^[^{index}]{{1000}}$");
    for index in 0..40 {
        let pattern = Arc::new(CompiledPattern::new(&large(index)).unwrap());
        assert!(pattern.bytes > 100_000, "{}", pattern.bytes);
        // Forty patterns of this size exceed the limit tenfold.
        let pattern = Arc::new(CompiledPattern { bytes: 8 << 20, regex: pattern.regex.clone(), id: pattern.id });
        patterns.insert(&large(index), &pattern);
        patterns.get(&large(0));
    }
    assert!(patterns.bytes <= MAX_CACHED_BYTES);
    assert_eq!(patterns.patterns.len(), 4);
    assert!(patterns.get(&large(0)).is_some() && patterns.get(&large(39)).is_some());
    assert!(patterns.get(&large(1)).is_none());
    // Equal patterns are compiled once.
    let pattern = compiled("^shared-pattern$").unwrap();
    assert!(Arc::ptr_eq(&pattern, &compiled("^shared-pattern$").unwrap()));
}

#[test]
fn bud_7_a_search_costs_by_text_and_pattern() {
    // The largest object, full of names, is within the budget of a validation several times.
    let name = compiled(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$").unwrap();
    let text = "x".repeat(1_500_000);
    assert!(name.cost(&text) < 700_000, "{} {}", name.bytes, name.cost(&text));
    // A pattern that keeps a thousand states alive is not.
    let hostile = compiled("^(?:[ab]*a[ab]{999}c)$").unwrap();
    assert!(hostile.cost(&text) > 2_000_000, "{} {}", hostile.bytes, hostile.cost(&text));
    assert!(hostile.cost("abc") < 100);
}
