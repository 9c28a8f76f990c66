//! From the argument vector to options, by pflag's rules: `--flag value`, `--flag=value`, lone booleans,
//! underscores for dashes, `-v2`, the last one of a repeated flag.

use std::collections::BTreeSet;

use flyball_runtime::nearest;

use super::{Field, Flag, value};
use crate::{component::Component, options::Options};

/// What the command line requests.
#[derive(Debug)]
pub enum Invocation {
    /// Print the help and end.
    Help,
    /// Print the version and end.
    Version(VersionForm),
    Run(Box<Parsed>),
}

/// How `--version` was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VersionForm {
    Plain,
    Raw,
}

/// The options, and which flags were set.
#[derive(Debug)]
pub struct Parsed {
    pub component: &'static Component,
    pub options: Options,
    /// The flags that were set, by name.
    pub given: BTreeSet<&'static str>,
}

/// Why a command line was refused. Each prints as one line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FlagError {
    #[error("unknown flag --{name}{}", .nearest.map(|n| format!("; did you mean --{n}?")).unwrap_or_default())]
    Unknown { name: String, nearest: Option<&'static str> },
    #[error("unknown shorthand {letter:?} in {argument:?}")]
    UnknownShorthand { letter: char, argument: String },
    #[error("{0:?} is not a flag: a name must follow the dashes")]
    Syntax(String),
    #[error("flag --{0} needs a value")]
    MissingValue(&'static str),
    #[error("--{name}: {problem}")]
    Value { name: &'static str, problem: String },
    #[error("{component} takes no arguments, only flags; got {argument:?}")]
    Argument { component: &'static str, argument: String },
}

/// Reads the arguments after the program's name.
pub(crate) fn parse<S: AsRef<str>>(
    component: &'static Component,
    arguments: &[S],
) -> Result<Invocation, FlagError> {
    let parsed = Parsed { component, options: (component.defaults)(), given: BTreeSet::new() };
    let mut reader = Reader { parsed, help: false, version: None };
    let stray =
        |argument: &str| FlagError::Argument { component: component.name, argument: argument.to_owned() };
    let mut rest = arguments.iter().map(AsRef::as_ref);
    while let Some(argument) = rest.next() {
        if argument == "--" {
            if let Some(extra) = rest.find(|extra| !extra.is_empty()) {
                return Err(stray(extra));
            }
        } else if let Some(long) = argument.strip_prefix("--") {
            reader.long(argument, long, &mut rest)?;
        } else if let Some(letters) = argument.strip_prefix('-').filter(|letters| !letters.is_empty()) {
            reader.letters(argument, letters, &mut rest)?;
        } else if !argument.is_empty() {
            return Err(stray(argument));
        }
    }
    Ok(match reader {
        Reader { help: true, .. } => Invocation::Help,
        Reader { version: Some(form), .. } => Invocation::Version(form),
        Reader { parsed, .. } => Invocation::Run(Box::new(parsed)),
    })
}

struct Reader {
    parsed: Parsed,
    help: bool,
    version: Option<VersionForm>,
}

impl Reader {
    fn long<'a>(
        &mut self,
        argument: &str,
        long: &str,
        rest: &mut impl Iterator<Item = &'a str>,
    ) -> Result<(), FlagError> {
        let (name, value) = match long.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (long, None),
        };
        if name.is_empty() || name.starts_with('-') {
            return Err(FlagError::Syntax(argument.to_owned()));
        }
        let component = self.parsed.component;
        let Some(flag) = component.flag(name) else {
            let nearest = nearest(&name.replace('_', "-"), component.all_flags().map(|flag| flag.name));
            return Err(FlagError::Unknown { name: name.to_owned(), nearest });
        };
        let value = match value.or(flag.field.alone()) {
            Some(value) => value,
            None => rest.next().ok_or(FlagError::MissingValue(flag.name))?,
        };
        self.set(flag, value)
    }

    /// `-h`, `-v2`, `-v=2`, `-v 2`, and lone booleans before another letter.
    fn letters<'a>(
        &mut self,
        argument: &str,
        letters: &str,
        rest: &mut impl Iterator<Item = &'a str>,
    ) -> Result<(), FlagError> {
        let mut letters = letters;
        while let Some(letter) = letters.chars().next() {
            letters = &letters[letter.len_utf8()..];
            let flag = self.parsed.component.all_flags().find(|flag| flag.short == Some(letter));
            let Some(flag) = flag else {
                return Err(FlagError::UnknownShorthand { letter, argument: argument.to_owned() });
            };
            if let Some(value) = letters.strip_prefix('=') {
                return self.set(flag, value);
            }
            match flag.field.alone() {
                Some(value) => self.set(flag, value)?,
                None if letters.is_empty() => {
                    let value = rest.next().ok_or(FlagError::MissingValue(flag.name))?;
                    return self.set(flag, value);
                }
                None => return self.set(flag, letters),
            }
        }
        Ok(())
    }

    fn set(&mut self, flag: &'static Flag, value: &str) -> Result<(), FlagError> {
        let invalid = |problem| FlagError::Value { name: flag.name, problem };
        let first = self.parsed.given.insert(flag.name);
        match flag.field {
            Field::Help => self.help = value::boolean(value).map_err(invalid)?,
            Field::Version => self.version = version(value).map_err(invalid)?,
            _ => value::set(&flag.field, &mut self.parsed.options, value, first).map_err(invalid)?,
        }
        Ok(())
    }
}

fn version(text: &str) -> Result<Option<VersionForm>, String> {
    match text {
        "raw" => Ok(Some(VersionForm::Raw)),
        _ => value::boolean(text)
            .map(|wanted| wanted.then_some(VersionForm::Plain))
            .map_err(|_| format!("{text:?} is neither true, false nor raw")),
    }
}
