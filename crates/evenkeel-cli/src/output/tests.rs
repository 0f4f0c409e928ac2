use super::*;
use crate::terminal::{Line, PLAIN};

/// Returns the output of these items, written together.
fn written(block: Option<Block>, items: Vec<Item>) -> String {
    let (sender, waiting) = mpsc::channel(WAITING);
    items.into_iter().for_each(|item| sender.try_send(item).unwrap());
    drop(sender);
    let mut out = Vec::new();
    Screen { out: &mut out, frame: Vec::new(), block, footer: Vec::new() }.show(waiting).unwrap();
    String::from_utf8(out).unwrap()
}

fn items() -> Vec<Item> {
    vec![Item::Footer(vec![Line::new().with(PLAIN, "below")]), Item::Line("one".into()), Item::Line("two".into())]
}

#[test]
fn lines_scroll_above_the_block_which_is_removed_at_the_end() {
    let written = written(Some(Block::new(false)), items());
    assert_eq!(written, "one\ntwo\n\r\x1b[Kbelow\r\n\x1b[J\r\x1b[1A\x1b[J");
}

#[test]
fn without_a_block_there_are_only_lines() {
    assert_eq!(written(None, items()), "one\ntwo\n");
}
