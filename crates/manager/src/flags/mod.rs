//! The command line. One table has each flag's name, type, description and the location of its value; parsing, `--help`,
//! `/flagz` and tests derive from it.

pub(crate) mod help;
pub(crate) mod parse;
mod table;
#[cfg(test)]
mod tests;
mod value;
mod vendor;

use std::{collections::BTreeMap, net::IpAddr, time::Duration};

pub use parse::{FlagError, Invocation, Parsed, VersionForm};
pub use table::KUBE_FLAGS;
pub use vendor::{VendorField, VendorFlag, VendorValues};

use crate::options::Options;

/// A group of flags under one heading of `--help`.
#[derive(Debug, Clone, Copy)]
pub struct Section {
    /// Upstream's name of the section; a controller's name for a controller's flags.
    pub name: &'static str,
    pub flags: &'static [Flag],
}

#[derive(Debug, Clone, Copy)]
pub struct Flag {
    /// The name after the two dashes.
    pub name: &'static str,
    /// The letter after a single dash.
    pub short: Option<char>,
    /// Its type and the location of its value.
    pub field: Field,
    pub help: &'static str,
    pub effect: Effect,
    /// Why it is deprecated. Such flags are not shown by `--help`.
    pub deprecated: Option<&'static str>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// On the process, or, in a controller's section, on that controller.
    Section,
    Controllers(&'static [&'static str]),
    /// None, as in upstream: it exists for old command lines.
    Nothing,
    /// None, although it has an effect in upstream. The text says why.
    Unsupported(&'static str),
}

type Place<T> = fn(&mut Options) -> &mut T;

/// A flag's type together with its location in [`Options`].
#[derive(Debug, Clone, Copy)]
pub enum Field {
    Bool(Place<bool>),
    Int(Place<i32>),
    Int32(Place<i32>),
    Level(Place<u32>),
    Float32(Place<f32>),
    Float64(Place<f64>),
    Text(Place<String>),
    Duration(Place<Duration>),
    Ip(Place<IpAddr>),
    Quantity(Place<String>),
    Modules(Place<String>),
    List(Place<Vec<String>>),
    Int32List(Place<Vec<i32>>),
    CertKeys(Place<Vec<String>>),
    Gates(Place<Vec<String>>),
    PlainGates(Place<Vec<String>>),
    Map(Place<BTreeMap<String, String>>),
    /// A value of a program's own, which is not part of [`Options`]' fields.
    Vendor(VendorField),
    Help,
    Version,
}

impl Field {
    /// The type's name in help and parity tables.
    pub fn type_name(&self) -> &'static str {
        match self {
            Field::Bool(_) | Field::Help => "bool",
            Field::Int(_) => "int",
            Field::Int32(_) => "int32",
            Field::Level(_) => "Level",
            Field::Float32(_) => "float32",
            Field::Float64(_) => "float64",
            Field::Text(_) => "string",
            Field::Duration(_) => "duration",
            Field::Ip(_) => "ip",
            Field::Quantity(_) => "quantity",
            Field::Modules(_) => "pattern=N,...",
            Field::List(_) => "strings",
            Field::Int32List(_) => "int32Slice",
            Field::CertKeys(_) => "namedCertKey",
            Field::Gates(_) => "colonSeparatedMultimapStringString",
            Field::PlainGates(_) => "mapStringBool",
            Field::Map(_) => "stringToString",
            Field::Vendor(field) => field.type_name,
            Field::Version => "version[=true]",
        }
    }

    /// The value of a flag without one.
    fn alone(&self) -> Option<&'static str> {
        (self.is_boolean() || matches!(self, Field::Version)).then_some("true")
    }

    fn is_boolean(&self) -> bool {
        self.type_name() == "bool"
    }
}

impl Flag {
    /// A flag with a value in [`Options`].
    pub const fn new(name: &'static str, field: Field, help: &'static str) -> Self {
        Self { name, short: None, field, help, effect: Effect::Section, deprecated: None }
    }
    pub const fn saying(mut self, help: &'static str) -> Self {
        self.help = help;
        self
    }
    /// The same with a letter.
    pub const fn short(mut self, letter: char) -> Self {
        self.short = Some(letter);
        self
    }
    /// The same with an effect on something else than its section.
    pub const fn effect(mut self, effect: Effect) -> Self {
        self.effect = effect;
        self
    }
    /// The same, deprecated.
    pub const fn deprecated(mut self, why: &'static str) -> Self {
        self.deprecated = Some(why);
        self
    }
}

/// A section of kube-controller-manager's flags, for other managers. An unknown name is a compile-time error.
pub const fn section(name: &str) -> Section {
    let (mut table, mut at) = (0, 0);
    while table < KUBE_FLAGS.len() {
        while at < KUBE_FLAGS[table].len() {
            if is_same(KUBE_FLAGS[table][at].name, name) {
                return KUBE_FLAGS[table][at];
            }
            at += 1;
        }
        (table, at) = (table + 1, 0);
    }
    panic!("no section of kube-controller-manager's flags has this name");
}

/// A flag of such a section, likewise.
pub const fn flag(section_name: &str, name: &str) -> Flag {
    let flags = section(section_name).flags;
    let mut at = 0;
    while at < flags.len() {
        if is_same(flags[at].name, name) {
            return flags[at];
        }
        at += 1;
    }
    panic!("no flag of this section has this name");
}

const fn is_same(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut at = 0;
    while at < a.len() && at < b.len() && a[at] == b[at] {
        at += 1;
    }
    at == a.len() && at == b.len()
}

/// The values of flags, by name.
pub(crate) fn print_all(
    flags: impl Iterator<Item = &'static Flag>,
    options: &Options,
) -> BTreeMap<String, String> {
    let mut options = options.clone();
    flags.map(|flag| (flag.name.to_owned(), value::print(&flag.field, &mut options))).collect()
}
