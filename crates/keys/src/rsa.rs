//! RSA for keys that `ring` does not take: it signs up to 4096 bits and verifies up to 8192, we do both up to 16384.
//!
//! The arithmetic is that of `crypto-bigint`, whose time does not depend on the numbers. Each signature is blinded, and
//! verified before anybody sees it, so that neither a fault nor a broken key reveals a factor. There is no decryption.

use std::cmp::Ordering;

use crypto_bigint::modular::{BoxedMontyForm, BoxedMontyParams};
use crypto_bigint::{BoxedUint, ConcatenatingMul as _, NonZero, Odd, Resize as _};
use p256::pkcs8::der::asn1::UintRef;
use p256::pkcs8::der::{self, Decode as _, Reader as _, SliceReader};
use ring::digest;
use ring::rand::{SecureRandom as _, SystemRandom};

use crate::Refused;
use crate::padding::{self, Padding};

const SMALLEST: u32 = 2048;
const LARGEST: u32 = 16384;
/// Bits of the public exponent, as in `ring`: a larger one only makes verifying slow.
const EXPONENT_BITS: u32 = 33;
const SMALLEST_SIGNING_EXPONENT: u64 = 65537;

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RsaProblem {
    #[error("it has {0} bits")]
    Size(u32),
    #[error("it is not encoded as PKCS #1 says")]
    Encoding,
    #[error("its public exponent is not an odd number from 65537 to 2^33")]
    Exponent,
    #[error("its numbers contradict each other")]
    Inconsistent,
}

#[derive(Debug, thiserror::Error)]
#[error("the signature is not valid")]
pub struct Invalid;

/// A public key: modulus and exponent.
pub struct PublicKey {
    modulus: BoxedMontyParams,
    exponent: u64,
    bits: u32,
}

impl PublicKey {
    /// Parses the RSAPublicKey of PKCS #1, which is what a SubjectPublicKeyInfo holds.
    pub fn from_der(der: &[u8]) -> Result<Self, RsaProblem> {
        let mut reader = SliceReader::new(der).map_err(|_| RsaProblem::Encoding)?;
        let fields: Result<[UintRef<'_>; 2], der::Error> =
            reader.sequence(|fields| Ok([UintRef::decode(fields)?, UintRef::decode(fields)?]));
        let [modulus, exponent] = fields.map_err(|_| RsaProblem::Encoding)?;
        reader.finish().map_err(|_| RsaProblem::Encoding)?;
        Self::new(modulus.as_bytes(), exponent.as_bytes())
    }

    fn new(modulus: &[u8], exponent: &[u8]) -> Result<Self, RsaProblem> {
        let bits = bits(modulus);
        if !(SMALLEST..=LARGEST).contains(&bits) {
            return Err(RsaProblem::Size(bits));
        }
        if self::bits(exponent) > EXPONENT_BITS {
            return Err(RsaProblem::Exponent);
        }
        let exponent = exponent.iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
        if exponent < 3 || exponent % 2 == 0 {
            return Err(RsaProblem::Exponent);
        }
        let modulus = odd(BoxedUint::from_be_slice_vartime(modulus))?;
        Ok(Self { modulus: BoxedMontyParams::new_vartime(modulus), exponent, bits })
    }

    pub fn bits(&self) -> u32 {
        self.bits
    }

    /// Bytes of a signature.
    fn len(&self) -> usize {
        self.bits.div_ceil(8) as usize
    }

    pub fn verify(
        &self,
        padding: Padding,
        hash: &'static digest::Algorithm,
        message: &[u8],
        signature: &[u8],
    ) -> Result<(), Invalid> {
        if signature.len() != self.len() {
            return Err(Invalid);
        }
        let signature = BoxedUint::from_be_slice_vartime(signature);
        let signature = signature.resize_unchecked(self.modulus.bits_precision());
        if signature.cmp_vartime(self.modulus.modulus().as_ref()) != Ordering::Less {
            return Err(Invalid);
        }
        let encoded = self.bytes(&self.raise(&BoxedMontyForm::new(signature, &self.modulus)));
        let hashed = digest::digest(hash, message);
        padding::is_encoding_of(padding, hashed, &encoded, self.bits).then_some(()).ok_or(Invalid)
    }

    fn raise(&self, number: &BoxedMontyForm) -> BoxedMontyForm {
        number.pow_bounded_exp(&BoxedUint::from(self.exponent), u64::BITS - self.exponent.leading_zeros())
    }

    /// The number in as many bytes as the modulus has.
    fn bytes(&self, number: &BoxedMontyForm) -> Vec<u8> {
        let bytes = number.retrieve().to_be_bytes();
        bytes[bytes.len() - self.len()..].to_vec()
    }
}

/// A private key with two primes.
pub(crate) struct Key {
    public: PublicKey,
    /// The RSAPublicKey of PKCS #1.
    encoded_public: Vec<u8>,
    p: Prime,
    q: Prime,
    /// The inverse of `q` modulo `p`.
    q_inverse: BoxedMontyForm,
}

struct Prime {
    modulus: BoxedMontyParams,
    /// The private exponent modulo the prime less one.
    exponent: BoxedUint,
}

impl Key {
    /// Parses the RSAPrivateKey of PKCS #1.
    pub(crate) fn from_der(der: &[u8]) -> Result<Self, RsaProblem> {
        let mut reader = SliceReader::new(der).map_err(|_| RsaProblem::Encoding)?;
        let fields: Result<[UintRef<'_>; 9], der::Error> = reader.sequence(|fields| {
            let mut next = || UintRef::decode(fields);
            Ok([next()?, next()?, next()?, next()?, next()?, next()?, next()?, next()?, next()?])
        });
        let [version, n, e, _, p, q, d_p, d_q, q_inverse] = fields.map_err(|_| RsaProblem::Encoding)?;
        if version.as_bytes() != [0] || reader.finish().is_err() {
            return Err(RsaProblem::Encoding);
        }
        let public = PublicKey::new(n.as_bytes(), e.as_bytes())?;
        if public.exponent < SMALLEST_SIGNING_EXPONENT {
            return Err(RsaProblem::Exponent);
        }
        let (p, q) = (Prime::new(p, d_p, &public)?, Prime::new(q, d_q, &public)?);
        let product = p.number().concatenating_mul(q.number());
        let q_in_p = p.form(q.number());
        let q_inverse = p.form(&number(q_inverse)?);
        let one = BoxedMontyForm::one(&p.modulus);
        let is_product = product.cmp_vartime(public.modulus.modulus().as_ref()) == Ordering::Equal;
        if !is_product || q_inverse.mul(&q_in_p) != one {
            return Err(RsaProblem::Inconsistent);
        }
        let encoded_public = encode(n, e).map_err(|_| RsaProblem::Encoding)?;
        Ok(Self { public, encoded_public, p, q, q_inverse })
    }

    pub(crate) fn public_der(&self) -> &[u8] {
        &self.encoded_public
    }

    pub(crate) fn sign(
        &self,
        padding: Padding,
        hash: &'static digest::Algorithm,
        message: &[u8],
    ) -> Result<Vec<u8>, Refused> {
        let modulus = &self.public.modulus;
        let encoded = padding::encode(padding, digest::digest(hash, message), self.public.bits)?;
        let encoded = BoxedUint::from_be_slice_vartime(&encoded).resize_unchecked(modulus.bits_precision());
        let encoded = BoxedMontyForm::new(encoded, modulus);

        let (blinding, unblinding) = self.blinding()?;
        let blinded = encoded.mul(&self.public.raise(&blinding)).retrieve();
        let (by_p, by_q) = (self.p.root(&blinded), self.q.root(&blinded).retrieve());
        // Garner: by_q + q * ((by_p - by_q) / q mod p).
        let rest = by_p.sub(&self.p.form(&by_q)).mul(&self.q_inverse).retrieve();
        let root = rest.concatenating_mul(self.q.number()).concatenating_add(&by_q);
        let root = root.resize_unchecked(modulus.bits_precision());

        let signature = BoxedMontyForm::new(root, modulus).mul(&unblinding);
        if self.public.raise(&signature) != encoded {
            return Err(Refused);
        }
        Ok(self.public.bytes(&signature))
    }

    /// A random number and its inverse.
    fn blinding(&self) -> Result<(BoxedMontyForm, BoxedMontyForm), Refused> {
        let modulus = &self.public.modulus;
        // With 64 more bits than the modulus, the remainder is as good as evenly distributed.
        let mut random = vec![0; self.public.len() + 8];
        SystemRandom::new().fill(&mut random).map_err(|_| Refused)?;
        let random = BoxedUint::from_be_slice_vartime(&random);
        let random = random.rem(modulus.modulus().as_nz_ref()).resize_unchecked(modulus.bits_precision());
        let number = BoxedMontyForm::new(random, modulus);
        // Fails only for multiples of one of the primes, which is practically impossible.
        let inverse = number.invert().into_option().ok_or(Refused)?;
        Ok((number, inverse))
    }
}

impl Prime {
    fn new(prime: UintRef<'_>, exponent: UintRef<'_>, public: &PublicKey) -> Result<Self, RsaProblem> {
        let bits = bits(prime.as_bytes());
        // A key whose primes differ much in size is weak, and no tool makes one.
        if bits < public.bits / 2 - 64 || bits > public.bits / 2 + 64 {
            return Err(RsaProblem::Inconsistent);
        }
        let modulus = BoxedMontyParams::new(odd(number(prime)?)?);
        let exponent = number(exponent)?;
        let less_one = modulus.modulus().as_ref().wrapping_sub(BoxedUint::one());
        let less_one: NonZero<BoxedUint> =
            less_one.into_nz().into_option().ok_or(RsaProblem::Inconsistent)?;
        let product = exponent.concatenating_mul(BoxedUint::from(public.exponent));
        if exponent.bits() > bits || !bool::from(product.rem(&less_one).is_one()) {
            return Err(RsaProblem::Inconsistent);
        }
        let exponent = exponent.resize_unchecked(modulus.bits_precision());
        Ok(Self { modulus, exponent })
    }

    fn number(&self) -> &BoxedUint {
        self.modulus.modulus().as_ref()
    }

    /// The number modulo this prime.
    fn form(&self, number: &BoxedUint) -> BoxedMontyForm {
        let rest = number.rem(self.modulus.modulus().as_nz_ref());
        BoxedMontyForm::new(rest.resize_unchecked(self.modulus.bits_precision()), &self.modulus)
    }

    /// The number to the private exponent, modulo this prime.
    fn root(&self, number: &BoxedUint) -> BoxedMontyForm {
        self.form(number).pow(&self.exponent)
    }
}

fn number(encoded: UintRef<'_>) -> Result<BoxedUint, RsaProblem> {
    let bytes = encoded.as_bytes();
    if bits(bytes) > LARGEST {
        return Err(RsaProblem::Inconsistent);
    }
    Ok(BoxedUint::from_be_slice_vartime(bytes))
}

fn odd(number: BoxedUint) -> Result<Odd<BoxedUint>, RsaProblem> {
    number.into_odd().into_option().ok_or(RsaProblem::Inconsistent)
}

fn bits(bytes: &[u8]) -> u32 {
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    let Some(first) = bytes.get(zeros) else { return 0 };
    let bits = (bytes.len() - zeros) * 8;
    u32::try_from(bits).unwrap_or(u32::MAX) - first.leading_zeros()
}

fn encode(n: UintRef<'_>, e: UintRef<'_>) -> Result<Vec<u8>, der::Error> {
    use der::Encode as _;
    let content = [n.to_der()?, e.to_der()?].concat();
    der::asn1::AnyRef::new(der::Tag::Sequence, &content)?.to_der()
}
