//! Mutations of files, which depend on a number alone.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// Numbers at the borders of what a format can express.
const NUMBERS: [&str; 18] = [
    "-0",
    "0",
    "-1",
    "1",
    "2",
    "1.5",
    "0.5",
    "1e999",
    "-1e999",
    "1e-400",
    "NaN",
    "inf",
    "4294967295",
    "4294967296",
    "9223372036854775808",
    "-9223372036854775809",
    "18446744073709551616",
    "0.1000000000000000055511151231257827",
];

/// Integers at the borders of the types that binary formats have.
const INTEGERS: [u64; 9] = [0, 1, 1 << 31, (1 << 32) - 1, 1 << 32, (1 << 53) + 1, i64::MAX as u64, 1 << 63, u64::MAX];

/// Bytes that separate and open something in texts.
const SIGNS: &[u8] = b" :,;*#.-+/<>[]{}()\"\\=0189aeTOR\n\t\r\0";

/// Random numbers of one mutation.
struct Random(ChaCha8Rng);

impl Random {
    /// A number below `bound`, or 0.
    fn below(&mut self, bound: usize) -> usize {
        self.0.next_u64() as usize % bound.max(1)
    }

    fn one<'c, T: ?Sized>(&mut self, choices: &[&'c T]) -> &'c T {
        choices[self.below(choices.len())]
    }

    /// A short range in a text, and rarely a long one.
    fn piece(&mut self, text: &[u8]) -> std::ops::Range<usize> {
        let most = if self.below(8) == 0 { 400 } else { 12 };
        let (from, length) = (self.below(text.len()), 1 + self.below(most));
        from..text.len().min(from + length)
    }
}

/// Mutation `number` of a corpus: that of its files, and a few changes. `tokens` are words of the format.
pub fn mutate(corpus: &[Vec<u8>], tokens: &[&str], number: u64) -> Vec<u8> {
    let mut random = Random(ChaCha8Rng::seed_from_u64(number));
    let mut text = corpus[random.below(corpus.len())].clone();
    for _ in 0..1 + random.below(4) {
        change(&mut text, corpus, tokens, &mut random);
    }
    text
}

fn change(text: &mut Vec<u8>, corpus: &[Vec<u8>], tokens: &[&str], random: &mut Random) {
    let piece = random.piece(text);
    match random.below(14) {
        0 => text.iter_mut().skip(piece.start).take(1).for_each(|byte| *byte ^= 1 << random.below(8)),
        1 => text.iter_mut().skip(piece.start).take(1).for_each(|byte| *byte = random.below(256) as u8),
        2 => text.iter_mut().skip(piece.start).take(1).for_each(|byte| *byte = SIGNS[random.below(SIGNS.len())]),
        3 => text.insert(piece.start, SIGNS[random.below(SIGNS.len())]),
        4 => drop(text.drain(piece)),
        // Twice in a row, as a key or a line, or elsewhere.
        5 => {
            let to = if random.below(2) == 0 { piece.end } else { random.below(text.len() + 1) };
            let copy = text[piece].to_vec();
            drop(text.splice(to..to, copy));
        }
        // A line twice.
        6 => {
            let start = text[..piece.start].iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
            let end = text[piece.start..]
                .iter()
                .position(|&byte| byte == b'\n')
                .map_or(text.len(), |at| piece.start + at + 1);
            let line = text[start..end].to_vec();
            drop(text.splice(end..end, line));
        }
        // A piece of another file.
        7 => {
            let other = &corpus[random.below(corpus.len())];
            let copy = other[random.piece(other)].to_vec();
            drop(text.splice(piece, copy));
        }
        8 | 9 if !tokens.is_empty() => drop(text.splice(piece, random.one(tokens).bytes())),
        // Another number in place of a number.
        8..=10 => {
            let is_digit = |byte: &u8| byte.is_ascii_digit();
            let Some(start) = text[piece.start..].iter().position(is_digit).map(|at| piece.start + at) else { return };
            let length = text[start..].iter().take_while(|byte| is_digit(byte) || **byte == b'.').count();
            drop(text.splice(start..start + length, random.one(&NUMBERS).bytes()));
        }
        // Another number in a binary format.
        11 | 12 => {
            let number = INTEGERS[random.below(INTEGERS.len())].wrapping_add(random.below(3) as u64).wrapping_sub(1);
            let bytes = if random.below(2) == 0 { number.to_le_bytes() } else { number.to_be_bytes() };
            let width = [1, 2, 4, 8][random.below(4)];
            let at = if random.below(2) == 0 { piece.start / 8 * 8 } else { piece.start };
            text.iter_mut().skip(at).zip(&bytes[..width]).for_each(|(byte, new)| *byte = *new);
        }
        _ => text.truncate(piece.start),
    }
}
