//! The catalog against what a v1.36.4 server says in its discovery documents and in the heads of its tables.

use flyball_apiserver::kinds;
use flyball_apiserver::registry::{Builtin, Verbs};

fn line(resource: &Builtin) -> String {
    let info = &resource.info;
    let dash = |list: &[&str]| if list.is_empty() { "-".to_owned() } else { list.join(",") };
    let verbs = match info.verbs {
        Verbs::All => "create,delete,deletecollection,get,list,patch,update,watch",
        Verbs::NoDeleteCollection => "create,delete,get,list,patch,update,watch",
        Verbs::Read => "get,list",
        Verbs::CreateOnly => "create",
    };
    let version = if info.group.is_empty() {
        info.version.to_owned()
    } else {
        format!("{}/{}", info.group, info.version)
    };
    let singular = info.singular.map_or(info.kind.to_lowercase(), str::to_owned);
    let subresources: Vec<&str> = info.subresources.iter().map(|sub| sub.segment()).collect();
    let columns: Vec<String> = resource
        .strategy
        .columns()
        .iter()
        .map(|column| {
            let format = if column.format.is_empty() { String::new() } else { format!(":{}", column.format) };
            format!("{}:{}{format}{}", column.name, column.kind, if column.priority == 0 { "" } else { "*" })
        })
        .collect();
    let columns = if info.verbs == Verbs::CreateOnly { "-".to_owned() } else { columns.join(" | ") };
    [
        version,
        info.plural.to_owned(),
        singular,
        info.kind.to_owned(),
        if info.namespaced { "namespaced" } else { "cluster" }.to_owned(),
        dash(info.short_names),
        dash(info.categories),
        verbs.to_owned(),
        dash(&subresources),
        columns,
    ]
    .join("\t")
}

#[test]
fn the_catalog_is_what_the_real_server_serves() {
    let ours: Vec<String> = kinds::catalog().iter().map(line).collect();
    let theirs: Vec<&str> = include_str!("data/discovery.tsv").lines().collect();
    for (ours, theirs) in ours.iter().zip(&theirs) {
        assert_eq!(ours, theirs);
    }
    assert_eq!(ours.len(), theirs.len());
}
