//! Warnings and their handlers.

use super::super::testing::RecordedWarnings;
use super::*;
use crate::config::testing::logged;

fn headers<'a>(values: impl IntoIterator<Item = &'a str>) -> HeaderMap {
    values.into_iter().map(|value| (WARNING, http::HeaderValue::from_bytes(value.as_bytes()).unwrap())).collect()
}

fn texts(value: &str) -> Vec<String> {
    parse(&headers([value])).into_iter().map(|warning| warning.text).collect()
}

fn warning(code: u16, text: &str) -> Warning {
    Warning { code, agent: "-".into(), text: text.into() }
}

#[test]
fn wrn_001_every_warning_of_every_header_is_read() {
    let found = parse(&headers([
        r#"299 - "policy/v1beta1 is deprecated""#,
        r#" 299 agent:80 "one" "Wed, 21 Oct 2015 07:28:00 GMT" , 199 other "two",299 x "three""#,
        r#"299 - "good", 299 "no agent", 299 - "lost""#,
        r#"299 - "after""#,
    ]));
    let found: Vec<_> = found.iter().map(|warning| (warning.code, &*warning.agent, &*warning.text)).collect();
    let expected = [
        (299, "-", "policy/v1beta1 is deprecated"),
        (299, "agent:80", "one"),
        (199, "other", "two"),
        (299, "x", "three"),
        (299, "-", "good"),
        (299, "-", "after"),
    ];
    assert_eq!(found, expected, "what is malformed ends its own header only");
}

#[test]
fn wrn_002_malformed_warnings_are_ignored() {
    for value in [
        "",
        "299",
        "299 -",
        "299 - ",
        "299  \"no agent\"",
        "29 - \"a\"",
        "2999 - \"a\"",
        "2x9 - \"a\"",
        "-99 - \"a\"",
        "299 - a",
        "299 - \"a",
        "299 - \"a\\",
        "299 - \"a\" \"date",
        "299 - \"a\" x",
        "299 a\tb \"a\"",
    ] {
        assert_eq!(texts(value), [""; 0], "{value:?}");
    }
    let latin = HeaderMap::from_iter([(WARNING, http::HeaderValue::from_bytes(b"299 - \"\xe4\"").unwrap())]);
    assert!(parse(&latin).is_empty());
}

#[test]
fn wrn_002_quotes_and_encoded_words_are_decoded() {
    assert_eq!(texts(r#"299 - "a \"b\" \\ c, d""#), [r#"a "b" \ c, d"#]);
    assert_eq!(texts("299 - \"größer\""), ["größer"]);
    assert_eq!(texts("299 - \"=?utf-8?q?gr=C3=B6=C3=9Fer_50%?=\""), ["größer 50%"]);
    assert_eq!(texts("299 - \"a =?UTF-8?B?w7Y=?= =?iso-8859-1?Q?=F6?= b\""), ["a öö b"]);
    for odd in ["=?utf-8?x?a?=", "=?utf-8?b?!?=", "=?koi8-r?q?a?=", "=?utf-8?q?=ff?=", "=?", "a =? b ?="] {
        assert_eq!(texts(&format!("299 - \"{odd}\"")), [odd], "left as it is");
    }
}

#[test]
fn sec_7_warnings_are_sanitised_and_truncated() {
    // Better than client-go, which drops a warning that has a control character, and what follows it.
    assert_eq!(texts("299 - \"=?utf-8?q?a=1B[31mb=1B[0m=07=C2=9B1mc?=\", 299 - \"d\""), ["abc", "d"]);
    assert_eq!(texts("299 - \"a\tb\u{202e}c\""), ["abc"]);
    let long = texts(&format!("299 - \"{}\"", "a".repeat(10_000)));
    assert_eq!(long[0].len(), LONGEST + '…'.len_utf8());
}

/// A writer whose text can be read.
#[derive(Clone, Default)]
struct Page(Arc<Mutex<Vec<u8>>>);

impl Write for Page {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Page {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

#[test]
fn wrn_004_warnings_are_logged_by_default() {
    let log = logged(|| {
        for warning in [warning(299, "deprecated"), warning(199, "other"), warning(299, "")] {
            LogWarnings.warning(&warning);
            IgnoreWarnings.warning(&warning);
        }
    });
    assert_eq!(log, "WARN message=server warning: deprecated agent=\"-\"\n");
}

#[test]
fn wrn_004_warnings_are_written_as_lines() {
    let page = Page::default();
    let plain = WriteWarnings::new(page.clone());
    for warning in [warning(299, "a"), warning(299, "a"), warning(199, "b"), warning(299, "")] {
        plain.warning(&warning);
    }
    assert_eq!((page.text().as_str(), plain.count()), ("Warning: a\nWarning: a\n", 2));

    let page = Page::default();
    let coloured = WriteWarnings::new(page.clone()).coloured(true);
    coloured.warning(&warning(299, "a"));
    assert_eq!(page.text(), "\u{1b}[33;1mWarning:\u{1b}[0m a\n");
    assert_eq!(format!("{coloured:?}"), "WriteWarnings { coloured: true, deduplicated: false, .. }");
}

#[test]
fn wrn_004_repeated_warnings_are_written_once_and_the_memory_is_bounded() {
    // Better than client-go, which keeps every warning.
    let page = Page::default();
    let once = WriteWarnings::new(page.clone()).deduplicated(true);
    for text in ["first", "second", "first"] {
        once.warning(&warning(299, text));
    }
    assert_eq!(page.text(), "Warning: first\nWarning: second\n");
    for number in 0..REMEMBERED - 1 {
        once.warning(&warning(299, &number.to_string()));
    }
    let before = once.count();
    once.warning(&warning(299, "first"));
    assert_eq!(once.count(), before, "written recently");
    once.warning(&warning(299, "second"));
    assert_eq!(once.count(), before + 1, "dropped from the deduplication");
}

#[test]
fn unwritable_warnings_are_not_counted() {
    struct Full;
    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let full = WriteWarnings::new(Full);
    full.warning(&warning(299, "a"));
    assert_eq!(full.count(), 0);
}

#[test]
fn wrn_003_handlers_of_the_request_precede_those_of_the_client_and_the_process() {
    let [request, client, everybody] = [(); 3].map(|()| Arc::new(RecordedWarnings::default()));
    let as_handler = |heard: &Arc<RecordedWarnings>| Arc::clone(heard) as Arc<dyn WarningHandler>;
    let (of_request, of_client) = (as_handler(&request), as_handler(&client));
    set_default_warning_handler(Some(as_handler(&everybody)));
    // A text that no other test uses, as the handler is process-wide.
    let headers = |text: &str| headers([format!("299 - \"{text}\"").as_str()]);
    deliver(&headers("wrn 003 a"), [Some(&of_request), Some(&of_client)]);
    deliver(&headers("wrn 003 b"), [None, Some(&of_client)]);
    deliver(&headers("wrn 003 c"), [None, None]);
    set_default_warning_handler(None);
    deliver(&headers("wrn 003 d"), [None, None]);
    assert_eq!(request.texts(), ["wrn 003 a"]);
    assert_eq!(client.texts(), ["wrn 003 b"]);
    let everybody: Vec<_> = everybody.texts().into_iter().filter(|text| text.starts_with("wrn 003")).collect();
    assert_eq!(everybody, ["wrn 003 c"]);
}
