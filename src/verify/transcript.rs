//! What is kept of a verifier's output beside its log: a digest of all of it, and its end.

use sha2::{Digest, Sha256};

/// The most characters of output in a receipt.
const TAIL_CHARS: usize = 8_000;

/// As many bytes as that can be.
const TAIL_BYTES: usize = TAIL_CHARS * 4;

/// The output of one command, as it comes.
#[derive(Debug, Clone, Default)]
pub(super) struct Transcript {
    digest: Sha256,
    end: Vec<u8>,
}

impl Transcript {
    /// Takes in what came.
    pub(super) fn push(&mut self, chunk: &[u8]) {
        self.digest.update(chunk);
        self.end.extend_from_slice(chunk);
        // Now and then, so that a byte is not moved once for every byte that comes.
        if self.end.len() > 2 * TAIL_BYTES {
            self.end.drain(..self.end.len() - TAIL_BYTES);
        }
    }

    /// The SHA-256 of everything that came.
    pub(super) fn sha256(&self) -> String {
        hex::encode(self.digest.clone().finalize())
    }

    /// Its end, as text; `None` where nothing came.
    pub(super) fn tail(&self) -> Option<String> {
        let cut = self.end.len().saturating_sub(TAIL_BYTES);
        let end = self.end.get(cut..).filter(|end| !end.is_empty())?;
        // The cut may have gone through a character.
        let broken = if cut == 0 { 0 } else { end.iter().take(3).take_while(|byte| **byte & 0xc0 == 0x80).count() };
        let text = String::from_utf8_lossy(&end[broken..]);
        let from = text.char_indices().rev().nth(TAIL_CHARS - 1).map_or(0, |(at, _)| at);
        Some(text[from..].to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(chunks: &[&[u8]]) -> Transcript {
        let mut transcript = Transcript::default();
        for chunk in chunks {
            transcript.push(chunk);
        }
        transcript
    }

    #[test]
    fn the_tail_is_the_end_in_whole_characters() {
        assert_eq!(of(&[]).tail(), None);
        assert_eq!(of(&[b"a\xffb"]).tail().unwrap(), "a\u{fffd}b");
        assert_eq!(of(&["ä".repeat(8_000).as_bytes()]).tail().unwrap(), "ä".repeat(8_000));
        for wide in ["a", "ä", "€", "🦀"] {
            let tail = of(&[wide.repeat(30_000).as_bytes(), b"end"]).tail().unwrap();
            assert_eq!(tail.chars().count(), 8_000, "{wide}");
            assert!(tail.ends_with(&format!("{wide}end")) && !tail.contains('\u{fffd}'), "{wide}");
        }
    }

    #[test]
    fn the_digest_is_of_everything() {
        let all = "0123456789".repeat(20_000);
        let pieces: Vec<&[u8]> = all.as_bytes().chunks(777).collect();
        assert_eq!(of(&pieces).sha256(), hex::encode(Sha256::digest(all.as_bytes())));
        assert_eq!(of(&pieces).tail().unwrap(), all[all.len() - 8_000..]);
    }
}
