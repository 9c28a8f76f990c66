//! FNV hashes, and the safe alphabet of hashes in names.

/// 32-bit FNV-1, as Go's `fnv.New32`.
pub fn fnv32(bytes: &[u8]) -> u32 {
    bytes.iter().fold(OFFSET_32, |hash, &byte| hash.wrapping_mul(PRIME_32) ^ u32::from(byte))
}

/// 32-bit FNV-1a, as Go's `fnv.New32a`.
pub fn fnv32a(bytes: &[u8]) -> u32 {
    let mut hash = Fnv32a::default();
    hash.write(bytes);
    hash.finish()
}

/// 32-bit FNV-1a, computed incrementally.
pub struct Fnv32a(u32);

impl Default for Fnv32a {
    fn default() -> Self {
        Self(OFFSET_32)
    }
}

impl Fnv32a {
    pub fn write(&mut self, bytes: &[u8]) {
        self.0 = bytes.iter().fold(self.0, |hash, &byte| (hash ^ u32::from(byte)).wrapping_mul(PRIME_32));
    }

    pub fn finish(&self) -> u32 {
        self.0
    }
}

/// 128-bit FNV-1a, for digests that are used only inside this process.
pub fn fnv128a(bytes: &[u8]) -> u128 {
    Fnv128a::default().with(bytes).finish()
}

/// 128-bit FNV-1a, computed incrementally.
#[derive(Clone, Copy)]
pub struct Fnv128a(u128);

impl Default for Fnv128a {
    fn default() -> Self {
        Self(OFFSET_128)
    }
}

impl Fnv128a {
    /// The hash of what was hashed so far, followed by `bytes`.
    #[must_use]
    pub fn with(self, bytes: &[u8]) -> Self {
        Self(bytes.iter().fold(self.0, |hash, &byte| (hash ^ u128::from(byte)).wrapping_mul(PRIME_128)))
    }

    pub fn finish(self) -> u128 {
        self.0
    }
}

const OFFSET_32: u32 = 0x811c_9dc5;
const PRIME_32: u32 = 0x0100_0193;
const OFFSET_128: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
const PRIME_128: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;

/// No vowels and none of `0 1 3`, so that no suffix reads as a word.
pub const SAFE_ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// Maps every byte into the safe alphabet, for suffixes of names.
pub fn safe_encode(text: &str) -> String {
    text.bytes().map(|byte| char::from(SAFE_ALPHABET[usize::from(byte) % SAFE_ALPHABET.len()])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_go() {
        assert_eq!((fnv32(b""), fnv32(b"a"), fnv32(b"foobar")), (0x811c9dc5, 0x050c5d7e, 0x31f0b262));
        assert_eq!((fnv32a(b""), fnv32a(b"a"), fnv32a(b"foobar")), (0x811c9dc5, 0xe40c292c, 0xbf9cf968));
        assert_eq!(fnv128a(b"a"), 0xd228cb696f1a8caf78912b704e4a8964);
        assert_eq!(Fnv128a::default().with(b"foo").with(b"").with(b"bar").finish(), fnv128a(b"foobar"));
    }

    #[test]
    fn suffixes_use_the_safe_alphabet() {
        assert_eq!(safe_encode("0123456789"), "456789bcdf");
    }
}
