//! Vectors of 32-bit numbers as base64 of their little-endian bytes: exact, and a third of the size of decimals.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// As text: base64 (RFC 4648, with padding) of four bytes a number.
pub fn encode(vector: &[f32]) -> String {
    let bytes: Vec<u8> = vector.iter().flat_map(|x| x.to_le_bytes()).collect();
    STANDARD.encode(bytes)
}

/// Reads what [`encode`] wrote; none if it is something else.
pub fn decode(text: &str) -> Option<Vec<f32>> {
    let bytes = STANDARD.decode(text).ok()?;
    let (numbers, rest) = bytes.as_chunks::<4>();
    rest.is_empty().then(|| numbers.iter().map(|b| f32::from_le_bytes(*b)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_survive_to_the_bit() {
        let vector = [0.0, -0.0, 1.0, -1.5e-30, f32::MIN_POSITIVE, f32::MAX];
        let text = encode(&vector);
        let read = decode(&text).unwrap();
        assert!(read.iter().zip(vector).all(|(a, b)| a.to_bits() == b.to_bits()), "{read:?}");
        // What OpenAI's packages read: numpy's `<f4`.
        assert_eq!(encode(&[1.0, -2.0]), "AACAPwAAAMA=");
        assert_eq!(decode(""), Some(Vec::new()));
        for bad in ["AACAPw", "AACAPwA=", "not base64!"] {
            assert_eq!(decode(bad), None, "{bad}");
        }
    }
}
