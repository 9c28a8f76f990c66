//! The `kube-apiserver` of the folder: the embedded server behind kube-apiserver's flags, with the controllers, scheduler
//! and simulated nodes that the folder was made with.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail};
use flyball_apiserver::pki::{Ca, Pair};
use flyball_apiserver::{Authorization, StaticToken};
use flyball_playground::cluster::{Cluster, Components, Credentials, Options, Port};
use flyball_playground::nodes;

use super::Beside;
use super::flags::{self, Effect, SWITCHES, last, list};
use crate::lines::say;
use crate::signals::Stop;

/// The release whose behaviour and flags the embedded server has.
const VERSION: &str = "v1.36.4";
const DEFAULT_PORT: u16 = 6443;

type Pairs = [(String, String)];

pub(super) async fn run(beside: &Beside, arguments: &[String]) -> anyhow::Result<()> {
    let given = flags::pairs(arguments, &SWITCHES)?;
    if last(&given, "help").is_some() || last(&given, "h").is_some() {
        say!("{}", help());
        return Ok(());
    }
    if last(&given, "version").is_some() {
        say!("Kubernetes {VERSION}");
        return Ok(());
    }
    crate::up::log();
    for notice in check(&given)? {
        eprintln!("{notice}");
    }
    let mut stop = Stop::listen()?;
    let cluster = Cluster::start(options(beside, &given)?).await?;
    let controllers = cluster.controllers().running.len();
    eprintln!("serving on https://{}, {controllers} controllers", cluster.address().context("no address")?);
    stop.requested().await;
    cluster.stop().await;
    Ok(())
}

/// The flags that have an effect, in a form that those who look for a flag in it can read.
fn help() -> String {
    let mut text = String::from(
        "The embedded API server of flyball, with the flags of kube-apiserver.\n\nFlags that have an effect:\n\n",
    );
    for (name, _) in flags::all().filter(|(_, effect)| *effect == Effect::Same) {
        text.push_str(&format!("      --{name}\n"));
    }
    text.push_str("\nFlags that are accepted and have no effect:\n\n");
    for (name, _) in flags::all().filter(|(_, effect)| matches!(effect, Effect::Nothing | Effect::Missing)) {
        text.push_str(&format!("      --{name}\n"));
    }
    text
}

/// Refuses flags that do not exist or cannot be left out; returns notices about those that have no effect.
fn check(given: &Pairs) -> anyhow::Result<Vec<String>> {
    let mut notices = Vec::new();
    for (name, value) in given {
        match flags::effect(name) {
            None => bail!("unknown flag: --{name}"),
            Some(Effect::Refused) => {
                bail!("--{name}: the embedded server has no such way to authenticate or authorize requests")
            }
            Some(Effect::Missing) => {
                notices.push(format!("--{name}={value} has no effect on the embedded server"))
            }
            Some(Effect::Same | Effect::Nothing) => {}
        }
    }
    for plugin in list(given, "enable-admission-plugins") {
        // The others that the embedded server has are on unless they are disabled.
        if plugin != "NodeRestriction" {
            notices.push(format!("--enable-admission-plugins={plugin} has no effect on the embedded server"));
        }
    }
    for mode in list(given, "authorization-mode") {
        match mode {
            "RBAC" | "AlwaysAllow" => {}
            "Node" if list(given, "authorization-mode").contains(&"RBAC") => {}
            "Node" => bail!("--authorization-mode=Node: the embedded server has it beside RBAC only"),
            other => {
                bail!("--authorization-mode={other}: the embedded server has only Node, RBAC and AlwaysAllow")
            }
        }
    }
    Ok(notices)
}

fn options(beside: &Beside, given: &Pairs) -> anyhow::Result<Options> {
    let port = match last(given, "secure-port") {
        Some(text) => text.parse().with_context(|| format!("--secure-port={text}"))?,
        None => DEFAULT_PORT,
    };
    let bind: IpAddr = match last(given, "bind-address") {
        Some(text) => text.parse().with_context(|| format!("--bind-address={text}"))?,
        None => IpAddr::from([0, 0, 0, 0]),
    };
    let tolerations = ["default-not-ready-toleration-seconds", "default-unreachable-toleration-seconds"];
    let toleration = match tolerations.iter().find_map(|name| last(given, name)) {
        Some(text) => {
            Duration::from_secs(text.parse().with_context(|| format!("{text:?} is not a number of seconds"))?)
        }
        None => Options::default().toleration,
    };
    Ok(Options {
        port: Some(Port::Exactly(port)),
        bind,
        credentials: Some(credentials(given, bind)?),
        components: if beside.is_bare() { Components::None } else { Components::All },
        controllers: beside.list(),
        nodes: nodes::Options { count: beside.node_count(), ..nodes::Options::default() },
        toleration,
        server: server_options(given)?,
        ..Options::default()
    })
}

fn server_options(given: &Pairs) -> anyhow::Result<flyball_apiserver::Options> {
    let mut options = flyball_apiserver::Options::default();
    let modes = list(given, "authorization-mode");
    options.authorization = match (modes.contains(&"RBAC"), modes.contains(&"Node")) {
        (true, true) => Authorization::NodeAndRbac,
        (true, false) => Authorization::Rbac,
        (false, _) => Authorization::AlwaysAllow, // upstream's default, too
    };
    options.anonymous = last(given, "anonymous-auth") != Some("false");
    if let Some(path) = last(given, "token-auth-file") {
        options.tokens = tokens(&read(Path::new(path))?);
    }
    if let Some(issuer) = given.iter().find(|(name, _)| name == "service-account-issuer") {
        options.issuer = issuer.1.clone();
    }
    let ranges = list(given, "service-cluster-ip-range");
    if !ranges.is_empty() {
        let parsed = ranges.iter().map(|range| range.parse()).collect::<Result<_, _>>();
        options.service_cidrs =
            parsed.with_context(|| format!("--service-cluster-ip-range={}", ranges.join(",")))?;
    }
    if let Some(text) = last(given, "service-node-port-range") {
        let ends = text.split_once('-').and_then(|(low, high)| Some(low.parse().ok()?..=high.parse().ok()?));
        options.node_ports = ends.with_context(|| format!("--service-node-port-range={text}"))?;
    }
    options.disabled_admission =
        list(given, "disable-admission-plugins").into_iter().map(str::to_owned).collect();
    if !list(given, "enable-admission-plugins").contains(&"NodeRestriction") {
        options.disabled_admission.insert("NodeRestriction".to_owned());
    }
    options.audit_file = last(given, "audit-log-path").filter(|path| *path != "-").map(PathBuf::from);
    if let Some(text) = last(given, "event-ttl") {
        let parsed =
            flyball_api::time::parse_duration(text).ok().and_then(|ttl| Duration::try_from(ttl).ok());
        options.event_ttl = parsed.with_context(|| format!("--event-ttl={text}"))?;
    }
    options.feature_gates = enabled(given, "feature-gates", flyball_apiserver::kinds::known_gates());
    options.runtime_config = enabled(given, "runtime-config", flyball_apiserver::kinds::known_versions());
    Ok(options)
}

/// The names that a flag enables (`A=true,B=false`), as far as the server has a switch for them.
fn enabled(given: &Pairs, flag: &str, known: BTreeSet<String>) -> BTreeSet<String> {
    let mut on = BTreeSet::new();
    for item in list(given, flag) {
        let (name, value) = item.split_once('=').unwrap_or((item, "true"));
        match (known.contains(name), value) {
            (true, "true") => drop(on.insert(name.to_owned())),
            (true, _) => drop(on.remove(name)),
            // `api/all` and the like.
            (false, "true") if name.starts_with("api/") => on.extend(known.iter().cloned()),
            (false, _) => eprintln!("--{flag}={item} has no effect on the embedded server"),
        }
    }
    on
}

/// Lines of `token,user,uid,"group1,group2"`.
fn tokens(text: &str) -> Vec<StaticToken> {
    let line = |line: &str| {
        let mut columns = line.splitn(4, ',').map(|column| column.trim().trim_matches('"'));
        let (token, user) = (columns.next()?.to_owned(), columns.next()?.to_owned());
        let uid = columns.next().unwrap_or_default().to_owned();
        let groups: Vec<&str> = columns.next().map(|list| list.split(',').collect()).unwrap_or_default();
        let mut known = StaticToken::new(&token, &user, &groups);
        known.user.uid = uid;
        Some(known)
    };
    text.lines().filter(|text| !text.trim().is_empty()).filter_map(line).collect()
}

/// The certificates and keys that the flags name. Without a serving certificate one is made, as upstream does.
fn credentials(given: &Pairs, bind: IpAddr) -> anyhow::Result<Credentials> {
    let folder = PathBuf::from(last(given, "cert-dir").unwrap_or("/var/run/kubernetes"));
    let in_folder = [folder.join("apiserver.crt"), folder.join("apiserver.key")];
    let named = [last(given, "tls-cert-file"), last(given, "tls-private-key-file")];
    let serving = match named {
        [Some(cert), Some(key)] => Pair { cert: read(Path::new(cert))?, key: read(Path::new(key))? },
        [None, None] if in_folder.iter().all(|file| file.is_file()) => {
            Pair { cert: read(&in_folder[0])?, key: read(&in_folder[1])? }
        }
        [None, None] => {
            let ca = Ca::new("kube-apiserver").context("make a certificate")?;
            ca.server(&["localhost".to_owned(), "127.0.0.1".to_owned(), bind.to_string()])
                .context("make a certificate")?
        }
        _ => bail!("--tls-cert-file and --tls-private-key-file must be given together"),
    };
    let client_ca = last(given, "client-ca-file").map(|path| read(Path::new(path))).transpose()?;
    let service_account_key =
        last(given, "service-account-signing-key-file").map(|path| read(Path::new(path))).transpose()?;
    Ok(Credentials { serving, client_ca, service_account_key })
}

fn read(path: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("read {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(line: &str) -> Vec<(String, String)> {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        flags::pairs(&words, &SWITCHES).unwrap()
    }

    #[test]
    fn flags_without_effect_are_reported_and_dangerous_ones_refused() {
        #[rustfmt::skip]
        let table = [
            // flag                                     refused                    notices
            ("--etcd-servers=http://127.0.0.1:1",       "",                        ""),
            ("--enable-admission-plugins=X",            "",                        "has no effect"),
            ("--enable-admission-plugins=NodeRestriction", "",                     ""),
            ("--authorization-mode=Node,RBAC",          "",                        ""),
            ("--authorization-mode=Node",               "beside RBAC only",        ""),
            ("--authorization-mode=Webhook",            "only Node, RBAC",         ""),
            ("--oidc-issuer-url=https://x",             "no such way",             ""),
            ("--insecure-port=0",                       "unknown flag: --insecure-port", ""),
        ];
        for (flag, refused, notice) in table {
            match check(&given(flag)) {
                Ok(notices) => {
                    assert_eq!(refused, "", "{flag}");
                    assert_eq!(notices.is_empty(), notice.is_empty(), "{flag}: {notices:?}");
                    assert!(notices.concat().contains(notice), "{flag}: {notices:?}");
                }
                Err(error) => {
                    assert!(!refused.is_empty() && error.to_string().contains(refused), "{flag}: {error}")
                }
            }
        }
    }

    #[test]
    fn flags_become_options_of_the_server() {
        let line = "--authorization-mode=RBAC --service-cluster-ip-range=10.0.0.0/24 --event-ttl=5m \
                    --disable-admission-plugins=ServiceAccount --service-account-issuer=https://a/ \
                    --service-node-port-range=1000-2000 --anonymous-auth=false";
        let options = server_options(&given(&line.split_whitespace().collect::<Vec<_>>().join(" "))).unwrap();
        assert_eq!(options.authorization, Authorization::Rbac);
        assert_eq!(options.service_cidrs[0].to_string(), "10.0.0.0/24");
        assert_eq!(options.event_ttl, Duration::from_secs(300));
        assert!(options.disabled_admission.contains("ServiceAccount") && !options.anonymous);
        assert_eq!((options.issuer.as_str(), options.node_ports), ("https://a/", 1000..=2000));
        assert_eq!(server_options(&given("--v=2")).unwrap().authorization, Authorization::AlwaysAllow);
        assert!(server_options(&given("--event-ttl=soon")).is_err());
    }

    #[test]
    fn tokens_have_users_and_groups() {
        let read = tokens("t1,alice,7,\"dev,ops\"\n\nt2,bob,8\n");
        assert_eq!(read.len(), 2);
        assert_eq!((read[0].user.name.as_str(), read[0].user.uid.as_str()), ("alice", "7"));
        assert_eq!(read[0].user.groups, ["dev", "ops"]);
        assert!(read[1].user.groups.is_empty());
    }
}
