//! docs/parity.md: what is here and what is not, written from the table of controllers.

use std::fmt::Write;

use crate::table::{CONTROLLERS, Controller, State};

/// The page.
pub fn page() -> String {
    let count = |wanted: fn(&State) -> bool| CONTROLLERS.iter().filter(|c| wanted(&c.state)).count();
    format!(
        "# Controllers: what is here\n\n\
         All {} controllers of Kubernetes v1.36.4's kube-controller-manager, and how far each is in Flyball. \
         Done: {}, partial: {}, missing: {}. Another {} are known by name only and live in the \
         cloud-controller-manager, as upstream ([its table](parity-cloud.md)).\n\n\
         A controller that is missing is accepted in `--controllers`, and a line at start says that it does not \
         run.\nThis page is written from the table in `crates/manager/src/table.rs`; a test keeps it true \
         (`FLYBALL_BLESS=1 cargo test -p flyball-manager` rewrites it).\n\n{}",
        CONTROLLERS.len(),
        count(|state| *state == State::Done),
        count(|state| matches!(state, State::Partial(_))),
        count(|state| *state == State::Missing),
        count(|state| *state == State::Cloud),
        table(CONTROLLERS),
    )
}

/// Controllers as a table, by name.
pub fn table(controllers: &[Controller]) -> String {
    let mut page =
        "| controller | state | old names | on by default | feature gates | acts as | watches | writes |\n\
                    | --- | --- | --- | --- | --- | --- | --- | --- |\n"
            .to_owned();
    let mut controllers: Vec<_> = controllers.iter().collect();
    controllers.sort_by_key(|controller| controller.name);
    for c in controllers {
        let state = match c.state {
            State::Done => "done".to_owned(),
            State::Partial(what) => format!("partial: {what}"),
            State::Missing => "missing".to_owned(),
            State::Cloud => "cloud".to_owned(),
        };
        let _ = writeln!(
            page,
            "| {} | {state} | {} | {} | {} | {} | {} | {} |",
            c.name,
            c.aliases.join(", "),
            if c.on_by_default { "yes" } else { "no" },
            c.gates.join(", "),
            c.identity.unwrap_or(if c.state == State::Cloud { "" } else { "the manager itself" }),
            c.watches,
            c.writes.replace('|', "\\|"),
        );
    }
    page
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;

    #[test]
    fn the_page_in_docs_is_the_one_the_table_writes() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/parity.md");
        if std::env::var_os("FLYBALL_BLESS").is_some() {
            fs::write(&path, page()).unwrap();
        }
        let written = fs::read_to_string(&path).unwrap_or_default();
        assert!(
            written == page(),
            "docs/parity.md is out of date; FLYBALL_BLESS=1 cargo test -p flyball-manager"
        );
    }
}
