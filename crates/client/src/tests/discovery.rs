use super::*;
use crate::client::ClientOptions;
use crate::fake::{Act, Log, fake, ok};

fn client(answer: impl Fn(&str, &str) -> Act + Send + Sync + 'static) -> (Client, Log) {
    let (transport, log) = fake(move |seen, _| answer(&seen.target, seen.header("accept")));
    (Client::new(transport, ClientOptions { qps: 0.0, ..ClientOptions::default() }), log)
}

fn summary(found: &Discovery) -> Vec<String> {
    let line = |r: &DiscoveredResource| {
        let scope = if r.resource.namespaced { "namespaced" } else { "cluster" };
        let preferred = if r.preferred { "preferred" } else { "other" };
        let verbs = r.verbs.join("|");
        format!(
            "{} {} {} {scope} {preferred} {verbs} {:?}",
            r.resource.api_version(),
            r.resource,
            r.resource.kind,
            r.subresources
        )
    };
    found.resources.iter().map(line).collect()
}

const WANT: [&str; 4] = [
    r#"v1 pods Pod namespaced preferred get|list ["status"]"#,
    r#"v1 nodes Node cluster preferred list []"#,
    r#"x.io/v2 things.x.io Thing namespaced preferred list []"#,
    r#"x.io/v1 things.x.io Thing namespaced other list []"#,
];

#[tokio::test]
async fn one_aggregated_document_for_each_root() {
    let (client, log) = client(|path, accept| {
        assert!(accept.contains("g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"), "{accept}");
        ok(match path {
            "/api" => {
                r#"{"kind":"APIGroupDiscoveryList","items":[{"metadata":{"creationTimestamp":null},"versions":[
                {"version":"v1","freshness":"Current","resources":[
                  {"resource":"pods","responseKind":{"kind":"Pod"},"scope":"Namespaced","verbs":["get","list"],
                   "subresources":[{"subresource":"status","verbs":["get"]}]},
                  {"resource":"nodes","responseKind":{"kind":"Node"},"scope":"Cluster","verbs":["list"]},
                  {"resource":"orphans","responseKind":{"kind":""},"scope":"Cluster","verbs":[]}]}]}]}"#
            }
            _ => {
                r#"{"kind":"APIGroupDiscoveryList","items":[
                {"metadata":{"name":"x.io"},"versions":[
                  {"version":"v2","resources":[{"resource":"things","responseKind":{"kind":"Thing"},"scope":"Namespaced","verbs":["list"]}]},
                  {"version":"v1","resources":[{"resource":"things","responseKind":{"kind":"Thing"},"scope":"Namespaced","verbs":["list"]}]}]},
                {"metadata":{"name":"down.io"},"versions":[{"version":"v1","freshness":"Stale"}]}]}"#
            }
        })
    });
    let found = client.discover().await.unwrap();
    assert_eq!(summary(&found), WANT);
    assert_eq!(found.failures.iter().map(|f| f.group_version.as_str()).collect::<Vec<_>>(), ["down.io/v1"]);
    assert_eq!(log.lines(), ["GET /api", "GET /apis"]);
}

#[tokio::test]
async fn group_by_group_from_servers_without_aggregated_discovery() {
    let (client, _) = client(|path, _| match path {
        "/api" => ok(r#"{"kind":"APIVersions","versions":["v1"]}"#),
        "/api/v1" => ok(r#"{"kind":"APIResourceList","groupVersion":"v1","resources":[
            {"name":"pods","kind":"Pod","namespaced":true,"verbs":["get","list"]},
            {"name":"pods/status","kind":"Pod","namespaced":true,"verbs":["get"]},
            {"name":"nodes","kind":"Node","namespaced":false,"verbs":["list"]}]}"#),
        "/apis" => ok(r#"{"kind":"APIGroupList","groups":[
            {"name":"x.io","versions":[{"groupVersion":"x.io/v1"},{"groupVersion":"x.io/v2"}],
             "preferredVersion":{"groupVersion":"x.io/v2"}},
            {"name":"down.io","versions":[{"groupVersion":"down.io/v1"}]}]}"#),
        "/apis/x.io/v1" | "/apis/x.io/v2" => ok(r#"{"kind":"APIResourceList","resources":[
            {"name":"things","kind":"Thing","namespaced":true,"verbs":["list"]}]}"#),
        _ => Act::Reply(503, "no endpoints".into()),
    });
    let found = client.discover().await.unwrap();
    assert_eq!(summary(&found), WANT);
    assert_eq!(found.failures.len(), 1);
    assert_eq!(found.failures[0].group_version, "down.io/v1");
    let problem = "the server is currently unable to handle the request";
    assert_eq!(found.failures[0].problem, problem);
}

#[tokio::test]
async fn a_root_that_cannot_be_read_is_an_error() {
    let (client, _) =
        client(|path, _| if path == "/api" { ok(r#"{"kind":"APIVersions"}"#) } else { ok("<html>") });
    assert!(matches!(client.discover().await, Err(Error::Decode { .. })));
}

#[test]
fn resources_are_named_as_for_kubectl() {
    let found = |plural: &'static str, group: &'static str, kind: &'static str, short: &[&'static str]| {
        DiscoveredResource {
            resource: ResourceType::new(group, "v1", plural, kind, true),
            verbs: vec!["get".into()],
            subresources: vec![],
            preferred: true,
            short_names: short.iter().map(|short| (*short).into()).collect(),
            categories: vec![],
        }
    };
    let nameless = DiscoveredResource { verbs: vec!["create".into()], ..found("reviews", "", "Review", &[]) };
    let resources = vec![
        found("pods", "", "Pod", &["po"]),
        found("events", "", "Event", &["ev"]),
        found("events", "events.k8s.io", "Event", &["ev"]),
        nameless,
    ];
    let served = Discovery { resources, failures: vec![] };
    #[rustfmt::skip]
    let table = [
        ("pod",                     Some("v1 pods")),
        ("pods",                    Some("v1 pods")),
        ("Pod",                     Some("v1 pods")),
        ("po",                      Some("v1 pods")),
        ("ev",                      Some("v1 events")),
        ("events.events.k8s.io",    Some("events.k8s.io/v1 events")),
        ("events.v1.events.k8s.io", Some("events.k8s.io/v1 events")),
        ("pods.apps",               None),
        ("reviews",                 None),
        ("",                        None),
    ];
    for (given, want) in table {
        let named = served.named(given).map(|found| format!("{} {}", found.api_version(), found.plural));
        assert_eq!(named.as_deref(), want, "{given:?}");
    }
}
