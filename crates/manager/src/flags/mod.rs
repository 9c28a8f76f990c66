//! The command line. One table of flags says each flag's name, type, meaning and where its value lives;
//! parsing, `--help`, `/flagz` and the tests all derive from it.

mod help;
mod parse;
mod table;
#[cfg(test)]
mod tests;
mod value;

use std::{collections::BTreeMap, net::IpAddr, time::Duration};

pub use help::help;
pub use parse::{FlagError, Invocation, Parsed, VersionForm, parse};

use crate::options::Options;

/// A group of flags under one heading of `--help`.
#[derive(Debug)]
pub struct Section {
    /// Upstream's name of the section; a controller's name for a controller's flags.
    pub name: &'static str,
    /// Its flags, by name.
    pub flags: &'static [Flag],
}

/// One flag.
#[derive(Debug, Clone, Copy)]
pub struct Flag {
    /// The name after the two dashes.
    pub name: &'static str,
    /// The letter after a single dash.
    pub short: Option<char>,
    /// Its type and the place its value goes to.
    pub field: Field,
    /// What it does, for people.
    pub help: &'static str,
    /// What listens to it.
    pub effect: Effect,
    /// Why it should not be used any more. Such flags are not shown by `--help`.
    pub deprecated: Option<&'static str>,
}

/// What a flag steers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// The process itself, or, in a controller's section, that controller.
    Section,
    /// These controllers.
    Controllers(&'static [&'static str]),
    /// Nothing, as upstream: it is there for old command lines.
    Nothing,
    /// Nothing here although upstream heeds it; says why.
    Unsupported(&'static str),
}

type Place<T> = fn(&mut Options) -> &mut T;

/// A flag's type together with the place in [`Options`] that it reads and writes.
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs, reason = "the variants are pflag's types")]
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
    Map(Place<BTreeMap<String, String>>),
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
            Field::Map(_) => "stringToString",
            Field::Version => "version[=true]",
        }
    }

    /// What the flag means when it stands alone, without a value.
    fn alone(&self) -> Option<&'static str> {
        matches!(self, Field::Bool(_) | Field::Help | Field::Version).then_some("true")
    }
}

impl Flag {
    const fn new(name: &'static str, field: Field, help: &'static str) -> Self {
        Self { name, short: None, field, help, effect: Effect::Section, deprecated: None }
    }
    const fn short(mut self, letter: char) -> Self {
        self.short = Some(letter);
        self
    }
    const fn effect(mut self, effect: Effect) -> Self {
        self.effect = effect;
        self
    }
    const fn deprecated(mut self, why: &'static str) -> Self {
        self.deprecated = Some(why);
        self
    }
}

/// All flags, section by section, in the order of `--help`.
pub fn sections() -> impl Iterator<Item = &'static Section> {
    table::SECTIONS.iter().copied().flatten()
}

/// All flags.
pub fn flags() -> impl Iterator<Item = &'static Flag> {
    sections().flat_map(|section| section.flags)
}

/// The flag of that name, dashes or underscores.
pub fn find(name: &str) -> Option<&'static Flag> {
    let name = name.replace('_', "-");
    flags().find(|flag| flag.name == name)
}

/// Every flag with its value, by name: the content of `/flagz`.
pub fn flagz(options: &Options) -> BTreeMap<String, String> {
    let mut options = options.clone();
    flags().map(|flag| (flag.name.to_owned(), value::print(&flag.field, &mut options))).collect()
}
