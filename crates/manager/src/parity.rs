//! docs/parity.md, written from the table of controllers.

use std::fmt::Write;

use crate::access::Rule;
use crate::table::{CONTROLLERS, Controller};

pub fn page() -> String {
    let elsewhere = CONTROLLERS.iter().filter(|c| c.start.is_none()).count();
    format!(
        "# Controllers\n\n\
         All {} controllers of Kubernetes v1.36.4's kube-controller-manager. {} run here. The other {elsewhere} are known by \
         name only and are part of the cloud-controller-manager, as in upstream ([its table](parity-cloud.md)).\n\n\
         `watches` names what a controller reads from the shared informers (they use the manager's own credentials); `reads` \
         and `writes` name what it asks of the server under its service account, which is no more than upstream's role for \
         that account grants. Resources are written as `plural/subresource.group`.\n\n\
         This page is written from the table in `crates/manager/src/table.rs`; a test checks it \
         (`FLYBALL_BLESS=1 cargo test -p flyball-manager` rewrites it). The same table gives \
         [the roles](../deploy/rbac-controllers.yaml), and golden runs compare it with the audit log.\n\n{}",
        CONTROLLERS.len(),
        CONTROLLERS.len() - elsewhere,
        table(CONTROLLERS),
    )
}

/// Controllers as a table, by name.
pub fn table(controllers: &[Controller]) -> String {
    let mut page =
        "| controller | old names | on by default | feature gates | acts as | watches | reads | writes |\n\
                    | --- | --- | --- | --- | --- | --- | --- | --- |\n"
            .to_owned();
    let mut controllers: Vec<_> = controllers.iter().collect();
    controllers.sort_by_key(|controller| controller.name);
    // In backticks: `[name](verb)` would be a link, and `*` emphasis.
    let list = |rules: &[Rule]| rules.iter().map(|rule| format!("`{rule}`")).collect::<Vec<_>>().join("; ");
    for c in controllers {
        let _ = writeln!(
            page,
            "| {} | {} | {} | {} | {} | {} | {} | {} |",
            c.name,
            c.aliases.join(", "),
            if c.on_by_default { "yes" } else { "no" },
            c.gates.iter().map(|gate| gate.name()).collect::<Vec<_>>().join(", "),
            c.identity.unwrap_or(if c.start.is_some() { "the manager itself" } else { "" }),
            list(c.watches),
            list(c.reads),
            list(c.writes),
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
