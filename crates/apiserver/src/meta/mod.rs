//! Object metadata: reading it, restoring fields that clients may not change, validating it, generating names.

pub(crate) mod names;
mod validate;

use rand::Rng;
use serde_json::{Map, Value, json};

pub(crate) use validate::{validate, validate_update};

/// A text in the object's metadata; empty when absent.
pub(crate) fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object["metadata"][field].as_str().unwrap_or_default()
}

/// The metadata, made an object if it is not one.
pub(crate) fn of(object: &mut Value) -> &mut Map<String, Value> {
    if !object.is_object() {
        *object = json!({});
    }
    child(object, "metadata")
}

/// A field that is made an object if it is not one.
pub(crate) fn child<'a>(object: &'a mut Value, field: &str) -> &'a mut Map<String, Value> {
    let value = &mut object[field];
    if !value.is_object() {
        *value = json!({});
    }
    value.as_object_mut().expect("it has just been made an object")
}

pub(crate) fn is_deleting(object: &Value) -> bool {
    object["metadata"]["deletionTimestamp"].is_string()
}

pub(crate) fn finalizers(object: &Value) -> Vec<&str> {
    object["metadata"]["finalizers"].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

/// Sets or clears the finalizers.
pub(crate) fn set_finalizers(object: &mut Value, finalizers: Vec<String>) {
    if finalizers.is_empty() {
        of(object).remove("finalizers");
    } else {
        of(object).insert("finalizers".to_owned(), json!(finalizers));
    }
}

/// The characters of generated names, without vowels and similar-looking ones.
const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
const SUFFIX: usize = 5;
const MAX_BASE: usize = 63 - SUFFIX;

/// A name from `generateName`.
pub(crate) fn generate_name(rng: &mut impl Rng, base: &str) -> String {
    let mut end = base.len().min(MAX_BASE);
    while !base.is_char_boundary(end) {
        end -= 1;
    }
    let mut name = base[..end].to_owned();
    name.extend((0..SUFFIX).map(|_| ALPHABET[rng.random_range(0..ALPHABET.len())] as char));
    name
}

/// A random UUID from the server's own source of randomness.
pub(crate) fn uuid(rng: &mut impl Rng) -> String {
    uuid::Builder::from_random_bytes(rng.random()).into_uuid().to_string()
}

/// The `n`-th of a sequence of UUIDs in descending order.
pub(crate) fn falling_uuid(rng: &mut impl Rng, n: u32) -> String {
    let mut bytes: [u8; 16] = rng.random();
    bytes[..4].copy_from_slice(&(u32::MAX - n).to_be_bytes());
    uuid::Builder::from_random_bytes(bytes).into_uuid().to_string()
}

/// Fields of the metadata that only the server writes, taken over from the stored object.
const KEPT: [&str; 5] =
    ["uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation"];

/// Restores the fields that clients may not change.
pub(crate) fn keep_server_fields(new: &mut Value, old: &Value) {
    let meta = of(new);
    meta.remove("selfLink");
    for field in KEPT {
        match &old["metadata"][field] {
            Value::Null => {
                meta.remove(field);
            }
            value => {
                meta.insert(field.to_owned(), value.clone());
            }
        }
    }
    if meta.get("namespace").is_none_or(Value::is_null)
        && let Some(value) = old["metadata"].get("namespace")
    {
        meta.insert("namespace".to_owned(), value.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng as _;

    #[test]
    fn falling_uids_sort_before_earlier_ones() {
        let mut rng = rand::rngs::StdRng::seed_from_u64(1);
        let drawn: Vec<String> = (0..300).map(|n| falling_uuid(&mut rng, n)).collect();
        assert!(drawn.is_sorted_by(|earlier, later| later < earlier));
        assert!(drawn.iter().all(|uid| uuid::Uuid::parse_str(uid).is_ok()));
    }

    #[test]
    fn generated_names_fit_a_label() {
        let mut rng = rand::rngs::StdRng::seed_from_u64(1);
        let name = generate_name(&mut rng, &"x".repeat(100));
        assert_eq!(name.len(), 63);
        let suffix = generate_name(&mut rng, "web-");
        assert!(suffix.starts_with("web-") && suffix.len() == 9);
        assert!(suffix.bytes().skip(4).all(|c| ALPHABET.contains(&c)));
    }
}
