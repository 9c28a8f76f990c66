//! How RSA signatures encode a hash (RFC 8017, section 9).

use ring::digest::{self, Digest};
use ring::rand::{SecureRandom as _, SystemRandom};

use crate::Refused;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Padding {
    /// RSASSA-PKCS1-v1_5: certificates, tokens and TLS 1.2.
    Pkcs1,
    /// RSASSA-PSS with a salt as long as the hash: TLS 1.3.
    Pss,
}

/// The hash in as many bytes as a modulus of that many bits has.
pub(crate) fn encode(padding: Padding, hashed: Digest, bits: u32) -> Result<Vec<u8>, Refused> {
    let len = bits.div_ceil(8) as usize;
    match padding {
        Padding::Pkcs1 => pkcs1(hashed, len).ok_or(Refused),
        Padding::Pss => {
            let mut salt = vec![0; hashed.algorithm().output_len()];
            SystemRandom::new().fill(&mut salt).map_err(|_| Refused)?;
            pss(hashed, &salt, bits).ok_or(Refused)
        }
    }
}

pub(crate) fn is_encoding_of(padding: Padding, hashed: Digest, encoded: &[u8], bits: u32) -> bool {
    match padding {
        Padding::Pkcs1 => pkcs1(hashed, encoded.len()).is_some_and(|want| want == encoded),
        Padding::Pss => salt(hashed, encoded, bits)
            .is_some_and(|salt| pss(hashed, &salt, bits).is_some_and(|want| want == encoded)),
    }
}

fn pkcs1(hashed: Digest, len: usize) -> Option<Vec<u8>> {
    let name = digest_info(hashed.algorithm())?;
    let tail = [&[0], name, hashed.as_ref()].concat();
    let filler = len.checked_sub(tail.len() + 2).filter(|filler| *filler >= 8)?;
    Some([vec![0, 1], vec![0xff; filler], tail].concat())
}

/// What precedes the hash in its DigestInfo.
fn digest_info(hash: &'static digest::Algorithm) -> Option<&'static [u8]> {
    #[rustfmt::skip]
    let table: [(&digest::Algorithm, &[u8]); 4] = [
        (&digest::SHA1_FOR_LEGACY_USE_ONLY, b"\x30\x21\x30\x09\x06\x05\x2b\x0e\x03\x02\x1a\x05\x00\x04\x14"),
        (&digest::SHA256, b"\x30\x31\x30\x0d\x06\x09\x60\x86\x48\x01\x65\x03\x04\x02\x01\x05\x00\x04\x20"),
        (&digest::SHA384, b"\x30\x41\x30\x0d\x06\x09\x60\x86\x48\x01\x65\x03\x04\x02\x02\x05\x00\x04\x30"),
        (&digest::SHA512, b"\x30\x51\x30\x0d\x06\x09\x60\x86\x48\x01\x65\x03\x04\x02\x03\x05\x00\x04\x40"),
    ];
    table.into_iter().find(|(of, _)| *of == hash).map(|(_, prefix)| prefix)
}

/// The sizes in an encoding with PSS.
struct Pss {
    /// The encoding has one bit less than the modulus, so that there may be a zero byte before it.
    leading: usize,
    masked: usize,
    hash: usize,
    /// Bits of the first masked byte that are used.
    first: u8,
}

impl Pss {
    fn new(hash: &digest::Algorithm, bits: u32) -> Option<Self> {
        let (len, whole) = ((bits - 1).div_ceil(8) as usize, bits.div_ceil(8) as usize);
        let hash = hash.output_len();
        let masked = len.checked_sub(hash + 1).filter(|masked| *masked >= hash + 2)?;
        let unused = len * 8 - (bits - 1) as usize;
        Some(Self { leading: whole - len, masked, hash, first: 0xff >> unused })
    }
}

fn pss(hashed: Digest, salt: &[u8], bits: u32) -> Option<Vec<u8>> {
    let sizes = Pss::new(hashed.algorithm(), bits)?;
    let salted = salted(hashed, salt);
    let filler = sizes.masked.checked_sub(salt.len() + 1)?;
    let mut masked = [vec![0; filler], vec![1], salt.to_vec()].concat();
    mask(&mut masked, salted, sizes.first);
    Some([vec![0; sizes.leading], masked, salted.as_ref().to_vec(), vec![0xbc]].concat())
}

/// The salt of an encoding. Whether the rest of it is right shows when it is encoded again.
fn salt(hashed: Digest, encoded: &[u8], bits: u32) -> Option<Vec<u8>> {
    let sizes = Pss::new(hashed.algorithm(), bits)?;
    let rest = encoded.get(sizes.leading..)?;
    let (masked, rest) = rest.split_at_checked(sizes.masked)?;
    let seed = rest.get(..sizes.hash)?;
    let mut masked = masked.to_vec();
    mask_with(&mut masked, seed, hashed.algorithm(), sizes.first);
    Some(masked.split_off(sizes.masked - sizes.hash))
}

fn salted(hashed: Digest, salt: &[u8]) -> Digest {
    let mut context = digest::Context::new(hashed.algorithm());
    context.update(&[0; 8]);
    context.update(hashed.as_ref());
    context.update(salt);
    context.finish()
}

fn mask(bytes: &mut [u8], seed: Digest, first: u8) {
    mask_with(bytes, seed.as_ref(), seed.algorithm(), first);
}

/// Applies the mask that MGF1 makes of a seed.
fn mask_with(bytes: &mut [u8], seed: &[u8], hash: &'static digest::Algorithm, first: u8) {
    for (counter, block) in (0u32..).zip(bytes.chunks_mut(hash.output_len())) {
        let mut context = digest::Context::new(hash);
        context.update(seed);
        context.update(&counter.to_be_bytes());
        for (byte, mask) in block.iter_mut().zip(context.finish().as_ref()) {
            *byte ^= mask;
        }
    }
    if let Some(byte) = bytes.first_mut() {
        *byte &= first;
    }
}
