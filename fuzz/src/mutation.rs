//! Inputs for tests: those of the corpus, changed at random.
//!
//! libFuzzer needs a build of its own. Tests have none, so that they run with all others; what they find is what a change of evenkeel
//! breaks soon.

use fastrand::Rng;

/// Returns an input of the corpus with a few changes. `words` are inserted whole.
pub fn mutated(corpus: &[Vec<u8>], words: &[&str], max_len: usize, random: &mut Rng) -> Vec<u8> {
    let mut input = random.choice(corpus).cloned().unwrap_or_default();
    for _ in 0..random.usize(1..=4) {
        mutate(&mut input, corpus, words, random);
    }
    input.truncate(max_len);
    input
}

fn mutate(input: &mut Vec<u8>, corpus: &[Vec<u8>], words: &[&str], random: &mut Rng) {
    let at = random.usize(0..=input.len());
    let range = at..(at + random.usize(0..=16)).min(input.len());
    match random.u8(0..9) {
        0 => flip(input, at, random),
        1 => input.insert(at, random.u8(..)),
        2 => drop(input.drain(range)),
        3 => {
            let copy = input[range].to_vec();
            insert(input, at, &copy);
        }
        4 | 5 => {
            if let Some(word) = random.choice(words) {
                insert(input, at, word.as_bytes());
            }
        }
        6 => {
            // The start of this input and the end of another one.
            if let Some(other) = random.choice(corpus) {
                input.truncate(at);
                input.extend_from_slice(&other[random.usize(0..=other.len())..]);
            }
        }
        7 => {
            let moved: Vec<u8> = input.drain(range).collect();
            let at = random.usize(0..=input.len());
            insert(input, at, &moved);
        }
        _ => {
            let number = *random.choice(&NUMBERS[..]).unwrap_or(&"0");
            insert(input, at, number.as_bytes());
        }
    }
}

/// Numbers at the edges of types.
const NUMBERS: [&str; 8] =
    ["0", "-1", "127", "256", "2147483648", "-9223372036854775808", "18446744073709551615", "1e308"];

fn flip(input: &mut [u8], at: usize, random: &mut Rng) {
    if let Some(byte) = input.get_mut(at) {
        *byte ^= 1 << random.u8(0..8);
    }
}

fn insert(input: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    input.splice(at..at, bytes.iter().copied());
}
