//! [`TerminalSize`]: the size of the terminal of a process in a container.

use serde::{Deserialize, Serialize};

/// The longest encoded size that is read.
const MAX_SIZE: usize = 4096;

/// The size of a terminal, in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct TerminalSize {
    /// The number of columns.
    pub width: u16,
    /// The number of rows.
    pub height: u16,
}

impl TerminalSize {
    /// Encodes a message of the resize channel: an object and a newline.
    pub fn encode(self) -> String {
        format!("{{\"Width\":{},\"Height\":{}}}\n", self.width, self.height)
    }

    /// Takes the first complete size out of the received bytes. Invalid sizes are skipped.
    pub fn decode(received: &mut Vec<u8>) -> Option<Self> {
        while let Some(end) = received.iter().position(|byte| *byte == b'}') {
            let object: Vec<u8> = received.drain(..=end).collect();
            if let Ok(size) = serde_json::from_slice(&object) {
                return Some(size);
            }
        }
        if received.len() > MAX_SIZE {
            received.clear();
        }
        None
    }
}

#[cfg(test)]
mod tests;
