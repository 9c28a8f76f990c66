use serde_json::json;

use super::*;
use crate::chain::Chain;
use crate::config::Interactive;

const GOOD: &str = "
apiVersion: v1
kind: Config
current-context: here
contexts: [{name: here, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: 'https://10.0.0.1:6443'}}]
users: [{name: u, user: {token: secret}}]
";

fn load_text(text: &str, master: Option<&str>) -> Result<Loaded, ConfigError> {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("admin.conf");
    std::fs::write(&file, text).unwrap();
    load(&ConnectOptions { kubeconfig: Some(file), master: master.map(str::to_owned), context: None })
}

fn problem(text: &str, master: Option<&str>) -> String {
    match load_text(text, master) {
        Ok(loaded) => panic!("accepted: {}", loaded.config.server),
        Err(error) => Chain(&error).to_string(),
    }
}

#[test]
fn mistakes_are_named_by_file_and_field() {
    #[rustfmt::skip]
    let table = [
        // case                  instead of                    there is                                      field and hint
        ("no current context",   "current-context: here",      "",                                           "current-context: is not set"),
        ("unknown context",      "current-context: here",      "current-context: there",                     "current-context: \"there\" is not among `contexts` (here)"),
        ("unknown cluster",      "cluster: c, user",           "cluster: d, user",                           "contexts[here].cluster: \"d\" is not among `clusters` (c)"),
        ("unknown user",         "user: u}",                   "user: v}",                                   "contexts[here].user: \"v\" is not among `users` (u)"),
        ("no server",            "server: 'https://10.0.0.1:6443'", "tls-server-name: x",                    "clusters[c].cluster.server: is not set"),
        ("no port",              "https://10.0.0.1:6443",      "https://10.0.0.1:port",                      "clusters[c].cluster.server: \"https://10.0.0.1:port\" has a port"),
        ("server is no URL",     "https://10.0.0.1:6443",      "https://10.0.0.1 6443",                      "clusters[c].cluster.server: \"https://10.0.0.1 6443\" is not a URL"),
        ("server is no HTTP",    "https://10.0.0.1:6443",      "ftp://10.0.0.1",                             "clusters[c].cluster.server: \"ftp://10.0.0.1\" has the scheme \"ftp\""),
        ("CA file missing",      "server:",                    "certificate-authority: nowhere.crt, server:","clusters[c].cluster.certificate-authority: "),
        ("CA is not base64",     "server:",                    "certificate-authority-data: '%%', server:",  "clusters[c].cluster.certificate-authority: is not valid base64"),
        ("CA holds nothing",     "server:",                    "certificate-authority-data: aGVsbG8K, server:", "clusters[c].cluster.certificate-authority: holds no PEM certificate"),
        ("CA and insecure",      "server:",                    "certificate-authority: a, insecure-skip-tls-verify: true, server:", "clusters[c].cluster.insecure-skip-tls-verify: contradicts"),
        ("key missing",          "token: secret",              "client-certificate: a.crt",                  "users[u].user.client-key: is not set"),
        ("certificate missing",  "token: secret",              "client-key: a.key",                          "users[u].user.client-certificate: is not set"),
        ("plugin without name",  "token: secret",              "exec: {apiVersion: v1}",                     "users[u].user.exec.command: is not set"),
        ("socks proxy",          "server:",                    "proxy-url: 'socks5://x:1', server:",         "clusters[c].cluster.proxy-url: \"socks5://x:1\" is not supported"),
        ("proxy with password",  "server:",                    "proxy-url: 'socks5://ann:secret@x:1', server:", "clusters[c].cluster.proxy-url: \"socks5://x:1\" is not supported"),
        ("a bad password",       "server:",                    "proxy-url: 'ann:secret/@s@x:1', server:",    "clusters[c].cluster.proxy-url: \"x:1\" is not"),
        ("server with password", "https://10.0.0.1:6443",      "https://ann:secret@10.0.0.1:port",           "clusters[c].cluster.server: \"https://10.0.0.1:port\" has a port"),
        ("no YAML",              "kind: Config",               "kind: [",                                    "not a valid kubeconfig"),
        ("wrong type",           "current-context: here",      "current-context: {}",                        "not a valid kubeconfig: current-context is a mapping and must be a string"),
        ("wrong type within",    "token: secret",              "token: [secret]",                            "not a valid kubeconfig: users[0].user.token is a list and must be a string"),
        ("no mapping",           "{token: secret}",            "secret",                                     "not a valid kubeconfig: users[0].user is a string and must be a mapping"),
        ("certificate missing",  "token: secret",              "client-certificate: no.crt, client-key: no.key", "users[u].user.client-certificate: "),
        ("key is not base64",    "token: secret",              "client-certificate-data: aGk=, client-key-data: secret%", "users[u].user.client-key: is not valid base64"),
        ("token and password",   "token: secret",              "token: secret, username: a, password: secret", "users[u].user.token: contradicts username"),
        ("group without user",   "token: secret",              "as-groups: [a]",                             "users[u].user.as: is not set"),
        ("auth provider",        "token: secret",              "auth-provider: {name: oidc}",                "users[u].user.auth-provider: \"oidc\" is not supported"),
        ("plugin of no version", "token: secret",              "exec: {command: a}",                         "users[u].user.exec.apiVersion: \"\" is not supported"),
        ("plugin, old version",  "token: secret",              "exec: {command: a, apiVersion: client.authentication.k8s.io/v1alpha1}", "users[u].user.exec.apiVersion: \"client.authentication.k8s.io/v1alpha1\" is not supported"),
        ("plugin, no mode",      "token: secret",              "exec: {command: a, apiVersion: client.authentication.k8s.io/v1}", "users[u].user.exec.interactiveMode: is not set"),
        ("plugin, bad mode",     "token: secret",              "exec: {command: a, apiVersion: client.authentication.k8s.io/v1, interactiveMode: maybe}", "users[u].user.exec.interactiveMode: \"maybe\" is unknown"),
        ("plugin, bad variable", "token: secret",              "exec: {command: a, apiVersion: client.authentication.k8s.io/v1beta1, env: [{value: secret}]}", "users[u].user.exec.env: entry 0 has no name"),
    ];
    for (case, from, to, want) in table {
        assert!(GOOD.contains(from), "{case}");
        let text = problem(&GOOD.replacen(from, to, 1), None);
        assert!(text.contains("admin.conf") && text.contains(want), "{case}: {text}");
        assert!(!text.contains("secret"), "{case} shows the token: {text}");
    }
}

#[test]
fn what_client_go_accepts_is_accepted() {
    #[rustfmt::skip]
    let table = [
        // case                  instead of               there is
        ("unknown fields",       "kind: Config",          "kind: Config\npreferences: {colors: true}\nmore: [1]"),
        ("null for nothing",     "kind: Config",          "kind: Config\nextensions: null"),
        ("null in a user",       "token: secret",         "token: secret, client-certificate: null, exec: null"),
        ("empty strings",        "server:",               "certificate-authority: '', tls-server-name: '', server:"),
        ("YAML 1.1 booleans",    "server:",               "insecure-skip-tls-verify: yes, server:"),
        ("a second document",    "kind: Config",          "kind: Config\n---\nkind: [\n"),
        ("beta plugin, no mode", "token: secret",         "exec: {command: a, apiVersion: client.authentication.k8s.io/v1beta1, args: null}"),
    ];
    for (case, from, to) in table {
        assert!(GOOD.contains(from), "{case}");
        let text = match case {
            "a second document" => format!("{GOOD}---\nsomething: else\n"),
            _ => GOOD.replacen(from, to, 1),
        };
        if let Err(error) = load_text(&text, None) {
            panic!("{case}: {}", Chain(&error));
        }
    }
}

#[test]
fn a_plugin_is_described_as_the_kubeconfig_says() {
    let certified = rcgen::generate_simple_self_signed(["x".to_owned()]).unwrap();
    let ca = STANDARD.encode(certified.cert.pem());
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("admin.conf");
    let text = GOOD
        .replace(
            "token: secret",
            "exec: {command: bin/login, args: [a, b], env: [{name: N, value: v}], installHint: get it, \
             apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, provideClusterInfo: true}",
        )
        .replace(
            "server:",
            &format!(
                "certificate-authority-data: {ca}, disable-compression: true, tls-server-name: api, \
                 extensions: [{{name: client.authentication.k8s.io/exec, extension: {{audience: me}}}}], server:"
            ),
        );
    std::fs::write(&file, text).unwrap();
    let loaded = load(&ConnectOptions { kubeconfig: Some(file), ..ConnectOptions::default() }).unwrap();
    let exec = loaded.config.user.exec.unwrap();
    assert_eq!(exec.command, dir.path().join("bin/login"), "a path is relative to the file");
    assert_eq!(
        (exec.args, exec.env),
        (vec!["a".to_owned(), "b".to_owned()], vec![("N".to_owned(), "v".to_owned())])
    );
    assert_eq!((exec.interactive, exec.install_hint.as_deref()), (Interactive::Never, Some("get it")));
    let mut cluster = exec.cluster.unwrap();
    let shown = cluster.as_object_mut().unwrap().remove("certificate-authority-data").unwrap();
    let shown = certificates(&STANDARD.decode(shown.as_str().unwrap()).unwrap()).unwrap();
    assert_eq!(shown, [certified.cert.der().clone()]);
    let rest = json!({
        "server": "https://10.0.0.1:6443", "tls-server-name": "api", "disable-compression": true,
        "config": {"audience": "me"},
    });
    assert_eq!(cluster, rest);
}

#[test]
fn files_that_cannot_be_read_are_named() {
    let missing = ConnectOptions { kubeconfig: Some("no/such/file".into()), ..ConnectOptions::default() };
    let error = load(&missing).err().map(|e| Chain(&e).to_string()).unwrap_or_default();
    assert!(error.starts_with("kubeconfig no/such/file: cannot be read"), "{error}");

    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("binary");
    for bytes in [&[0xff, 0xfe, 0x00][..], &[0xfe, 0xff, 1][..], &[0x80, 0x81][..]] {
        std::fs::write(&file, bytes).unwrap();
        let error = read(&file).err().map(|e| Chain(&e).to_string()).unwrap_or_default();
        assert!(error.contains("binary: not a valid kubeconfig"), "{error}");
    }
}

#[test]
fn master_overrides_the_server_and_keeps_the_rest() {
    #[rustfmt::skip]
    let table = [
        (None,                           "https://10.0.0.1:6443/"),
        (Some("https://other:1"),        "https://other:1/"),
        (Some("other:8080"),             "http://other:8080/"),
        (Some("https://proxy/clusters/x"), "https://proxy/clusters/x"),
    ];
    for (master, want) in table {
        let loaded = load_text(GOOD, master).unwrap();
        assert_eq!(loaded.config.server.to_string(), want);
        assert!(loaded.config.user.token.is_some());
    }
    assert!(problem(GOOD, Some("https://")).starts_with("--master \"https://\": "));

    let alone = ConnectOptions { master: Some("127.0.0.1:8080".into()), ..ConnectOptions::default() };
    assert_eq!(load(&alone).unwrap().config.server.to_string(), "http://127.0.0.1:8080/");
}

#[test]
fn an_address_without_scheme_is_https_if_tls_is_configured() {
    let text = GOOD.replace("'https://10.0.0.1:6443'", "10.0.0.1:6443, insecure-skip-tls-verify: true");
    assert_eq!(load_text(&text, None).unwrap().config.server.to_string(), "https://10.0.0.1:6443/");
}

#[test]
fn the_first_file_with_an_entry_has_precedence() {
    let dir = tempfile::tempdir().unwrap();
    let files: Vec<PathBuf> = ["first", "absent", "second"].iter().map(|n| dir.path().join(n)).collect();
    std::fs::write(
        &files[0],
        "current-context: here\ncontexts: [{name: here, context: {cluster: c, user: u}}]\n",
    )
    .unwrap();
    std::fs::write(&files[2], GOOD.replace("current-context: here", "current-context: elsewhere")).unwrap();
    let (merged, origin) = read_all(&files).unwrap();
    let loaded = resolve(merged, &ConnectOptions::default(), origin).unwrap();
    assert_eq!(loaded.config.server.to_string(), "https://10.0.0.1:6443/");
    assert!(loaded.origin.contains("first") && loaded.origin.contains("second"), "{}", loaded.origin);
    assert!(matches!(read_all(&[dir.path().join("none")]), Err(ConfigError::Nothing)));
}

#[test]
fn relative_paths_are_relative_to_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("admin.conf");
    std::fs::write(&file, GOOD.replace("token: secret", "tokenFile: token")).unwrap();
    let loaded = load(&ConnectOptions { kubeconfig: Some(file), ..ConnectOptions::default() }).unwrap();
    assert_eq!(loaded.config.user.token_file.as_deref(), Some(&*dir.path().join("token")));
}

/// Controllers publish it: if it were encoded anew, every namespace would be written after a change from upstream's manager.
#[test]
fn an_inline_certificate_authority_is_kept_byte_for_byte() {
    let pem = rcgen::generate_simple_self_signed(["x".to_owned()]).unwrap().cert.pem();
    let unusual = format!("# our CA\r\n{}\n\n", pem.replace('\n', "\r\n"));
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("ca.crt"), &pem).unwrap();
    let data = format!("certificate-authority-data: {}", STANDARD.encode(&unusual));
    #[rustfmt::skip]
    let table = [
        // case                 fields of the cluster                                       kept
        ("inline",              data.clone(),                                               Some(unusual.as_str())),
        ("inline before file",  format!("{data}, certificate-authority: ca.crt"),           Some(unusual.as_str())),
        ("a file",              "certificate-authority: ca.crt".to_owned(),                 None),
        ("none",                "insecure-skip-tls-verify: true".to_owned(),                None),
    ];
    for (case, fields, want) in table {
        let file = dir.path().join("admin.conf");
        std::fs::write(&file, GOOD.replace("server:", &format!("{fields}, server:"))).unwrap();
        let options = ConnectOptions { kubeconfig: Some(file), ..ConnectOptions::default() };
        assert_eq!(load(&options).unwrap().config.inline_authority.as_deref(), want, "{case}");
    }
}

#[test]
fn a_pod_finds_its_server_or_the_error_says_what_is_missing() {
    let dir = tempfile::tempdir().unwrap();
    let refusal = |host: &str, port: &str| {
        in_cluster(host, port, dir.path()).err().map(|e| Chain(&e).to_string()).unwrap_or_default()
    };
    assert!(refusal("10.0.0.1", "443").contains("token: cannot be read"));
    std::fs::write(dir.path().join("token"), "t").unwrap();
    assert!(refusal("10.0.0.1", "443").contains("ca.crt: cannot be read"));
    std::fs::write(dir.path().join("ca.crt"), "nothing").unwrap();
    assert!(refusal("10.0.0.1", "443").contains("ca.crt: holds no PEM certificate"));
    let certified = rcgen::generate_simple_self_signed(["x".to_owned()]).unwrap();
    std::fs::write(dir.path().join("ca.crt"), certified.cert.pem()).unwrap();
    assert!(refusal("10.0.0.1", "").contains("KUBERNETES_SERVICE_PORT: \"\" is not a port"));
    for (host, want) in [("10.0.0.1", "https://10.0.0.1:443/"), ("fd00::1", "https://[fd00::1]:443/")] {
        let loaded = in_cluster(host, "443", dir.path()).unwrap();
        assert_eq!(loaded.config.server.to_string(), want);
        assert_eq!(loaded.config.trust.roots().map(<[_]>::len), Some(1));
        assert_eq!(loaded.config.user.token_file.as_deref(), Some(&*dir.path().join("token")));
    }
}

#[tokio::test]
async fn a_client_key_that_tls_cannot_use_is_named() {
    let keys = concat!(env!("CARGO_MANIFEST_DIR"), "/src/tests/keys");
    let user = format!("client-certificate: {keys}/small.crt, client-key: {keys}/small.key");
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("admin.conf");
    std::fs::write(&file, GOOD.replace("token: secret", &user)).unwrap();
    let options = ConnectOptions { kubeconfig: Some(file), ..ConnectOptions::default() };
    let Err(error) = crate::connect(&options).await else { panic!("a key of 1024 bits was accepted") };
    let message = Chain(&error).to_string();
    for want in ["admin.conf", "keys/small.key", "it has 1024 bits", flyball_tls::KEYS] {
        assert!(message.contains(want), "{message}");
    }
}

proptest::proptest! {
    #[test]
    fn no_text_panics(text in "\\PC*", edits in proptest::collection::vec((0usize..250, "[ -~]{0,3}"), 0..4)) {
        let mut near_miss = GOOD.to_owned();
        for (at, with) in edits {
            if near_miss.is_char_boundary(at.min(near_miss.len())) {
                near_miss.insert_str(at.min(near_miss.len()), &with);
            }
        }
        for text in [text, near_miss] {
            let _ = load_text(&text, None);
        }
    }
}
