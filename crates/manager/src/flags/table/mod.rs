//! The table of flags: upstream's names, types and sections, with our descriptions.

mod controllers;
mod observation;
mod own;
mod process;
mod serving;

use super::Section;

pub const KUBE_FLAGS: &[&[Section]] =
    &[process::SECTIONS, serving::SECTIONS, controllers::SECTIONS, observation::SECTIONS, own::SECTIONS];
