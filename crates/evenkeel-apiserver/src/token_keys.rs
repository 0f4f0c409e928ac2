//! The keys of service-account tokens.
//!
//! Tokens are signed with ES256, so that others can verify them with the public key of `/openid/v1/jwks`. A server without a data
//! directory makes its key when the first token needs it. A data directory that was written when tokens had HS256 keeps that
//! key, too: it verifies the tokens that it has signed, and signs no more.
//!
//! Key and signatures use the randomness of the crypto provider, never that of the [`Env`](crate::Env), which may be predictable.

#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::fmt;
use std::sync::{Mutex, OnceLock, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, Mac};
use rcgen::{KeyPair, PublicKeyData, SigningKey};
use rustls::SignatureScheme;
use rustls::pki_types::SignatureVerificationAlgorithm;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::listener::tls::{TlsError, provider};

/// The algorithm of new tokens.
pub(crate) const ALGORITHM: &str = "ES256";
/// The algorithm of tokens in old data directories.
const LEGACY_ALGORITHM: &str = "HS256";

/// The length of the numbers in a signature.
const NUMBER: usize = 32;
/// The tokens whose signature is known to be valid. A verification takes a tenth of a millisecond, and clients send the same
/// token with every request.
const KNOWN_TOKENS: usize = 1024;

/// The HS256 key of an old data directory.
pub(crate) type LegacyKey = [u8; 64];

/// The keys of service-account tokens.
#[derive(Default)]
pub(crate) struct TokenKeys {
    pair: OnceLock<SigningPair>,
    legacy: Option<LegacyKey>,
    /// Hashes of tokens, never the tokens.
    known: Mutex<HashSet<[u8; 32]>>,
}

struct SigningPair {
    key: KeyPair,
    id: String,
}

/// Why the signature of a token is not accepted. The texts are those of kube-apiserver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SignatureFault {
    #[error("invalid signature, no keys found")]
    UnknownKey,
    #[error("go-jose/go-jose: error in cryptographic primitive")]
    Mismatch,
}

impl fmt::Debug for TokenKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenKeys([redacted])")
    }
}

impl SigningPair {
    fn new(key: KeyPair) -> Self {
        let id = URL_SAFE_NO_PAD.encode(Sha256::digest(key.subject_public_key_info()));
        SigningPair { key, id }
    }
}

impl TokenKeys {
    /// Returns the text of a new key, for [`TokenKeys::from_pem`].
    pub(crate) fn generate_pem() -> Result<String, TlsError> {
        Ok(new_key()?.serialize_pem())
    }

    /// Reads a key. `legacy` verifies tokens that an earlier server has signed with it.
    pub(crate) fn from_pem(pem: &str, legacy: Option<LegacyKey>) -> Result<Self, TlsError> {
        let key = KeyPair::from_pem(pem).map_err(TlsError::Certificate)?;
        if !key.is_compatible(&rcgen::PKCS_ECDSA_P256_SHA256) {
            return Err(TlsError::Certificate(rcgen::Error::UnsupportedSignatureAlgorithm));
        }
        let pair = OnceLock::from(SigningPair::new(key));
        Ok(TokenKeys { pair, legacy, known: Mutex::default() })
    }

    fn pair(&self) -> Result<&SigningPair, TlsError> {
        if let Some(pair) = self.pair.get() {
            return Ok(pair);
        }
        // Of two that race, the first one is kept.
        let new = SigningPair::new(new_key()?);
        Ok(self.pair.get_or_init(|| new))
    }

    /// Returns the token with these claims.
    pub(crate) fn sign(&self, claims: &Value) -> Result<String, TlsError> {
        let pair = self.pair()?;
        let encode = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let signed = format!("{}.{}", encode(&json!({"alg": ALGORITHM, "kid": pair.id})), encode(claims));
        let signature = pair.key.sign(signed.as_bytes()).map_err(TlsError::Certificate)?;
        // The provider's signatures are DER, those of tokens are two numbers.
        let numbers = numbers_of(&signature).ok_or(TlsError::Certificate(rcgen::Error::RingUnspecified))?;
        Ok(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(numbers)))
    }

    /// Returns the claims of a token, unless its form or issuer is that of another authority.
    pub(crate) fn claims(token: &str, issuer: &str) -> Option<Value> {
        let mut parts = token.split('.');
        let (_, claims, _) = (parts.next()?, parts.next()?, parts.next()?);
        let claims: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).ok()?).ok()?;
        (parts.next().is_none() && claims.get("iss")? == issuer).then_some(claims)
    }

    /// Verifies the signature of a token.
    pub(crate) fn verify(&self, token: &str) -> Result<(), SignatureFault> {
        let digest: [u8; 32] = Sha256::digest(token).into();
        if self.known.lock().unwrap_or_else(PoisonError::into_inner).contains(&digest) {
            return Ok(());
        }
        let (signed, signature) = token.rsplit_once('.').ok_or(SignatureFault::Mismatch)?;
        let signature = URL_SAFE_NO_PAD.decode(signature).map_err(|_| SignatureFault::Mismatch)?;
        let header = signed.split('.').next().unwrap_or_default();
        let header = URL_SAFE_NO_PAD.decode(header).map_err(|_| SignatureFault::Mismatch)?;
        let header: Value = serde_json::from_slice(&header).map_err(|_| SignatureFault::Mismatch)?;
        let member = |name: &str| header.get(name).and_then(Value::as_str).unwrap_or_default();
        match (member("alg"), &self.legacy) {
            (LEGACY_ALGORITHM, Some(key)) => {
                let mac = Hmac::<Sha256>::new(&(*key).into()).chain_update(signed);
                mac.verify_slice(&signature).map_err(|_| SignatureFault::Mismatch)?;
            }
            (ALGORITHM, _) => {
                // A key that no token has needed yet has signed none.
                let pair = self.pair.get().ok_or(SignatureFault::UnknownKey)?;
                if !matches!(member("kid"), "") && member("kid") != pair.id {
                    return Err(SignatureFault::UnknownKey);
                }
                let signature = der_of(&signature).ok_or(SignatureFault::Mismatch)?;
                let point = pair.key.public_key_raw();
                let valid = verifier()
                    .is_some_and(|verifier| verifier.verify_signature(point, signed.as_bytes(), &signature).is_ok());
                if !valid {
                    return Err(SignatureFault::Mismatch);
                }
            }
            _ => return Err(SignatureFault::Mismatch),
        }
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= KNOWN_TOKENS {
            known.clear();
        }
        known.insert(digest);
        Ok(())
    }

    /// Returns the public key as a JSON web key set.
    pub(crate) fn key_set(&self) -> Result<Value, TlsError> {
        let pair = self.pair()?;
        let point = pair.key.public_key_raw();
        // An uncompressed point: a byte of its form, then both coordinates.
        let coordinate = |from: usize| URL_SAFE_NO_PAD.encode(point.get(from..from + NUMBER).unwrap_or_default());
        Ok(json!({"keys": [{
            "use": "sig", "kty": "EC", "kid": pair.id, "crv": "P-256", "alg": ALGORITHM,
            "x": coordinate(1), "y": coordinate(1 + NUMBER),
        }]}))
    }
}

fn new_key() -> Result<KeyPair, TlsError> {
    KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).map_err(TlsError::Certificate)
}

/// Returns the verification of ES256 signatures.
fn verifier() -> Option<&'static dyn SignatureVerificationAlgorithm> {
    static VERIFIER: OnceLock<Option<&'static dyn SignatureVerificationAlgorithm>> = OnceLock::new();
    *VERIFIER.get_or_init(|| {
        let algorithms = provider().signature_verification_algorithms;
        let found = algorithms.mapping.iter().find(|(scheme, _)| *scheme == SignatureScheme::ECDSA_NISTP256_SHA256);
        let p256 = rustls::pki_types::alg_id::ECDSA_P256;
        found?.1.iter().find(|algorithm| algorithm.public_key_alg_id() == p256).copied()
    })
}

/// Returns the two numbers of a DER signature, each of 32 bytes.
fn numbers_of(der: &[u8]) -> Option<[u8; 2 * NUMBER]> {
    const SEQUENCE: u8 = 0x30;
    const INTEGER: u8 = 0x02;
    let (content, _) = element(SEQUENCE, der)?;
    let (first, rest) = element(INTEGER, content)?;
    let (second, &[]) = element(INTEGER, rest)? else { return None };
    let mut numbers = [0; 2 * NUMBER];
    let (first_place, second_place) = numbers.split_at_mut(NUMBER);
    for (number, place) in [(first, first_place), (second, second_place)] {
        let number = without_leading_zeros(number);
        let from = NUMBER.checked_sub(number.len())?;
        place.get_mut(from..)?.copy_from_slice(number);
    }
    Some(numbers)
}

/// Returns the content of a DER element with this tag and less than 128 bytes, and the rest.
fn element(tag: u8, der: &[u8]) -> Option<(&[u8], &[u8])> {
    let (&[found, length], rest) = der.split_first_chunk::<2>()?;
    (found == tag && length < 0x80).then(|| rest.split_at_checked(usize::from(length))).flatten()
}

fn without_leading_zeros(number: &[u8]) -> &[u8] {
    let zeros = number.iter().take_while(|byte| **byte == 0).count();
    number.get(zeros..).unwrap_or_default()
}

/// Returns the DER form of a signature of two numbers.
fn der_of(numbers: &[u8]) -> Option<Vec<u8>> {
    if numbers.len() != 2 * NUMBER {
        return None;
    }
    let mut content = Vec::with_capacity(2 * NUMBER + 6);
    for number in numbers.chunks_exact(NUMBER) {
        let number = without_leading_zeros(number);
        // The highest bit is the sign; zero has one byte.
        let padded = number.first().is_none_or(|first| *first >= 0x80);
        content.push(0x02);
        content.push(u8::try_from(number.len()).ok()? + u8::from(padded));
        content.extend(padded.then_some(0));
        content.extend_from_slice(number);
    }
    let mut der = vec![0x30, u8::try_from(content.len()).ok()?];
    der.append(&mut content);
    Some(der)
}
