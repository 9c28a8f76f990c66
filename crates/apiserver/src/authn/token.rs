//! Service account tokens: JSON web tokens signed with the cluster's key, bound to objects that must still exist.

use std::collections::{BTreeMap, HashMap};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use parking_lot::Mutex;
use ring::rand::SystemRandom;
use ring::rsa::PublicKeyComponents as RsaPublicKeyComponents;
use ring::signature::{self, EcdsaKeyPair, KeyPair as _, RsaKeyPair, UnparsedPublicKey};
use rustls_pki_types::PrivateKeyDer;
use rustls_pki_types::pem::PemObject as _;
use serde_json::{Value, json};

use crate::registry::User;
use crate::server::Inner;
use crate::store::{Key, ShelfId};

/// Why a signing key cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// It is not PEM, or contains no private key.
    #[error("it holds no private key in PEM form: {0}")]
    Pem(String),
    /// A kind of key that cannot sign tokens.
    #[error("it must be an RSA key or a P-256 key in PKCS#8 form: {0}")]
    Unusable(String),
}

enum Signer {
    Rsa(RsaKeyPair),
    Ecdsa(EcdsaKeyPair),
}

impl Signer {
    fn generate(random: &SystemRandom) -> Result<Self, KeyError> {
        let key = EcdsaKeyPair::generate_pkcs8(&signature::ECDSA_P256_SHA256_FIXED_SIGNING, random)
            .map_err(|_| KeyError::Unusable("the system gave no randomness".to_owned()))?;
        Self::ecdsa(key.as_ref(), random)
    }

    fn read(pem: &str, random: &SystemRandom) -> Result<Self, KeyError> {
        let key = PrivateKeyDer::from_pem_slice(pem.as_bytes())
            .map_err(|error| KeyError::Pem(error.to_string()))?;
        match key {
            PrivateKeyDer::Pkcs1(der) => {
                RsaKeyPair::from_der(der.secret_pkcs1_der()).map(Self::Rsa).map_err(unusable)
            }
            PrivateKeyDer::Pkcs8(der) => match RsaKeyPair::from_pkcs8(der.secret_pkcs8_der()) {
                Ok(pair) => Ok(Self::Rsa(pair)),
                Err(_) => Self::ecdsa(der.secret_pkcs8_der(), random),
            },
            _ => Err(KeyError::Unusable("this encoding is not supported".to_owned())),
        }
    }

    fn ecdsa(pkcs8: &[u8], random: &SystemRandom) -> Result<Self, KeyError> {
        let algorithm = &signature::ECDSA_P256_SHA256_FIXED_SIGNING;
        EcdsaKeyPair::from_pkcs8(algorithm, pkcs8, random).map(Self::Ecdsa).map_err(unusable)
    }
}

fn unusable(error: ring::error::KeyRejected) -> KeyError {
    KeyError::Unusable(error.to_string())
}

/// The key that signs and verifies tokens.
pub struct Keys {
    signer: Signer,
    random: SystemRandom,
    /// The `kid` in the header of tokens: a hash of the public key.
    id: String,
    /// Claims of tokens whose signature was verified: verification takes longer than most requests.
    opened: Mutex<HashMap<String, Value>>,
}

/// Once this many claims are kept, all are dropped.
const OPENED: usize = 1000;

/// How far, in seconds, the clock of whoever issued a token may be ahead of ours.
const LEEWAY: i64 = 10;

impl Keys {
    /// Reads a PEM key, or generates one.
    pub fn new(pem: Option<&str>) -> Result<Self, KeyError> {
        let random = SystemRandom::new();
        let signer = match pem {
            Some(pem) => Signer::read(pem, &random)?,
            None => Signer::generate(&random)?,
        };
        let mut keys = Self { signer, random, id: String::new(), opened: Mutex::default() };
        let digest = ring::digest::digest(&ring::digest::SHA256, keys.public());
        keys.id = BASE64.encode(digest.as_ref());
        Ok(keys)
    }

    fn public(&self) -> &[u8] {
        match &self.signer {
            Signer::Rsa(pair) => pair.public_key().as_ref(),
            Signer::Ecdsa(pair) => pair.public_key().as_ref(),
        }
    }

    /// The public key as a JSON web key.
    pub(crate) fn public_jwk(&self) -> Value {
        let mut key = json!({"use": "sig", "kid": self.id, "alg": self.algorithm()});
        let more = match &self.signer {
            Signer::Rsa(pair) => {
                let public = RsaPublicKeyComponents::<Vec<u8>>::from(pair.public_key());
                json!({"kty": "RSA", "n": BASE64.encode(public.n), "e": BASE64.encode(public.e)})
            }
            // An uncompressed point: a byte for the format, then x and y of equal length.
            Signer::Ecdsa(pair) => {
                let point = &pair.public_key().as_ref()[1..];
                let (x, y) = point.split_at(point.len() / 2);
                json!({"kty": "EC", "crv": "P-256", "x": BASE64.encode(x), "y": BASE64.encode(y)})
            }
        };
        for (name, value) in more.as_object().into_iter().flatten() {
            key[name] = value.clone();
        }
        key
    }

    pub(crate) fn algorithm(&self) -> &'static str {
        match self.signer {
            Signer::Rsa(_) => "RS256",
            Signer::Ecdsa(_) => "ES256",
        }
    }

    /// A signed token; `None` if the system gives no randomness.
    pub fn sign(&self, claims: &Value) -> Option<String> {
        let header = json!({"alg": self.algorithm(), "kid": self.id});
        let text = format!("{}.{}", BASE64.encode(header.to_string()), BASE64.encode(claims.to_string()));
        let signature = match &self.signer {
            Signer::Rsa(pair) => {
                let mut out = vec![0; pair.public().modulus_len()];
                pair.sign(&signature::RSA_PKCS1_SHA256, &self.random, text.as_bytes(), &mut out).ok()?;
                out
            }
            Signer::Ecdsa(pair) => pair.sign(&self.random, text.as_bytes()).ok()?.as_ref().to_vec(),
        };
        Some(format!("{text}.{}", BASE64.encode(signature)))
    }

    /// The claims of a token that this key signed.
    pub fn open(&self, token: &str) -> Option<Value> {
        if let Some(claims) = self.opened.lock().get(token) {
            return Some(claims.clone());
        }
        let claims = self.verify(token)?;
        let mut opened = self.opened.lock();
        if opened.len() >= OPENED {
            opened.clear();
        }
        opened.insert(token.to_owned(), claims.clone());
        Some(claims)
    }

    fn verify(&self, token: &str) -> Option<Value> {
        let (text, signature) = token.rsplit_once('.')?;
        let (header, claims) = text.split_once('.')?;
        let header: Value = serde_json::from_slice(&BASE64.decode(header).ok()?).ok()?;
        if header["alg"] != self.algorithm() {
            return None;
        }
        let signature = BASE64.decode(signature).ok()?;
        let algorithm: &dyn signature::VerificationAlgorithm = match self.signer {
            Signer::Rsa(_) => &signature::RSA_PKCS1_2048_8192_SHA256,
            Signer::Ecdsa(_) => &signature::ECDSA_P256_SHA256_FIXED,
        };
        UnparsedPublicKey::new(algorithm, self.public()).verify(text.as_bytes(), &signature).ok()?;
        serde_json::from_slice(&BASE64.decode(claims).ok()?).ok()
    }
}

/// An object that a token is bound to.
#[derive(Debug, Clone)]
pub(crate) struct Bound {
    /// `pod`, `secret` or `node`.
    pub what: &'static str,
    pub name: String,
    pub uid: String,
}

#[derive(Debug, Clone)]
pub(crate) struct Claims<'a> {
    pub issuer: &'a str,
    pub audiences: Vec<String>,
    /// Unix time.
    pub issued: i64,
    /// Unix time.
    pub expires: i64,
    pub namespace: &'a str,
    pub account: &'a str,
    pub uid: &'a str,
    pub id: String,
    pub bound: Option<Bound>,
}

impl Claims<'_> {
    pub(crate) fn to_json(&self) -> Value {
        let mut kubernetes = json!({
            "namespace": self.namespace, "serviceaccount": {"name": self.account, "uid": self.uid},
        });
        if let Some(bound) = &self.bound {
            kubernetes[bound.what] = json!({"name": bound.name, "uid": bound.uid});
        }
        json!({
            "aud": self.audiences, "exp": self.expires, "iat": self.issued, "nbf": self.issued, "iss": self.issuer,
            "jti": self.id, "kubernetes.io": kubernetes,
            "sub": format!("system:serviceaccount:{}:{}", self.namespace, self.account),
        })
    }
}

/// The user of a service account token, if its signature, times and audience are valid, and the objects in it exist.
pub(super) fn verify(server: &Inner, keys: &Keys, token: &str, audiences: &[&str]) -> Option<User> {
    let claims = keys.open(token)?;
    if claims["iss"] == "kubernetes/serviceaccount" {
        return verify_legacy(server, &claims);
    }
    let now = server.now().as_second();
    if claims["exp"].as_i64().is_none_or(|end| end <= now)
        || claims["nbf"].as_i64().is_some_and(|start| start > now + LEEWAY)
    {
        return None;
    }
    let meant_for = |aud: &Value| aud.as_str().is_some_and(|aud| audiences.contains(&aud));
    let is_for_audience = match &claims["aud"] {
        Value::Array(list) => list.iter().any(meant_for),
        one => meant_for(one),
    };
    if !is_for_audience || claims["iss"] != server.options.issuer.as_str() {
        return None;
    }
    let kubernetes = &claims["kubernetes.io"];
    let namespace = kubernetes["namespace"].as_str()?;
    let account = &kubernetes["serviceaccount"];
    let mut user = account_user(server, namespace, account["name"].as_str()?, account["uid"].as_str()?)?;
    let mut extra = BTreeMap::new();
    for (what, plural, home) in
        [("pod", "pods", namespace), ("secret", "secrets", namespace), ("node", "nodes", "")]
    {
        let Some(name) = kubernetes[what]["name"].as_str() else { continue };
        let uid = kubernetes[what]["uid"].as_str().unwrap_or_default();
        // The node of a bound pod is only information: the token is valid as long as the pod exists.
        let is_information = what == "node" && kubernetes["pod"].is_object();
        if !is_information && !exists(server, plural, home, name, uid) {
            return None;
        }
        extra.insert(format!("authentication.kubernetes.io/{what}-name"), vec![name.to_owned()]);
        extra.insert(format!("authentication.kubernetes.io/{what}-uid"), vec![uid.to_owned()]);
    }
    if let Some(id) = claims["jti"].as_str() {
        extra.insert("authentication.kubernetes.io/credential-id".to_owned(), vec![format!("JTI={id}")]);
    }
    user.extra = extra;
    Some(user)
}

/// A token of a `kubernetes.io/service-account-token` secret.
fn verify_legacy(server: &Inner, claims: &Value) -> Option<User> {
    let get = |field: &str| claims[format!("kubernetes.io/serviceaccount/{field}")].as_str();
    let namespace = get("namespace")?;
    let secret = get("secret.name")?;
    server.store.get(&ShelfId::new("", "secrets"), &Key::new(namespace, secret))?;
    account_user(server, namespace, get("service-account.name")?, get("service-account.uid")?)
}

fn account_user(server: &Inner, namespace: &str, name: &str, uid: &str) -> Option<User> {
    exists(server, "serviceaccounts", namespace, name, uid).then(|| User {
        name: format!("system:serviceaccount:{namespace}:{name}"),
        uid: uid.to_owned(),
        groups: super::service_account_groups(namespace),
        extra: BTreeMap::new(),
    })
}

fn exists(server: &Inner, plural: &str, namespace: &str, name: &str, uid: &str) -> bool {
    let entry = server.store.get(&ShelfId::new("", plural), &Key::new(namespace, name));
    entry.is_some_and(|entry| {
        let object = entry.value();
        object["metadata"]["uid"] == uid && object["metadata"]["deletionTimestamp"].is_null()
    })
}
