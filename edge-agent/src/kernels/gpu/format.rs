//! Weights as the kernels want them: whole 32-bit words, eight neighbouring columns (a chunk) in as few as can be, and
//! no more bits than the file has, but for padding. Nothing is rounded.

use half::f16;

use crate::gguf::GgmlType;

/// How a row's chunks lie in words. Blocks follow each other; a block begins with its scales.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Format {
    /// 32-bit floats: eight words a chunk.
    F32,
    /// Two 16-bit floats a word.
    F16,
    /// Likewise, the upper halves of 32-bit floats.
    Bf16,
    /// Blocks of 32: scale and minimum (two 16-bit floats), then a word of eight nibbles a chunk. Q4_0 and Q4_1.
    Q4,
    /// As `Q4`, with a word of 32 fifth bits after the scales. Q5_0 and Q5_1.
    Q5,
    /// Blocks of 32: a word with the scale, then two words of four signed bytes a chunk. Q8_0.
    Q8,
    /// Blocks of 256: two scales, eight pairs of bytes (scale and minimum of 32), a word of nibbles a chunk.
    Q4K,
    /// As `Q4K`, with eight words of fifth bits before the nibbles.
    Q5K,
    /// Blocks of 256: a scale, 16 signed bytes (scale of 16), two upper bits a number (half a word a chunk), then nibbles.
    Q6K,
}

impl Format {
    /// The form that holds a type's numbers without loss.
    pub(crate) fn of(kind: GgmlType) -> Format {
        match kind {
            GgmlType::F32 => Format::F32,
            GgmlType::F16 => Format::F16,
            GgmlType::BF16 => Format::Bf16,
            GgmlType::Q4_0 | GgmlType::Q4_1 => Format::Q4,
            GgmlType::Q5_0 | GgmlType::Q5_1 => Format::Q5,
            GgmlType::Q8_0 => Format::Q8,
            GgmlType::Q4_K => Format::Q4K,
            GgmlType::Q5_K => Format::Q5K,
            GgmlType::Q6_K => Format::Q6K,
        }
    }

    /// Chunks of a block, and its words.
    fn block(self) -> (usize, usize) {
        match self {
            Format::F32 => (1, 8),
            Format::F16 | Format::Bf16 => (1, 4),
            Format::Q4 => (4, 5),
            Format::Q5 => (4, 6),
            Format::Q8 => (4, 9),
            Format::Q4K => (32, 1 + 4 + 32),
            Format::Q5K => (32, 1 + 4 + 8 + 32),
            Format::Q6K => (32, 1 + 4 + 16 + 32),
        }
    }

    /// Words of a row of so many chunks.
    pub(crate) fn row_words(self, chunks: usize) -> usize {
        let (of_block, words) = self.block();
        chunks.div_ceil(of_block) * words
    }
}

/// Rows of a file's blocks as words: `rows` of them, `columns` numbers each. Rows of floats that are no whole chunks are
/// filled up with zeros.
pub(crate) fn pack(kind: GgmlType, bytes: &[u8], rows: usize, columns: usize) -> Vec<u32> {
    let format = Format::of(kind);
    let mut words = Vec::with_capacity(rows * format.row_words(columns.div_ceil(8)));
    let row_bytes = columns / kind.block_len() * kind.block_bytes();
    for row in bytes.chunks_exact(row_bytes.max(1)) {
        match kind.block_len() {
            1 => floats(kind, row, columns, &mut words),
            _ => row.chunks_exact(kind.block_bytes()).for_each(|block| self::block(kind, block, &mut words)),
        }
    }
    words
}

fn floats(kind: GgmlType, row: &[u8], columns: usize, words: &mut Vec<u32>) {
    let size = kind.block_bytes();
    let padding = columns.next_multiple_of(8) - columns;
    let padded: Vec<u8> = row.iter().copied().chain(std::iter::repeat_n(0, padding * size)).collect();
    words.extend(padded.chunks_exact(4).map(word));
}

fn word(bytes: &[u8]) -> u32 {
    u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}

fn block(kind: GgmlType, b: &[u8], words: &mut Vec<u32>) {
    match kind {
        GgmlType::Q4_0 => {
            words.push(with_minimum(b, 8.0));
            nibbles(&b[2..18], 16, words);
        }
        GgmlType::Q4_1 => {
            words.push(word(b));
            nibbles(&b[4..20], 16, words);
        }
        GgmlType::Q5_0 => {
            words.extend([with_minimum(b, 16.0), word(&b[2..6])]);
            nibbles(&b[6..22], 16, words);
        }
        GgmlType::Q5_1 => {
            words.extend([word(b), word(&b[4..8])]);
            nibbles(&b[8..24], 16, words);
        }
        GgmlType::Q8_0 => {
            words.push(u32::from(b[0]) | u32::from(b[1]) << 8);
            words.extend(b[2..34].chunks_exact(4).map(word));
        }
        GgmlType::Q4_K => {
            words.push(word(b));
            scales(&b[4..16], words);
            b[16..144].chunks_exact(32).for_each(|run| nibbles(run, 32, words));
        }
        GgmlType::Q5_K => {
            words.push(word(b));
            scales(&b[4..16], words);
            let fifth = |group: usize| (0..32).fold(0, |word, i| word | u32::from(b[16 + i] >> group & 1) << i);
            words.extend((0..8).map(fifth));
            b[48..176].chunks_exact(32).for_each(|run| nibbles(run, 32, words));
        }
        GgmlType::Q6_K => six(b, words),
        GgmlType::F32 | GgmlType::F16 | GgmlType::BF16 => {}
    }
}

/// A scale, and `-offset` times it as a minimum: numbers that are stored from zero on, though they mean something around
/// zero. A power of two times a 16-bit float is one too, but for the very largest.
fn with_minimum(b: &[u8], offset: f32) -> u32 {
    let minimum = f16::from_f32(f16::from_le_bytes([b[0], b[1]]).to_f32() * -offset);
    u32::from(b[0]) | u32::from(b[1]) << 8 | u32::from(minimum.to_bits()) << 16
}

/// A run of bytes whose low nibbles are its first half and the high ones the second, as words of eight neighbours.
fn nibbles(run: &[u8], half: usize, words: &mut Vec<u32>) {
    let nibble = |i: usize| u32::from(if i < half { run[i] & 15 } else { run[i - half] >> 4 });
    words.extend((0..2 * half).step_by(8).map(|at| (0..8).fold(0, |word, n| word | nibble(at + n) << (4 * n))));
}

/// Eight scales and eight minimums of six bits each, packed in 12 bytes, as eight pairs of bytes.
fn scales(packed: &[u8], words: &mut Vec<u32>) {
    let pair = |j: usize| {
        let (scale, minimum) = if j < 4 {
            (packed[j] & 63, packed[j + 4] & 63)
        } else {
            (packed[j + 4] & 15 | packed[j - 4] >> 6 << 4, packed[j + 4] >> 4 | packed[j] >> 6 << 4)
        };
        u32::from(scale) | u32::from(minimum) << 8
    };
    words.extend((0..8).step_by(2).map(|j| pair(j) | pair(j + 1) << 16));
}

fn six(b: &[u8], words: &mut Vec<u32>) {
    let (low, high) = (&b[..128], &b[128..192]);
    words.push(u32::from(b[208]) | u32::from(b[209]) << 8);
    words.extend(b[192..208].chunks_exact(4).map(word));
    // The i-th of the 256: which byte holds its nibble and its two upper bits.
    let number = |i: usize| {
        let (part, quad, at) = (i / 128, i % 128 / 32, i % 32);
        let nibble = low[part * 64 + at + quad % 2 * 32] >> (quad / 2 * 4) & 15;
        (u32::from(nibble), u32::from(high[part * 32 + at] >> (2 * quad) & 3))
    };
    words.extend((0..256).step_by(16).map(|at| (0..16).fold(0, |word, n| word | number(at + n).1 << (2 * n))));
    words.extend((0..256).step_by(8).map(|at| (0..8).fold(0, |word, n| word | number(at + n).0 << (4 * n))));
}
