//! The difference between two texts, by lines.

use std::fmt::Write as _;

/// The largest table of a comparison. Larger differences are shown without looking for common lines within them.
const MAX_CELLS: usize = 4_000_000;

/// Returns the lines that differ, each with its number: `-` for those of `old`, `+` for those of `new`.
pub(super) fn line_diff(old: &str, new: &str) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let prefix = old.iter().zip(&new).take_while(|(one, other)| one == other).count();
    let rest = |lines: &[&str]| lines.len() - prefix;
    let suffix = old.iter().rev().zip(new.iter().rev()).take_while(|(one, other)| one == other).count();
    let suffix = suffix.min(rest(&old)).min(rest(&new));
    let middle = |lines: &[&str]| prefix..lines.len() - suffix;
    let (old_range, new_range) = (middle(&old), middle(&new));
    let (old, new) = (old.get(old_range).unwrap_or_default(), new.get(new_range).unwrap_or_default());

    let mut text = String::new();
    if old.len().saturating_mul(new.len()) > MAX_CELLS {
        old.iter().enumerate().for_each(|(index, removed)| push_line(&mut text, '-', prefix + index, removed));
        new.iter().enumerate().for_each(|(index, added)| push_line(&mut text, '+', prefix + index, added));
        return text;
    }
    let common = common_lengths(old, new);
    let (mut at, mut to) = (0, 0);
    while at < old.len() || to < new.len() {
        let (removed, added) = (old.get(at), new.get(to));
        if removed == added {
            (at, to) = (at + 1, to + 1);
            continue;
        }
        match removed.filter(|_| added.is_none() || common(at + 1, to) >= common(at, to + 1)) {
            Some(removed) => {
                push_line(&mut text, '-', prefix + at, removed);
                at += 1;
            }
            None => {
                push_line(&mut text, '+', prefix + to, added.copied().unwrap_or_default());
                to += 1;
            }
        }
    }
    text
}

fn push_line(text: &mut String, sign: char, index: usize, line: &str) {
    let _ = writeln!(text, "{sign}{:>5} {line}", index + 1);
}

/// Returns the length of the longest common subsequence of the lines from two indices on.
fn common_lengths(old: &[&str], new: &[&str]) -> impl Fn(usize, usize) -> u32 {
    let width = new.len() + 1;
    let mut table = vec![0_u32; (old.len() + 1) * width];
    let at = move |row: usize, column: usize| row * width + column;
    let get = |table: &[u32], row, column| table.get(at(row, column)).copied().unwrap_or_default();
    for (row, one) in old.iter().enumerate().rev() {
        for (column, other) in new.iter().enumerate().rev() {
            let length = match one == other {
                true => get(&table, row + 1, column + 1) + 1,
                false => get(&table, row + 1, column).max(get(&table, row, column + 1)),
            };
            if let Some(cell) = table.get_mut(at(row, column)) {
                *cell = length;
            }
        }
    }
    move |row, column| table.get(at(row, column)).copied().unwrap_or_default()
}
