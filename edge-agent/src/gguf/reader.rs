//! Reading numbers and strings off the front of a file, never past its end.

use super::GgufError;

/// What is left to read. Every read says, in case it fails, what it was for.
pub(super) struct Reader<'a> {
    left: &'a [u8],
    total: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Reader { left: bytes, total: bytes.len() }
    }

    /// Bytes read so far.
    pub(super) fn position(&self) -> usize {
        self.total - self.left.len()
    }

    pub(super) fn bytes(&mut self, count: u64, place: &str) -> Result<&'a [u8], GgufError> {
        let have = self.left.len() as u64;
        if count > have {
            return Err(GgufError::Truncated { place: place.to_owned(), need: count, have });
        }
        let (front, rest) = self.left.split_at(count as usize);
        self.left = rest;
        Ok(front)
    }

    /// Checks that `count` items of at least `size` bytes can follow, before anything is made for them.
    pub(super) fn room_for(&self, count: u64, size: u64, place: &str) -> Result<usize, GgufError> {
        let (need, have) = (count.saturating_mul(size), self.left.len() as u64);
        if need > have {
            return Err(GgufError::Truncated { place: place.to_owned(), need, have });
        }
        Ok(count as usize)
    }

    pub(super) fn array<const N: usize>(&mut self, place: &str) -> Result<[u8; N], GgufError> {
        let mut out = [0; N];
        out.copy_from_slice(self.bytes(N as u64, place)?);
        Ok(out)
    }

    pub(super) fn u32(&mut self, place: &str) -> Result<u32, GgufError> {
        Ok(u32::from_le_bytes(self.array(place)?))
    }

    pub(super) fn u64(&mut self, place: &str) -> Result<u64, GgufError> {
        Ok(u64::from_le_bytes(self.array(place)?))
    }

    /// A string that must be UTF-8: names of keys and tensors.
    pub(super) fn name(&mut self, place: &str) -> Result<String, GgufError> {
        let raw = self.string_bytes(place)?;
        let name = std::str::from_utf8(raw).map_err(|_| GgufError::key(place, "its name is not UTF-8"))?;
        Ok(name.to_owned())
    }

    /// A string's bytes: vocabularies hold pieces that are not UTF-8.
    pub(super) fn string_bytes(&mut self, place: &str) -> Result<&'a [u8], GgufError> {
        let length = self.u64(place)?;
        self.bytes(length, place)
    }
}
