//! docs/parity-cloud.md: the table of controllers as a page.

use flyball_manager::parity;

use super::table::CONTROLLERS;

pub fn page() -> String {
    format!(
        "# Cloud controllers: what is here\n\n\
         The {} controllers of Kubernetes v1.36.4's cloud-controller-manager, with the one that upstream's own program \
         adds. [cloud.md](cloud.md) describes what each needs of a cloud, and what is left out.\n\n\
         This page is written from the table in `crates/cloud/src/program/table.rs`; a test checks it \
         (`FLYBALL_BLESS=1 cargo test -p flyball-cloud` rewrites it).\n\n{}",
        CONTROLLERS.len(),
        parity::table(CONTROLLERS),
    )
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;

    #[test]
    fn the_page_in_docs_is_the_one_the_table_writes() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/parity-cloud.md");
        if std::env::var_os("FLYBALL_BLESS").is_some() {
            fs::write(&path, page()).unwrap();
        }
        let written = fs::read_to_string(&path).unwrap_or_default();
        assert!(
            written == page(),
            "docs/parity-cloud.md is out of date; FLYBALL_BLESS=1 cargo test -p flyball-cloud"
        );
    }
}
