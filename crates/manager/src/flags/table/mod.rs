//! The table of flags: upstream's names, types and sections; our words.

mod controllers;
mod observation;
mod process;
mod serving;

use super::Section;

pub(super) const SECTIONS: &[&[Section]] =
    &[process::SECTIONS, serving::SECTIONS, controllers::SECTIONS, observation::SECTIONS];
