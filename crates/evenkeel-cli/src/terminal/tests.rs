use super::*;

#[test]
fn a_line_is_truncated_to_the_terminal_and_cannot_move_the_cursor() {
    let line = Line::new().with(GOOD, "add").with(PLAIN, " ns/\x1b[2Ja\nb");
    assert_eq!(line.render(false, 80), "add ns/[2Jab");
    assert_eq!(line.render(false, 5), "add n");
    assert_eq!(line.render(true, 4), "\x1b[32madd\x1b[0m ");
    assert_eq!(line.render(false, 0), "");
}

#[test]
fn a_block_is_redrawn_in_place() {
    let mut block = Block::new(false);
    let mut out = Vec::new();
    let lines = [Line::new().with(PLAIN, "one"), Line::new().with(PLAIN, "two")];
    block.draw(&mut out, &lines, 80).unwrap();
    block.draw(&mut out, &lines[..1], 80).unwrap();
    block.clear(&mut out).unwrap();
    block.clear(&mut out).unwrap();
    let drawn = String::from_utf8(out).unwrap();
    assert_eq!(drawn, "\r\x1b[Kone\r\n\x1b[Ktwo\r\n\x1b[J\r\x1b[2A\x1b[Kone\r\n\x1b[J\r\x1b[1A\x1b[J");
}

#[test]
fn lines_that_a_narrower_terminal_has_wrapped_are_redrawn_too() {
    let mut block = Block::new(false);
    let mut out = Vec::new();
    let lines = [Line::new().with(PLAIN, "0123456789"), Line::new()];
    block.draw(&mut out, &lines, 80).unwrap();
    out.clear();
    block.draw(&mut out, &lines[1..], 4).unwrap();
    assert_eq!(String::from_utf8(out).unwrap(), "\r\x1b[4A\x1b[K\r\n\x1b[J");
}

#[test]
fn external_text_stays_in_one_line_without_escapes() {
    assert_eq!(sanitize("a\nb\tc"), "a b c");
    assert_eq!(sanitize("\x1b[2J\u{9b}1m\u{202e}é"), "\\u001b[2J\\u009b1m\\u202eé");
}
