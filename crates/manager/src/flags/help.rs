//! `--help`: the table of flags, formatted for 100 columns.

use std::fmt::Write;

use flyball_runtime::gates::Gates;

use super::{Field, Flag, value};
use crate::{component::Component, options::Options, table::Controller};

const WIDTH: usize = 100;

pub(crate) fn help(component: &Component) -> String {
    let Component { name, introduction, controllers, .. } = component;
    let mut page = format!("{introduction}\nUsage:\n  {name} [flags]\n");
    let mut defaults = (component.defaults)();
    for section in component.sections() {
        let _ = writeln!(page, "\n{} flags:", capitalised(section.name));
        for flag in section.flags.iter().filter(|flag| flag.deprecated.is_none()) {
            let _ = writeln!(page, "\n  {}", heading(flag, &mut defaults));
            wrap(&mut page, flag.help);
            if flag.name == "controllers" {
                wrap(&mut page, &format!("All: {}.", names(controllers, |_| true)));
                let off = names(controllers, |c| !c.on_by_default);
                if !off.is_empty() {
                    wrap(&mut page, &format!("Off unless named: {off}."));
                }
            }
        }
    }
    page.push_str("\nFeature gates that may be changed (see --feature-gates):\n\n");
    for (name, spec, on) in Gates::default().all().filter(|(_, spec, _)| !spec.locked) {
        let stage = if spec.stage.to_string().is_empty() { "GA".to_owned() } else { spec.stage.to_string() };
        let _ = writeln!(page, "      {name:<64} {stage:<10} {on}");
    }
    page
}

/// `-v, --v Level (default 0)`; empty defaults are not shown.
fn heading(flag: &Flag, defaults: &mut Options) -> String {
    let mut heading = flag.short.map_or(String::new(), |letter| format!("-{letter}, "));
    let _ = write!(heading, "--{}", flag.name);
    if !flag.field.is_boolean() {
        let _ = write!(heading, " {}", shown_type(&flag.field));
    }
    let default = value::print(&flag.field, defaults);
    if !matches!(default.as_str(), "" | "[]" | "false" | "0" | "0s") {
        let _ = write!(heading, " (default {default})");
    }
    heading
}

fn shown_type(field: &Field) -> &'static str {
    match field {
        Field::Gates(_) | Field::PlainGates(_) => "Name=bool,...",
        Field::Map(_) => "key=value",
        Field::CertKeys(_) => "certificate,key[:domain,...]",
        other => other.type_name(),
    }
}

fn names(controllers: &[Controller], wanted: fn(&Controller) -> bool) -> String {
    let mut names: Vec<&str> = controllers.iter().filter(|c| wanted(c)).map(|c| c.name).collect();
    names.sort_unstable();
    names.join(", ")
}

fn capitalised(name: &str) -> String {
    let mut letters = name.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

fn wrap(page: &mut String, text: &str) {
    const INDENT: &str = "        ";
    let mut column = 0;
    for word in text.split_whitespace() {
        if column == 0 || column + 1 + word.chars().count() > WIDTH {
            page.push_str(if column == 0 { INDENT } else { "\n        " });
            column = INDENT.len();
        } else {
            page.push(' ');
            column += 1;
        }
        page.push_str(word);
        column += word.chars().count();
    }
    page.push('\n');
}
