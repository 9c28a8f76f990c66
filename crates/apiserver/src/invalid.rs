//! An error about a field of an object, with the message of the real API server. A list of these becomes the `causes` of a
//! 422 `Status`.

use serde_json::Value;

/// The kind of error; clients match on its [`reason`](Self::reason).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The object that a value refers to does not exist.
    NotFound,
    /// A value must be given.
    Required,
    /// A value must be unique and is not.
    Duplicate,
    /// A value is malformed or out of bounds.
    Invalid,
    /// A value is none of those that are allowed.
    NotSupported,
    /// A value is well-formed but not permitted here.
    Forbidden,
    /// A text or a list of bytes is too long.
    TooLong,
    /// A list has too many items.
    TooMany,
    /// A list has too few items.
    TooFew,
    /// A text is too short.
    TooShort,
    /// A value has the wrong JSON type.
    TypeInvalid,
}

impl Fault {
    /// The `reason` of a cause in `Status.details`.
    pub fn reason(self) -> &'static str {
        match self {
            Fault::NotFound => "FieldValueNotFound",
            Fault::Required => "FieldValueRequired",
            Fault::Duplicate => "FieldValueDuplicate",
            Fault::Invalid => "FieldValueInvalid",
            Fault::NotSupported => "FieldValueNotSupported",
            Fault::Forbidden => "FieldValueForbidden",
            Fault::TooLong => "FieldValueTooLong",
            Fault::TooMany => "FieldValueTooMany",
            Fault::TooFew => "FieldValueTooFew",
            Fault::TooShort => "FieldValueTooShort",
            Fault::TypeInvalid => "FieldValueTypeInvalid",
        }
    }

    fn words(self) -> &'static str {
        match self {
            Fault::NotFound => "Not found",
            Fault::Required => "Required value",
            Fault::Duplicate => "Duplicate value",
            Fault::Invalid | Fault::TypeInvalid => "Invalid value",
            Fault::NotSupported => "Unsupported value",
            Fault::Forbidden => "Forbidden",
            Fault::TooLong => "Too long",
            Fault::TooMany => "Too many",
            Fault::TooFew => "Too few",
            Fault::TooShort => "Too short",
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Cause {
    pub fault: Fault,
    /// The path of the field: `spec.template.spec.containers[0].name`.
    pub field: String,
    /// The whole message without the field: `Invalid value: "x": must be …`.
    pub message: String,
}

impl Cause {
    fn build(fault: Fault, field: impl Into<String>, value: Option<&Value>, detail: &str) -> Self {
        let mut message = fault.words().to_owned();
        if let Some(value) = value {
            message.push_str(": ");
            message.push_str(&go_quoted(value));
        }
        if !detail.is_empty() {
            message.push_str(": ");
            message.push_str(detail);
        }
        Self { fault, field: field.into(), message }
    }

    /// The field must be set.
    pub fn required(field: impl Into<String>, detail: &str) -> Self {
        Self::build(Fault::Required, field, None, detail)
    }

    pub fn invalid(field: impl Into<String>, value: impl Into<Value>, detail: &str) -> Self {
        Self::build(Fault::Invalid, field, Some(&value.into()), detail)
    }

    /// The value is none of the allowed ones (listed in the order given; upstream sorts them).
    pub fn not_supported(field: impl Into<String>, value: impl Into<Value>, allowed: &[&str]) -> Self {
        let list = allowed.iter().map(|v| format!("{v:?}")).collect::<Vec<_>>().join(", ");
        let detail = if list.is_empty() { String::new() } else { format!("supported values: {list}") };
        Self::build(Fault::NotSupported, field, Some(&value.into()), &detail)
    }

    /// The field may not be set, or not changed, here.
    pub fn forbidden(field: impl Into<String>, detail: &str) -> Self {
        Self::build(Fault::Forbidden, field, None, detail)
    }

    pub fn duplicate(field: impl Into<String>, value: impl Into<Value>) -> Self {
        Self::build(Fault::Duplicate, field, Some(&value.into()), "")
    }

    /// Something named by the value does not exist.
    pub fn not_found(field: impl Into<String>, value: impl Into<Value>) -> Self {
        Self::build(Fault::NotFound, field, Some(&value.into()), "")
    }

    /// The text is longer than `max` bytes.
    pub fn too_long(field: impl Into<String>, max: usize) -> Self {
        Self::build(Fault::TooLong, field, None, &format!("may not be more than {max} bytes"))
    }

    /// The list has `actual` items, more than `max`.
    pub fn too_many(field: impl Into<String>, actual: usize, max: usize) -> Self {
        let items = if max == 1 { "item" } else { "items" };
        let value = Value::from(actual);
        Self::build(Fault::TooMany, field, Some(&value), &format!("must have at most {max} {items}"))
    }
}

/// A value as Go's `%q` (texts) or `json.Marshal` (everything else) prints it in a validation message.
fn go_quoted(value: &Value) -> String {
    match value {
        Value::String(text) => format!("{text:?}"),
        Value::Number(n) => n.to_string(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_read_as_the_real_servers() {
        #[rustfmt::skip]
        let table = [
            (Cause::required("spec.x", ""), "Required value"),
            (Cause::required("spec.x", "must say"), "Required value: must say"),
            (Cause::invalid("spec.x", "A", "no"), "Invalid value: \"A\": no"),
            (Cause::invalid("spec.x", -1, "must be positive"), "Invalid value: -1: must be positive"),
            (Cause::not_supported("spec.x", "A", &["B", "C"]), "Unsupported value: \"A\": supported values: \"B\", \"C\""),
            (Cause::too_long("spec.x", 63), "Too long: may not be more than 63 bytes"),
            (Cause::duplicate("spec.x", "A"), "Duplicate value: \"A\""),
        ];
        for (cause, want) in table {
            assert_eq!(cause.message, want);
        }
    }
}
