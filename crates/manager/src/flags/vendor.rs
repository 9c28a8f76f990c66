//! Flags that a program adds to those of its manager, such as a cloud provider's. Their values are kept by name; the handle that
//! declares a flag also reads it, with its type.

use std::collections::BTreeMap;
use std::time::Duration;

use flyball_runtime::config::duration;

use super::{Field, Flag, value};

/// A flag of a program's own, with values of type `T`.
///
/// ```
/// use flyball_manager::flags::{Flag, VendorFlag, VendorValues};
///
/// const ENDPOINT: VendorFlag<String> =
///     VendorFlag::text("acme-endpoint", "https://api.acme.example", "Where the cloud's API is.");
/// const FLAGS: &[Flag] = &[ENDPOINT.flag()];
///
/// assert_eq!(ENDPOINT.get(&VendorValues::default()), "https://api.acme.example");
/// ```
#[derive(Debug, Clone, Copy)]
pub struct VendorFlag<T> {
    field: VendorField,
    help: &'static str,
    read: fn(&str) -> Result<T, String>,
}

/// What the table of flags needs to know of a [`VendorFlag`].
#[derive(Debug, Clone, Copy)]
pub struct VendorField {
    name: &'static str,
    pub(super) type_name: &'static str,
    default: &'static str,
    check: fn(&str) -> Result<(), String>,
}

/// The values that were given, by the flags' names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VendorValues(BTreeMap<&'static str, String>);

impl VendorFlag<String> {
    pub const fn text(name: &'static str, default: &'static str, help: &'static str) -> Self {
        Self::new(name, "string", default, help, text, |_| Ok(()))
    }
}

impl VendorFlag<bool> {
    /// Off unless given.
    pub const fn switch(name: &'static str, help: &'static str) -> Self {
        Self::new(name, "bool", "false", help, value::boolean, |text| value::boolean(text).map(drop))
    }
}

impl VendorFlag<i32> {
    pub const fn integer(name: &'static str, default: &'static str, help: &'static str) -> Self {
        Self::new(name, "int32", default, help, value::integer, |text| value::integer(text).map(drop))
    }
}

impl VendorFlag<Duration> {
    /// `default` is written as on the command line: `5s`, `1m30s`.
    pub const fn duration(name: &'static str, default: &'static str, help: &'static str) -> Self {
        Self::new(name, "duration", default, help, duration::parse, |text| duration::parse(text).map(drop))
    }
}

impl<T> VendorFlag<T> {
    const fn new(
        name: &'static str,
        type_name: &'static str,
        default: &'static str,
        help: &'static str,
        read: fn(&str) -> Result<T, String>,
        check: fn(&str) -> Result<(), String>,
    ) -> Self {
        Self { field: VendorField { name, type_name, default, check }, help, read }
    }

    /// The entry of the table of flags.
    pub const fn flag(&self) -> Flag {
        Flag::new(self.field.name, Field::Vendor(self.field), self.help)
    }
}

impl<T: Default> VendorFlag<T> {
    /// Its value: as given, or the default.
    pub fn get(&self, values: &VendorValues) -> T {
        // The command line and `VendorField::problem` have checked both.
        (self.read)(values.text(&self.field)).unwrap_or_default()
    }
}

impl VendorField {
    /// What is wrong with its default, if anything: a mistake of the vendor's.
    pub fn problem(&self) -> Option<String> {
        (self.check)(self.default).err().map(|problem| format!("the default of --{}: {problem}", self.name))
    }

    pub(super) fn set(&self, values: &mut VendorValues, text: &str) -> Result<(), String> {
        (self.check)(text)?;
        values.0.insert(self.name, text.to_owned());
        Ok(())
    }
}

impl VendorValues {
    pub(super) fn text(&self, field: &VendorField) -> &str {
        self.0.get(field.name).map_or(field.default, String::as_str)
    }
}

fn text(text: &str) -> Result<String, String> {
    Ok(text.to_owned())
}
