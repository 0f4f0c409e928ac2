use super::*;

#[test]
fn control_characters_are_escaped_or_removed() {
    let text = " a\u{1b}[31mred\u{1b}[0m\u{1b}]0;title\u{7}b\r\n\u{202e}é\u{9b}1mc ";
    assert_eq!(escaped(text.as_bytes(), 100), r"a\u{1b}[31mred\u{1b}[0m\u{1b}]0;title\u{7}b\r\n\u{202e}é\u{9b}1mc");
    assert_eq!(stripped(text, 100), " aredbéc ");
    assert_eq!(stripped("\u{1b}", 9), "");
    assert_eq!(stripped("\u{1b}[31", 9), "");
    assert_eq!(stripped("\u{1b}]0;a\u{1b}\\b", 9), "b");
}

#[test]
fn long_texts_are_cut_between_characters() {
    assert_eq!(escaped("aéé".as_bytes(), 4), "aé");
    assert_eq!(escaped("aéé".as_bytes(), 5), "aéé");
    assert_eq!(escaped(b"\xff\xfe", 5), "\u{fffd}\u{fffd}");
    assert_eq!(escaped(&[0x80; 9], 4).chars().count(), 4, "what is no UTF-8 is cut anywhere");
    assert_eq!(stripped("aéé", 4), "aé…");
    assert_eq!(stripped("aéé", 5), "aéé");
}
